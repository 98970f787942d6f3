"""Hold a registry to what its agents were told: `missing` names everything that is not as it was acknowledged.

The registry is opened by a manager first, as the next agent would, and has to take a further step in the end. In between every
row is read past the manager as well: nothing may be half there. A violation starts with a word that says what kind it is:
`closed` (cannot be opened, read or used), `lost`, `changed`, `half` (a step without all its parts), `number` (a sequence number
that is missing or there twice), `damaged` (by SQLite's own check), `artifact` (a file that a durable checkpoint vouches for).
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from agentos.core.checkpoints import CheckpointError, CheckpointManager, EvidencePack
from agentos.store.registry.sqlite.rows import UNPLACED, StepRow
from agentos.store.registry.sqlite.tables import Tables
from tests.torture.agent import digest, fingerprint, open_manager, registry_of

AUDITOR = "auditor"
MANY = 1_000_000


# Which calls are promised to survive a power cut, by the durability they were made with.
SURVIVE_A_CUT = {"full": ("begin", "commit"), "commit": ("commit",), "relaxed": ()}


def missing(directory: Path, acks: Iterable[str], *, after_cut: bool = False) -> list[str]:
    """What of the acknowledged is not there, whole and equal, any more.

    Args:
        after_cut: hold it only to what is promised to survive a power cut.
    """
    told = [(verb, json.loads(facts)) for verb, facts in (line.split(" ", 1) for line in acks)]
    held = [(verb, facts) for verb, facts in told if not after_cut or verb in SURVIVE_A_CUT[facts["durability"]]]
    try:
        with open_manager(directory) as manager:
            found = [*_lost(manager, held)]
            with closing(sqlite3.connect(registry_of(directory))) as database:
                found += [*_damaged(database)] or [*_half_there(database), *_numbers(database)]
            found += [*_listings(manager, told)]
            found += _artifacts(manager, [facts for verb, facts in held if verb == "commit"], after_cut=after_cut)
            return [*found, *_no_further_step(manager)]
    except (CheckpointError, sqlite3.Error) as problem:
        return [f"closed: {type(problem).__name__}: {problem}"]


def _lost(manager: CheckpointManager, held: list[tuple[str, Any]]) -> Iterator[str]:
    for verb, facts in held:
        yield from _begin_lost(manager, facts) if verb == "begin" else _commit_lost(manager, facts)


def _begin_lost(manager: CheckpointManager, facts: Any) -> Iterator[str]:
    step = manager.get_step(facts["step"])
    if step is None:
        yield f"lost: begin {facts['step']}"
    elif (step.task_id, digest(step.snapshot_data)) != (facts["task"], facts["state"]):
        yield f"changed: begin {facts['step']}"


def _commit_lost(manager: CheckpointManager, facts: Any) -> Iterator[str]:
    checkpoint = manager.get_checkpoint(facts["checkpoint"])
    if checkpoint is None:
        yield f"lost: commit {facts['checkpoint']}"
    elif (checkpoint.task_id, checkpoint.step_id) != (facts["task"], facts["step"]) or (
        fingerprint(checkpoint) != facts.get("fingerprint", fingerprint(checkpoint))
    ):
        yield f"changed: commit {facts['checkpoint']}"
    elif "sequence" in facts and checkpoint.sequence_number != facts["sequence"]:
        yield f"number: {facts['checkpoint']} was {facts['sequence']}, is {checkpoint.sequence_number}"


def _half_there(database: sqlite3.Connection) -> Iterator[str]:
    """A step has all of its parts, and no part is without its step."""
    tables = Tables(database)
    rows: list[StepRow] = []
    for (key,) in database.execute("select step_key from steps").fetchall():
        try:
            rows.append(tables.existing_step(key))
            tables.stored(rows[-1])
            tables.begin_snapshot(rows[-1])
        except CheckpointError as problem:
            yield f"half: {problem}"
    for (task_id,) in database.execute("select task_id from tasks").fetchall():
        tables.task(task_id)
    claimed = {
        (task, place): n for task, place, n in database.execute("select task_id, sequence, count(*) from claims group by 1, 2")
    }
    for row in rows:
        ended = row.place != UNPLACED
        if (row.state == "committed", row.pack is not None, row.committed_at is not None) != (ended,) * 3:
            yield f"half: {row.step_id} is {row.state} at {row.place}"
        promised = len(json.loads(row.pack or b"{}").get("evidence_list", []))
        if claimed.pop((row.task_id, row.place), 0) != promised:
            yield f"half: {row.step_id} claims {promised}, and the index of claims says otherwise"
    if claimed:
        yield f"half: claims without a step: {sorted(claimed)}"
    used = {number for row in rows for number in (row.begin_snapshot, row.commit_snapshot) if number is not None}
    if used != {number for (number,) in database.execute("select snapshot_id from snapshots")}:
        yield "half: there are snapshots without a step, or steps without a snapshot"


def _numbers(database: sqlite3.Connection) -> Iterator[str]:
    """Each task has the numbers from 1 to its counter, each once."""
    drawn = defaultdict(list)
    for task_id, place in database.execute("select task_id, place from steps where place < ? order by place", (UNPLACED,)):
        drawn[task_id].append(place)
    counters = dict(database.execute("select task_id, sequence from tasks").fetchall())
    for task_id in counters.keys() | drawn.keys():
        if drawn[task_id] != [*range(1, counters.get(task_id, 0) + 1)]:
            yield f"number: task {task_id}: counter {counters.get(task_id)}, drawn {drawn[task_id]}"


def _damaged(database: sqlite3.Connection) -> Iterator[str]:
    answer = database.execute("pragma integrity_check").fetchone()[0]
    if answer != "ok":
        yield f"damaged: {answer}"


def _listings(manager: CheckpointManager, told: list[tuple[str, Any]]) -> Iterator[str]:
    """The lists say the same as asking one by one."""
    for task in {facts["task"] for _, facts in told}:
        numbers = [checkpoint.sequence_number for checkpoint in manager.list_checkpoints(task, MANY)]
        if numbers != [*range(len(numbers), 0, -1)]:
            yield f"number: task {task} is listed as {numbers}"
        newest = manager.get_last_verified_checkpoint(task)
        if (newest.sequence_number if newest else 0) != len(numbers):
            yield f"changed: task {task}: the last verified checkpoint is {newest and newest.sequence_number}"
        for step in manager.list_open_steps(task):
            if step.state != "begun":
                yield f"changed: {step.step_id} is listed as open, and is {step.state}"


def _artifacts(manager: CheckpointManager, commits: list[Any], *, after_cut: bool) -> Iterator[str]:
    for facts in commits:
        # Only `full` syncs what evidence names.
        promised = facts["durability"] == "full" or not after_cut
        checkpoint = manager.get_checkpoint(facts["checkpoint"]) if promised else None
        if checkpoint is not None and not manager.verifier.verify_evidence_pack(checkpoint.evidence_pack):
            reasons = [item.verification_error for item in checkpoint.evidence_pack.evidence_list]
            yield f"artifact: checkpoint {checkpoint.checkpoint_id}: {reasons}"


def _no_further_step(manager: CheckpointManager) -> Iterator[str]:
    before = len(manager.list_checkpoints(AUDITOR, MANY))
    step_id = manager.begin_step(AUDITOR, "manual_checkpoint", {"audits": before})
    after = manager.commit_step(step_id, EvidencePack()).sequence_number
    if after != before + 1:
        yield f"number: the auditor's step got {after} after {before}"
