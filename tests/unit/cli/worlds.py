"""Tasks in every state that a recovery can find, each left behind by a process that is gone; and one that is still at it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import run, start

TASK = "report-42"

# What the process does that leaves the task in this state.
_LEAVES = """
import sys
from pathlib import Path
from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack
from tests.support import content, exists
verdict, folder, task = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
(folder / "work").mkdir()
(folder / "work" / "out.txt").write_text("one")
manager = CheckpointManager(folder / "registry.sqlite", folder / "work", keep=verdict == "repair")
if verdict != "fresh":
    manager.commit_step(manager.begin_step(task, "tool_executed", {"done": []}), content("out.txt", "one"))
if verdict in ("fresh", "uncertain"):
    manager.begin_step(task, "tool_executed", {"done": []}, "letter", rerunnable=verdict == "fresh")
if verdict == "finished":
    manager.finish_task(task)
if verdict in ("repair", "diverged"):
    (folder / "work" / "out.txt").write_text("changed")
if verdict == "blocked":
    (folder / "work").rename(folder / "unmounted")
if verdict == "held":
    manager.claim_task(task)
    print("held", flush=True)
    sys.stdin.read()
"""

VERDICTS = ("fresh", "resume", "repair", "diverged", "uncertain", "blocked", "held", "finished")


@contextmanager
def left_behind(verdict: str, folder: Path, task: str = TASK) -> Iterator[Path]:
    """The registry of a task of which `recover` says this."""
    registry = folder / "registry.sqlite"
    if verdict != "held":
        run(_LEAVES, verdict, folder, task)
        yield registry
        return
    with start(_LEAVES, verdict, folder, task) as holder:
        try:
            assert holder.stdout is not None
            assert "held\n" == holder.stdout.readline()
            yield registry
        finally:
            holder.kill()


def tree(folder: Path) -> dict[str, bytes]:
    """Every file of the task's folder, but for the registry's own."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "registry.sqlite" not in path.name
    }
