"""file_prefix_sha256: the beginning of a file that others append to, or nothing at all."""

from __future__ import annotations

import fcntl
import hashlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentos.core.checkpoints import codec
from agentos.core.checkpoints.observing import Seen, Unseen
from agentos.probes import file_prefix_sha256, hashing
from tests.unit.probes.test_locks import other_process

MIB = 1 << 20


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("size", [1, 7, MIB - 1, MIB, MIB + 1, 3 * MIB])
def test_the_digest_covers_the_first_bytes_and_no_more(look, base, size):
    """Sizes around the buffer's give what hashlib gives for them, whatever is behind."""
    data = os.urandom(size)
    (base / "log").write_bytes(data + b"appended")
    os.utime(base / "log", ns=(0, 1_700_000_000_123_456_789))
    facts = look("file_prefix_sha256", path="log", bytes=size).facts
    moment = "2023-11-14T22:13:20.123+00:00"
    assert {"exists": True, "type": "file", "bytes": size, "sha256": sha(data), "modified_at": moment} == facts
    codec.encode(facts)


def test_of_a_shorter_file_is_told_how_much_there_is(look, base):
    """What is missing is a fact, and so is what is there."""
    (base / "log").write_bytes(b"abc")
    facts = look("file_prefix_sha256", path="log", bytes=4).facts
    assert (3, sha(b"abc")) == (facts["bytes"], facts["sha256"])


def test_where_no_number_is_asked_for_everything_is_measured(look, base):
    """That is what is captured."""
    (base / "log").write_bytes(b"abc")
    facts = look("file_prefix_sha256", path="log").facts
    assert (3, sha(b"abc")) == (facts["bytes"], facts["sha256"])


def test_what_is_no_regular_file_is_seen_and_never_opened(look, base, monkeypatch):
    """A FIFO, a folder, and an endless device behind a link have a type and no digest; none is opened, so none can block."""
    os.mkfifo(base / "fifo")
    (base / "zero").symlink_to("/dev/zero")
    monkeypatch.setattr("agentos.probes.content.reading", None)
    assert {"exists": True, "type": "fifo"} == look("file_prefix_sha256", path="fifo", bytes=1).facts
    assert {"exists": True, "type": "directory"} == look("file_prefix_sha256", path=".", bytes=1).facts
    assert {"exists": True, "type": "device"} == look("file_prefix_sha256", path="/dev/zero", bytes=1).facts
    assert "PATH_ESCAPES" == look("file_prefix_sha256", path="zero", bytes=1).code


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="there is no /proc here")
@pytest.mark.parametrize("count", [{"bytes": 1}, {"bytes": 10**9}, {}])
def test_a_file_that_is_made_up_when_it_is_read_has_no_beginning(look, count):
    """Under /proc a file has size 0 and yet content: too short would be said of what was never looked at."""
    assert "GENERATED_FILE" == look("file_prefix_sha256", path="/proc/self/status", **count).code


@pytest.mark.skipif(not os.path.exists("/sys/kernel/uevent_seqnum"), reason="there is no /sys here")
def test_a_file_with_less_in_it_than_it_says_has_no_beginning(look):
    """Under /sys a file is as large as a page and holds a few bytes."""
    assert "GENERATED_FILE" == look("file_prefix_sha256", path="/sys/kernel/uevent_seqnum", bytes=4096).code


