"""Look whether something accepts connections at a host and a port.

The connection is closed as soon as it stands, and nothing is sent. The time of one look is shared fairly by the addresses of
the host and by the samples that are asked for.
"""

from __future__ import annotations

import socket
import time
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings
from agentos.probes.addresses import Resolver, addresses_of, system_resolver
from agentos.probes.cannot_see import CannotSee, Deadline, looked_at
from agentos.probes.wires import CONNECTED, REFUSED, TIMED_OUT, answer_of, called_off, connect, cut, family_of

# Between two samples: what answers once by accident does not do so twice.
_PAUSE = 0.05


class NetworkReachable:
    """Facts: `samples`, what each attempt came to, up to one that differs; `addresses`, what each address said at last."""

    def __init__(self, resolver: Resolver = system_resolver) -> None:
        self._resolver = resolver

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        """Connect as often as is asked for, while the answer stays the same."""
        return looked_at(lambda deadline: Seen(self._look(evidence, around, deadline)), around.timeout)

    def _look(self, evidence: Evidence, around: Surroundings, deadline: Deadline) -> dict[str, Any]:
        host, port = evidence.expected["host"], evidence.expected["port"]
        addresses = addresses_of(host, evidence, around, deadline, self._resolver)
        wanted = evidence.metadata.get("success_threshold", 1)
        samples, answers = list[str](), dict[str, str]()
        for left in range(wanted, 0, -1):
            if samples:
                _pause(around)
            answers = _sample(addresses, port, around, deadline.left() / left)
            samples.append(_answer(host, answers))
            if samples[-1] != samples[0]:
                break
        return {"samples": samples, "addresses": answers}


def _sample(addresses: list[str], port: int, around: Surroundings, seconds: float) -> dict[str, str]:
    """What each address says, up to the first one that accepts."""
    answers = dict[str, str]()
    until = Deadline(seconds)
    for number, address in enumerate(addresses):
        answers[address] = _attempt(address, port, around, Deadline(until.left() / (len(addresses) - number)))
        if answers[address] == CONNECTED:
            break
    return answers


def _attempt(address: str, port: int, around: Surroundings, deadline: Deadline) -> str:
    try:
        with socket.socket(family_of(address), socket.SOCK_STREAM) as plug, called_off(around.cancel, lambda: cut(plug)):
            connect(plug, (address, port), deadline)
    except OSError as error:
        if around.cancel is not None and around.cancel.is_set:
            raise CannotSee("CALLED_OFF", "the look was called off while it was under way") from error
        return answer_of(error)
    return CONNECTED


def _answer(host: str, answers: dict[str, str]) -> str:
    """What the host as a whole said. An address that this machine has no way to says nothing."""
    for answer in (CONNECTED, REFUSED, TIMED_OUT):
        if answer in answers.values():
            return answer
    said = ", ".join(f"{address}: {answer}" for address, answer in answers.items())
    raise CannotSee(
        "NO_ROUTE", f"{shown(host, 253)}: {shown(said, 200)}", "look at the network of this machine", transient=True
    )


def _pause(around: Surroundings) -> None:
    if around.cancel is None:
        time.sleep(_PAUSE)
    else:
        around.cancel.wait(_PAUSE)
