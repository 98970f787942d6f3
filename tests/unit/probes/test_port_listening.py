"""port_listening: real sockets of this process, and tables of systems that this one is not."""

from __future__ import annotations

import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Surroundings
from agentos.core.checkpoints.verifier import EvidenceVerifier
from agentos.probes.cannot_see import CannotSee, Deadline
from agentos.probes.port_listening import PortListening
from agentos.probes.six_only import six_only
from tests.unit.probes.servers import free_port

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"


def seen(port: int, proto: str = "tcp", proc: str = "/proc") -> Observation:
    return PortListening(proc).observe(Evidence("port_listening", "a port", {"port": port, "proto": proto}), Surroundings("/"))


def listeners(port: int, proto: str = "tcp") -> list[str]:
    return [each["address"] for each in seen(port, proto).facts["listeners"]]


def verified(number: int, **expected: Any) -> Evidence:
    claim = Evidence("port_listening", "a port", {"port": number, **expected}, {"deadline": 0.3})
    EvidenceVerifier().verify_evidence(claim)
    assert claim.result is not None
    return claim


def listening(address: str, kind: int = socket.SOCK_STREAM, *, only6: bool = False) -> socket.socket:
    plug = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, kind)
    if ":" in address:
        plug.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only6)
    plug.bind((address, 0))
    if kind == socket.SOCK_STREAM:
        plug.listen()
    return plug


@pytest.mark.parametrize(("address", "kind"), [(a, k) for a in ("127.0.0.1", "::1", "0.0.0.0", "::") for k in ("tcp", "udp")])
def test_a_socket_that_waits_is_seen_with_who_it_belongs_to(address, kind):
    """Its address as it was bound, and this very process."""
    with listening(address, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM) as plug:
        port = plug.getsockname()[1]
        (found,) = seen(port, kind).facts["listeners"]
    assert (address, os.getuid()) == (found["address"], found["uid"])
    assert found["process"].endswith(f"({os.getpid()})")
    assert [] == listeners(port, kind)


def test_a_socket_that_is_bound_and_does_not_listen_is_nobody():
    """Neither is one that is connected: its port is no door."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert [] == listeners(bound.getsockname()[1])
    with listening("127.0.0.1") as server, socket.create_connection(server.getsockname()) as caller:
        assert [] == listeners(caller.getsockname()[1])
        assert ["127.0.0.1"] == listeners(server.getsockname()[1])
    with listening("127.0.0.1", socket.SOCK_DGRAM) as peer, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as caller:
        caller.connect(peer.getsockname())
        assert [] == listeners(caller.getsockname()[1], "udp")


def test_nothing_is_connected_to():
    """Who listens is never called: there is nobody to accept, and nobody came."""
    with listening("127.0.0.1") as server:
        assert verified(server.getsockname()[1]).verified
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize(
    ("bound", "ip", "code"),
    [
        ("127.0.0.1", None, "VERIFIED"),
        ("127.0.0.1", "127.0.0.1", "VERIFIED"),
        ("127.0.0.1", "127.0.0.2", "OTHER_ADDRESS"),
        ("127.0.0.1", "0.0.0.0", "OTHER_ADDRESS"),
        ("127.0.0.1", "::1", "OTHER_ADDRESS"),
        ("0.0.0.0", "127.0.0.1", "VERIFIED"),
        ("0.0.0.0", "0.0.0.0", "VERIFIED"),
        ("0.0.0.0", "::1", "OTHER_ADDRESS"),
        ("::", "::1", "VERIFIED"),
        ("::", "127.0.0.1", "VERIFIED"),
        ("::1", "127.0.0.1", "OTHER_ADDRESS"),
        ("::1", "::", "OTHER_ADDRESS"),
        ("::ffff:127.0.0.1", "127.0.0.1", "VERIFIED"),
    ],
)
def test_an_address_that_is_claimed_must_be_served(bound, ip, code):
    """By its own socket, or by one for every address; one for all of IPv6 serves IPv4 too."""
    with listening(bound) as server:
        claim = verified(server.getsockname()[1], **({} if ip is None else {"ip": ip}))
    assert code == claim.result.code
    assert [] == claim.result.notes


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_socket_that_was_told_to_serve_ipv6_only_does_not_serve_ipv4(kind):
    """The table looks the same; the kernel knows."""
    proto = "tcp" if kind == socket.SOCK_STREAM else "udp"
    for only, code in ((True, "OTHER_ADDRESS"), (False, "VERIFIED")):
        with listening("::", kind, only6=only) as server:
            port = server.getsockname()[1]
            assert code == verified(port, ip="127.0.0.1", proto=proto).result.code
            assert "VERIFIED" == verified(port, ip="::1", proto=proto).result.code


def test_a_socket_that_goes_while_the_kernel_is_asked_serves_nobody(monkeypatch):
    """It was in the table a moment ago; that the kernel knows of no such socket is not that it does not say."""
    server = listening("::", only6=True)
    port = server.getsockname()[1]

    def late(*arguments):
        server.close()
        return six_only(*arguments)

    monkeypatch.setattr("agentos.probes.port_listening.six_only", late)
    assert [] == listeners(port)


def test_time_that_is_over_does_not_mean_that_the_kernel_does_not_say():
    """Else whoever runs out of time would find that IPv4 is served too."""
    with pytest.raises(CannotSee, match="time limit"):
        six_only("tcp", 1, Deadline(0))


def test_where_that_is_not_known_it_is_noted():
    """Such a socket nearly always serves both."""
    claim = Evidence("port_listening", "a port", {"port": 1, "ip": "127.0.0.1"})
    verdict = kind_of(claim).judge(claim, {"listeners": [{"address": "::"}]})
    assert ("VERIFIED", 1) == (verdict.code, len(verdict.notes))
    verdict = kind_of(claim).judge(claim, {"listeners": [{"address": "::"}, {"address": "0.0.0.0"}]})
    assert ("VERIFIED", ()) == (verdict.code, verdict.notes)


def test_what_fails_says_who_is_there():
    """Nobody, or somebody elsewhere with its process."""
    port = free_port()
    assert f"tcp/{port}: expected somebody to listen, found nobody" == verified(port).result.message
    with listening("127.0.0.1") as server:
        port = server.getsockname()[1]
        message = verified(port, ip="::1").result.message
    assert message.startswith(f"tcp/[::1]:{port}: expected somebody to listen, found the port served only on 127.0.0.1 by ")
    assert str(os.getpid()) in message


def test_a_service_that_starts_is_waited_for():
    """It holds when it listens, and is shown as flaky."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        timer = threading.Timer(0.2, server.listen)
        timer.start()
        claim = Evidence("port_listening", "a port", {"port": server.getsockname()[1]}, {"deadline": 10})
        EvidenceVerifier().verify_evidence(claim)
        timer.join()
    assert (True, True) == (claim.verified, claim.result.flaky)


