"""file_sha256: a digest of exactly one state of exactly one file, or none."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentos import _descriptors as descriptors
from agentos.core.checkpoints import codec
from agentos.core.checkpoints.observing import Observation, Seen, Unseen
from agentos.probes import content, file_sha256, hashing

MIB = 1 << 20


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("size", [0, 1, MIB - 1, MIB, MIB + 1, 3 * MIB])
def test_the_digest_covers_every_byte(look, base, size):
    """Sizes around the buffer's give what hashlib gives for the whole content."""
    data = os.urandom(size)
    (base / "x").write_bytes(data)
    os.utime(base / "x", ns=(0, 1_700_000_000_123_456_789))
    facts = look("file_sha256", path="x").facts
    moment = "2023-11-14T22:13:20.123+00:00"
    assert facts == {"exists": True, "type": "file", "sha256": sha(data), "size": size, "modified_at": moment}
    codec.encode(facts)


def test_what_is_no_regular_file_is_seen_and_never_opened(look, base, monkeypatch):
    """A FIFO, a folder and an endless device have a type and no digest; none is opened, so none can block."""
    os.mkfifo(base / "fifo")
    monkeypatch.setattr("agentos.probes.content.reading", None)
    assert look("file_sha256", path="fifo").facts == {"exists": True, "type": "fifo"}
    assert look("file_sha256", path=".").facts == {"exists": True, "type": "directory"}
    assert look("file_sha256", path="/dev/zero").facts == {"exists": True, "type": "device"}


def test_a_missing_file_is_a_fact_with_neighbours(look, base):
    """Nothing there is not an error, and what lies beside it is told."""
    (base / "out.part").write_bytes(b"")
    assert look("file_sha256", path="out").facts == {"exists": False, "type": None, "near": ["out.part"]}


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="there is no /proc here")
def test_a_file_that_is_made_up_when_it_is_read_has_no_digest(look):
    """Under /proc a file has size 0 and yet content; hashing it would prove nothing."""
    assert look("file_sha256", path="/proc/self/status").code == "GENERATED_FILE"


@contextmanager
def rewritten(path: Path, *versions: bytes) -> Iterator[None]:
    """Inside the block a thread writes one version over the other in place, and never rests."""
    path.write_bytes(versions[0])
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            for version in versions:
                with open(path, "r+b", buffering=0) as file:
                    file.write(version)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stop.set()
        writer.join()


def test_a_file_under_constant_rewriting_is_never_hashed_torn(look, base):
    """With a writer that never rests a digest is of one whole version, or there is none: never a mixture.

    Not even of a write that began before the look: its stamp is as old as its beginning, and its bytes are still coming.
    """
    versions = [bytes([letter]) * (4 * MIB) for letter in b"ab"]
    with rewritten(base / "x", *versions):
        seen = [look("file_sha256", path="x") for _ in range(3)]
        end, answers = time.monotonic() + 1.5, []
        while time.monotonic() < end:
            descriptor = os.open(base / "x", os.O_RDONLY)
            answers.append(hashing.measure(descriptor, end + 9))
            os.close(descriptor)
    whole = {sha(version) for version in versions}
    assert {each.code for each in seen if isinstance(each, Unseen)} <= {"CHANGED_WHILE_READING"}
    digests = {each.facts["sha256"] for each in seen if isinstance(each, Seen)} | {each.get("sha256") for each in answers}
    assert digests - {None} <= whole
    assert {"problem": "changed"} in answers


def test_a_stamp_of_this_very_moment_is_waited_out(base, monkeypatch):
    """Where files are stamped by a clock that ticks, another write within the tick would look the same."""
    (base / "x").write_bytes(b"x")
    descriptor = os.open(base / "x", os.O_RDONLY)
    stamp = os.fstat(descriptor).st_ctime_ns
    waited: list[float] = []
    monkeypatch.setattr(hashing, "_COARSE", 5)
    monkeypatch.setattr(time, "clock_gettime_ns", lambda clock: stamp + len(waited) - 1)
    monkeypatch.setattr(time, "sleep", waited.append)
    try:
        assert hashing.measure(descriptor, time.monotonic() + 9)["sha256"] == sha(b"x")
        assert len(waited) == 2
        monkeypatch.setattr(time, "clock_gettime_ns", lambda clock: 0)  # set back by years: the stamp of the next write differs
        hashing.measure(descriptor, time.monotonic() + 9)
        assert len(waited) == 2
    finally:
        os.close(descriptor)


def after_measuring(monkeypatch, act):
    """Let `act` happen between the reading of a file and the look at its name."""
    real = hashing.measure

    def measure(*arguments):
        answer = real(*arguments)
        act()
        return answer

    monkeypatch.setattr(file_sha256, "measure", measure)


def test_a_file_replaced_after_reading_has_no_digest(look, base, monkeypatch):
    """What was read must still be what the path names when the look ends."""
    (base / "x").write_bytes(b"x")

    def replace():
        (base / "new").write_bytes(b"y")
        os.rename(base / "new", base / "x")

    after_measuring(monkeypatch, replace)
    assert look("file_sha256", path="x").code == "CHANGED_WHILE_READING"


