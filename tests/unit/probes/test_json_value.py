"""json_value: one value of a document that every reader reads alike, or the reason why it cannot be told."""

from __future__ import annotations

import fcntl
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentos.core.checkpoints import codec
from agentos.core.checkpoints.interrupted import fingerprint
from agentos.core.checkpoints.observing import Observation, Seen, Unseen
from agentos.probes import hashing
from tests.unit.probes.test_locks import other_process

LAST = {"format": "jsonl-last"}


def value(seen: Observation) -> Any:
    assert isinstance(seen, Seen), seen
    codec.encode(seen.facts)
    assert fingerprint(seen)
    assert seen.facts["found"], seen.facts
    return json.loads(seen.facts["json"])


def code(seen: Observation) -> str:
    assert isinstance(seen, Unseen), seen
    assert not seen.transient
    return seen.code


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("/a", 1),
        ("/b/1", None),
        ("/b", [True, None]),
        ("/c~1d/~0", "text"),
        ("/huge", 10**4000),
        ("/e", 1.5),
        ("/\n", "newline"),
    ],
)
def test_the_value_at_the_pointer_is_told(look, base, pointer, found):
    """Of every type, at every depth, and exactly: also an integer that no float could hold."""
    document = {"a": 1, "b": [True, None], "c/d": {"~": "text"}, "huge": 10**4000, "e": 1.5, "\n": "newline"}
    (base / "x").write_text(json.dumps(document))
    assert found == value(look("json_value", path="x", pointer=pointer))


def test_the_whole_document_is_a_value_too(look, base):
    """The empty pointer names it, whatever it is."""
    (base / "x").write_text(" 3 \n")
    assert 3 == value(look("json_value", path="x", pointer=""))


def test_a_dead_end_says_how_far_it_led(look, base):
    """The deepest place that is there, and its keys."""
    (base / "x").write_text('{"result": {"metrics": {"acc": 1, "loss": 2}}}')
    facts = look("json_value", path="x", pointer="/result/metrics/f1").facts
    said = '/result/metrics has keys acc, loss; no "f1"'
    assert {"exists": True, "type": "file", "found": False, "why": said} == facts


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b'{"a": 1} {"a": 2}', "not JSON"),
        (b'{"a": 1, "a": 2}', "a key is there twice"),
        (b'{"b": {"a": 1, "a": 1}}', "a key is there twice"),
        (b'{"a": NaN}', "NaN is not allowed"),
        (b'{"a": -Infinity}', "-Infinity is not allowed"),
        (b'{"a": 1e999}', "larger than any number"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON"),
        (b'{"a": "\\ud800"}', "a lone surrogate"),
        (b'{"a": "\xff"}', "not UTF-8 at byte 7"),
        ('{"a": 1}'.encode("utf-16"), "not UTF-8"),
        (b'\xef\xbb\xbf{"a": 1}', "BOM"),
        (b"[" * 61 + b"]" * 61, "nested more than 60 levels deep"),
        (b"[" * 10**6, "nested more than 60 levels deep"),
        (b'{"a":' * 10**5, "nested more than 60 levels deep"),
        (b"{'a': 1}", "not JSON"),
        (b'{"a": 1,}', "not JSON"),
        (b'{"a": 01}', "not JSON"),
        (b'{"a": "x\ny"}', "not JSON"),
    ],
)
@pytest.mark.parametrize("metadata", [{}, LAST])
def test_what_two_readers_could_read_differently_is_not_looked_into(look, base, data, said, metadata):
    """Neither verified nor failed: nothing is known of such a document."""
    if metadata and (not data or b"\n" in data or b"\x00" in data):
        return
    (base / "x").write_bytes(data + (b"\n" if metadata else b""))
    seen = look("json_value", path="x", pointer="/a", metadata=metadata)
    assert "NOT_JSON" == code(seen)
    assert said in seen.message


def test_a_document_that_is_too_large_is_not_read(look, base):
    """The limit is in bytes, and can be moved."""
    (base / "x").write_bytes(b'{"a": 1}' + b" " * 100)
    assert "TOO_LARGE" == code(look("json_value", path="x", pointer="/a", metadata={"max_bytes": 107}))
    assert 1 == value(look("json_value", path="x", pointer="/a", metadata={"max_bytes": 108}))
    os.truncate(base / "x", (16 << 20) + 1)
    assert "TOO_LARGE" == code(look("json_value", path="x", pointer="/a"))


# The last line


@pytest.mark.parametrize(
    ("data", "found", "torn"),
    [
        (b'{"a": 1}\n{"a": 2}\n', 2, 0),
        (b'{"a": 1}\n', 1, 0),
        (b'{"a": 1}\n{"a": 2', 1, 7),
        (b'{"a": 1}\n{"a": 2}', 1, 8),
        (b'{"a": 1}\r\n{"a": 2}\r\n', 2, 0),
        (b'{"a": 1}\n\n \n', 1, 0),
        (b'{"a": 1}\n  ', 1, 0),
        (b'not json\n{"a": 3}\n', 3, 0),
        ('{"a": "\u2028"}\n'.encode(), "\u2028", 0),
    ],
)
def test_the_last_complete_line_is_read_and_a_torn_one_is_told(look, base, data, found, torn):
    """A line ends with a newline and nothing else; what comes after the last one is counted and not read."""
    (base / "x").write_bytes(data)
    seen = look("json_value", path="x", pointer="/a", metadata=LAST)
    assert (found, torn, True) == (value(seen), seen.facts["torn"], seen.facts["lines"])


