"""file_contains: how often something is in a file, and never a hang."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from agentos.core.checkpoints import codec
from agentos.core.checkpoints.observing import Observation, Seen, Unseen
from agentos.probes import file_contains, hashing, matching
from tests.unit.probes.test_locks import other_process

REGEX = {"regex": True}
# For ever, on two dozen letters and more.
BOMB = "(a+)+$"


def count(seen: Observation) -> int:
    assert isinstance(seen, Seen), seen
    codec.encode(seen.facts)
    assert {"exists", "type", "count"} == seen.facts.keys()
    found: int = seen.facts["count"]
    return found


def code(seen: Observation) -> str:
    assert isinstance(seen, Unseen), seen
    return seen.code


@settings(max_examples=150, deadline=None)
@example(b"aa", [b"aaa", b"aa"])
@example(b"a", [b"aaa"])
@given(st.text("ab", min_size=1, max_size=4).map(str.encode), st.lists(st.text("ab", max_size=7).map(str.encode), max_size=6))
def test_matches_over_the_borders_of_pieces_are_counted_once(pattern, pieces):
    """However the content comes in pieces: the same count as in all of it, without overlaps, of bytes and of text."""
    for counter in (file_contains._Bytes(pattern), file_contains._Text(pattern.decode(), "utf-8")):
        for piece in pieces:
            counter.take(memoryview(piece))
        assert b"".join(pieces).count(pattern) == counter.end()


@pytest.mark.parametrize("before", [0, 1, (1 << 20) - 4, (1 << 20) - 1, 1 << 20])
@pytest.mark.parametrize("metadata", [{}, {"encoding": "utf-8"}])
def test_a_text_over_the_border_of_a_chunk_is_found(look, base, before, metadata):
    """Also one whose characters are cut in two by it."""
    (base / "x").write_bytes(b"." * before + "dönè".encode() + b"." * 10)
    assert 1 == count(look("file_contains", path="x", pattern="dönè", metadata=metadata))


@pytest.mark.parametrize(
    ("pattern", "metadata", "found"),
    [
        ("a+", {}, 3),
        ("^a", {"flags": ["multiline"]}, 3),
        ("^a", {}, 1),
        ("A", {"flags": ["ignorecase"]}, 5),
        ("a.a", {"flags": ["dotall"]}, 1),
        ("x*", {}, 0),
        ("", {}, 0),
        (r"\d{3}", {}, 1),
        ("ö", {"encoding": "utf-8"}, 1),
        (r"\bö\b", {"encoding": "utf-8"}, 1),
        (r"(?i)Ö", {"encoding": "utf-8"}, 1),
    ],
)
def test_expressions_are_counted_as_the_standard_library_does(look, base, pattern, metadata, found):
    """With their flags, over bytes or text; a match of nothing is none."""
    (base / "x").write_text("aa\na\naa\n123 ö")
    assert found == count(look("file_contains", path="x", pattern=pattern, regex=True, metadata=metadata))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "latin-1", "shift-jis"])
@pytest.mark.parametrize("expected", [{}, REGEX])
def test_an_encoding_is_read_as_text(look, base, encoding, expected):
    """Bytes of two characters that look like a third do not match."""
    text = "abc dc" if encoding == "latin-1" else "abc \u3042\u3044 dc"
    (base / "x").write_bytes(text.encode(encoding))
    metadata = {"encoding": encoding}
    assert 2 == count(look("file_contains", path="x", pattern="c", metadata=metadata, **expected))
    assert 0 == count(look("file_contains", path="x", pattern="B0", metadata=metadata, **expected))


@pytest.mark.parametrize("expected", [{}, REGEX])
@pytest.mark.parametrize(
    ("encoding", "data"),
    [("utf-8", b"ok \xff"), ("ascii", "ö".encode()), ("utf-16", b"\xff\xfea"), ("utf-8", b"a\xc3")],
)
def test_what_is_no_text_in_its_encoding_is_not_looked_into(look, base, encoding, data, expected):
    """Not even where the pattern stood before the trouble, or the trouble is at the very end."""
    (base / "x").write_bytes(data)
    seen = look("file_contains", path="x", pattern="a", metadata={"encoding": encoding}, **expected)
    assert "NOT_TEXT" == code(seen)
    assert seen.message.startswith(f"x: is no text in {encoding}: ")


@pytest.mark.parametrize("expected", [{}, REGEX])
def test_a_file_that_is_too_large_is_not_read(look, base, expected):
    """64 MiB unless more is allowed, or less."""
    with open(base / "x", "wb") as file:
        file.truncate((64 << 20) + 1)
    assert "TOO_LARGE" == code(look("file_contains", path="x", pattern="a", **expected))
    (base / "x").write_bytes(b"aaa")
    assert "TOO_LARGE" == code(look("file_contains", path="x", pattern="a", metadata={"max_bytes": 2}, **expected))
    assert 3 == count(look("file_contains", path="x", pattern="a", metadata={"max_bytes": 3}, **expected))


# Attacks


@pytest.mark.parametrize("around", [{}, {"timeout": 0.4}])
def test_an_expression_that_takes_for_ever_is_an_error_that_names_it(look, base, around):
    """Its process is killed when its time is over; nothing is said of the file."""
    (base / "x").write_bytes(b"a" * 40 + b"!")
    started = time.monotonic()
    limit = {} if around else {"time_limit": 0.4}
    seen = look("file_contains", path="x", pattern=BOMB, regex=True, metadata=limit, around=around)
    assert time.monotonic() - started < 5
    assert ("TIMED_OUT", False) == (code(seen), seen.transient)
    assert seen.message == "x: matching '(a+)+$' did not end within its time limit"


def test_an_expression_that_takes_all_memory_is_an_error(look, base, monkeypatch):
    """The child has so much room and no more; the machine does not notice."""
    (base / "x").write_bytes(b"ab" * 1_000_000)
    (base / "tight.py").write_text(Path(matching.__file__).read_text().replace("_ROOM = 1 << 30", "_ROOM = 1 << 26"))
    monkeypatch.setattr(matching, "__file__", str(base / "tight.py"))
    seen = look("file_contains", path="x", pattern="(?:(a)|(b))*c", regex=True)
    assert "OUT_OF_MEMORY" == code(seen)


def test_an_expression_that_nobody_waits_for_ends_by_itself(base):
    """Who verifies is killed in the middle: the child's own limit of processor time ends it."""
    with open(base / "order", "w+b") as file:
        file.write(b'{"pattern": "(a+)+$", "flags": 0, "encoding": null, "seconds": -1}\n' + b"a" * 60 + b"!")
        file.flush()
        file.seek(0)
        argv = [sys.executable, "-I", "-S", matching.__file__, str(file.fileno())]
        ended = subprocess.run(argv, pass_fds=[file.fileno()], timeout=20, check=False, capture_output=True)
    assert ended.returncode in (-signal.SIGXCPU, -signal.SIGKILL)


