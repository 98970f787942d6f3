"""Where a run measures: a scratch folder on a real disk, and in it a workspace whose file is old enough to be left alone.

By default the folder lies in the checkout, because temporary folders are often in memory, where a sync costs nothing.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.counts import Counts

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "scripts"
ARTIFACT = "report.md"
# Files younger than this are synced with the step that claims them (agentos/probes/settling.py), which would be measured too.
_OLD_ENOUGH = 2.2


@dataclass(frozen=True, slots=True)
class Bench:
    """What a family of rows is given."""

    scratch: Path
    counts: Counts

    @property
    def workspace(self) -> Path:
        """A folder with one file, ARTIFACT, that was written a while ago."""
        folder = self.scratch / "workspace"
        # The time of the last change of its status cannot be set back, so there is nothing but to wait.
        time.sleep(max(0.0, (folder / ARTIFACT).stat().st_ctime + _OLD_ENOUGH - time.time()))
        return folder

    @contextmanager
    def folder(self, name: str) -> Iterator[Path]:
        """A new folder that is removed afterwards, so that one family does not fill the disk for the next."""
        path = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.scratch))
        try:
            yield path
        finally:
            shutil.rmtree(path)


@contextmanager
def opened(directory: Path | None, counts: Counts) -> Iterator[Bench]:
    """A bench in a scratch folder beneath `directory` (default: the checkout), removed at the end."""
    parent = ROOT if directory is None else directory
    parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".bench-", dir=parent)).resolve()
    try:
        # A run that is killed must not leave its scratch to version control.
        (scratch / ".gitignore").write_text("*\n", encoding="ascii")
        (scratch / "workspace").mkdir()
        (scratch / "workspace" / ARTIFACT).write_text("# what a step produced\n", encoding="ascii")
        yield Bench(scratch, counts)
    finally:
        shutil.rmtree(scratch)


def environment(**extra: str) -> dict[str, str]:
    """The environment of a program of this package in a process of its own."""
    path = os.pathsep.join([str(SCRIPTS), str(ROOT)])
    return {**os.environ, "PYTHONPATH": path, **extra}