@pytest.mark.parametrize(("data", "torn"), [(b"", 0), (b"\n\n", 0), (b'{"a": 1}', 8), (b"\n{", 1)])
def test_a_file_without_a_complete_line_has_none(look, base, data, torn):
    """That is a fact, and no error: nothing was written yet, or not to its end."""
    (base / "x").write_bytes(data)
    facts = look("json_value", path="x", pointer="/a", metadata=LAST).facts
    assert {"exists": True, "type": "file", "lines": False, "torn": torn, "found": False} == facts


def test_of_a_large_file_only_the_end_is_read(look, base):
    """However much came before; and a line that does not fit into what is read is not cut."""
    (base / "x").write_bytes(b'{"a": 0}\n' * 300_000 + b'{"a": 7}\n')
    assert 7 == value(look("json_value", path="x", pointer="/a", metadata=LAST))
    for most, fits in ((10, True), (9, False), (5, False)):
        seen = look("json_value", path="x", pointer="/a", metadata={**LAST, "max_bytes": most})
        assert (value(seen) == 7) if fits else code(seen) == "TOO_LARGE"


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(st.one_of(st.integers(), st.text(), st.booleans(), st.lists(st.integers())), min_size=1, max_size=5),
    torn=st.binary(max_size=5).filter(lambda data: b"\n" not in data),
)
def test_whatever_is_appended_the_last_complete_line_counts(look, base, values, torn):
    """A writer that died in the middle of a line leaves the line before it."""
    data = b"".join(json.dumps(each).encode() + b"\n" for each in values) + torn
    (base / "x").write_bytes(data)
    assert values[-1] == value(look("json_value", path="x", pointer="", metadata=LAST))


# Attacks


def test_what_is_no_regular_file_is_seen_and_never_opened(look, base, monkeypatch):
    """A FIFO, a folder and a device behind a link have a type; none is opened, so none can block."""
    os.mkfifo(base / "fifo")
    (base / "zero").symlink_to("/dev/zero")
    monkeypatch.setattr("agentos.probes.content.reading", None)
    assert {"exists": True, "type": "fifo"} == look("json_value", path="fifo", pointer="").facts
    assert {"exists": True, "type": "device"} == look("json_value", path="/dev/zero", pointer="").facts
    assert "PATH_ESCAPES" == code(look("json_value", path="zero", pointer=""))


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="there is no /proc here")
@pytest.mark.parametrize("metadata", [{}, LAST])
def test_a_file_that_is_made_up_when_it_is_read_is_not_looked_into(look, metadata):
    """Its size says nothing about its content."""
    assert "GENERATED_FILE" == code(look("json_value", path="/proc/self/status", pointer="", metadata=metadata))


@pytest.mark.parametrize("change", [b'{"a": 2}', b"", b'{"a": 1} '])
def test_a_file_that_changes_while_it_is_read_gives_no_value(look, base, monkeypatch, change):
    """Written over, cut or longer: what was read is worth nothing, and it is looked at again."""
    (base / "x").write_bytes(b'{"a": 1}')
    real = hashing._through

    def through(*arguments):
        answer = real(*arguments)
        (base / "x").write_bytes(change)
        return answer

    monkeypatch.setattr(hashing, "_through", through)
    seen = look("json_value", path="x", pointer="/a")
    assert isinstance(seen, Unseen)
    assert ("CHANGED_WHILE_READING", 2) == (seen.code, len(seen.attempts))


def test_a_document_under_constant_replacement_is_one_of_them(look, base):
    """Two values that belong together are never seen apart."""
    (base / "x").write_text('{"v": [0, 0]}')
    stop = threading.Event()

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            (base / "new").write_text(json.dumps({"v": [number, number]}))
            os.replace(base / "new", base / "x")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = [look("json_value", path="x", pointer="/v") for _ in range(50)]
    finally:
        stop.set()
        writer.join()
    pairs = [value(each) for each in seen if isinstance(each, Seen)]
    assert all(first == second for first, second in pairs)
    assert {each.code for each in seen if isinstance(each, Unseen)} <= {"CHANGED_WHILE_READING"}


@pytest.mark.parametrize("metadata", [{}, LAST])
@pytest.mark.parametrize("name", ["x", "new\nline", "-I", "ünï\u202e"])
def test_a_file_that_this_process_has_locked_keeps_its_lock(look, base, metadata, name):
    """A child reads it, and nobody else gets the lock."""
    path: Path = base / name
    with open(path, "w+b") as file:
        file.write(b'{"a": 1}\n')
        file.flush()
        fcntl.lockf(file, fcntl.LOCK_EX)
        found = value(look("json_value", path=name, pointer="/a", metadata=metadata))
        taken = other_process(
            "import fcntl, sys\ntry:\n  fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB); print('taken')\n"
            "except OSError: print('locked')",
            path,
        )
    assert (1, "locked") == (found, taken)
