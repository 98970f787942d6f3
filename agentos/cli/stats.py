"""`agentos stats`: evidence over time. How often what was claimed held, how long looking took, and what is kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from agentos.cli.amounts import in_bytes, things
from agentos.cli.columns import ago, aligned
from agentos.cli.door import Door, note
from agentos.cli.marks import bold
from agentos.cli.progress import showing
from agentos.cli.verb import verb

if TYPE_CHECKING:
    from agentos.core.checkpoints.tallies import Statistics, Tally

SHAPE = {
    "tasks": "how many tasks have steps",
    "steps": "how many steps there are of each state: `begun`, `committed`, `adopted`, `abandoned`",
    "verified_now": "checkpoints on a timeline whose last known verification passed",
    "superseded": "checkpoints that were rolled back past",
    "looks": "verifications of checkpoints, by outcome",
    "types": "for each evidence type, the worst first: `looks`, `verified`, `failed`, `error`, `flaky`, `mean_ms`, "
    "`slowest_ms`, `last_trouble_at`",
    "subjects": "the same for each subject of a type; at most `--limit` of them; those of sensitive evidence together",
    "subjects_in_all": "how many subjects there are",
    "sizes": "bytes: `registry`, `snapshots`, `largest_snapshot`, `evidence`, `verifications`, `vault`; and `vault_contents`",
}

_SECOND = 1000.0


@verb("stats", SHAPE)
@click.option("--limit", type=click.IntRange(1), default=20, show_default=True, help="Subjects to show, the worst first.")
def command(door: Door, limit: int) -> None:
    """Show how often each type of evidence and each subject failed, could not be checked, or was flaky.

    This reads every step and every verification that is kept, of every task: some seconds for a hundred thousand checkpoints. A
    verification counts each item once; what is flaky verified only after an earlier try had failed. Nothing is measured.
    """
    with door.looking() as manager, showing() as progress:
        found = manager.statistics(progress=progress)
    document = found.to_dict()
    document = {**document, "subjects": document["subjects"][:limit], "subjects_in_all": len(found.subjects)}
    door.answer(document, _lines(found, limit))
    if len(found.subjects) > limit and not door.as_json:
        note(f"{len(found.subjects) - limit:,} more subjects: --limit shows more of them")


def _lines(found: Statistics, limit: int) -> Iterator[str]:
    steps = found.steps
    committed = steps.get("committed", 0) + steps.get("adopted", 0)
    looks = sum(found.looks.values())
    yield bold(f"{things(found.tasks, 'task')}, {things(committed, 'checkpoint')}, {things(looks, 'verification')}")
    yield (
        f"checkpoints: {found.verified_now:,} verified when last looked at, {found.superseded:,} rolled back past, "
        f"{steps.get('adopted', 0):,} adopted; "
        f"{things(steps.get('begun', 0), 'step')} never ended, {steps.get('abandoned', 0):,} abandoned"
    )
    outcomes = {"verified": "held", "failed": "failed", "error": "could not be checked"}
    yield f"verifications: {', '.join(f'{found.looks.get(name, 0):,} {word}' for name, word in outcomes.items())}"
    sizes = found.sizes
    snapshots = f"snapshots {in_bytes(sizes.snapshots)}, the largest {in_bytes(sizes.largest_snapshot)}"
    rest = f"evidence {in_bytes(sizes.evidence)}; verifications {in_bytes(sizes.verifications)}"
    yield f"sizes: registry {in_bytes(sizes.registry)} ({snapshots}; {rest})"
    yield f"vault: {in_bytes(sizes.vault)} in {things(sizes.vault_contents, 'content')}"
    if found.types:
        yield ""
        yield from _table(found.types, ["TYPE"])
        yield ""
        yield from _table(found.subjects[:limit], ["TYPE", "SUBJECT"])


def _table(tallies: Sequence[Tally], named: list[str]) -> Iterator[str]:
    head = [*named, "LOOKS", "FAILED", "UNCHECKED", "FLAKY", "MEAN", "SLOWEST", "LAST TROUBLE"]
    rows = [
        [
            each.evidence_type,
            *([each.subject] if len(named) > 1 else []),
            f"{each.looks:,}",
            each.failed or None,
            each.error or None,
            each.flaky or None,
            _took(each.total_ms / each.looks),
            _took(each.slowest_ms),
            None if each.last_trouble_at is None else ago(each.last_trouble_at),
        ]
        for each in tallies
    ]
    yield from aligned(head, rows)


def _took(ms: float) -> str:
    return f"{ms / _SECOND:,.1f} s" if ms >= _SECOND else f"{ms:.1f} ms"
