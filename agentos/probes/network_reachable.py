"""Look whether something accepts connections at a host and a port.

The connection is closed as soon as it stands, and nothing is sent. All addresses of the host are tried at once, so that each
has the whole time of a sample; the samples share the time of the look, of which no more than half may go by until there is an
address: what had no time to answer has not been silent.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import time
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.cancelling import Cancel
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings
from agentos.probes.addresses import Resolver, addresses_of, system_resolver
from agentos.probes.cannot_see import CannotSee, Deadline, looked_at, timed_out
from agentos.probes.wires import CONNECTED, REFUSED, TIMED_OUT, answer_of, called_off, cut, family_of, is_itself

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
        addresses = addresses_of(host, evidence, around, Deadline(deadline.left() / 2), self._resolver)
        wanted = evidence.metadata.get("success_threshold", 1)
        samples, answers = list[str](), dict[str, str]()
        for left in range(wanted, 0, -1):
            if samples:
                _pause(around, deadline)
            answers = _Attempts(port, around.cancel).at(addresses, Deadline(deadline.left() / left))
            samples.append(_answer(host, answers))
            if samples[-1] != samples[0]:
                break
        return {"samples": samples, "addresses": answers}


class _Attempts:
    """Connections to several addresses at once; what each address said until the first one accepted, or time was over."""

    def __init__(self, port: int, cancel: Cancel | None) -> None:
        self._port, self._cancel = port, cancel
        self._plugs: list[socket.socket] = []
        self._answers = dict[str, str]()

    def at(self, addresses: list[str], until: Deadline) -> dict[str, str]:
        """Try all of these."""
        with selectors.DefaultSelector() as waiting, called_off(self._cancel, self._cut):
            try:
                for address in addresses:
                    self._begin(address, waiting)
                self._follow(waiting, until)
            finally:
                for plug in self._plugs:
                    plug.close()
        if self._cancel is not None and self._cancel.is_set:
            raise CannotSee("CALLED_OFF", "the look was called off while it was under way")
        return self._answers

    def _begin(self, address: str, waiting: selectors.BaseSelector) -> None:
        try:
            plug = socket.socket(family_of(address), socket.SOCK_STREAM)
        except OSError as error:
            self._answers[address] = answer_of(error)
            return
        self._plugs.append(plug)
        plug.settimeout(0)
        code = plug.connect_ex((address, self._port))
        if code == errno.EINPROGRESS:
            waiting.register(plug, selectors.EVENT_WRITE, address)
        else:
            self._answers[address] = _came_to(plug, code)

    def _follow(self, waiting: selectors.BaseSelector, until: Deadline) -> None:
        while waiting.get_map() and CONNECTED not in self._answers.values():
            ready = waiting.select(until.left())
            if not ready and until.passed():
                break
            for key, _ in ready:
                plug = key.fileobj
                assert isinstance(plug, socket.socket)
                self._answers[key.data] = _came_to(plug, plug.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
                waiting.unregister(plug)
        if CONNECTED not in self._answers.values():
            self._answers |= {key.data: TIMED_OUT for key in waiting.get_map().values()}

    def _cut(self) -> None:
        for plug in list(self._plugs):
            cut(plug)


def _came_to(plug: socket.socket, code: int) -> str:
    if code:
        return answer_of(OSError(code, os.strerror(code)))
    return REFUSED if is_itself(plug) else CONNECTED


def _answer(host: str, answers: dict[str, str]) -> str:
    """What the host as a whole said. An address that this machine has no way to says nothing."""
    for answer in (CONNECTED, REFUSED, TIMED_OUT):
        if answer in answers.values():
            return answer
    said = ", ".join(f"{address}: {answer}" for address, answer in answers.items())
    raise CannotSee(
        "NO_ROUTE", f"{shown(host, 253)}: {shown(said, 200)}", "look at the network of this machine", transient=True
    )


def _pause(around: Surroundings, deadline: Deadline) -> None:
    if deadline.left() <= _PAUSE:
        raise timed_out("the next sample")
    if around.cancel is None:
        time.sleep(_PAUSE)
    else:
        around.cancel.wait(_PAUSE)
