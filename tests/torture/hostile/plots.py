"""What is done to a workspace between its last checkpoint and the restore: each plot changes one thing, as an enemy would.

A plot says what it did, or that it could not be done here. It never destroys a byte of a file that is not in the vault already:
whatever it takes away was committed. What it leaves behind that cannot be removed as usual it lists to be undone.
"""

from __future__ import annotations

import fcntl
import os
import socket
import stat
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.torture.hostile.outside import Outside

_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602
_IMMUTABLE, _APPEND = 0x10, 0x20


class NotHereError(Exception):
    """This cannot be done on this machine; the message says why."""


@dataclass
class Ground:
    """A workspace and what lies outside of it."""

    root: Path
    outside: Outside
    rng: Random
    # Called in the end, newest first: as long as these hold, nobody can tidy up.
    undo: list[Callable[[], None]] = field(default_factory=list)
    # What is mounted inside may be read, and must not be changed.
    mounts: list[Outside] = field(default_factory=list)
    mounted_at: list[int] = field(default_factory=list)

    def is_ours(self, path: str) -> bool:
        """Whether it lies in the workspace itself, and not in what is mounted there."""
        return not any(path.startswith(f"{os.readlink(f'/proc/self/fd/{held}')}/") for held in self.mounted_at)

    def files(self) -> list[Path]:
        """Every file that is there, links aside."""
        return [path for path in sorted(self.root.rglob("*")) if stat.S_ISREG(path.lstat().st_mode)]

    def folders(self) -> list[Path]:
        return [path for path in sorted(self.root.rglob("*")) if stat.S_ISDIR(path.lstat().st_mode)]

    def file(self) -> Path:
        return self._one(self.files())

    def folder(self) -> Path:
        return self._one(self.folders())

    def _one(self, found: list[Path]) -> Path:
        found = [path for path in found if not path.name.startswith(".agentos") and self.is_ours(str(path))]
        if not found:
            raise NotHereError("nothing of that kind is left")
        return self.rng.choice(found)

    def theirs(self, path: Path) -> Path:
        """What has the same name outside; the whole of it, if nothing has."""
        found = self.outside.place / path.relative_to(self.root)
        return found if found.exists() else self.outside.place

    def aside(self, path: Path) -> Path:
        """Another name for it, beside it."""
        return path.with_name(f"{path.name[:100]}.aside-{self.rng.getrandbits(24):06x}")


def folder_becomes_link(ground: Ground) -> str:
    """To the folder of the same name outside; its own content lies beside it."""
    path = ground.folder()
    path.rename(ground.aside(path))
    path.symlink_to(ground.theirs(path))
    return f"{path.name} is a link to the outside"


def file_becomes_link(ground: Ground) -> str:
    path = ground.file()
    path.rename(ground.aside(path))
    path.symlink_to(ground.theirs(path))
    return f"{path.name} is a link to a file outside"


def climbing_links(ground: Ground) -> str:
    """Links upwards, to nothing, to themselves, to each other and to the root of everything."""
    path = ground.folder()
    for number, target in enumerate(("..", "../../..", "/", "loop-5", ".", "loop-5", "loop-4/../..", "x" * 300, "a\nb\x1b[2J")):
        (path / f"loop-{number}").symlink_to(target)
    return f"links that climb and loop in {path.name}"


def hard_link_to_outside(ground: Ground) -> str:
    """The name inside is another name for a file outside."""
    path = ground.file()
    path.rename(ground.aside(path))
    path.hardlink_to(ground.outside.place / "secret")
    return f"{path.name} is a hard link to a file outside"


def shared_bit(ground: Ground) -> str:
    """A file as it was claimed but for its executable bit, with a second name outside."""
    path = ground.file()
    other = ground.outside.place.with_name(f"name-{ground.rng.getrandbits(32):08x}")
    other.hardlink_to(path)
    path.chmod(path.stat().st_mode ^ 0o111)
    ground.undo.append(_still(other, other.stat().st_mode))
    return f"{path.name} has a name outside, and another bit"


def _still(path: Path, mode: int) -> Callable[[], None]:
    def check() -> None:
        assert path.stat().st_mode == mode, f"outside: the mode of {path.name} changed"

    return check


def twins(ground: Ground) -> str:
    """Names that some file systems do not tell apart."""
    path = ground.file()
    for name in {path.name.swapcase(), path.name.upper(), f"{path.name}e\u0301", f"{path.name}\u00e9"}:
        if not os.path.lexists(path.with_name(name)):
            path.with_name(name).write_bytes(b"twin " + os.fsencode(name))
    return f"twins of {path.name}"


NAMES = [
    b"line\nbreak", b"\x1b[2J\x07", b"\xff\xfe\x80", b" ", b"-rf", b"x" * 255, b"trailing ", b"\xe2\x80\xae", b"a\\b", b"*?[",
    b"NUL", b"..a", b"...", b"%s%n", b"\r", b"'\"$(x)`", b".agentos-restore-mine", b"tab\t", b".git ",
]  # fmt: skip


def odd_names(ground: Ground) -> str:
    """Names that no person would choose, of files, folders and links."""
    folder = os.fsencode(ground.rng.choice([ground.root, *ground.folders()]))
    chosen = ground.rng.sample(NAMES, 6)
    for number, name in enumerate(chosen):
        path = os.path.join(folder, name)
        if os.path.lexists(path):
            continue
        if number % 3 == 0:
            os.mkdir(path)
            path = os.path.join(path, ground.rng.choice(NAMES))
        if number % 3 == 2:
            os.symlink(ground.rng.choice(NAMES), path)
        else:
            Path(os.fsdecode(path)).write_bytes(b"odd " + name)
    return f"odd names: {chosen}"


