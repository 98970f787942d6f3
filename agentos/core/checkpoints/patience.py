"""Look again, where looking again may be believed.

What is looked at decides: content that differs is final, and only a look that could not be taken is taken again; a service that
does not answer yet is asked again, with growing pauses that no two askers share, until its deadline. Each claim waits for
itself; nothing else is looked at again because of it. Every try is kept on the observation.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agentos._fork import importing
from agentos.core.checkpoints.kinds.kind import Kind, Retries, attempt_of
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings, Unseen
from agentos.core.checkpoints.results import Outcome

Look = Callable[[Surroundings], Observation]
# How often content that moved while it was read is read again, and how long that may settle.
_TRIES, _SETTLES, _SETTLES_AT_MOST = 3, 0.02, 0.1
_PAUSE, _LONGEST_PAUSE = 0.2, 5.0
_MOMENT = 0.001


def patiently(look: Look, kind: Kind, evidence: Evidence, around: Surroundings, *, once: bool = False) -> Observation:
    """What the last of the looks saw, with the tries before it.

    Args:
        once: a look that failed is not taken again, whatever is looked at.
    """
    begun, limit = time.monotonic(), limit_of(evidence, kind, around)
    until, each = begun + limit, _least(evidence, kind, "timeout", around.timeout)
    # A look that may take longer than all of them together would be taken for stuck, though it ends by itself.
    first = min(each, limit)
    seen = look(around if first >= around.timeout else replace(around, timeout=first))
    if _may_help(seen, kind, evidence, once=once):
        seen = _Tries(look, kind, evidence, around, until, each, once=once).after(seen, begun)
    seen.took_ms = _since(begun)
    return seen


def _since(begun: float) -> float:
    """Milliseconds."""
    return round((time.monotonic() - begun) * 1000, 3)


def _may_help(seen: Observation, kind: Kind, evidence: Evidence, *, once: bool) -> bool:
    """Whether another look might see something else, and be believed."""
    if isinstance(seen, Unseen):
        return seen.transient and kind.retries is not Retries.NEVER
    if once or kind.retries is not Retries.FAILURES:
        return False
    verdict = kind.judge(evidence, seen.facts)
    return verdict.outcome is Outcome.FAILED and not verdict.final


class _Tries:
    """The looks at one claim, from the second one on."""

    def __init__(
        self, look: Look, kind: Kind, evidence: Evidence, around: Surroundings, until: float, each: float, *, once: bool
    ) -> None:
        self._look, self._kind, self._evidence, self._around = look, kind, evidence, around
        self._until, self._each, self._once = until, each, once
        self._failures = kind.retries is Retries.FAILURES and not once
        self._earlier: tuple[dict[str, Any], ...] = ()
        # The newest look that saw something, and its place among the tries.
        self._seen: tuple[Seen, int] | None = None

    def after(self, first: Observation, begun: float) -> Observation:
        """Look until it is enough, or until time or patience is over."""
        with importing:
            import tenacity  # noqa: PLC0415 - most looks are taken once

        self._remember(first, begun)
        taken = [first]
        again = tenacity.Retrying(
            sleep=self._sleep,
            stop=self._end(tenacity),
            wait=self._pause(tenacity),
            retry=tenacity.retry_if_result(self._may_help),
            retry_error_callback=lambda state: None if state.outcome is None else state.outcome.result(),
        )
        seen: Observation = again(lambda: taken.pop() if taken else self._take())
        return seen

    def _take(self) -> Observation:
        """Look once more."""
        begun, earlier = time.monotonic(), self._earlier
        left = self._until - begun
        seen = replace(self._look(replace(self._around, timeout=min(self._each, max(left, _MOMENT)))), attempts=earlier)
        seen.last_ms = _since(begun)
        if self._may_help(seen):
            self._remember(seen, begun)
        if left < self._each and isinstance(seen, Unseen) and self._seen is not None:
            # A look that had not the time it needs does not unsee what the one before it saw.
            before, place = self._seen
            return replace(before, attempts=self._earlier[:place] + self._earlier[place + 1 :])
        return seen

    def _may_help(self, seen: Observation) -> bool:
        return _may_help(seen, self._kind, self._evidence, once=self._once)

    def _remember(self, seen: Observation, begun: float) -> None:
        seen.last_ms = took = _since(begun)
        bare = replace(seen, attempts=())
        if isinstance(seen, Seen):
            self._seen = seen, len(self._earlier)
        self._earlier = (*self._earlier, attempt_of(self._kind.result(self._evidence, bare), took))

    def _end(self, tenacity: Any) -> Any:
        end = tenacity.stop_before_delay(max(self._until - time.monotonic(), 0.0))
        if not self._failures:
            end |= tenacity.stop_after_attempt(_TRIES)
        cancel = self._around.cancel
        return end if cancel is None else end | (lambda _: cancel.is_set)

    def _pause(self, tenacity: Any) -> Any:
        if self._failures:
            return tenacity.wait_random_exponential(multiplier=_PAUSE, max=_LONGEST_PAUSE)
        return tenacity.wait_random_exponential(multiplier=_SETTLES, max=_SETTLES_AT_MOST, min=_SETTLES)

    def _sleep(self, seconds: float) -> None:
        if self._around.cancel is None:
            time.sleep(seconds)
        else:
            self._around.cancel.wait(seconds)


def limit_of(evidence: Evidence, kind: Kind, around: Surroundings) -> float:
    """Seconds that all looks at this claim may take together."""
    return _least(evidence, kind, "deadline", around.timeout)


def _least(evidence: Evidence, kind: Kind, name: str, most: float) -> float:
    """Seconds that the evidence asks for, or its kind; never more than whoever asks allows."""
    given = evidence.metadata.get(name) if evidence.metadata and kind.retries is not Retries.NEVER else None
    usual: float | None = getattr(kind, name) if given is None else given
    return most if usual is None else min(most, usual)
