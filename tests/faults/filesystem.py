"""A disk under a write cache: what is durable, what is only cached, and which call makes the one the other.

Rules: a write or resize is durable after a sync of its file. A name (create, rename, unlink, mkdir, link) is durable
after a sync of its directory (`strict`), or after any sync (`ext4`, whose journal commits all earlier metadata). What
was cached when a sync *failed* never becomes durable: the kernel marks such pages clean, and a second sync that
succeeds does not write them. The recorded directory itself is durable, with what was in it when the recording began.
Which of the cached changes survive a power cut is not decided here: see replay.py. Modes, owners and times are not
kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.faults.tape import Effect, Op, TapeError

Namespace = Literal["strict", "ext4"]

_EXCHANGE = 2


@dataclass(frozen=True, slots=True)
class Change:
    """Bytes at an offset, or, without bytes, a new size; `index` is its place on the tape."""

    index: int
    offset: int
    data: bytes | None

    def apply(self, content: bytearray) -> None:
        """Change `content` as the kernel would: a write or resize beyond the end leaves zeros between."""
        if self.data is None:
            del content[self.offset :]
        if len(content) < self.offset:
            content.extend(bytes(self.offset - len(content)))
        if self.data is not None:
            content[self.offset : self.offset + len(self.data)] = self.data


@dataclass(eq=False, slots=True)
class File:
    """The bytes on the platter, the bytes a reader sees now, and the changes between them that a sync would write."""

    durable: bytearray = field(default_factory=bytearray)
    live: bytearray = field(default_factory=bytearray)
    pending: list[Change] = field(default_factory=list)

    def change(self, change: Change) -> None:
        change.apply(self.live)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            change.apply(self.durable)
        self.pending.clear()

    def with_changes(self, kept: Iterable[Change]) -> bytearray:
        content = bytearray(self.durable)
        for change in kept:
            change.apply(content)
        return content


@dataclass(frozen=True, slots=True)
class Symlink:
    target: str


@dataclass(frozen=True, slots=True)
class Renaming:
    """Names set, or removed with None, in one directory by one call: they become durable together."""

    index: int
    names: dict[str, Node | None]

    def apply(self, entries: dict[str, Node]) -> None:
        for name, node in self.names.items():
            if node is None:
                entries.pop(name, None)
            else:
                entries[name] = node


@dataclass(eq=False, slots=True)
class Directory:
    """Like File, for names."""

    durable: dict[str, Node] = field(default_factory=dict)
    live: dict[str, Node] = field(default_factory=dict)
    pending: list[Renaming] = field(default_factory=list)

    def change(self, change: Renaming) -> None:
        change.apply(self.live)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            change.apply(self.durable)
        self.pending.clear()

    def with_changes(self, kept: Iterable[Renaming]) -> dict[str, Node]:
        entries = dict(self.durable)
        for change in kept:
            change.apply(entries)
        return entries


Node = File | Directory | Symlink


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing found in a real directory; `content` is None for a directory and a str for a symlink."""

    path: str
    inode: int
    content: bytes | str | None


def read_tree(directory: Path) -> list[Entry]:
    """Everything below `directory`, parents first."""
    found: list[Entry] = []
    for path in sorted(directory.rglob("*")):
        content: bytes | str | None = None
        if path.is_symlink():
            content = str(path.readlink())
        elif path.is_file():
            content = path.read_bytes()
        found.append(Entry(str(path.relative_to(directory)), path.lstat().st_ino, content))
    return found


