"""The small agent of the demonstration: writes a report, one chapter a step, and resumes only from what still holds.

Run as a process of its own, so that it can really be killed: `python -m agentos.cli.demo_agent FOLDER [--die-in CHAPTER]`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from agentos.cli.marks import dim, mark_of, show_anything
from agentos.core.checkpoints import CheckpointManager
from agentos.errors import EvidenceMismatchError

TASK = "report-42"
CHAPTERS = ["plan", "sources", "outline", "draft", "figures", "summary"]


def say(mark: str, text: str) -> None:
    """One line of the timeline, at once: the reader may be waiting to kill us."""
    sys.stdout.write(f"  {mark_of(mark)} {text}\n")
    sys.stdout.flush()


def newest_that_holds(manager: CheckpointManager) -> dict[str, Any]:
    """The state of the newest checkpoint that is still true; each newer one is refused with its reason."""
    last = manager.get_last_verified_checkpoint(TASK)
    if last is None:
        say("event", "nothing was committed before: starting from the beginning")
        return {"done": []}
    say("event", f"last verified checkpoint on record: number {last.sequence_number}")
    for checkpoint in manager.list_checkpoints(TASK):
        try:
            state = manager.rollback_to_checkpoint(checkpoint.checkpoint_id, supersede_later=True)
        except EvidenceMismatchError as refusal:
            # Only a difference lets us fall back; what could not be checked would stop us here.
            say("refused", f"number {checkpoint.sequence_number}: {refusal.diagnostics()['reasons'][0]}")
        else:
            say("verified", f"number {checkpoint.sequence_number} holds, measured now: resuming after {state['done'][-1]!r}")
            return state
    raise SystemExit("no checkpoint holds any more; a person must decide")


def write_chapter(folder: Path, name: str, *, die: bool) -> Path:
    """Write one chapter slowly enough to be interrupted."""
    path = folder / f"{name}.md"
    text = f"# {name}\n" + f"What the agent found about {name}.\n" * 40
    if die:
        path.write_text(text[: len(text) // 2])
        say("open", f"{path.name}: half written …")
        # The demonstration kills this process here; a minute is a bound, not a plan.
        time.sleep(60)
    path.write_text(text)
    return path


def main(folder: Path, die_in: str | None) -> None:
    """Resume, do what is left, finish."""
    show_anything()
    with CheckpointManager(folder / "registry.sqlite", base_path=folder) as manager:
        task = manager.task(TASK)
        for begun in manager.list_open_steps(TASK):
            say("open", f"a step of {begun.begun_at:%H:%M:%S} was begun and never ended: its work is not trusted")
        state = newest_that_holds(manager)
        for name in CHAPTERS:
            if name in state["done"]:
                continue
            with task.step("tool_executed", state) as step:
                path = write_chapter(folder, name, die=name == die_in)
                step.proves_file(path.name)
                state["done"].append(name)
            number = step.checkpoint.sequence_number if step.checkpoint else 0
            say("verified", f"number {number}: {path.name} written, measured and committed")
        task.finish()
        say("verified", f"finished: {len(state['done'])} chapters {dim('(every one of them measured)')}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[3] if sys.argv[2:3] == ["--die-in"] else None)
