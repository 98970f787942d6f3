"""Remove what no kept world needs: old checkpoints, superseded and abandoned steps, old verifications.

One transaction a task. A removed row leaves a gap in the numbers, which the task's row allows for from then on; a step whose
claims a kept world stands on keeps its row and loses its snapshots. Below the oldest kept checkpoint only the claims that stand
there stay in the index: a release that is removed must not bring back what it released.
"""

from __future__ import annotations

from datetime import UTC, datetime

from agentos.core.checkpoints.nesting import Entry, overlaying
from agentos.core.checkpoints.world import Worlds
from agentos.store.registry.sqlite import claimed, restores, timeline
from agentos.store.registry.sqlite.rows import KEPT_LOOKS, StepRow, TaskRow
from agentos.store.registry.sqlite.tables import SQL, Tables


def tasks(tables: Tables) -> list[str]:
    """The ids of all tasks."""
    return [task_id for (task_id,) in tables.execute(SQL["task_ids"])]


def prune_task(tables: Tables, task: TaskRow, keep_verified: int, before: str | None) -> dict[str, int]:
    """Remove what may go of one task; how many of each kind."""
    rows = list(tables.down_from(task, task.sequence))
    oldest = _oldest_kept(rows, keep_verified)
    counts = dict.fromkeys(("checkpoints", "emptied", "abandoned", "verifications"), 0)
    standing = _standing_at(tables, task, oldest)
    for row in rows:
        if not _may_go(row, oldest, before):
            counts["verifications"] += _forget_looks(tables, row, before)
        elif row.place in standing:
            counts["emptied"] += _empty(tables, task, row)
        else:
            _remove(tables, task, row)
            counts["checkpoints"] += 1
    _forget_ended(tables, task, oldest, standing, {row.place for row in rows if _may_go(row, oldest, before)})
    for row in tables.abandoned(task.task_id):
        if before is None or row.begun_at < before:
            _delete(tables, row)
            counts["abandoned"] += 1
    tables.update_task(task)
    return counts


def _oldest_kept(rows: list[StepRow], keep_verified: int) -> int:
    """The number of the oldest checkpoint that must stay; everything newer stays too, unless it left the timeline."""
    verified = [row.place for row in rows if row.is_live and row.proven]
    return verified[keep_verified - 1] if len(verified) >= keep_verified else 0


def _may_go(row: StepRow, oldest: int, before: str | None) -> bool:
    if before is not None and (row.committed_at or row.begun_at) >= before:
        return False
    return row.superseded_by is not None or row.place < oldest


def _standing_at(tables: Tables, task: TaskRow, oldest: int) -> dict[int, set[int]]:
    """For each step, the items that the world of the oldest kept checkpoint stands on."""
    entries, _ = claimed.entries(tables, task)
    world = Worlds(entries, moved=False).at(oldest) if oldest else None
    groups = {} if world is None else world.groups
    standing = {number: {entry.item for entry in group} for number, group in groups.items()}
    # What spoke of something beneath a tree took that out of it: without its word the tree would speak for it again.
    for word in overlaying([entry for group in groups.values() for entry in group], entries, oldest):
        standing.setdefault(word.sequence, set()).add(word.item)
    # For whoever looks from a workspace that moved, what was said last under any base ended what was said under others.
    last = _last_words(entries, oldest)
    for entry in [entry for group in groups.values() for entry in group]:
        for word in last[entry.subject]:
            standing.setdefault(word.sequence, set()).add(word.item)
    return standing


def _last_words(entries: list[Entry], oldest: int) -> dict[str, list[Entry]]:
    """What the newest step up to the oldest kept one said of each subject, whatever its base."""
    last: dict[str, list[Entry]] = {}
    for entry in sorted(entries, key=lambda entry: entry.sequence):
        if entry.sequence <= oldest:
            said = last.setdefault(entry.subject, [])
            if said and said[0].sequence != entry.sequence:
                said.clear()
            said.append(entry)
    return last


def _forget_ended(tables: Tables, task: TaskRow, oldest: int, standing: dict[int, set[int]], gone: set[int]) -> None:
    """Below the oldest kept checkpoint, drop the claims of emptied steps that had ended there."""
    for number, items in standing.items():
        if number < oldest and number in gone:
            claimed.keep_only(tables, task, number, items)


def _empty(tables: Tables, task: TaskRow, row: StepRow) -> int:
    if row.begin_snapshot is None and row.commit_snapshot is None:
        return 0
    _drop_snapshots(tables, row)
    row.deleted_at = row.deleted_at or datetime.now(UTC).isoformat()
    tables.update_step(row)
    timeline.forget(tables, task, row)
    return 1


def _remove(tables: Tables, task: TaskRow, row: StepRow) -> None:
    claimed.remove(tables, task, row)
    task.pruned = max(task.pruned, row.place)
    _delete(tables, row)
    timeline.forget(tables, task, row)


def _delete(tables: Tables, row: StepRow) -> None:
    _drop_snapshots(tables, row)
    tables.execute(SQL["delete_verifications"], (row.step_id,))
    restores.forget_touched(tables, row.step_id)
    if row.checkpoint_id is not None:
        tables.execute(SQL["delete_name"], (row.checkpoint_id,))
    tables.execute(SQL["delete_step"], (row.step_key,))


def _drop_snapshots(tables: Tables, row: StepRow) -> None:
    for number in (row.begin_snapshot, row.commit_snapshot):
        tables.delete_snapshot(number)
    row.begin_snapshot = row.commit_snapshot = None


def _forget_looks(tables: Tables, row: StepRow, before: str | None) -> int:
    """Old looks at a checkpoint that stays; never the one that is shown."""
    last = row.verifications - KEPT_LOOKS
    return tables.execute(SQL["delete_old_verifications"], (row.step_id, last, row.shown, before, before)).rowcount
