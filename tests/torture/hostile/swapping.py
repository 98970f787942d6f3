"""Somebody who swaps folders for links to the outside, and back, while somebody else is at work.

`swaps` strikes in this process, at exactly chosen calls: Python tells of each call that opens, lists, makes, renames or removes
something before it happens. `racing` is another process that does nothing else, as fast as it can.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_TOLD = (
    "open",
    "os.listdir",
    "os.scandir",
    "os.mkdir",
    "os.rename",
    "os.rmdir",
    "os.remove",
    "os.symlink",
    "os.link",
    "os.chmod",
)
_RACER = """
import contextlib, os, sys
path, aside, target = sys.argv[1:]
print("ready", flush=True)
while True:
    with contextlib.suppress(OSError): os.rename(path, aside)
    with contextlib.suppress(OSError): os.symlink(target, path)
    with contextlib.suppress(OSError):
        if os.path.islink(path): os.unlink(path)
    with contextlib.suppress(OSError):
        if not os.path.lexists(path): os.rename(aside, path)
"""


class _Ear:
    """The one hook of this process; hooks cannot be taken away again, so it listens only while somebody asks."""

    act: Callable[[], None] | None = None
    installed = False

    @classmethod
    def hear(cls, event: str, _: object) -> None:
        if cls.act is not None and (event in _TOLD or event.startswith("os.")):
            act, cls.act = cls.act, None
            try:
                act()
            finally:
                cls.act = act


@dataclass
class Swap:
    """A folder of the workspace, and what a link in its place leads to."""

    path: Path
    target: Path

    @property
    def aside(self) -> Path:
        return self.path.with_name(f"{self.path.name[:100]}.swapped")

    def turn(self) -> None:
        """The folder is a link; or it is itself again. Whoever is in the way stays there."""
        with suppress(OSError):
            if self.path.is_symlink() and self.aside.is_dir():
                self.path.unlink()
                self.aside.rename(self.path)
            elif self.path.is_dir() and not os.path.lexists(self.aside):
                self.path.rename(self.aside)
                self.path.symlink_to(self.target)

    def end(self) -> None:
        """The folder is itself again, if it can be reached."""
        with suppress(OSError):
            if self.path.is_symlink():
                self.turn()


@contextmanager
def swaps(swap: Swap, at: set[int]) -> Iterator[list[int]]:
    """While this lasts, turn at the calls of these numbers; a list whose only item is how many calls there were."""
    if not _Ear.installed:
        sys.addaudithook(_Ear.hear)
        _Ear.installed = True
    heard = [0]

    def act() -> None:
        heard[0] += 1
        if heard[0] in at:
            swap.turn()

    _Ear.act = act
    try:
        yield heard
    finally:
        _Ear.act = None
        swap.end()


@contextmanager
def racing(swap: Swap) -> Iterator[None]:
    """While this lasts, another process turns and turns."""
    words = [sys.executable, "-S", "-c", _RACER, str(swap.path), str(swap.aside), str(swap.target)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as racer:
        assert racer.stdout is not None
        racer.stdout.readline()
        try:
            yield
        finally:
            racer.kill()
            racer.wait()
            swap.end()
            with suppress(OSError):
                if not os.path.lexists(swap.path):
                    swap.aside.rename(swap.path)
