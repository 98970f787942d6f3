"""What may be on a task's timeline, and what its row says about it.

The task's row is kept in step with its checkpoints inside the same transaction: counter, head, newest verified. Those three
make a lookup cheap, and a checkpoint that vanished from an index noticeable.
"""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from agentos._text import shown
from agentos.core.checkpoints import codec
from agentos.core.checkpoints.lifecycle import StepEvent, StepState, advance
from agentos.core.checkpoints.ports import Ending, Look
from agentos.core.checkpoints.results import Outcome
from agentos.core.checkpoints.sealing import sha256
from agentos.store.registry.sqlite import claimed, decided, holding
from agentos.store.registry.sqlite.remembered import OutdatedError, Remembered
from agentos.store.registry.sqlite.rows import StepRow, TaskRow, copied, damaged
from agentos.store.registry.sqlite.tables import Tables

# What a checkpoint was superseded by, when the whole task was started over.
RESTARTED = "restart"
# How many types a task's row remembers the newest verified checkpoint of; custom types could be without number.
TYPES_REMEMBERED = 24


def append(tables: Tables, remembered: Remembered, row: StepRow, ending: Ending) -> StepRow:
    """End the step as the task's next checkpoint.

    Raises:
        OutdatedError: the step is not stored as it is given here.
        LeaseLostError: the task went into other hands since the step was begun.
    """
    row = copied(row)
    row.state = advance(row.step_id, StepState(row.state), StepEvent.ADOPT if ending.adopted else StepEvent.COMMIT)
    if ending.checkpoint_id is not None:
        tables.refuse_taken_id(ending.checkpoint_id, row.step_id)
        row.checkpoint_id = ending.checkpoint_id if ending.checkpoint_id != row.public_id else None
    row.pack, row.base_path, row.committed_at, row.nonce = ending.pack, ending.base_path, ending.committed_at, ending.nonce
    if ending.snapshot is not None:
        row.commit_sha256 = sha256(ending.snapshot)
        row.commit_snapshot = tables.insert_snapshot(ending.snapshot, row.commit_sha256)
    if ending.look is not None:
        row.verifications = row.shown = 1
        row.results = ending.look.results
        _take_over(row, ending.look)
    claims = _draw_place(tables, remembered, row, ending)
    if not tables.end_step(row):
        raise OutdatedError
    if row.checkpoint_id is not None:
        tables.insert_name(row)
    claimed.insert(tables, row.task_id, claims)
    if ending.decision is not None:
        decided.append(tables, row.task_id, ending.decision)
    return row


def _draw_place(tables: Tables, remembered: Remembered, row: StepRow, ending: Ending) -> list[claimed.Columns]:
    """Take the next number and note the new head in the task's row, as remembered or, if that is outdated, as stored."""
    task = remembered.task(row.task_id)
    claims = None
    if task is not None and holding.is_current(task, row, ending):
        claims = _drawn(tables, task, row, ending)
    if task is None or claims is None:
        task = _task_of(tables, row)
        holding.refuse_stale(task, row, ending)
        claims = _drawn(tables, task, row, ending)
        if claims is None:
            raise damaged(f"task {shown(row.task_id, 80)}")
    remembered.keep_task(task)
    return claims


def _drawn(tables: Tables, task: TaskRow, row: StepRow, ending: Ending) -> list[claimed.Columns] | None:
    task.sequence += 1
    task.head = row.place = task.sequence
    if row.verified:
        _remember_verified(task, task.sequence, row.checkpoint_type)
    holding.renew(task, ending.lease)
    claims = claimed.columns(row, ending.claims)
    claimed.add(task, claims)
    return claims if tables.update_task(task, ending=1) else None


def last_verified(tables: Tables, task_id: str, checkpoint_type: str | None) -> StepRow | None:
    """The newest live verified checkpoint."""
    task = tables.task(task_id)
    if task is None:
        return None
    place = task.verified_head
    if checkpoint_type is not None:
        by_type = _by_type(task)
        place = by_type.get(checkpoint_type, 0)
        if place == 0 and len(by_type) >= TYPES_REMEMBERED:
            return _newest(tables, task, task.sequence, checkpoint_type)
    if place == 0:
        return None
    row = tables.step_at(task_id, place)
    if not _verified_of_type(row, checkpoint_type):
        raise damaged(f"step {row.step_id}")
    return row


def newest_first(tables: Tables, task_id: str) -> Iterator[StepRow]:
    """Every checkpoint of the task, also the hidden ones, from the newest down."""
    task = tables.task(task_id)
    return iter(()) if task is None else tables.down_from(task, task.sequence)


def record_look(tables: Tables, row: StepRow, seen: str | None, look: Look, *, decides: bool, proves: bool) -> None:
    """Append a verification. A slower one never overwrites a newer one, and "could not check" never moves the flag.

    A look in between that decided nothing does not keep this one from deciding.
    """
    counted = decides and row.last_verified_at == seen
    row.verifications += 1
    tables.insert_verification(row.step_id, row.verifications, look, counted=counted)
    if counted:
        row.shown = row.verifications
        _take_over(row, look)
    row.proven |= proves
    tables.update_step(row)
    if counted or proves:
        _refresh(tables, row)


