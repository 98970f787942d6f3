"""The small agent of the demonstration: writes a report, one chapter a step, sends a letter once, and resumes from what holds.

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
# What the agent says when it stands where it is to be killed.
MOMENTS = ("half written", "has not ended")
ITEMS = ["plan", "sources", LETTER, "draft", "figures", "summary"]


def say(mark: str, text: str) -> None:
    """One line of the timeline, at once: the reader may be waiting to kill us."""
    sys.stdout.write(f"  {mark_of(mark)} {text}\n")
    sys.stdout.flush()


def resume(task: Task) -> dict[str, Any]:
    """The state to go on with, and what was found on the way to it."""
    state: dict[str, Any] = task.resume({"done": []})
    found = task.recovery
    assert found is not None, "resume leaves what it found"
    for rejected in found.rejected:
        say("refused", f"number {rejected.sequence}: {rejected.reasons[0]}")
    for step in found.interrupted:
        mark, fate = ("verified", "adopted") if step.verdict == "adopt" else ("open", "runs again")
        say(mark, f"a step of {step.begun_at:%H:%M:%S} never ended, {fate}: {step.reason}")
    if found.checkpoint is None:
        say("event", "nothing was committed before: starting from the beginning")
        return state
    if found.checkpoint.adopted:
        # The state is the one before the step; which step it was, its work item says.
        state["done"].append(found.checkpoint.work_item_id)
    say("verified", f"number {found.checkpoint.sequence_number} holds, measured now: resuming after {state['done'][-1]!r}")
    return state


def write_chapter(path: Path, *, die: bool) -> None:
    """Write one chapter slowly enough to be interrupted."""
    text = f"# {path.stem}\n" + f"What the agent found about {path.stem}.\n" * 40
    if die:
        path.write_text(text[: len(text) // 2])
        wait_to_be_killed(f"{path.name}: half written")
    path.write_text(text)


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
    with CheckpointManager(folder / "registry.sqlite", base_path=folder) as manager, manager.task(TASK) as task:
        state = resume(task)
        for item in ITEMS:
            if item in state["done"]:
                continue
            path = folder / f"{item}.md"
            once = item == LETTER
            sent = EvidencePack([Evidence(EvidenceType.ARTIFACT_EXISTS, "the letter", {"path": path.name})]) if once else None
            with task.step("tool_executed", state, work_item_id=item, expects=sent, rerunnable=not once) as step:
                (send_letter if once else write_chapter)(path, die=item == die_in)
                step.proves_file(path.name)
                state["done"].append(item)
            number = step.checkpoint.sequence_number if step.checkpoint else 0
            say("verified", f"number {number}: {path.name} {'sent' if once else 'written'}, measured and committed")
        task.finish()
        say("verified", f"finished: {len(state['done'])} items {dim('(every one of them measured)')}")
        if task.recovery is not None and task.recovery.rejected:
            sys.stdout.write(f"\nWhat task.recovery.explain() says of that resume:\n{task.recovery.explain()}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[3] if sys.argv[2:3] == ["--die-in"] else None)
