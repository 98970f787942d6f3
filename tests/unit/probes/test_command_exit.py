"""command_exit: what was recorded is looked up in a fixed order, and nothing is ever run."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

from agentos.core.checkpoints import codec
from agentos.core.checkpoints.observing import Observation, Seen, Unseen
from agentos.errors import StoreCorruptError


def facts(seen: Observation) -> tuple[Any, ...]:
    assert isinstance(seen, Seen), seen
    codec.encode(seen.facts)
    return (seen.facts["source"], seen.facts["recorded"], seen.facts["exit_code"])


def test_the_evidence_itself_speaks_first(look):
    """An exit code beside the claim wins over the snapshot."""
    metadata = {"actual_exit_code": 3, "snapshot_key": "/a"}
    seen = look("command_exit", exit_code=0, metadata=metadata, around={"snapshot": lambda: {"a": 1, "exit_code": 2}})
    assert facts(seen) == ("metadata['actual_exit_code']", True, 3)


def test_then_the_pointer_into_the_snapshot(look):
    """A pointer wins over `exit_code` at the top."""
    around = {"snapshot": lambda: {"runs": [{"code": 7}], "exit_code": 2}}
    seen = look("command_exit", exit_code=0, metadata={"snapshot_key": "/runs/0/code"}, around=around)
    assert facts(seen) == ("snapshot/runs/0/code", True, 7)


def test_then_the_top_of_the_snapshot(look):
    """`exit_code` at the top is the seed's own sentence made executable."""
    seen = look("command_exit", exit_code=0, around={"snapshot": lambda: {"exit_code": 2}})
    assert facts(seen) == ("snapshot['exit_code']", True, 2)


@pytest.mark.parametrize("snapshot", [None, {}, {"deep": {"exit_code": 1}}])
def test_nothing_recorded_is_told_as_such(look, snapshot):
    """No source at all: what that is worth is judged elsewhere."""
    assert facts(look("command_exit", exit_code=0, around={"snapshot": lambda: snapshot})) == (None, False, None)


@pytest.mark.parametrize("pointer", ["/gone", "/runs/1", "/runs/-", "/runs/00", "/runs/x", "/text/0", "/runs/0/code/x", "/"])
def test_a_pointer_to_nothing_finds_nothing(look, pointer):
    """A record that was promised and is not there is not the same as no promise."""
    around = {"snapshot": lambda: {"runs": [{"code": 7}], "text": "abc", "exit_code": 0}}
    seen = look("command_exit", exit_code=0, metadata={"snapshot_key": pointer}, around=around)
    assert facts(seen) == (f"snapshot{pointer}", False, None)


@pytest.mark.parametrize("value", [True, "0", None, 1.0, [0], {"code": 0}])
def test_what_is_recorded_is_passed_on_as_it_is(look, value):
    """A value that is no exit code is a fact for the judge; a subtree is described, not copied."""
    _, recorded, found = facts(look("command_exit", exit_code=0, metadata={"actual_exit_code": value}))
    assert recorded
    assert found == (str(value) if isinstance(value, (list, dict)) else value)


def test_a_pointer_without_a_snapshot_cannot_be_followed(look):
    """A verifier on its own has no snapshot: that is a reason, not a missing record."""
    seen = look("command_exit", exit_code=0, metadata={"snapshot_key": "/a"})
    assert isinstance(seen, Unseen)
    assert seen.code == "NO_SNAPSHOT"


def test_a_snapshot_that_cannot_be_read_is_a_reason(look):
    """A store that refuses to give the snapshot does not break the probe."""

    def broken() -> None:
        raise StoreCorruptError("step 1: not what was written", hint="restore it")

    assert look("command_exit", exit_code=0, around={"snapshot": broken}) == Unseen(
        "NO_SNAPSHOT", "step 1: not what was written", "restore it"
    )


def test_nothing_is_run(look, monkeypatch):
    """The command is a document. Every way to start a process is blocked, and nobody notices."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a command was run")

    for module, name in ((os, "system"), (os, "posix_spawn"), (os, "fork"), (subprocess, "Popen")):
        monkeypatch.setattr(module, name, refuse)
    seen = look("command_exit", exit_code=0, metadata={"command": "touch /tmp/x", "timeout": 30, "actual_exit_code": 0})
    assert facts(seen)[2] == 0
