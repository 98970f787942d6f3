"""Settling: what a step wrote is on disk before it is observed, and what it did not touch costs nothing."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentos import _descriptors as descriptors
from agentos.core.checkpoints.models import Evidence, EvidenceType
from agentos.core.checkpoints.observing import Surroundings, Unseen
from agentos.probes.settling import sync_recent

LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)


class Syncs:
    """Every fsync, by the path of what it went through."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.descriptors: list[int] = []
        self.error = 0

    def __call__(self, descriptor: int) -> None:
        self.descriptors.append(descriptor)
        self.paths.append(os.path.realpath(f"/dev/fd/{descriptor}"))
        if self.error:
            raise OSError(self.error, os.strerror(self.error))


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> Syncs:
    recorded = Syncs()
    monkeypatch.setattr(os, "fsync", recorded)
    return recorded


def settle(base: Path, *paths: str, since: datetime = LONG_AGO, kind: str = "file_sha256", **around: Any) -> Unseen | None:
    claims = [Evidence(kind, "written", {"path": path}) for path in paths]
    return sync_recent(claims, Surroundings(**{"base_path": str(base), **around}), since)


def now() -> datetime:
    return datetime.now(UTC)


def names(syncs: Syncs, base: Path) -> list[str]:
    return [os.path.relpath(path, base.resolve()) for path in syncs.paths]


def age(*paths: Path) -> None:
    """Only the clock can make ctime old, so time is let go by against a step that begins later."""
    for path in paths:
        os.utime(path, (0, 0))


def test_a_file_is_synced_before_the_names_that_lead_to_it(base, syncs):
    """Content first, then its directory, then every directory above whose entry is new, up to the base."""
    begun = now()
    (base / "a" / "b").mkdir(parents=True)
    (base / "a" / "b" / "x").write_bytes(b"x")
    assert settle(base, "a/b/x", since=begun) is None
    assert names(syncs, base) == ["a/b/x", "a/b", "a", "."]


def test_nothing_above_the_base_is_touched(base, syncs):
    """The base itself was there before the task."""
    (base / "x").write_bytes(b"x")
    settle(base, "x")
    assert names(syncs, base) == ["x", "."]


def test_an_absolute_path_is_settled_up_to_the_root(base, syncs):
    """Without a base the walk starts at `/`; directories that did not change since are left alone."""
    begun = now()
    (base / "x").write_bytes(b"x")
    assert settle(base, str(base / "x"), since=begun, base_path="/gone") is None
    assert names(syncs, base)[:2] == ["x", "."]
    assert all(path == "/" or base.resolve().is_relative_to(path) for path in syncs.paths[1:])


def later(seconds: float = 10.0) -> datetime:
    return now() + timedelta(seconds=seconds)


def pretend_it_is(monkeypatch: pytest.MonkeyPatch, moment: datetime) -> None:
    monkeypatch.setattr(time, "time", lambda: moment.timestamp() + 1)


def a_moment_later(monkeypatch: pytest.MonkeyPatch) -> datetime:
    """The beginning of a step whose margin ends between what was written so far and what is written next."""
    time.sleep(0.06)  # files are stamped by a clock that ticks every few milliseconds
    begun = now() + timedelta(seconds=2 - 0.03)
    pretend_it_is(monkeypatch, begun)
    return begun


def test_what_was_written_before_the_step_is_not_synced(base, syncs, monkeypatch):
    """Nothing recent, nothing synced."""
    (base / "x").write_bytes(b"x")
    pretend_it_is(monkeypatch, later())
    assert settle(base, "x", since=later()) is None
    assert syncs.paths == []


def test_what_did_not_change_is_not_even_opened(base, syncs, opened, monkeypatch):
    """Files from before the step cost a look and no descriptor."""
    (base / "x").write_bytes(b"x")
    pretend_it_is(monkeypatch, later())
    settle(base, "x", since=later())
    assert opened == []


def test_a_file_edited_in_place_needs_no_directory(base, syncs, monkeypatch):
    """The directory did not change: its entry is as durable as before. A neighbour's change counts for the neighbour."""
    (base / "d").mkdir()
    (base / "d" / "x").write_bytes(b"x")
    begun = a_moment_later(monkeypatch)
    (base / "d" / "x").write_bytes(b"y")
    settle(base, "d/x", since=begun)
    assert names(syncs, base) == ["d/x"]


