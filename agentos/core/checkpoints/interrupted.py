"""Settle a step that began and never ended: did its effect happen?

`expects` says what would hold if it did, and the baseline is what was seen of the same things when the step began. Pure: what
is there now is handed in. What could not be seen, now or then, proves neither that something changed nor that nothing did.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

from agentos.core.checkpoints.observing import Observation, Seen
from agentos.core.checkpoints.results import EvidenceResult, Outcome

# Facts that change although the thing itself does not.
_VOLATILE = frozenset({"modified_at", "near", "scans", "kept", "hiding"})


class Settling(StrEnum):
    """What becomes of an interrupted step."""

    ADOPT = "adopt"
    RETRY = "retry"
    UNCERTAIN = "uncertain"
    RUNNING = "running"


@dataclass(frozen=True, slots=True)
class Expected:
    """One expected thing: whether it is as expected now, what is seen of it now, and what was when the step began."""

    result: EvidenceResult
    now: str | None
    before: str | None

    @property
    def changed(self) -> bool:
        """It is known to differ from what was there at the begin."""
        return self.now is not None and self.before is not None and self.now != self.before

    @property
    def untouched(self) -> bool:
        """It is known to be what was there at the begin."""
        return self.now is not None and self.now == self.before


def settle(expected: Sequence[Expected], *, holds: bool, rerunnable: bool) -> tuple[Settling, str]:
    """What to do about the step, and why.

    Args:
        expected: everything it would have left behind; empty if that was never said.
        holds: whether enough of that is as expected now, by the pack's own policy.
        rerunnable: whether doing it twice is harmless.
    """
    if holds and any(each.changed for each in expected):
        return Settling.ADOPT, "what it was to leave behind is there, and was not when it began"
    if rerunnable:
        return Settling.RETRY, _why_retry(expected, holds=holds)
    if not expected:
        return Settling.UNCERTAIN, "it must not run twice, and nothing says whether it had its effect"
    if not holds and all(each.untouched for each in expected):
        return Settling.RETRY, "everything it was to change is as it was when it began"
    return Settling.UNCERTAIN, _why_uncertain(expected, holds=holds)


def _why_retry(expected: Sequence[Expected], *, holds: bool) -> str:
    if not expected:
        return "nothing says how far it came, and doing it twice is harmless"
    if holds:
        return "what it was to leave behind was there before it began, and doing it twice is harmless"
    return "what it was to leave behind is not all there, and doing it twice is harmless"


def _why_uncertain(expected: Sequence[Expected], *, holds: bool) -> str:
    if holds:
        return "it must not run twice, and what it was to leave behind was there before it began"
    if any(each.result.outcome is Outcome.ERROR for each in expected):
        return "it must not run twice, and what it was to leave behind could not be looked at"
    if any(each.changed for each in expected):
        return "it must not run twice, and it had part of its effect"
    return "it must not run twice, and what was there when it began is not known"


def fingerprint(observation: Observation) -> str | None:
    """What was seen, in a form that can be stored and compared and gives no value away; None if nothing was seen."""
    if not isinstance(observation, Seen):
        return None
    lasting: dict[str, Any] = {name: fact for name, fact in observation.facts.items() if name not in _VOLATILE}
    data = orjson.dumps(lasting, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=repr)
    return hashlib.sha256(data).hexdigest()
