"""network_reachable: against real sockets; refused, silent and unknown are told apart."""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from agentos.core.checkpoints.cancelling import Cancel
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings, Unseen
from agentos.core.checkpoints.verifier import EvidenceVerifier
from agentos.probes.network_reachable import NetworkReachable
from agentos.probes.wires import connect
from tests.unit.probes.servers import free_port, full, keeps_silent, serving

LOCAL = {"allow_private": True}


def seen(port: int, *, host: str = "127.0.0.1", timeout: float = 1, around: Any = None, **metadata: Any) -> Observation:
    claim = Evidence("network_reachable", "a service", {"host": host, "port": port}, {**LOCAL, **metadata})
    return NetworkReachable(resolver=answering).observe(claim, Surroundings("/", timeout=timeout, **(around or {})))


def answering(name: str, family: int) -> Sequence[str]:
    return {"both.test": ["::1", "127.0.0.1"], "here.test": ["127.0.0.1"]}.get(name, [name])


def verified(port: int, *, host: str = "127.0.0.1", reachable: bool | None = None, **metadata: Any) -> Evidence:
    expected: dict[str, Any] = {"host": host, "port": port}
    if reachable is not None:
        expected["reachable"] = reachable
    claim = Evidence("network_reachable", "a service", expected, {**LOCAL, "deadline": 1, **metadata})
    EvidenceVerifier().verify_evidence(claim)
    assert claim.result is not None
    return claim


def test_what_accepts_is_connected_to_and_sent_nothing():
    """A connection stands, and is closed again."""
    heard: list[bytes] = []
    done = threading.Event()

    def hears(plug: socket.socket) -> None:
        heard.append(plug.recv(100))
        done.set()

    with serving(hears) as port:
        assert Seen({"samples": ["connected"], "addresses": {"127.0.0.1": "connected"}}) == seen(port)
        assert done.wait(5)
        assert verified(port).verified
    assert {b""} == set(heard)


def test_refused_and_silent_are_told_apart():
    """Nobody listens; and somebody who does not answer, as behind a firewall: within the time of the look."""
    assert ["refused"] == seen(free_port()).facts["samples"]
    with full() as port:
        begun = time.monotonic()
        assert ["timed out"] == seen(port, timeout=0.3).facts["samples"]
        assert time.monotonic() - begun < 2


def test_a_closed_door_can_be_what_is_claimed():
    """Refused and silent hold, an open door fails, and both say what was found."""
    assert verified(free_port(), reachable=False).verified
    with full() as port:
        assert verified(port, reachable=False, timeout=0.2).verified
        claim = verified(port, timeout=0.2, deadline=0.3)
        assert "NOT_REACHABLE" == claim.result.code
        assert f"127.0.0.1:{port}: expected to be reachable, found the connection timed out (127.0.0.1)" == claim.result.message
    with serving(keeps_silent) as port:
        assert "REACHABLE" == verified(port, reachable=False).result.code


def test_a_name_without_an_answer_is_never_a_closed_door():
    """What could not be asked for is not known to be down."""
    for reachable in (True, False):
        claim = verified(1, host="no-such-name.invalid", reachable=reachable)
        assert ("NAME_NOT_RESOLVED", "error") == (claim.result.code, claim.result.outcome.value)


def test_every_address_of_a_host_is_tried():
    """One that is not served does not hide the one that is; the time is shared."""
    with serving(keeps_silent) as port:
        observed = seen(port, host="both.test")
        assert ["connected"] == observed.facts["samples"]
        assert {"::1", "127.0.0.1"} == set(observed.facts["addresses"])


def test_an_address_that_this_machine_has_no_way_to_says_nothing():
    """It is not known whether anybody is there; asking again may help."""
    found = seen(9, host="2001:db8::1")
    if isinstance(found, Unseen):  # a machine with a route to everywhere times out instead
        assert ("NO_ROUTE", True) == (found.code, found.transient)
    else:
        assert ["timed out"] == found.facts["samples"]