def after_the_first_pass(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> list[int]:
    """Let `act` happen once the first bytes were read; how often they were read in all."""
    real, passes = hashing._grown, []

    def grown(*arguments):
        passes.append(1)
        # The first time is before anything is read, the second after the only piece of it.
        if len(passes) == 2:
            act()
        return real(*arguments)

    monkeypatch.setattr(hashing, "_grown", grown)
    return passes


def measured(path: Path, most: int | None) -> dict[str, object]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return hashing.measure_prefix(descriptor, time.monotonic() + 9, most)
    finally:
        os.close(descriptor)


def appended(path: Path) -> None:
    with open(path, "ab") as file:
        file.write(b"more")


def rewritten(path: Path) -> None:
    with open(path, "r+b") as file:
        file.write(b"X")


def rewritten_and_appended(path: Path) -> None:
    rewritten(path)
    appended(path)


def cut(path: Path) -> None:
    os.truncate(path, 2)


def begun_anew(path: Path) -> None:
    """As a log is that is copied and cut to nothing, and then goes on."""
    os.truncate(path, 0)
    path.write_bytes(b"another log, longer than the one before")


@pytest.mark.parametrize("most", [3, None])
def test_a_file_that_grows_while_it_is_read_has_a_beginning(base, monkeypatch, most):
    """It is read once more, because its status does not say where it was written to; then it held still."""
    (base / "log").write_bytes(b"abcdef")
    passes = after_the_first_pass(monkeypatch, lambda: appended(base / "log"))
    answer = measured(base / "log", most)
    assert (most or 6, 10, 4) == (answer["bytes"], answer["size"], len(passes))
    assert sha(b"abcdef"[:most]) == answer["sha256"]


@pytest.mark.parametrize("change", [rewritten, rewritten_and_appended, cut, begun_anew])
def test_a_beginning_that_changes_while_it_is_read_has_no_digest(base, monkeypatch, change):
    """Written over in place, cut off, or begun anew and already longer: growth hides none of it."""
    (base / "log").write_bytes(b"abcdef")
    after_the_first_pass(monkeypatch, lambda: change(base / "log"))
    assert {"problem": "changed"} == measured(base / "log", 6)


def test_a_file_that_is_read_in_peace_is_read_once(base, monkeypatch):
    """The second reading is for files that were written to."""
    (base / "log").write_bytes(b"abcdef")
    passes = after_the_first_pass(monkeypatch, lambda: None)
    measured(base / "log", 6)
    assert 2 == len(passes)


def test_one_that_is_too_short_and_grows_is_looked_at_again(base, monkeypatch):
    """In a moment it may be long enough: too short is said of files that hold still."""
    (base / "log").write_bytes(b"abc")
    after_the_first_pass(monkeypatch, lambda: appended(base / "log"))
    assert {"problem": "changed"} == measured(base / "log", 6)


def test_a_log_under_constant_appending_is_measured_every_time(look, base):
    """With a writer that never rests there is always a digest, and always the right one."""
    first = os.urandom(4 * MIB)
    (base / "log").write_bytes(first)
    stop = threading.Event()

    def write() -> None:
        with open(base / "log", "ab", buffering=0) as file:
            while not stop.is_set():
                file.write(b"another line\n")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        # The writer is this process, so a child reads the file.
        seen = [look("file_prefix_sha256", path="log", bytes=len(first)) for _ in range(3)]
        answers = [measured(base / "log", len(first)) for _ in range(10)]
    finally:
        stop.set()
        writer.join()
    assert {sha(first)} == {each.facts["sha256"] for each in seen} | {each["sha256"] for each in answers}


def test_a_beginning_under_constant_rewriting_is_never_torn(base):
    """One version after another is written over it without rest, and lines behind it: a digest is of one whole version."""
    (base / "log").write_bytes(b"\0" * (2 * MIB))
    whole, stop = {sha(b"\0" * (2 * MIB))}, threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            version = number.to_bytes(8) * (MIB // 4)
            whole.add(sha(version))
            with open(base / "log", "r+b", buffering=0) as file:
                file.write(version)
            appended(base / "log")

    writer = threading.Thread(target=write)
    writer.start()
    end, answers = time.monotonic() + 1.0, []
    try:
        while time.monotonic() < end:
            answers.append(measured(base / "log", 2 * MIB))
    finally:
        stop.set()
        writer.join()
    assert {each.get("sha256") for each in answers} - {None} <= whole
    assert {"problem": "changed"} in answers


def test_a_file_that_is_replaced_after_reading_has_no_digest(look, base, monkeypatch):
    """What was read must still be what the path names, though it may be longer by then."""
    (base / "log").write_bytes(b"abc")
    real = hashing.measure_prefix

    def replaced(*arguments):
        answer = real(*arguments)
        (base / "new").write_bytes(b"abcdef")
        os.replace(base / "new", base / "log")
        return answer

    def grown(*arguments):
        answer = real(*arguments)
        appended(base / "log")
        return answer

    monkeypatch.setattr(file_prefix_sha256, "measure_prefix", replaced)
    assert "CHANGED_WHILE_READING" == look("file_prefix_sha256", path="log", bytes=3).code
    monkeypatch.setattr(file_prefix_sha256, "measure_prefix", grown)
    assert sha(b"abc") == look("file_prefix_sha256", path="log", bytes=3).facts["sha256"]


def test_an_endless_file_ends_at_the_deadline(look, base):
    """A sparse file of 64 GiB takes no longer than it may."""
    with open(base / "log", "wb") as file:
        file.truncate(64 << 30)
    started = time.monotonic()
    seen = look("file_prefix_sha256", path="log", bytes=64 << 30, around={"timeout": 0.2})
    assert isinstance(seen, Unseen)
    assert "TIMED_OUT" == seen.code
    assert time.monotonic() - started < 2


@pytest.mark.parametrize("count", [{"bytes": 3}, {}])
def test_a_log_that_this_process_has_locked_keeps_its_lock(look, base, count):
    """The writer itself asks: a child reads the file, and nobody else gets the lock."""
    with open(base / "log", "w+b") as file:
        file.write(b"abc")
        file.flush()
        fcntl.lockf(file, fcntl.LOCK_EX)
        seen = look("file_prefix_sha256", path="log", **count)
        taken = other_process(
            "import fcntl, sys\ntry:\n  fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB); print('taken')\n"
            "except OSError: print('locked')",
            base / "log",
        )
    assert isinstance(seen, Seen)
    assert (3, sha(b"abc"), "locked") == (seen.facts["bytes"], seen.facts["sha256"], taken)


@pytest.mark.parametrize("name", ["new\nline", "-I", "with space", "ünï\u202e"])
def test_any_name_is_read_here_and_elsewhere(look, base, name):
    """Control characters and options in a name are part of the name."""
    with open(base / name, "wb") as file:
        file.write(b"abc")
        file.flush()
        assert sha(b"ab") == look("file_prefix_sha256", path=name, bytes=2).facts["sha256"]
    assert sha(b"ab") == look("file_prefix_sha256", path=name, bytes=2).facts["sha256"]