def _take_over(row: StepRow, look: Look) -> None:
    if look.outcome != Outcome.ERROR:
        row.verified = int(look.outcome == Outcome.VERIFIED)
        row.proven |= row.verified
        row.last_verified_at = look.at


def end_at(tables: Tables, row: StepRow) -> int:
    """Take every later live checkpoint off the timeline; how many that were."""
    task = _task_of(tables, row)
    later = _take_off(tables, task, row.place, row.public_id)
    _forget_above(tables, task, row.place)
    tables.update_task(task)
    return later


def start_over(tables: Tables, task: TaskRow) -> int:
    """Take every checkpoint off the timeline and end every open step; how many checkpoints that were."""
    live = _take_off(tables, task, 0, RESTARTED)
    task.origin = task.sequence
    task.verified_head = 0
    _store_by_type(task, {})
    abandon(tables, task, tables.open_steps(task.task_id))
    return live


def abandon(tables: Tables, task: TaskRow, rows: list[StepRow]) -> None:
    """End begun steps without a checkpoint, and store the task's row, which counts the open ones."""
    for row in rows:
        row.state = advance(row.step_id, StepState(row.state), StepEvent.ABANDON)
        row.place = 0
        row.digest = row.digested()
    tables.update_task(task, ending=len(rows))
    for row in rows:
        tables.update_step(row)


def _take_off(tables: Tables, task: TaskRow, place: int, superseded_by: str) -> int:
    above = tables.above(task.task_id, place)
    first = max(place, task.pruned) + 1
    if [each.place for each in above if each.place >= first] != [*range(first, task.sequence + 1)]:
        raise damaged(f"task {shown(task.task_id, 80)}, its checkpoints after number {place}")
    later = [each for each in above if each.superseded_by is None]
    for each in later:
        each.superseded_by = superseded_by
        tables.update_step(each)
    claimed.fall_above(tables, task, place)
    task.head = place
    return sum(each.deleted_at is None for each in later)


def hide(tables: Tables, row: StepRow, at: str) -> None:
    """Remove the checkpoint's snapshots and take it out of sight; its place and its claims stay."""
    for number in (row.begin_snapshot, row.commit_snapshot):
        tables.delete_snapshot(number)
    row.begin_snapshot = row.commit_snapshot = None
    row.deleted_at = at
    tables.update_step(row)
    task = _task_of(tables, row)
    if task.head == row.place:
        task.head = next((each.place for each in tables.down_from(task, row.place) if each.is_live), 0)
        tables.update_task(task)
    _refresh(tables, row)


def _refresh(tables: Tables, row: StepRow) -> None:
    """Bring the task's memory of verified checkpoints in step with one that changed."""
    task = _task_of(tables, row)
    claimed.stand(tables, task, row)
    if row.is_live and row.verified:
        _remember_verified(task, row.place, row.checkpoint_type)
    else:
        forget(tables, task, row)
    tables.update_task(task)


def _task_of(tables: Tables, row: StepRow) -> TaskRow:
    task = tables.task(row.task_id)
    if task is None:
        raise damaged(f"task {shown(row.task_id, 80)}")
    return task


def _by_type(task: TaskRow) -> dict[str, int]:
    return dict(codec.decode(task.verified_by_type))


def _remember_verified(task: TaskRow, place: int, checkpoint_type: str) -> None:
    task.verified_head = max(task.verified_head, place)
    by_type = _by_type(task)
    if checkpoint_type in by_type or len(by_type) < TYPES_REMEMBERED:
        by_type[checkpoint_type] = max(by_type.get(checkpoint_type, 0), place)
        _store_by_type(task, by_type)


def _store_by_type(task: TaskRow, by_type: dict[str, int]) -> None:
    task.verified_by_type = orjson.dumps(by_type)


def forget(tables: Tables, task: TaskRow, row: StepRow) -> None:
    """This checkpoint is no longer one to name; find what stands behind it. The caller stores the task's row."""
    by_type = _by_type(task)
    if task.verified_head == row.place:
        task.verified_head = _place(_newest(tables, task, row.place, None))
    if by_type.get(row.checkpoint_type) == row.place:
        by_type[row.checkpoint_type] = _place(_newest(tables, task, row.place, row.checkpoint_type))
        _store_by_type(task, by_type)


def _forget_above(tables: Tables, task: TaskRow, place: int) -> None:
    by_type = _by_type(task)
    if task.verified_head > place:
        task.verified_head = _place(_newest(tables, task, place, None))
    for checkpoint_type in [name for name, newest in by_type.items() if newest > place]:
        by_type[checkpoint_type] = _place(_newest(tables, task, place, checkpoint_type))
    _store_by_type(task, by_type)


def _newest(tables: Tables, task: TaskRow, place: int, checkpoint_type: str | None) -> StepRow | None:
    """The newest live verified checkpoint at or below `place`, by walking."""
    rows = tables.down_from(task, place)
    return next((row for row in rows if _verified_of_type(row, checkpoint_type)), None)


def _verified_of_type(row: StepRow, checkpoint_type: str | None) -> bool:
    return row.is_live and bool(row.verified) and checkpoint_type in (None, row.checkpoint_type)


def _place(row: StepRow | None) -> int:
    return 0 if row is None else row.place
