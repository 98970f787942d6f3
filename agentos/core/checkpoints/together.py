"""Look at many things at once, so that none holds up the others.

What is near is looked at one after the other, in a thread of its own; large content is read side by side, as many at a time as
there are processors; what answers over a wire is asked all at once. Whoever asked waits for all of them, and for none longer
than it may take: a look that hangs in the kernel is left behind with its thread, and counts as not checkable. What was seen is
in the order of what was asked, whatever came first.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf

from agentos.core.checkpoints.cancelling import Cancel
from agentos.core.checkpoints.kinds.kind import Effort
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Surroundings, Unseen

LARGE = 4 << 20
_MOST_WAITING = 16
# A look ends by itself at its limit; this much later it is taken for stuck.
_GRACE = 0.25
_MOST_STUCK = 16
# No system waits for ever at once; whoever may take as long as he likes is waited for again.
_LONGEST_PAUSE = 3600.0
_stuck: list[threading.Thread] = []


@dataclass(slots=True)
class Asked:
    """One look to be taken. `size` says how many bytes it would read, at the price of a glance."""

    evidence: Evidence
    around: Surroundings
    effort: Effort
    limit: float
    look: Callable[[Evidence, Surroundings], Observation]
    size: Callable[[Evidence, Surroundings], int] | None = None


def look_at_all(asked: Sequence[Asked], deadline: float | None = None) -> list[Observation]:
    """What each look saw, in order.

    Args:
        deadline: seconds for all of them together; what was not seen by then could not be checked.
    """
    return _Together(asked, deadline).run()


class _Together:
    """One round. Its lock guards `seen`, `begun` and the queues."""

    def __init__(self, asked: Sequence[Asked], deadline: float | None) -> None:
        self._asked = asked
        self._until = inf if deadline is None else time.monotonic() + deadline
        self._seen: list[Observation | None] = [None] * len(asked)
        self._left = len(asked)
        # When a look is taken for stuck, by its number.
        self._overdue: dict[int, tuple[float, threading.Thread]] = {}
        self._changed = threading.Condition()
        self._cancel = Cancel()
        near = [number for number, each in enumerate(asked) if each.effort is not Effort.WAIT]
        far = [number for number, each in enumerate(asked) if each.effort is Effort.WAIT]
        self._near, self._large, self._far = deque(near), deque[int](), deque(far)
        self._readers = 0
        self._arounds: dict[int, Surroundings] = {}

    def run(self) -> list[Observation]:
        """Take every look, or give up on it."""
        if len(_still_stuck()) >= _MOST_STUCK:
            return [_REFUSED] * len(self._asked)
        try:
            self._start()
            with self._changed:
                while self._left:
                    self._changed.wait(self._pause())
                    self._give_up()
        except BaseException:
            self._cancel.set()
            raise
        # Whoever was left behind must not go on for an answer that nobody waits for.
        self._cancel.set()
        return [each if each is not None else _LATE for each in self._seen]

    def _start(self) -> None:
        if self._near:
            self._thread(self._look_near)
        for _ in range(min(len(self._far), _MOST_WAITING)):
            self._thread(self._work, self._far)

    def _thread(self, work: Callable[..., None], *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, name="agentos-look", daemon=True).start()

    # In the threads.

    def _look_near(self) -> None:
        """One after the other; what turns out to be large is read side by side."""
        self._work(self._near, self._set_aside)
        self._work(self._large)

    def _work(self, queue: deque[int], set_aside: Callable[[int], bool] = lambda _: False) -> None:
        while True:
            with self._changed:
                if not queue or self._cancel.is_set:
                    return
                number = queue.popleft()
                limit = time.monotonic() + self._asked[number].limit + _GRACE
                self._overdue[number] = (limit, threading.current_thread())
            if set_aside(number):
                continue
            if not self._keep(number, self._look(self._asked[number])):
                return  # given up on, and somebody else does the rest

    def _look(self, asked: Asked) -> Observation:
        left = self._until - time.monotonic()
        if left <= 0:
            return _LATE
        around = self._around(asked.around)
        if left < around.timeout:
            around = replace(around, timeout=left)
        return asked.look(asked.evidence, around)

    def _around(self, given: Surroundings) -> Surroundings:
        # Nearly always the same object for all of them.
        known = self._arounds.get(id(given))
        if known is None:
            known = self._arounds[id(given)] = replace(given, cancel=self._cancel)
        return known

    def _set_aside(self, number: int) -> bool:
        asked = self._asked[number]
        if asked.effort is not Effort.READ or asked.size is None or asked.size(asked.evidence, asked.around) < LARGE:
            return False
        with self._changed:
            if self._overdue.pop(number, None) is None:
                return False
            self._large.append(number)
            # This thread reads too, once it is through with the small ones.
            helps = self._readers < (os.cpu_count() or 1) - 1
            self._readers += helps
        if helps:
            self._thread(self._read_beside)
        return True

    def _read_beside(self) -> None:
        try:
            self._work(self._large)
        finally:
            with self._changed:
                self._readers -= 1

    def _keep(self, number: int, seen: Observation) -> bool:
        """Take what was seen, unless that look was given up on."""
        with self._changed:
            if self._overdue.pop(number, None) is None:
                return False
            self._seen[number] = seen
            self._left -= 1
            if not self._left:
                self._changed.notify()
        return True

    # In the thread of whoever asked.

    def _pause(self) -> float | None:
        soonest = min((limit for limit, _ in self._overdue.values()), default=inf)
        # A look that begins while we wait ends later than any that is under way could; with none there is a moment to wait.
        shortest = min((each.limit for each in self._asked), default=0.0) + _GRACE
        until = min(soonest, self._until + _GRACE, time.monotonic() + shortest)
        return min(max(until - time.monotonic(), 0.0), _LONGEST_PAUSE)

    def _give_up(self) -> None:
        now = time.monotonic()
        for number, (limit, thread) in list(self._overdue.items()):
            if now >= min(limit, self._until + _GRACE):
                del self._overdue[number]
                self._seen[number] = _STUCK
                self._left -= 1
                _stuck.append(thread)
                self._replace(number)

    def _replace(self, number: int) -> None:
        """The thread hangs; another one takes the looks that were waiting for it."""
        if self._asked[number].effort is Effort.WAIT:
            self._thread(self._work, self._far)
        else:
            self._thread(self._look_near)


def _still_stuck() -> list[threading.Thread]:
    _stuck[:] = [thread for thread in _stuck if thread.is_alive()]
    return _stuck


_HINT = "look at what it looks at: a dead mount or a service that accepts and never answers"
_STUCK = Unseen("TIMED_OUT", "a look did not come back within its time limit and was left behind", _HINT)
_LATE = Unseen("TIMED_OUT", "the deadline was over before it was looked at", "give it more time")
_REFUSED = Unseen("TOO_MANY_STUCK", f"{_MOST_STUCK} earlier looks of this process are still stuck; no more are begun", _HINT)