def test_a_file_removed_after_reading_has_no_digest(look, base, monkeypatch):
    """Gone by now is not what was measured; the next look sees that nothing is there."""
    (base / "x").write_bytes(b"x")
    after_measuring(monkeypatch, lambda: os.unlink(base / "x"))
    assert look("file_sha256", path="x").facts["exists"] is False


def test_a_file_that_settles_is_read_on_another_try(look, base, monkeypatch):
    """A change that is over at the second look costs nothing; only a change is ever retried."""
    (base / "x").write_bytes(b"x")
    edits = iter([b"two"])

    def edit():
        for data in edits:
            (base / "x").write_bytes(data)
            break

    after_measuring(monkeypatch, edit)
    assert look("file_sha256", path="x").facts["sha256"] == sha(b"two")


@pytest.mark.parametrize("edit", [b"longer than before", b""])
def test_a_file_that_grows_or_shrinks_under_the_reader_has_no_digest(base, monkeypatch, edit):
    """The status before and after must agree, and be that of the bytes that were read."""
    (base / "x").write_bytes(b"x" * 1000)
    real = hashing._through

    def digest(*arguments):
        answer = real(*arguments)
        (base / "x").write_bytes(edit)
        return answer

    monkeypatch.setattr(hashing, "_through", digest)
    descriptor = os.open(base / "x", os.O_RDONLY)
    try:
        assert hashing.measure(descriptor, time.monotonic() + 9) == {"problem": "changed"}
    finally:
        os.close(descriptor)


def test_a_link_that_takes_the_place_of_a_file_is_not_followed(look, base, tmp_path, monkeypatch):
    """Between the status and the opening a file is swapped for a link to the outside: that is a change, not a file."""
    (tmp_path / "secret").write_bytes(b"outside")
    (base / "x").write_bytes(b"x")
    real = descriptors.held

    def swap(status):
        (base / "x").unlink()
        (base / "x").symlink_to(tmp_path / "secret")
        monkeypatch.setattr(content, "held", real)
        return []

    monkeypatch.setattr(content, "held", swap)
    assert look("file_sha256", path="x").code == "PATH_ESCAPES"


def test_an_endless_file_ends_at_the_deadline(look, base):
    """A sparse file of 64 GiB takes no longer than it may."""
    with open(base / "x", "wb") as file:
        file.truncate(64 << 30)
    started = time.monotonic()
    seen = look("file_sha256", path="x", around={"timeout": 0.2})
    assert seen.code == "TIMED_OUT"
    assert time.monotonic() - started < 2


def test_what_cannot_be_opened_is_not_absence(look, base, monkeypatch):
    """Permission to see a file but not to read it says nothing about its content."""
    (base / "x").write_bytes(b"x")

    @contextmanager
    def reading(_):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        yield

    monkeypatch.setattr(content, "reading", reading)
    seen = look("file_sha256", path="x")
    assert (seen.code, seen.hint) == ("UNREADABLE", "look as a user who may read it, or change its permissions")


def test_a_disk_error_while_reading_is_not_a_difference(look, base, monkeypatch):
    """EIO in the middle of a file is a reason, never a digest of what was read so far."""
    (base / "x").write_bytes(b"x")

    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(hashing, "_through", fail)
    seen = look("file_sha256", path="x")
    assert isinstance(seen, Unseen)
    assert seen.code == "UNREADABLE"


def test_a_signal_handler_that_hashes_does_not_disturb_the_one_it_interrupts(look, base):
    """The reading buffer is taken out while in use: a handler in the middle of it gets one of its own."""
    data = os.urandom(64 * MIB)
    (base / "large").write_bytes(data)
    (base / "small").write_bytes(b"z" * MIB)
    inner: list[Observation] = []

    def handle(*_: object) -> None:
        inner.append(look("file_sha256", path="small"))
        signal.setitimer(signal.ITIMER_REAL, 0.002)

    previous = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.002)
    try:
        outer = look("file_sha256", path="large")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert outer.facts["sha256"] == sha(data)
    assert {each.facts["sha256"] for each in inner if isinstance(each, Seen)} == {sha(b"z" * MIB)}


def test_threads_do_not_share_a_buffer(look, base):
    """Eight threads over eight files each get their own digest."""
    contents = {f"f{number}": os.urandom(2 * MIB) for number in range(8)}
    for name, data in contents.items():
        (base / name).write_bytes(data)
    found: dict[str, str] = {}

    def work(name: str) -> None:
        for _ in range(5):
            found[name] = look("file_sha256", path=name).facts["sha256"]

    threads = [threading.Thread(target=work, args=(name,)) for name in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {name: sha(data) for name, data in contents.items()}


def test_a_moment_that_no_calendar_holds_is_told_all_the_same():
    """A file system's clock goes further than datetime; the probe must not break on it."""
    assert content.modified_at(0) == datetime(1970, 1, 1, tzinfo=UTC).isoformat(timespec="milliseconds")
    assert content.modified_at(10**30) == "1000000000000000000000 s after 1970"