def test_two_seconds_of_margin_cover_coarse_clocks(base, syncs, monkeypatch):
    """A file system that keeps whole seconds dates a file before the step that wrote it."""
    (base / "x").write_bytes(b"x")
    begun = now() + timedelta(seconds=1.9)
    pretend_it_is(monkeypatch, begun)
    settle(base, "x", since=begun)
    assert names(syncs, base) == ["x", "."]


def test_a_preserved_modification_time_hides_nothing(base, syncs):
    """Unpacking an archive dates files back; the change of the entry itself cannot be dated back."""
    begun = now()
    (base / "x").write_bytes(b"x")
    age(base / "x")
    settle(base, "x", since=begun)
    assert names(syncs, base) == ["x", "."]


def test_a_clock_set_back_during_the_step_hides_nothing(base, syncs):
    """If now is before the beginning, no date means anything, and everything is synced."""
    (base / "x").write_bytes(b"x")
    settle(base, "x", since=now() + timedelta(hours=1))
    assert names(syncs, base) == ["x", "."]


def test_a_folder_moved_into_place_is_settled_with_its_old_file(base, syncs, monkeypatch):
    """Publishing by renaming a whole folder changes no file; the new entry is synced all the same."""
    (base / "tmp").mkdir()
    (base / "tmp" / "x").write_bytes(b"x")
    begun = a_moment_later(monkeypatch)
    os.rename(base / "tmp", base / "out")
    settle(base, "out/x", since=begun)
    assert names(syncs, base) == ["."]


def test_a_new_link_is_settled_with_its_directory(base, syncs):
    """The entry that leads to the file may be a link somewhere else."""
    begun = now()
    (base / "d").mkdir()
    (base / "links").mkdir()
    (base / "d" / "x").write_bytes(b"x")
    (base / "links" / "current").symlink_to("../d")
    settle(base, "links/current/x", since=begun)
    assert names(syncs, base) == ["d/x", "d", ".", "links"]


def test_folders_are_settled_and_special_files_have_no_content(base, syncs):
    """A claimed folder is synced itself; of a FIFO only the entry."""
    (base / "d").mkdir()
    os.mkfifo(base / "fifo")
    settle(base, "d", "fifo", kind="artifact_exists")
    assert names(syncs, base) == ["d", "."]


def test_nothing_is_synced_twice(base, syncs):
    """Many files in one folder share its sync, and two claims about one file its own."""
    for name in ("x", "y"):
        (base / name).write_bytes(b"")
    settle(base, "x", "y", "x")
    assert names(syncs, base) == ["x", ".", "y"]


