"""Claims about services: that a host accepts connections, and that something of this machine listens on a port.

They come and go by themselves, so what fails is asked again until the deadline, and they speak for their own step only. That a
connection is accepted does not mean that anybody is well behind it: a claim about an answer says more.
"""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv6Address, ip_address
from typing import Any

from agentos._text import listed, shown
from agentos.core.checkpoints.kinds.hosts import (
    ADDRESS,
    ALLOW_PRIVATE,
    FAMILY,
    HOST,
    PORT,
    THRESHOLD,
    check_choice,
    check_flag,
    check_host,
    check_whole,
    is_address,
    spelled,
)
from agentos.core.checkpoints.kinds.kind import HOLDS, Effort, Kind, Lifetime, Retries, Verdict, refuse, told
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.results import Outcome

MOST_SAMPLES = 10
LAST_PORT = 65_535
_FAMILIES = ("any", "ipv4", "ipv6")
_DOWN = "look whether the service runs, and whether a firewall is between; it is asked again until its deadline"


def _check_reachable(evidence: Evidence) -> None:
    expected, metadata = evidence.expected, evidence.metadata
    check_host(evidence, "expected['host']", expected["host"])
    check_whole(evidence, "expected['port']", expected["port"], 1, LAST_PORT)
    check_choice(evidence, "expected['proto']", expected.get("proto", "tcp"), ("tcp",))
    check_flag(evidence, "expected['reachable']", expected.get("reachable", True))
    check_flag(evidence, "metadata['allow_private']", metadata.get("allow_private", False))
    check_choice(evidence, "metadata['family']", metadata.get("family", "any"), _FAMILIES)
    check_whole(evidence, "metadata['success_threshold']", metadata.get("success_threshold", 1), 1, MOST_SAMPLES)


def _net(evidence: Evidence, _: str) -> str:
    return f"net:tcp://{_endpoint(evidence)}"


def _endpoint(evidence: Evidence) -> str:
    return f"{spelled(evidence.expected['host'])}:{evidence.expected['port']}"


def _judge_reachable(evidence: Evidence, facts: dict[str, Any]) -> Verdict:
    wanted, samples = evidence.expected.get("reachable", True), facts["samples"]
    met = [(sample == "connected") is wanted for sample in samples]
    if all(met) and len(met) >= evidence.metadata.get("success_threshold", 1):
        return HOLDS
    where, addresses = shown(_endpoint(evidence), 300), ", ".join(facts["addresses"])
    if any(met):
        said = f"{where}: expected the same answer every time, found {', '.join(samples)}"
        return Verdict(Outcome.FAILED, "FLAPPING", said, "it answers now and then: look why, or wait until it is settled")
    if wanted:
        said = f"{where}: expected to be reachable, found the connection {samples[-1]} ({addresses})"
        return Verdict(Outcome.FAILED, "NOT_REACHABLE", said, _DOWN)
    said = f"{where}: expected not to be reachable, found that {addresses} accepts connections"
    return Verdict(Outcome.FAILED, "REACHABLE", said, "find out what listens there")


NETWORK_REACHABLE = Kind(
    {"host": HOST, "port": PORT, "proto": {"enum": ["tcp"]}, "reachable": {"type": "boolean"}},
    frozenset({"host", "port"}),
    Lifetime.STEP,
    _check_reachable,
    _net,
    _judge_reachable,
    metadata={"family": FAMILY, "allow_private": ALLOW_PRIVATE, "success_threshold": THRESHOLD},
    retries=Retries.FAILURES,
    effort=Effort.WAIT,
    timeout=1.0,
    deadline=30.0,
    content=False,
)


def _check_listening(evidence: Evidence) -> None:
    expected = evidence.expected
    check_whole(evidence, "expected['port']", expected["port"], 1, LAST_PORT)
    check_choice(evidence, "expected['proto']", expected.get("proto", "tcp"), ("tcp", "udp"))
    if "ip" in expected and not is_address(expected["ip"]):
        refuse(evidence, f"expected['ip'] must be an address, found {told(evidence, expected['ip'])}", "names are not resolved")


def _port(evidence: Evidence, _: str) -> str:
    expected = evidence.expected
    ip = f"{spelled(expected['ip'])}:" if "ip" in expected else ""
    return f"port:{expected.get('proto', 'tcp')}/{ip}{expected['port']}"


def _judge_listening(evidence: Evidence, facts: dict[str, Any]) -> Verdict:
    expected, listeners = evidence.expected, facts["listeners"]
    ip, where = expected.get("ip"), _port(evidence, "").removeprefix("port:")
    serving = [each for each in listeners if ip is None or _serves(each, ip)]
    if serving:
        known = ip is None or ":" in ip or any(each["address"] != "::" or "six_only" in each for each in serving)
        return HOLDS if known else replace(HOLDS, notes=(_BOTH,))
    if not listeners:
        return Verdict(Outcome.FAILED, "NOT_LISTENING", f"{where}: expected somebody to listen, found nobody", _DOWN)
    others = listed([f"{each['address']} by {each['process']}" if "process" in each else each["address"] for each in listeners])
    said = f"{where}: expected somebody to listen, found the port served only on {others}"
    return Verdict(Outcome.FAILED, "OTHER_ADDRESS", said, "let the service listen on that address, or claim the one it has")


def _serves(listener: dict[str, Any], ip: str) -> bool:
    """Whether who comes to `ip` is met by this socket: at its own address, or as the wildcard of its family, or of both."""
    have, want = ip_address(listener["address"]), ip_address(ip)
    if isinstance(have, IPv6Address) and have.ipv4_mapped is not None:
        have = have.ipv4_mapped
    if have == want or not have.is_unspecified:
        return have == want
    return have.version == want.version or (have.version > want.version and not listener.get("six_only", False))


_BOTH = "found an IPv6 socket for every address; it serves IPv4 too, unless it was told not to"

PORT_LISTENING = Kind(
    {"port": PORT, "ip": ADDRESS, "proto": {"enum": ["tcp", "udp"]}},
    frozenset({"port"}),
    Lifetime.STEP,
    _check_listening,
    _port,
    _judge_listening,
    retries=Retries.FAILURES,
    effort=Effort.WAIT,
    timeout=5.0,
    deadline=30.0,
    content=False,
)
