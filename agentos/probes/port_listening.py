"""Look whether something of this machine listens on a port. Nothing is connected to: the system is asked for its sockets.

Linux says so in /proc; elsewhere psutil does, where it is installed and the system lets this user ask. What is seen is what
this process can see: in a container, the sockets of that container.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any

from agentos._fork import importing
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings
from agentos.probes.cannot_see import CannotSee, Deadline, looked_at, timed_out, unreadable
from agentos.probes.six_only import six_only

_MOST_LISTENERS = 32
_LINES_PER_CHECK = 4096
# The states that mean "waits for whoever comes": TCP_LISTEN, and TCP_CLOSE for a UDP socket without a peer.
_WAITING = {"tcp": "0A", "udp": "07"}
# Whose socket it is helps people and decides nothing: for this many seconds it is looked for.
_NAMING = 1.0


class PortListening:
    """Facts: `listeners`, each with its `address`, and with `uid`, `process` and `six_only` where they are known.

    Args:
        proc: where the system describes itself.
    """

    def __init__(self, proc: str = "/proc") -> None:
        self._proc = proc

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        """Ask once."""
        port, proto = evidence.expected["port"], evidence.expected.get("proto", "tcp")

        def look(deadline: Deadline) -> Observation:
            if os.path.exists(f"{self._proc}/net/{proto}"):
                return Seen({"listeners": _from_proc(self._proc, proto, port, deadline)})
            return Seen({"listeners": _from_psutil(proto, port)})

        return looked_at(look, around.timeout)


def _from_proc(proc: str, proto: str, port: int, deadline: Deadline) -> list[dict[str, Any]]:
    found = dict[str, dict[str, Any]]()
    for table in (proto, f"{proto}6"):
        for address, uid, inode in _waiting(f"{proc}/net/{table}", proto, port, deadline):
            found[inode] = {"address": address, "uid": uid}
            if len(found) == _MOST_LISTENERS:
                break
    if any(each["address"] == "::" for each in found.values()):
        found = _with_families(found, six_only(proto, port, deadline))
    for inode, name in _owners(proc, set(found), min(deadline.at, time.monotonic() + _NAMING)):
        found[inode]["process"] = name
    return list(found.values())


def _with_families(found: dict[str, dict[str, Any]], known: dict[str, bool | None] | None) -> dict[str, dict[str, Any]]:
    """What was found, with what is known of it. What has gone meanwhile serves nobody."""
    if known is None:
        return found
    there = {inode: each for inode, each in found.items() if each["address"] != "::" or inode in known}
    for inode, each in there.items():
        only = known.get(inode)
        if only is not None:
            each["six_only"] = only
    return there


def _waiting(table: str, proto: str, port: int, deadline: Deadline) -> Iterator[tuple[str, int, str]]:
    """Address, user and inode of each socket of this table that waits at the port."""
    wanted = f"{port:04X}"
    try:
        with open(table, encoding="ascii") as lines:
            next(lines, None)
            for number, line in enumerate(lines):
                if number % _LINES_PER_CHECK == 0 and deadline.passed():
                    raise timed_out(table)
                _, local, _, state, _, _, _, uid, _, inode, *_ = line.split(maxsplit=10)
                address, at = local.split(":")
                if at == wanted and state == _WAITING[proto]:
                    yield _address(address), int(uid), inode
    except FileNotFoundError:
        # A machine without IPv6 has no table for it.
        return
    except ValueError as error:
        raise CannotSee("NOT_UNDERSTOOD", f"{table}: a line of it is in no known form") from error
    except OSError as error:
        raise unreadable(table, error) from error


def _address(digits: str) -> str:
    """The address as text; the system writes it in words of four bytes, each in the order of this machine."""
    raw = bytes.fromhex(digits)
    if sys.byteorder == "little":
        raw = b"".join(raw[start : start + 4][::-1] for start in range(0, len(raw), 4))
    return str(ip_address(raw))


def _owners(proc: str, inodes: set[str], until: float) -> Iterator[tuple[str, str]]:
    """Which process has which of these sockets open, as far as this user may know it in time."""
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    # This very process first: an agent often asks about what it started itself.
    own = str(os.getpid())
    for pid in sorted(os.listdir(proc), key=lambda name: name != own) if wanted else ():
        if not wanted or time.monotonic() >= until:
            return
        if not pid.isdecimal():
            continue
        # It may end at any moment, and may belong to somebody else.
        with contextlib.suppress(OSError):
            for link in _links(f"{proc}/{pid}/fd"):
                if link in wanted:
                    yield wanted.pop(link), f"{_name(proc, pid)} ({pid})"


def _links(folder: str) -> Iterator[str]:
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            yield os.readlink(f"{folder}/{name}")


def _name(proc: str, pid: str) -> str:
    with open(f"{proc}/{pid}/comm", encoding="utf-8", errors="replace") as comm:
        return comm.read(64).strip()


def _from_psutil(proto: str, port: int) -> list[dict[str, Any]]:
    try:
        with importing:
            import psutil  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra, needed where the system has no /proc
    except ImportError:
        raise CannotSee(
            "NOT_INSTALLED", "this system describes its sockets only to psutil", "pip install 'agentos-recovery[process]'"
        ) from None
    try:
        connections = psutil.net_connections(proto)
    except psutil.AccessDenied:
        raise CannotSee("NOT_PERMITTED", "this user may not ask for the sockets of this machine", "ask as root") from None
    return [
        {"address": each.laddr.ip, **({"process": str(each.pid)} if each.pid else {})}
        for each in connections
        if each.laddr and each.laddr.port == port and _waits(each)
    ][:_MOST_LISTENERS]


def _waits(connection: Any) -> bool:
    return connection.status == "LISTEN" or (connection.type == socket.SOCK_DGRAM and not connection.raddr)
