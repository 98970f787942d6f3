"""The archive of one task: its rows, the kept contents that it needs, and what is said of both. Written and read here.

    agentos-task/rows.jsonl           a row a line: its table, and its columns by name; bytes as base64
    agentos-task/contents/<sha256>    each content as it is, under its digest
    agentos-task/manifest.json        what all of it is, and what is missing: the last file, so what is cut off has none

Nothing is compressed, so nothing becomes larger than the archive is. What is read is believed only as far as it was checked.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from agentos import _strict_json
from agentos._disk import unavailable
from agentos._text import shown
from agentos.core.checkpoints.archived import Take
from agentos.core.checkpoints.checkup import Progress
from agentos.errors import ArchiveRefusedError, ContentDamagedError, ContentMissingError
from agentos.vault.archives import Writer, members, pieces
from agentos.vault.backups import nothing_collected, refuse_inside
from agentos.vault.drafting import drafted, put_in_place
from agentos.vault.keeping import ChangedError, Keeping
from agentos.vault.vault import Vault

FORMAT = "agentos-task-1"
_TOP = "agentos-task"
_ROWS, _CONTENTS, _MANIFEST = f"{_TOP}/rows.jsonl", f"{_TOP}/contents/", f"{_TOP}/manifest.json"
_CREATE = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
# Pieces have a megabyte.
_MOST_PIECES, _LONGEST_MANIFEST = 512, 64 << 20
# The value of a column is a scalar, or bytes in an object.
_DEEP = 3


class Rows:
    """The rows on their way out, in a file beside the archive."""

    def __init__(self, path: str) -> None:
        self._file = os.fdopen(os.open(path, _CREATE, 0o600), "w+b")

    def take(self, table: str, row: dict[str, Any]) -> None:
        """One more. The task's own row is the first, also if all of them come once more."""
        if table == "tasks":
            self._file.seek(0)
            self._file.truncate()
        line = {"table": table, "row": {name: _plain(value) for name, value in row.items()}}
        self._file.write(json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n")

    def write(self, writer: Writer) -> str:
        """Into the archive; their digest."""
        self._file.flush()
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(0)
        digest = hashlib.sha256()
        writer.file(_ROWS, size, _hashed(pieces(self._file.fileno()), digest))
        return digest.hexdigest()

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def write_archive(
    vault: Vault,
    target: str,
    task_id: str,
    copy_rows: Callable[[Take], None],
    needed: Callable[[], list[str]],
    *,
    replace: bool,
    progress: Progress,
) -> dict[str, Any]:
    """Write all of it, and only then give it its name; what the manifest says.

    Raises:
        InvalidInputError: a file of this name is there, or it would take a place of the store's own.
        StoreUnavailableError: it cannot be written there.
    """
    refuse_inside(vault, target)
    with drafted(target, replace=replace) as folder:
        rows, archive = Rows(os.path.join(folder, "rows")), os.path.join(folder, "archive")
        try:
            with nothing_collected(vault, lambda: copy_rows(rows.take)):
                told = _write(archive, rows, vault, needed(), task_id, progress)
        finally:
            rows.close()
        put_in_place(archive, target, replace=replace)
    return told


def _write(archive: str, rows: Rows, vault: Vault, digests: list[str], task_id: str, progress: Progress) -> dict[str, Any]:
    contents = size = 0
    missing = []
    with os.fdopen(os.open(archive, _CREATE, 0o600), "wb") as file:
        writer = Writer(file)
        now = datetime.now(UTC).isoformat()
        manifest: dict[str, Any] = {"format": FORMAT, "task_id": task_id, "exported_at": now, "rows_sha256": rows.write(writer)}
        for number, digest in enumerate(digests):
            progress("copying", number, len(digests))
            length = _write_content(writer, vault, digest, f"{archive}.content")
            if length is None:
                missing.append(digest)
            else:
                contents, size = contents + 1, size + length
        manifest |= {"contents": contents, "bytes": size, "missing": missing}
        text = json.dumps(manifest, indent=1, ensure_ascii=False).encode() + b"\n"
        writer.file(_MANIFEST, len(text), iter([text]))
        writer.end()
    return manifest


def _write_content(writer: Writer, vault: Vault, digest: str, scratch: str) -> int | None:
    # By way of a file: that it is damaged shows only when all of it was read.
    descriptor = os.open(scratch, _CREATE, 0o600)
    try:
        size = vault.copy(digest, descriptor)
        os.lseek(descriptor, 0, os.SEEK_SET)
        writer.file(f"{_CONTENTS}{digest}", size, pieces(descriptor))
    except (ContentMissingError, ContentDamagedError):
        return None
    finally:
        os.close(descriptor)
    return size


@contextmanager
def scratch_folder() -> Iterator[str]:
    """A private folder for what is not believed yet; gone when the block is left."""
    folder = tempfile.mkdtemp(prefix="agentos-import-")
    try:
        yield folder
    except OSError as error:
        raise unavailable(error, folder, "be written") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def read_archive(path: str, vault: Vault, import_rows: Callable[[Callable[[Take], None]], str]) -> dict[str, Any]:
    """Take its rows and contents into a store that nobody looks at yet; what the manifest says.

    Raises:
        ArchiveRefusedError: it is not what `write_archive` wrote, or not any more.
        StoreUnavailableError: it cannot be read.
    """
    try:
        with open(path, "rb") as file, vault.keeping() as keeping:
            read = _Reading(keeping.receive, import_rows)
            for member in members(file):
                read.member(member.name, member.size, member.content)
            manifest = read.end()
            keeping.settle()
    except OSError as error:
        raise unavailable(error, path, "be read") from error
    return manifest


class _Reading:
    def __init__(self, receive: Any, import_rows: Callable[[Callable[[Take], None]], str]) -> None:
        self._receive, self._import_rows = receive, import_rows
        self._task_id: str | None = None
        self._rows_sha256 = ""
        self._contents = self._bytes = 0
        self._manifest: dict[str, Any] | None = None

    def member(self, name: str, size: int, content: Iterator[bytes]) -> None:
        if self._manifest is not None:
            raise ArchiveRefusedError(f"{shown(name, 120)}: comes after the manifest")
        if (self._task_id is None) != (name == _ROWS):
            raise ArchiveRefusedError(f"{shown(name, 120)}: the rows of a task come first, and once")
        if name == _ROWS:
            self._rows(content)
        elif name == _MANIFEST:
            self._manifest = _parsed_manifest(size, content)
        elif name.startswith(_CONTENTS):
            self._content(name.removeprefix(_CONTENTS), size, content)
        else:
            raise ArchiveRefusedError(f"{shown(name, 120)}: is in no archive of a task")

    def end(self) -> dict[str, Any]:
        found = self._manifest
        if found is None:
            raise ArchiveRefusedError("the archive has no manifest: it is cut off, or none of a task")
        said = (found.get("format"), found.get("task_id"), found.get("rows_sha256"), found.get("contents"), found.get("bytes"))
        if said != (FORMAT, self._task_id, self._rows_sha256, self._contents, self._bytes):
            raise ArchiveRefusedError("the manifest of the archive speaks of something else than is in it")
        if not _is_list_of_text(found.get("missing")):
            raise ArchiveRefusedError("the manifest of the archive does not say what is missing")
        return found

    def _rows(self, content: Iterator[bytes]) -> None:
        digest = hashlib.sha256()

        def hand_on(take: Take) -> None:
            for line in _lines(_hashed(content, digest)):
                take(*_parsed_row(line))

        self._task_id = self._import_rows(hand_on)
        self._rows_sha256 = digest.hexdigest()

    def _content(self, digest: str, size: int, content: Iterator[bytes]) -> None:
        with self._receive(size, expected=digest) as receiver:
            for piece in content:
                receiver.take(piece)
            try:
                receiver.done()
            except ChangedError:
                raise ArchiveRefusedError(f"content {shown(digest, 80)}: what lies under this digest has another one") from None
        self._contents, self._bytes = self._contents + 1, self._bytes + size


def _lines(content: Iterator[bytes]) -> Iterator[bytes]:
    parts: list[bytes] = []
    for piece in content:
        first, *others = piece.split(b"\n")
        parts.append(first)
        for other in others:
            yield b"".join(parts)
            parts = [other]
        if len(parts) > _MOST_PIECES:
            raise ArchiveRefusedError("a row of the archive is longer than any that agentos writes")
    if any(parts):
        raise ArchiveRefusedError("the rows of the archive are cut off")


def _parsed_row(line: bytes) -> tuple[str, dict[str, Any]]:
    try:
        found = _strict_json.parse(line, _DEEP)
        if (
            type(found) is dict
            and found.keys() == {"table", "row"}
            and type(found["table"]) is str
            and type(found["row"]) is dict
        ):
            return found["table"], {name: _value(value) for name, value in found["row"].items()}
    except ValueError as error:
        raise ArchiveRefusedError(f"a row of the archive cannot be read: {error}") from None
    raise ArchiveRefusedError("a row of the archive is not written as rows are")


def _parsed_manifest(size: int, content: Iterator[bytes]) -> dict[str, Any]:
    if size > _LONGEST_MANIFEST:
        raise ArchiveRefusedError("the manifest of the archive is longer than any that agentos writes")
    try:
        found = _strict_json.parse(b"".join(content), _DEEP)
    except ValueError as error:
        raise ArchiveRefusedError(f"the manifest of the archive cannot be read: {error}") from None
    if type(found) is not dict or found.get("format") != FORMAT:
        raise ArchiveRefusedError(f"the archive is not in the format {FORMAT}", hint="a newer agentos may have written it")
    return found


def _plain(value: Any) -> Any:
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


def _value(value: Any) -> Any:
    if type(value) is dict and value.keys() == {"base64"} and type(value["base64"]) is str:
        return base64.b64decode(value["base64"].encode(), validate=True)
    if value is None or type(value) in (str, int, float):
        return value
    raise ValueError("a value is none that a column holds")


def _is_list_of_text(value: Any) -> bool:
    return type(value) is list and all(type(each) is str for each in value)


def _hashed(content: Iterator[bytes], digest: Any) -> Iterator[bytes]:
    for piece in content:
        digest.update(piece)
        yield piece


def take_over(vault: Vault, source: Vault, digests: list[str], commit: Callable[[], object]) -> None:
    """Keep what another vault holds, durably, then commit what names it; whoever collects waits for both.

    Raises:
        VaultFullError: it would not fit into the budget; nothing was kept.
    """
    with vault.keeping() as keeping:
        for digest in digests:
            if not keeping.has(digest):
                _keep(keeping, source, digest)
        keeping.settle()
        commit()


def _keep(keeping: Keeping, source: Vault, digest: str) -> None:
    with tempfile.TemporaryFile(dir=source.root) as file:
        size = source.copy(digest, file.fileno())
        file.seek(0)
        keeping.add_open(file.fileno(), expected=digest, size=size)
