"""The folder of one run: its node files and its counter.

Everything here happens under the folder's lock, which somebody else took. A save is: draw the numbers, write each file beside
its place, sync it, rename it into place, sync the folder. The numbers are drawn first, so that a process killed in between
leaves a gap and never the same number twice.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Sequence
from contextlib import closing, suppress

from agentos import _disk as disk
from agentos import _folders as folders
from agentos.errors import StoreCorruptError
from agentos.store.runs.counter import Counter
from agentos.store.runs.nodefile import (
    LONGEST_HEADER,
    SUFFIX,
    USUAL_HEADER,
    Header,
    Sealer,
    damaged,
    digest_of,
    file_name,
    folder_name,
)
from agentos.store.runs.times import now

# There is one writer at a time, so one name will do; whatever has it was left behind.
TEMPORARY = "new"


class RunFolder:
    """An open folder, and the path it is at; its inode is known to whoever holds its lock."""

    def __init__(self, descriptor: int, path: str, sealer: Sealer, inode: int = 0) -> None:
        self._descriptor = descriptor
        self._path = path
        self._inode = inode
        self._sealer = sealer

    def save(self, run_id: str, items: Sequence[tuple[str, bytes]]) -> None:
        """Store nodes under the next numbers of the run."""
        with closing(self._counter()) as counter:
            number = self._last(counter, [node_id for node_id, _ in items])
            counter.write(number + len(items))
            try:
                for node_id, data in items:
                    self._put(Header(run_id, node_id, number + 1, now(), len(data), digest_of(data)), data)
                    number += 1
            except OSError:
                # A gap would do no harm, but whoever tries again should get the number that the failed call did not use.
                counter.write(number)
                raise
        folders.sync_folder(self._descriptor, self._path)

    def _put(self, header: Header, data: bytes) -> None:
        parts = [self._sealer.packed(header), data]
        disk.replace_file(self._descriptor, file_name(header.node_id), TEMPORARY, parts)

    def load(self, run_id: str, node_id: str) -> bytes:
        """The bytes of a node. Raises FileNotFoundError. Needs no lock: a file is replaced in one move."""
        name = file_name(node_id)
        content = disk.read_file(self._descriptor, name, self._where(name))
        header, start = self._sealer.unpacked(content, self._where(name))
        data = content[start:]
        if (header.run_id, header.node_id, header.size) != (run_id, node_id, len(data)) or header.sha256 != digest_of(data):
            raise damaged(self._where(name))
        return data

    def headers(self, replaced: Container[str] = ()) -> Iterator[Header]:
        """What the files of the run say about themselves; their bytes are not read.

        Raises:
            StoreCorruptError: one of them is damaged, and not one of those that are about to be replaced.
        """
        with os.scandir(self._descriptor) as entries:
            for entry in entries:
                if entry.name.endswith(SUFFIX):
                    try:
                        yield self._header(entry.name)
                    except FileNotFoundError:
                        continue
                    except StoreCorruptError:
                        if entry.name not in replaced:
                            raise

    def _header(self, name: str) -> Header:
        where = self._where(name)
        content = disk.read_file(self._descriptor, name, where, USUAL_HEADER)
        if content.count(b"\n", 0, USUAL_HEADER) < 2 and len(content) == USUAL_HEADER:  # noqa: PLR2004 - the two lines
            content = disk.read_file(self._descriptor, name, where, LONGEST_HEADER)
        header = self._sealer.unpacked(content, where)[0]
        if (folder_name(header.run_id), file_name(header.node_id)) != (os.path.basename(self._path), name):
            raise damaged(where)
        return header

    def delete(self, node_id: str) -> None:
        """Remove a node, damaged or not; durably gone also if somebody else removed it and was killed."""
        name = file_name(node_id)
        # What cannot be read has no number to remember.
        if self._is_whole(name):
            self._remember_last(node_id)
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self._descriptor)
        folders.sync_folder(self._descriptor, self._path)

    def _is_whole(self, name: str) -> bool:
        try:
            self._header(name)
        except (FileNotFoundError, StoreCorruptError):
            return False
        return True

    def _remember_last(self, node_id: str) -> None:
        with closing(self._counter()) as counter:
            counter.write(self._last(counter, [node_id]))
            # Synced: the file of this node may be the only other place that knows the number.
            counter.sync()

    def clean(self) -> None:
        """Remove what a crash left behind."""
        with suppress(FileNotFoundError):
            os.unlink(TEMPORARY, dir_fd=self._descriptor)

    def _last(self, counter: Counter, replaced: Sequence[str]) -> int:
        """The last number that was given. A damaged file does not stand in the way of replacing it."""
        number, sure = counter.read()
        if sure:
            return number
        # A counter written in this boot also says that the folder's own name is durable; without one, make it so.
        folders.sync_path(os.path.dirname(self._path))
        names = {file_name(node_id) for node_id in replaced}
        return max(number, max((header.sequence for header in self.headers(names)), default=0))

    def _counter(self) -> Counter:
        return Counter(self._descriptor, self._path, self._inode, self._sealer)

    def _where(self, name: str) -> str:
        return os.path.join(self._path, name)