def renamed_oddly(ground: Ground) -> str:
    path, name = ground.file(), os.fsdecode(ground.rng.choice(NAMES))
    if os.path.lexists(path.with_name(name)):
        raise NotHereError("that name is taken")
    path.rename(path.with_name(name))
    return f"{path.name} is called {name!r}"


def file_becomes_folder(ground: Ground) -> str:
    path = ground.file()
    path.rename(ground.aside(path))
    (path / "deep").mkdir(parents=True)
    (path / "deep" / "file").write_bytes(b"where a file was")
    return f"{path.name} is a folder"


def folder_becomes_file(ground: Ground) -> str:
    path = ground.folder()
    path.rename(ground.aside(path))
    path.write_bytes(b"where a folder was " + ground.rng.randbytes(8))
    return f"{path.name} is a file"


def special(ground: Ground) -> str:
    """A pipe, a socket or a device where a file was, or beside one."""
    path = ground.file()
    if ground.rng.random() < 0.5:
        path.rename(ground.aside(path))
    else:
        path = ground.aside(path)
    kind = ground.rng.choice(["pipe", "socket", "zero", "disk"])
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        here = os.open(path.parent, os.O_PATH)
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{here}/{path.name[:40]}")
        os.close(here)
    else:
        _device(path, os.makedev(1, 5) if kind == "zero" else os.makedev(253, 0))
    return f"{path.name} is a special file: {kind}"


def _device(path: Path, number: int) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, number)
    except PermissionError:
        raise NotHereError("making devices is not permitted") from None


def edited(ground: Ground) -> str:
    path = ground.file()
    path.write_bytes(b"edited by a human " + ground.rng.randbytes(12))
    return f"{path.name} was edited"


def missing(ground: Ground) -> str:
    path = ground.file()
    path.rename(ground.aside(path))
    return f"{path.name} is missing"


def shut_folder(ground: Ground) -> str:
    """A folder that its owner may not list, enter or write."""
    path, mode = ground.folder(), ground.rng.choice([0o000, 0o400, 0o500, 0o300])
    _change_mode(ground, path, mode)
    return f"{path.name} has the mode {mode:o}"


def shut_file(ground: Ground) -> str:
    path = ground.file()
    path.write_bytes(b"edited and shut " + ground.rng.randbytes(12))
    _change_mode(ground, path, 0)
    return f"{path.name} was edited and cannot be read"


def _change_mode(ground: Ground, path: Path, mode: int) -> None:
    before = stat.S_IMODE(path.stat().st_mode)
    held = os.open(path, os.O_PATH)

    def open_again() -> None:
        os.chmod(f"/proc/self/fd/{held}", before)
        os.close(held)

    path.chmod(mode)
    ground.undo.append(open_again)


def immutable(ground: Ground) -> str:
    """A file or a folder that not even root may change, or only add to."""
    path = ground.rng.choice([ground.file(), ground.folder()])
    if path.is_file() and ground.rng.random() < 0.5:
        path.write_bytes(b"edited and immutable " + ground.rng.randbytes(12))
    flag = ground.rng.choice([_IMMUTABLE, _APPEND])
    held = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)

    def undo() -> None:
        _flag(held, flag, on=False)
        os.close(held)

    try:
        _flag(held, flag, on=True)
    except OSError as error:
        os.close(held)
        raise NotHereError(f"that flag was refused: {error.strerror}") from None
    ground.undo.append(undo)
    return f"{path.name} is {'immutable' if flag == _IMMUTABLE else 'only added to'}"


def _flag(descriptor: int, flag: int, *, on: bool) -> None:
    flags = struct.unpack("l", fcntl.ioctl(descriptor, _GET_FLAGS, bytes(8)))[0]
    fcntl.ioctl(descriptor, _SET_FLAGS, struct.pack("l", flags | flag if on else flags & ~flag))


def mounted(ground: Ground) -> str:
    """A folder is mounted over one inside: of another file system, or of the same one."""
    path = ground.folder()
    what = ["-t", "tmpfs", "tmpfs"]
    if ground.rng.random() < 0.6:
        place = ground.outside.place.with_name(f"mounted-{len(ground.mounts)}")
        ground.mounts.append(Outside(place, [each.name for each in path.iterdir() if each.is_file()], ground.rng))
        what = ["--bind", str(place)]
    try:
        done = subprocess.run(["mount", *what, str(path)], capture_output=True, check=False, text=True)
    except FileNotFoundError:
        raise NotHereError("there is no mount") from None
    if done.returncode:
        raise NotHereError(f"mount was refused: {done.stderr.strip()}")
    held = os.open(path, os.O_PATH)
    ground.mounted_at.append(held)

    def undo() -> None:
        where = os.readlink(f"/proc/self/fd/{held}")
        ground.mounted_at.remove(held)
        os.close(held)
        subprocess.run(["umount", "--lazy", where], check=True, capture_output=True)

    ground.undo.append(undo)
    return f"{path.name} is a mount of {what[-1]}"


def hides_everything(ground: Ground) -> str:
    """Rules that leave out what is there, or that cannot be read."""
    path = ground.rng.choice([ground.root, *ground.folders()]) / ".gitignore"
    if not os.path.lexists(path):
        path.write_bytes(ground.rng.choice([b"*\n", b"**\n!*/\n", b"[\n", b"\xff\xfe\n", b"/a*\n", b"x" * 70_000]))
    return f"rules in {path.parent.name}"


PLOTS: list[Callable[[Ground], str]] = [
    folder_becomes_link, file_becomes_link, climbing_links, hard_link_to_outside, shared_bit, twins, odd_names, renamed_oddly,
    file_becomes_folder, folder_becomes_file, special, edited, missing, shut_folder, shut_file, immutable, mounted,
    hides_everything,
]  # fmt: skip
