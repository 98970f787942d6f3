"""Turn the name of a host into the addresses that may be connected to.

A name is asked for once, and who connects takes the addresses given here, never the name again: an answer that changes later
changes nothing. Every address of the answer is judged, and one that must not be connected to refuses them all, so that nobody
gets through by answering with a good one beside it. Private addresses must be meant; those that hand out credentials of the
machine are never connected to, whatever evidence says.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

from agentos._text import shown
from agentos.core.checkpoints.cancelling import Cancel
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Surroundings
from agentos.probes.cannot_see import CannotSee, Deadline

# Takes a name and a family of the socket module; gives the addresses as text.
Resolver = Callable[[str, int], Sequence[str]]

FAMILIES = {"any": socket.AF_UNSPEC, "ipv4": socket.AF_INET, "ipv6": socket.AF_INET6}
_MOST_STUCK = 16
_MOST_ADDRESSES = 32
_asking: list[threading.Thread] = []

_TUNNELS = (IPv6Network("2002::/16"), IPv6Network("2001::/32"))
# Where an IPv4 address is written at the end of an IPv6 one: mapped, translated, and the old compatible form.
_CARRIERS = (IPv6Network("::ffff:0:0/96"), IPv6Network("64:ff9b::/96"), IPv6Network("::/96"))
# Metadata services of machines in a cloud: they answer with credentials. Some of them lie outside what is link-local.
_METADATA = tuple(
    ip_address(each)
    for each in ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd00:c1::a9fe:a9fe", "fd20:ce::254")
)
_THIS_NETWORK = IPv4Network("0.0.0.0/8")
_BROADCAST = IPv4Address("255.255.255.255")


def system_resolver(host: str, family: int) -> Sequence[str]:
    """What this machine answers."""
    found = socket.getaddrinfo(host, None, family, socket.SOCK_STREAM)
    return [str(where[0]) for *_, where in found]


def addresses_of(host: str, evidence: Evidence, around: Surroundings, deadline: Deadline, resolver: Resolver) -> list[str]:
    """Every address of this host, each one allowed, in the order of the answer.

    Raises:
        CannotSee: there is no answer, or it names an address that must not be connected to.
    """
    family = FAMILIES[evidence.metadata.get("family", "any")]
    found = list(dict.fromkeys(_asked(host, family, around.cancel, deadline, resolver)))
    if not found or len(found) > _MOST_ADDRESSES:
        raise CannotSee("NAME_NOT_RESOLVED", f"{shown(host, 253)}: has {len(found)} addresses", "look at its name service")
    for address in found:
        _refuse_forbidden(host, address, allow_private=evidence.metadata.get("allow_private") is True)
    return found


def _asked(host: str, family: int, cancel: Cancel | None, deadline: Deadline, resolver: Resolver) -> Sequence[str]:
    """The answer of the resolver, which knows no time limit: it is asked in a thread that may be left behind."""
    _asking[:] = [thread for thread in _asking if thread.is_alive()]
    if len(_asking) >= _MOST_STUCK:
        raise CannotSee("TOO_MANY_STUCK", f"{_MOST_STUCK} earlier questions for names are not answered yet", _LOOK_AT_NAMES)
    answer: list[Sequence[str] | Exception] = []
    over = threading.Event()

    def ask() -> None:
        try:
            answer.append(resolver(host, family))
        except Exception as error:  # noqa: BLE001 - it is raised again by whoever waits
            answer.append(error)
        over.set()

    thread = threading.Thread(target=ask, name="agentos-name", daemon=True)
    if cancel is not None:
        cancel.calls(over.set)
    thread.start()
    over.wait(deadline.left())
    if cancel is not None:
        cancel.forget(over.set)
    if not answer:
        _asking.append(thread)
        raise CannotSee("TIMED_OUT", f"{shown(host, 253)}: its name was not resolved in time", _LOOK_AT_NAMES, transient=True)
    return _given(host, answer[0])


def _given(host: str, answer: Sequence[str] | Exception) -> Sequence[str]:
    if isinstance(answer, (OSError, UnicodeError)):
        said = getattr(answer, "strerror", None) or "it is no name"
        # A service that is starting gets its name late, too.
        late = isinstance(answer, OSError)
        raise CannotSee("NAME_NOT_RESOLVED", f"{shown(host, 253)}: {shown(said, 120)}", _LOOK_AT_NAMES, transient=late)
    if isinstance(answer, Exception):
        raise answer
    return answer


def _refuse_forbidden(host: str, address: str, *, allow_private: bool) -> None:
    about = shown(host, 253) if host == address else f"{shown(host, 253)}: its address {shown(address, 80)}"
    never = why_never(address)
    if never:
        raise CannotSee("ADDRESS_REFUSED", f"{about} is {never}: never connected to", "name a service of your own")
    if is_private(address) and not allow_private:
        hint = "if that is meant, say so with metadata['allow_private'] = true"
        raise CannotSee("ADDRESS_REFUSED", f"{about} is no public address", hint)


def why_never(address: str) -> str:
    """What makes this an address that is never connected to; empty if nothing does."""
    for each in _meanings(address):
        if each.is_link_local or each in _METADATA:
            return "link-local or a metadata service"
        if each.is_multicast or each.is_unspecified or each == _BROADCAST or each in _THIS_NETWORK:
            return "no address of one host"
    return ""


def is_private(address: str) -> bool:
    """Whether this is anything but an address of the public network."""
    *carriers, meant = _meanings(address)
    if any(each in tunnel for each in carriers for tunnel in _TUNNELS):
        return True
    return not meant.is_global or meant.is_reserved or (isinstance(meant, IPv6Address) and meant.is_site_local)


def _meanings(address: str) -> Iterator[IPv4Address | IPv6Address]:
    """The address, and after it the IPv4 address that packets to it would reach."""
    found = ip_address(address)
    yield found
    if isinstance(found, IPv6Address) and int(found) > 1:
        if found in _TUNNELS[0]:
            yield IPv4Address((int(found) >> 80) & 0xFFFFFFFF)
        elif found in _TUNNELS[1]:
            yield IPv4Address(~int(found) & 0xFFFFFFFF)
        elif any(found in carrier for carrier in _CARRIERS):
            yield IPv4Address(int(found) & 0xFFFFFFFF)


_LOOK_AT_NAMES = "look at the name, and at the name service of this machine"