class Filesystem:
    """The recorded directory at one place on the tape; `apply` takes it one call further."""

    def __init__(self, before: Iterable[Entry], root_inode: int, namespace: Namespace = "strict") -> None:
        self.namespace = namespace
        self.position = 0
        self.root = Directory()
        self.directories: list[Directory] = [self.root]
        self.files: list[File] = []
        self._nodes: dict[int, Node] = {root_inode: self.root}
        for entry in before:
            self._place(entry)

    def _place(self, entry: Entry) -> None:
        if entry.inode in self._nodes:
            node = self._nodes[entry.inode]
        elif isinstance(entry.content, bytes):
            node = self._adopt(entry.inode, File(bytearray(entry.content), bytearray(entry.content)))
        elif entry.content is None:
            node = self._adopt(entry.inode, Directory())
        else:
            node = self._adopt(entry.inode, Symlink(entry.content))
        parent, name = self._parent(entry.path)
        parent.durable[name] = parent.live[name] = node

    def _adopt(self, inode: int, node: Node) -> Node:
        # The kernel gives a freed inode number to the next file, so a new node replaces an old one.
        self._nodes[inode] = node
        if isinstance(node, Directory):
            self.directories.append(node)
        elif isinstance(node, File):
            self.files.append(node)
        return node

    def _parent(self, path: str) -> tuple[Directory, str]:
        *parents, name = path.split("/")
        node: Node = self.root
        for part in parents:
            node = node.live[part] if isinstance(node, Directory) and part in node.live else Symlink(part)
        if not isinstance(node, Directory):
            raise TapeError(f"{path}: its directory was made in a way the recorder does not see")
        return node, name

    def _known(self, op: Op) -> Node:
        if op.inode not in self._nodes:
            raise TapeError(f"op {op.index}, {op}: this file was made in a way the recorder does not see")
        return self._nodes[op.inode]

    def apply(self, op: Op) -> None:
        """Take the effect of one call into the cache, or, for a sync, from the cache to the platter."""
        self.position = op.index + 1
        if op.effect is Effect.SYNC:
            self._sync(op)
        elif op.error or op.effect is Effect.ACK:
            return
        elif op.effect in (Effect.WRITE, Effect.RESIZE):
            self._change_file(op)
        else:
            self._change_names(op)

    def _sync(self, op: Op) -> None:
        node = self._known(op)
        if op.error:
            if isinstance(node, File):
                node.pending.clear()
            return
        if isinstance(node, File | Directory):
            node.sync()
        if self.namespace == "ext4":
            for directory in self.directories:
                directory.sync()

    def _change_file(self, op: Op) -> None:
        node = self._known(op)
        if isinstance(node, File):
            node.change(Change(op.index, op.offset, op.data if op.effect is Effect.WRITE else None))

    def _change_names(self, op: Op) -> None:
        if op.effect is Effect.RENAME:
            self._rename(op)
            return
        node: Node | None = None
        if op.effect is Effect.CREATE:
            node = self._adopt(op.inode, File())
        elif op.effect is Effect.MKDIR:
            node = self._adopt(op.inode, Directory())
        elif op.effect is Effect.SYMLINK:
            node = Symlink(op.other)
        elif op.effect is Effect.LINK:
            node = self._known(op)
        if op.path:
            parent, name = self._parent(op.path)
            parent.change(Renaming(op.index, {name: node}))

    def _rename(self, op: Op) -> None:
        if op.offset & _EXCHANGE or not op.path:
            raise TapeError(f"op {op.index}, {op}: exchanging names and moving files in from outside are not modelled")
        source, old = self._parent(op.path)
        target, new = self._parent(op.other)
        node = source.live[old]
        if source is target:
            source.change(Renaming(op.index, {old: None, new: node}))
        else:
            # Two directories, two blocks on the disk: under `strict` either half may be lost.
            target.change(Renaming(op.index, {new: node}))
            source.change(Renaming(op.index, {old: None}))

    def live_tree(self) -> dict[str, bytes | str | None]:
        """What a reader sees now, by path, in the form of read_tree."""
        return dict(_walk(self.root, ""))


def _walk(directory: Directory, prefix: str) -> Iterator[tuple[str, bytes | str | None]]:
    for name, node in directory.live.items():
        if isinstance(node, Directory):
            yield prefix + name, None
            yield from _walk(node, f"{prefix}{name}/")
        else:
            yield prefix + name, bytes(node.live) if isinstance(node, File) else node.target
