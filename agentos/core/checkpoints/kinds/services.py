"""Claims about services: that a host accepts connections, and that something of this machine listens on a port.

They come and go by themselves, so what fails is asked again until the deadline, and they speak for their own step only. That a
connection is accepted does not mean that anybody is well behind it: a claim about an answer says more.
"""

from __future__ import annotations

from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.kinds.hosts import (
    ALLOW_PRIVATE,
    FAMILY,
    HOST,
    PORT,
    THRESHOLD,
    check_choice,
    check_flag,
    check_host,
    check_whole,
    spelled,
)
from agentos.core.checkpoints.kinds.kind import HOLDS, Effort, Kind, Lifetime, Retries, Verdict
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