def test_a_pattern_is_not_told_to_everybody_on_the_machine(look, base, monkeypatch):
    """What is looked for may be a secret, and arguments of a process are public."""
    (base / "x").write_bytes(b"hunter2")
    (base / "tell.py").write_text("import json, sys; sys.stdout.write(json.dumps({'count': len(sys.argv)}))")
    monkeypatch.setattr(matching, "__file__", str(base / "tell.py"))
    assert 2 == count(look("file_contains", path="x", pattern="hunter.", regex=True))


@pytest.mark.parametrize("program", ["print('rubbish')", "print([1])", "raise SystemExit(3)", "print('x' * 10**6)"])
def test_a_child_that_talks_nonsense_is_not_believed(look, base, monkeypatch, program):
    """Whatever it says that is no answer is a reason."""
    monkeypatch.setattr(matching, "__file__", str(base / "odd.py"))
    (base / "odd.py").write_text(program)
    assert "NO_CHILD_PROCESS" == code(look("file_contains", path="odd.py", pattern="a", regex=True))


def test_without_an_interpreter_no_expression_is_matched(look, base, monkeypatch):
    """A frozen program must not be started a second time; a text needs no child."""
    (base / "x").write_bytes(b"a")
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert "NO_CHILD_PROCESS" == code(look("file_contains", path="x", pattern="a", regex=True))
    assert 1 == count(look("file_contains", path="x", pattern="a"))


def test_what_is_no_regular_file_is_seen_and_never_opened(look, base, monkeypatch):
    """A FIFO, a folder and a device behind a link have a type; none is opened, so none can block."""
    os.mkfifo(base / "fifo")
    (base / "zero").symlink_to("/dev/zero")
    monkeypatch.setattr("agentos.probes.content.reading", None)
    assert {"exists": True, "type": "fifo"} == look("file_contains", path="fifo", pattern="a").facts
    assert {"exists": True, "type": "device"} == look("file_contains", path="/dev/zero", pattern="a").facts
    assert "PATH_ESCAPES" == code(look("file_contains", path="zero", pattern="a"))
    assert {"exists": False, "type": None, "near": []} == look("file_contains", path="gone", pattern="a").facts


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="there is no /proc here")
@pytest.mark.parametrize("expected", [{}, REGEX])
def test_a_file_that_is_made_up_when_it_is_read_is_not_looked_into(look, expected):
    """Its size says nothing about its content."""
    assert "GENERATED_FILE" == code(look("file_contains", path="/proc/self/status", pattern="Name", **expected))


@pytest.mark.parametrize("expected", [{}, REGEX])
@pytest.mark.parametrize("change", [b"b", b"", b"a and more"])
def test_nothing_is_counted_in_a_file_that_changes_while_it_is_read(look, base, monkeypatch, change, expected):
    """Written over, cut or longer: what was read is worth nothing."""
    (base / "x").write_bytes(b"a")
    real = hashing._through

    def through(*arguments: Any) -> Any:
        answer = real(*arguments)
        (base / "x").write_bytes(change)
        return answer

    monkeypatch.setattr(hashing, "_through", through)
    assert "CHANGED_WHILE_READING" == code(look("file_contains", path="x", pattern="a", **expected))


@pytest.mark.parametrize("expected", [{}, REGEX])
@pytest.mark.parametrize("name", ["x", "new\nline", "-I", "ünï\u202e"])
def test_a_file_that_this_process_has_locked_keeps_its_lock(look, base, expected, name):
    """A child reads it, and nobody else gets the lock."""
    with open(base / name, "w+b") as file:
        file.write(b"needle " * 3)
        file.flush()
        fcntl.lockf(file, fcntl.LOCK_EX)
        found = count(look("file_contains", path=name, pattern="needle", **expected))
        taken = other_process(
            "import fcntl, sys\ntry:\n  fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB); print('taken')\n"
            "except OSError: print('locked')",
            base / name,
        )
    assert (3, "locked") == (found, taken)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(min_size=1, max_size=6), st.text(max_size=20))
def test_any_characters_may_be_looked_for(look, base, pattern, text):
    """Newlines, NULs and control characters in the pattern and the file; an expression that means them literally agrees."""
    content = f"{text}{pattern}{text}".encode()
    (base / "x").write_bytes(content)
    assert content.count(pattern.encode()) == count(look("file_contains", path="x", pattern=pattern))
    if pattern.isascii():
        found = look("file_contains", path="x", pattern=re.escape(pattern), regex=True)
        assert content.count(pattern.encode()) == count(found)
