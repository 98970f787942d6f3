"""The small agent of the demonstration: every step edits the same report; one step sends a letter, which must not happen twice.

Run as a process of its own, so that it can really be killed: `python -m agentos.cli.demo_agent FOLDER [--die-in ITEM]`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from agentos.cli.marks import dim, mark_of, show_anything
from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack, EvidenceType, Task

TASK = "report-42"
LETTER = "letter"
REPORT, NOTES = "report.md", "notes.md"
# What the agent says when it stands where it is to be killed.
MOMENTS = ("half written", "has not ended")
ITEMS = ["plan", "sources", "draft", LETTER, "summary"]


def say(mark: str, text: str) -> None:
    """One line of the timeline, at once: the reader may be waiting to kill us."""
    sys.stdout.write(f"  {mark_of(mark)} {text}\n")
    sys.stdout.flush()


def resume(task: Task) -> dict[str, Any]:
    """The state to go on with, what was kept put back first; and what was found on the way to it."""
    state: dict[str, Any] = task.resume({"done": []}, repair=True)
    found = task.recovery
    assert found is not None, "resume leaves what it found"
    if found.checkpoint is None:
        say("event", "nothing was committed before: the folder is proven and kept as it was found")
        return state
    if found.restored:
        sys.stdout.write(f"{found.explain()}\n")
    for step in found.interrupted:
        mark, fate = ("verified", "adopted") if step.verdict == "adopt" else ("open", "runs again")
        say(mark, f"a step of {step.begun_at:%H:%M:%S} never ended, {fate}: {step.reason}")
    if found.checkpoint.adopted:
        # The state is the one before the step; which step it was, its work item says.
        state["done"].append(found.checkpoint.work_item_id)
    say("verified", f"number {found.checkpoint.sequence_number} holds, measured now: resuming after {state['done'][-1]!r}")
    return state


def write_chapter(report: Path, item: str, *, die: bool) -> None:
    """Write one chapter more into the file that every step edits, slowly enough to be interrupted."""
    before = report.read_text() if report.exists() else "# Report\n"
    after = f"{before}\n## {item}\n" + f"What the agent found about {item}.\n" * 40
    if die:
        report.write_text(after[: len(after) * 2 // 3])
        wait_to_be_killed(f"{report.name}: half written")
    report.write_text(after)


def send_letter(path: Path, *, die: bool) -> None:
    """Something that must not happen twice; its effect can be seen."""
    path.write_text("Dear reader, the report is on its way.\n")
    if die:
        wait_to_be_killed("the letter is sent, and the step that sent it has not ended")


def wait_to_be_killed(where: str) -> None:
    """The demonstration kills this process here; a minute is a bound, not a plan."""
    say("open", f"{where} …")
    time.sleep(60)


def main(folder: Path, die_in: str | None) -> None:
    """Resume, do what is left, finish."""
    show_anything()
    with CheckpointManager(folder / "registry.sqlite") as manager, manager.task(TASK, workspace=folder / "work") as task:
        state = resume(task)
        for item in [item for item in ITEMS if item not in state["done"]]:
            once = item == LETTER
            sent = EvidencePack([Evidence(EvidenceType.ARTIFACT_EXISTS, "the letter", {"path": "letter.md"})]) if once else None
            with task.step("tool_executed", state, work_item_id=item, expects=sent, rerunnable=not once) as step:
                if once:
                    send_letter(folder / "work/letter.md", die=item == die_in)
                else:
                    write_chapter(folder / "work" / REPORT, item, die=item == die_in)
                state["done"].append(item)
            number = step.checkpoint.sequence_number if step.checkpoint else 0
            say(
                "verified",
                f"number {number}: {item} {'sent' if once else 'written'}; the folder measured, kept, committed",
            )
        task.finish()
        say("verified", f"finished: {len(state['done'])} items {dim('(every one of them measured)')}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[3] if sys.argv[2:3] == ["--die-in"] else None)