def test_a_service_that_accepts_now_and_then_is_called_flapping():
    """As many samples as are asked for must agree; it stops at the first that does not."""
    port, over = free_port(), threading.Event()

    def come_and_go() -> None:
        while not over.wait(0.1):
            with socket.socket() as server:
                server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                server.bind(("127.0.0.1", port))
                server.listen()
                over.wait(0.1)

    thread = threading.Thread(target=come_and_go)
    thread.start()
    claim = Evidence("network_reachable", "a service", {"host": "127.0.0.1", "port": port}, {**LOCAL, "success_threshold": 5})
    until = time.monotonic() + 20
    while len(set((found := NetworkReachable().observe(claim, Surroundings("/", timeout=5))).facts["samples"])) == 1:
        assert time.monotonic() < until
    over.set()
    thread.join()
    assert {"connected", "refused"} == set(found.facts["samples"])
    assert 1 == len(set(found.facts["samples"][:-1]))
    assert "FLAPPING" == kind_of(claim).judge(claim, found.facts).code


def test_a_service_that_comes_up_is_waited_for_and_shown_as_flaky():
    """It holds, and everybody can see that it did not at first."""
    port, stop = free_port(), threading.Event()

    def late() -> None:
        time.sleep(0.15)
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(("127.0.0.1", port))
            server.listen()
            stop.wait(10)

    thread = threading.Thread(target=late)
    thread.start()
    claim = verified(port, deadline=10)
    stop.set()
    thread.join()
    assert (True, True) == (claim.verified, claim.result.flaky)
    assert "NOT_REACHABLE" == claim.result.attempts[0]["code"]


def test_a_socket_that_meets_itself_met_nobody():
    """A free port of this machine can be given to the very socket that asks for it; the connection would stand."""
    from agentos.probes.cannot_see import Deadline

    with socket.socket() as plug:
        plug.bind(("127.0.0.1", 0))
        with pytest.raises(ConnectionRefusedError) as refusal:
            connect(plug, plug.getsockname(), Deadline(5))
        assert errno.ECONNREFUSED == refusal.value.errno


def test_a_look_that_is_called_off_ends_at_once_and_says_nothing():
    """Whoever waits for an answer that never comes is woken."""
    cancel = Cancel()
    with full() as port:
        threading.Timer(0.2, cancel.set).start()
        begun = time.monotonic()
        found = seen(port, timeout=30, around={"cancel": cancel})
        assert time.monotonic() - begun < 5
    assert "CALLED_OFF" == found.code


def test_a_slow_name_is_not_taken_for_a_closed_door():
    """What was left no time to answer has not been silent: nobody is said to be down because the question came late."""

    def slow(name: str, family: int) -> Sequence[str]:
        time.sleep(0.1)
        return ["127.0.0.1"]

    with full() as port:
        claim = Evidence("network_reachable", "a service", {"host": "slow.test", "port": port, "reachable": False}, LOCAL)
        found = NetworkReachable(slow).observe(claim, Surroundings("/", timeout=0.15))
        assert "TIMED_OUT" == found.code
        assert ["timed out"] == NetworkReachable(slow).observe(claim, Surroundings("/", timeout=1)).facts["samples"]


def test_samples_that_there_is_no_time_for_say_nothing():
    """Fewer than were asked for are no answer."""
    with serving(keeps_silent) as port:
        assert "TIMED_OUT" == seen(port, timeout=0.04, success_threshold=3).code


def test_a_silent_address_takes_no_time_from_the_others():
    """All are tried at once: thirty that are silent, and one far down the list that answers."""

    def many(name: str, family: int) -> Sequence[str]:
        return [*(f"127.0.1.{number}" for number in range(30)), "127.0.0.1"]

    with full(host="") as silent:
        claim = Evidence("network_reachable", "a service", {"host": "many.test", "port": silent}, LOCAL)
        found = NetworkReachable(many).observe(claim, Surroundings("/", timeout=0.3))
        assert (["timed out"], 31) == (found.facts["samples"], len(found.facts["addresses"]))
    with serving(keeps_silent) as port:
        claim = Evidence("network_reachable", "a service", {"host": "many.test", "port": port}, LOCAL)
        assert ["connected"] == NetworkReachable(many).observe(claim, Surroundings("/", timeout=1)).facts["samples"]


def test_private_addresses_must_be_meant():
    """Evidence is written by agents: without a word it finds out nothing about the network it runs in."""
    with serving(keeps_silent) as port:
        claim = verified(port, allow_private=False)
        assert ("ADDRESS_REFUSED", "error") == (claim.result.code, claim.result.outcome.value)
        assert [] == claim.result.attempts
    assert "ADDRESS_REFUSED" == verified(80, host="169.254.169.254", reachable=False).result.code
