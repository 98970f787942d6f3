"""A writer for backups to be taken beside: commits kept content for ever, and writes down each checkpoint once it is committed.

    python -m tests.torture.backing FOLDER NUMBER       one of the writers
    python -m tests.torture.backing FOLDER collector    removes what nothing needs, all the time

Every few steps a writer rolls back, so that there is something to remove. It stops when it is killed.
"""

from __future__ import annotations

import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from random import Random

from agentos.core.checkpoints import CheckpointManager
from agentos.errors import StoreBusyError
from tests.support import content


def main(folder: Path, name: str) -> None:
    """Until it is killed."""
    # Several processes on an old SQLite are warned about; here that is the point.
    logging.disable(logging.WARNING)
    if name == "collector":
        collect(folder)
    work = folder / f"work-{name}"
    work.mkdir()
    rng = Random(name)
    committed = os.open(folder / f"committed-{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with CheckpointManager(folder / "store" / "registry.sqlite", work, keep=True) as manager:
        ids: list[str] = []
        while True:
            text = rng.randbytes(rng.randrange(20, 4000)).hex()
            (work / "file").write_text(text)
            step = manager.begin_step(f"task-{name}", "tool_executed", {"number": len(ids)})
            ids.append(manager.commit_step(step, content("file", text)).checkpoint_id)
            os.write(committed, f"{ids[-1]}\n".encode())
            if len(ids) % 5 == 0:
                # What the last two kept is needed no more then, and they stay in the history.
                earlier = manager.list_checkpoints(f"task-{name}", 3)[-1]
                manager.restore(manager.plan_restore(earlier.checkpoint_id))
                manager.rollback_to_checkpoint(earlier.checkpoint_id, supersede_later=True)


def collect(folder: Path) -> None:
    """Until it is killed."""
    with CheckpointManager(folder / "store" / "registry.sqlite", folder) as manager:
        while True:
            with suppress(StoreBusyError):
                manager.collect()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
