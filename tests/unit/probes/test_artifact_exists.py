"""artifact_exists: only the status is asked for, so nothing can hold the look up."""

from __future__ import annotations

import os
import socket

import pytest

from agentos.core.checkpoints import codec
from agentos.core.checkpoints.observing import Seen


def test_a_file_and_a_folder_are_seen_as_what_they_are(look, base):
    """Type is a fact; whether it is the wanted one is judged elsewhere."""
    (base / "x").write_bytes(b"x")
    assert look("artifact_exists", path="x") == Seen({"exists": True, "type": "file"})
    assert look("artifact_exists", path=".") == Seen({"exists": True, "type": "directory"})


def test_special_files_are_named_and_not_opened(look, base, opened, monkeypatch):
    """A FIFO without a writer, a socket and an endless device are seen at once: nothing at the end of a path is opened."""
    os.mkfifo(base / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(base)  # a socket's path is short by law
        listener.bind("socket")
        assert look("artifact_exists", path="fifo").facts["type"] == "fifo"
        assert look("artifact_exists", path="socket").facts["type"] == "socket"
        assert look("artifact_exists", path="/dev/zero").facts["type"] == "device"
    assert opened == []


def test_what_lies_beside_a_missing_file_is_told(look, base):
    """An interrupted write leaves a name that explains more than the absence does."""
    for name in ("model.bin.tmp", ".model.bin.x7", "MODEL.BIN", "other.bin", "model.txt"):
        (base / name).write_bytes(b"")
    near = [".model.bin.x7", "MODEL.BIN", "model.bin.tmp"]
    for path in ("model.bin", str(base / "model.bin")):
        assert look("artifact_exists", path=path).facts == {"exists": False, "type": None, "near": near}


def test_neighbours_are_few_escaped_and_bounded(look, base, monkeypatch):
    """A crowded folder with hostile names gives a short, storable hint."""
    (base / os.fsdecode(b"out.\xff\x1b[2J")).write_bytes(b"")
    for number in range(10):
        (base / f"out.z{number}").write_bytes(b"")
    facts = look("artifact_exists", path="out.").facts
    assert facts["near"] == ["out.z0", "out.z1", "out.z2"]
    assert look("artifact_exists", path="out.\u00ff").facts["near"] == []
    monkeypatch.setattr("agentos.probes.neighbours._MOST_SHOWN", 99)
    everything = look("artifact_exists", path="out.").facts
    assert "out.\\udcff\\x1b[2J" in everything["near"]
    codec.encode(everything)


@pytest.mark.parametrize("path", ["gone/x", "x/y", "/gone/far/away"])
def test_without_a_folder_there_are_no_neighbours(look, base, path):
    """The hint says nothing rather than fail."""
    (base / "x").write_bytes(b"")
    assert look("artifact_exists", path=path).facts["near"] == []