def test_a_file_this_process_has_open_is_synced_through_that(base, syncs):
    """Opening and closing it once more would drop the locks on it."""
    with open(base / "x", "w+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX)
        settle(base, "x")
        assert syncs.descriptors[0] == file.fileno()
    assert names(syncs, base) == ["x", "."]


def test_a_descriptor_that_is_closed_meanwhile_is_not_enough(base, syncs, monkeypatch):
    """A number that belongs to nobody any more, or to another file, has synced nothing of ours."""
    (base / "x").write_bytes(b"x")
    (base / "other").write_bytes(b"")
    with open(base / "other", "rb") as other:
        monkeypatch.setattr("agentos.probes.settling.held", lambda status: [999, other.fileno()])
        real, seen = syncs.__call__, []

        def sync(descriptor: int) -> None:
            seen.append(descriptor)
            if descriptor == 999:
                raise OSError(errno.EBADF, "Bad file descriptor")
            real(descriptor)

        monkeypatch.setattr(os, "fsync", sync)
        assert settle(base, "x") is None
    assert names(syncs, base) == ["other", "x", "."]


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_a_failed_sync_is_reported_and_never_repeated(base, syncs, number):
    """The kernel forgets what it could not write: a second sync would succeed over lost data."""
    (base / "x").write_bytes(b"x")
    syncs.error = number
    trouble = settle(base, "x")
    assert isinstance(trouble, Unseen)
    assert trouble.code == "SYNC_FAILED"
    assert os.strerror(number) in trouble.message
    assert names(syncs, base) == ["x"]


def test_what_is_on_no_disk_needs_no_sync(base, syncs):
    """Some file systems refuse to sync because there is nothing to be synced to."""
    (base / "x").write_bytes(b"x")
    syncs.error = errno.EINVAL
    assert settle(base, "x") is None


def test_what_cannot_be_opened_cannot_be_made_durable(base, syncs, monkeypatch):
    """A file that may be seen but not opened is not acknowledged as safe."""
    (base / "x").write_bytes(b"x")

    def refuse(_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("agentos.probes.settling.reading", refuse)
    trouble = settle(base, "x")
    assert isinstance(trouble, Unseen)
    assert trouble.code == "SYNC_FAILED"


@pytest.mark.parametrize("path", ["gone", "gone/x", "../outside", "out", "loop", "a\0b", ""])
def test_what_cannot_be_looked_at_is_left_to_its_probe(base, syncs, tmp_path, path):
    """Missing, escaping and impossible paths are no failures of syncing, and nothing outside is synced."""
    (tmp_path / "outside").write_bytes(b"")
    (base / "out").symlink_to(tmp_path / "outside")
    (base / "loop").symlink_to("loop")
    assert settle(base, path) is None
    assert syncs.paths == []


@pytest.mark.parametrize(("path", "synced"), [("d/x", ["d"]), ("d/x/", ["d"]), ("d/sub/x", ["d"]), ("x", ["."])])
def test_a_deletion_is_settled_where_it_happened(base, syncs, monkeypatch, path, synced):
    """The nearest directory that is left is synced, or what was deleted could be back after a power cut."""
    (base / "d" / "sub").mkdir(parents=True)
    for name in ("x", "d/x", "d/sub/x"):
        (base / name).write_bytes(b"")
    begun = a_moment_later(monkeypatch)
    if path == "d/sub/x":
        (base / path).unlink()
        (base / "d" / "sub").rmdir()
    else:
        (base / path.rstrip("/")).unlink()
    assert settle(base, path, since=begun, kind="artifact_absent") is None
    assert names(syncs, base) == synced


def test_a_folder_put_in_place_of_another_is_settled_with_what_it_lacks(base, syncs, monkeypatch):
    """The file went with the folder that was there before; the entry of its successor is synced."""
    (base / "d").mkdir()
    (base / "d" / "x").write_bytes(b"")
    (base / "successor").mkdir()
    begun = a_moment_later(monkeypatch)
    os.rename(base / "d", base / "old")
    os.rename(base / "successor", base / "d")
    settle(base, "d/x", since=begun, kind="artifact_absent")
    assert names(syncs, base)[-1] == "."


def test_what_was_absent_before_the_step_costs_no_sync(base, syncs, monkeypatch):
    """Its directory did not change. What is there after all, a dangling link too, is for the probe to report."""
    (base / "dangling").symlink_to("nowhere")
    settle(base, "dangling", kind="artifact_absent")
    pretend_it_is(monkeypatch, later())
    settle(base, "gone", since=later(), kind="artifact_absent")
    assert syncs.paths == []


def test_a_deletion_that_cannot_be_settled_is_reported(base, syncs):
    """Nobody may resume from an absence that may be undone."""
    syncs.error = errno.EIO
    trouble = settle(base, "gone", kind="artifact_absent")
    assert isinstance(trouble, Unseen)
    assert trouble.code == "SYNC_FAILED"


def test_allowed_roots_bound_the_settling(base, syncs, tmp_path):
    """Beyond an allowed root nothing is synced, and above it nothing either."""
    (base / "x").write_bytes(b"x")
    (tmp_path / "outside").write_bytes(b"")
    settle(base, str(base / "x"), str(tmp_path / "outside"), allowed_roots=(str(base),))
    assert names(syncs, base) == ["x", "."]


def test_other_evidence_and_broken_definitions_are_passed_over(base, syncs):
    """Settling judges nothing: what is no path is for others to refuse."""
    claims = [
        Evidence(EvidenceType.COMMAND_EXIT, "", {"exit_code": 0}),
        Evidence(EvidenceType.FILE_SHA256, "", {}),
        Evidence(EvidenceType.FILE_SHA256, "", {"path": 7}),
    ]
    assert sync_recent(claims, Surroundings(str(base)), LONG_AGO) is None
    assert syncs.paths == []


def test_real_syncs_work(base):
    """Not only the recorded ones: files, folders and what is held open."""
    (base / "d").mkdir()
    with open(base / "d" / "x", "wb") as file:
        file.write(b"x")
        assert settle(base, "d/x", ".") is None
    assert settle(base, "d/x", str(base / "d" / "x"), "/dev/null", "/proc/self/status") is None
    assert descriptors._ours == set()