def table(root: Path, name: str, *lines: str) -> None:
    (root / "net").mkdir(exist_ok=True)
    (root / "net" / name).write_text(HEAD + "".join(f"{line}\n" for line in lines))


@pytest.mark.skipif(sys.byteorder == "big", reason="the table was written on a machine of the other order")
def test_a_table_of_another_machine_is_read(tmp_path):
    """Without IPv6, with a socket of nobody known, among others in other states."""
    rest = "00000000:00000000 00:00000000 00000000  1000        0"
    table(
        tmp_path,
        "tcp",
        f"   0: 0100007F:1F90 00000000:0000 0A {rest} 11 1 0000000000000000 100 0 0 10 0",
        f"   1: 0200A8C0:1F90 00000000:0000 0A {rest} 12 1 0000000000000000 100 0 0 10 0",
        f"   2: 0300A8C0:1F90 0100007F:0050 01 {rest} 13 1 0000000000000000 100 0 0 10 0",
        f"   3: 0400A8C0:1F91 00000000:0000 0A {rest} 14 1 0000000000000000 100 0 0 10 0",
    )
    found = seen(8080, proc=str(tmp_path)).facts["listeners"]
    assert [{"address": "127.0.0.1", "uid": 1000}, {"address": "192.168.0.2", "uid": 1000}] == found


def test_a_table_that_cannot_be_read_says_nothing(tmp_path):
    """A form that is not known, and one that goes on longer than there is time: neither means that nobody listens."""
    table(tmp_path, "tcp", "what is this")
    assert "NOT_UNDERSTOOD" == seen(1, proc=str(tmp_path)).code
    table(tmp_path, "tcp", *["   0: 0100007F:1F90 00000000:0000 0A 0:0 00:0 0  1000        0 11 1"] * 10_000)
    claim = Evidence("port_listening", "a port", {"port": 1})
    assert "TIMED_OUT" == PortListening(str(tmp_path)).observe(claim, Surroundings("/", timeout=0.000_001)).code


def test_where_the_system_has_no_tables_psutil_is_asked(tmp_path):
    """It sees the same sockets."""
    with listening("127.0.0.1") as tcp, listening("127.0.0.1", socket.SOCK_DGRAM) as udp:
        for plug, proto in ((tcp, "tcp"), (udp, "udp")):
            found = seen(plug.getsockname()[1], proto, str(tmp_path)).facts["listeners"]
            assert [{"address": "127.0.0.1", "process": str(os.getpid())}] == found
    assert [] == seen(free_port(), "tcp", str(tmp_path)).facts["listeners"]


def test_without_psutil_nothing_is_known_there(tmp_path, monkeypatch):
    """It says what to install; a missing extra is no closed port."""
    monkeypatch.setitem(sys.modules, "psutil", None)
    found = seen(1, proc=str(tmp_path))
    assert ("NOT_INSTALLED", "pip install 'agentos-recovery[process]'") == (found.code, found.hint)
