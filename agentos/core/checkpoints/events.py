"""What happened to a task, newest first: checkpoints, interrupted steps, decisions and restores, merged by their times.

Each kind is kept in an order of its own, and a page takes from the top of each. Where it ended is a place: the key down to
which each kind was told. Clocks step; so times decide only what is told first, never what is told.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

from agentos._text import shown
from agentos.core.checkpoints import history
from agentos.core.checkpoints.overviews import running_of
from agentos.core.checkpoints.ports import StoredStep
from agentos.core.checkpoints.restores import operations_from
from agentos.core.checkpoints.stored import ABOVE_ALL, Decision, Place, StoredCheckpoint, StoredLog, StoredRestore
from agentos.errors import InvalidInputError

_UNTOLD = "-"
_PARTS = (3, 5)


class Event(NamedTuple):
    """One thing that happened. `kind` is `checkpoint`, `step`, `decision` or `restore`; what `about` holds follows from it.

    `state` of a checkpoint is `verified`, `failed`, `error` (could never be checked), `pending` (never looked at),
    `superseded`, `deleted` or `damaged`; of a step that is none `interrupted`, `running`, `abandoned` or `damaged`; of a
    decision what was decided; of a restore `begun`, `applying`, `done` or `undone`.
    """

    kind: str
    state: str
    id: str
    at: datetime | None
    about: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON can carry it."""
        return {**self._asdict(), "at": None if self.at is None else self.at.isoformat()}


@dataclass(frozen=True, slots=True)
class EventPage:
    """Some of what happened, newest first, and from where the next page goes on; None at the end."""

    events: tuple[Event, ...]
    next: str | None


class _Told(NamedTuple):
    """An event, and how the place changes once it was told."""

    event: Event
    moved: dict[str, Any]


def page_of(log: StoredLog, below: Place, limit: int, holder: str | None) -> EventPage:
    """The newest of all kinds; of each kind one more was asked for than is shown."""
    kinds = (_steps(log, holder), _decisions(log), _restores(log), _checkpoints(log))
    merged = list(islice(heapq.merge(*map(_timed, kinds), key=lambda pair: pair[0], reverse=True), limit + 1))
    for _, told in merged[:limit]:
        below = replace(below, **told.moved)
    events = tuple(told.event for _, told in merged[:limit])
    return EventPage(events, spelled(below) if len(merged) > limit else None)


def _timed(told: Iterator[_Told]) -> Iterator[tuple[str, _Told]]:
    """Each with the time to sort it by; what is damaged has none, and is told right after what came before it."""
    last = "~"
    for each in told:
        if each.event.at is not None:
            last = each.event.at.isoformat()
        yield last, each


def _checkpoints(log: StoredLog) -> Iterator[_Told]:
    for each in log.checkpoints:
        yield _Told(_checkpoint(each), {"number": each.number})


def _checkpoint(found: StoredCheckpoint) -> Event:
    step = found.step
    if step is None:
        return Event("checkpoint", "damaged", "", None, {"sequence_number": found.number})
    looks = [history.past_look(look, step.pack or b"") for look in found.looks]
    about = {
        "sequence_number": found.number,
        "checkpoint_type": step.checkpoint_type,
        "step_id": step.step_id,
        "adopted": step.state.value == "adopted",
        "superseded_by": step.superseded_by,
        "verified": step.verified,
        "last_verified_at": step.last_verified_at,
        "verifications": step.verifications,
        "newest_verifications": [
            {"number": look.number, "at": look.at.isoformat(), "by": look.by, "outcome": look.outcome, "counted": look.counted}
            for look in looks
        ],
    }
    return Event("checkpoint", _state(step), step.checkpoint_id or "", _time(step.committed_at), about)


def _state(step: StoredStep) -> str:
    if not step.live:
        return "deleted" if step.superseded_by is None else "superseded"
    if step.last_verified_at is None:
        return "error" if step.verifications else "pending"
    return "verified" if step.verified else "failed"


def _steps(log: StoredLog, holder: str | None) -> Iterator[_Told]:
    for key, step in log.steps:
        if step is None:
            yield _Told(Event("step", "damaged", "", None, {}), {"key": key})
            continue
        open_state = "running" if running_of([step], holder)[0] else "interrupted"
        about = {
            "checkpoint_type": step.checkpoint_type,
            "parent": step.parent,
            "rerunnable": step.rerunnable,
            "error": step.error,
            "host": step.host,
        }
        state = open_state if step.state.value == "begun" else step.state.value
        yield _Told(Event("step", state, step.step_id, _time(step.begun_at), about), {"key": key})


def _decisions(log: StoredLog) -> Iterator[_Told]:
    for number, each in log.decisions:
        yield _Told(_decision(number, each), {"decision": number})


def _decision(number: int, decision: Decision) -> Event:
    about = {"number": number, "by": decision.by, "reason": decision.reason}
    return Event("decision", decision.what, decision.about, _time(decision.at), about)


def _restores(log: StoredLog) -> Iterator[_Told]:
    for each in log.restores:
        yield _Told(_restore(each), {"restore": (each.begun_at, each.restore_id)})


def _restore(stored: StoredRestore) -> Event:
    about = {
        "checkpoint_id": stored.checkpoint_id,
        "base_path": stored.base_path,
        "paths": len(operations_from(stored.operations)),
        "undoes": stored.undoes,
        "ended_at": stored.ended_at,
    }
    return Event("restore", stored.state, stored.restore_id, _time(stored.begun_at), about)


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


# Places as text.


def spelled(place: Place) -> str:
    """The place as text without spaces, to be given back."""
    numbers = [_UNTOLD if each == ABOVE_ALL else str(each) for each in (place.number, place.key, place.decision)]
    return "/".join([*numbers, *(place.restore if place.restore != Place().restore else ())])


def place_of(text: str | None) -> Place:
    """The place that was spelled so; above everything for None.

    Raises:
        InvalidInputError: no place is spelled so.
    """
    if text is None:
        return Place()
    parts = text.split("/") if isinstance(text, str) else []
    numbers = [ABOVE_ALL if part == _UNTOLD else _number(part) for part in parts[:3]]
    if len(parts) not in _PARTS or None in numbers:
        raise InvalidInputError(
            f"before: {shown(text, 120)} is no place in a log", hint="take it from the page before, or leave it out"
        )
    restore = (parts[3], parts[4]) if len(parts) == _PARTS[1] else Place().restore
    return Place(numbers[0] or 0, numbers[1] or 0, numbers[2] or 0, restore)


def _number(text: str) -> int | None:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < len(str(ABOVE_ALL)) else None
    return number or None
