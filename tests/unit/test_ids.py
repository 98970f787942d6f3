"""Identifiers stay unique and ordered under threads, clock steps and fork, and say what they are."""

import re
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos._ids import IdSource, checkpoint_id_of, new_step_id, new_ulid, step_key_of
from agentos.core.checkpoints import CheckpointManager, manager
from tests.support import ULID, exists, run

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def test_a_ulid_is_26_letters_and_a_step_has_a_prefix():
    """A checkpoint's id is a bare ULID; a step's says that it is one; both share the letters."""
    assert re.fullmatch(ULID, new_ulid())
    step = new_step_id()
    assert re.fullmatch(f"step_{ULID}", step)
    assert step.removeprefix("step_") == checkpoint_id_of(step)


def test_ids_of_one_process_are_in_order_and_unique():
    """Also within one millisecond."""
    made = [new_ulid() for _ in range(5000)]
    assert all(earlier < later for earlier, later in pairwise(made))


def test_the_time_is_in_the_id():
    """The first ten letters are the milliseconds since 1970: ids of different machines sort by when they were made."""
    before = time.time_ns() // 1_000_000
    letters = new_ulid()[:10]
    moment = 0
    for letter in letters:
        moment = moment * 32 + ALPHABET.index(letter)
    assert before - 1 <= moment <= time.time_ns() // 1_000_000 + 1


def test_a_clock_that_steps_back_breaks_no_order():
    """An hour back, a minute forth, standing still: ids only grow."""
    moments = iter([1_800_000_000_000, 1_800_000_000_000, 1_799_996_400_000, 1_799_996_460_000, 1_800_000_000_001, 0, 5])
    source = IdSource(lambda: next(moments))
    made = [source() for _ in range(7)]
    assert sorted(set(made)) == made


@given(st.lists(st.integers(0, 2**47), min_size=2, max_size=50))
def test_no_clock_whatever_it_does_breaks_the_order(moments: list[int]):
    """Any sequence of times gives growing ids."""
    times = iter(moments)
    source = IdSource(lambda: next(times))
    made = [source() for _ in moments]
    assert sorted(set(made)) == made


def test_threads_get_different_ids_each_in_its_own_order():
    """8 threads of 2,000 ids: none twice, and each thread sees its own grow."""
    source = IdSource()
    made: list[list[str]] = [[] for _ in range(8)]
    barrier = threading.Barrier(8)

    def make(mine: list[str]) -> None:
        barrier.wait()
        mine.extend(source() for _ in range(2000))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=make, args=(mine,)) for mine in made]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert all(earlier < later for mine in made for earlier, later in pairwise(mine))
    assert 16_000 == len({each for mine in made for each in mine})


def test_forked_children_repeat_neither_each_other_nor_their_parent():
    """Eight children of one moment, from a generator that was already in use: no id twice."""
    code = """
import os, sys
from agentos._ids import new_ulid
new_ulid()
children = []
for _ in range(8):
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        with os.fdopen(writer, "w") as pipe:
            pipe.write("\\n".join(new_ulid() for _ in range(500)))
        os._exit(0)
    os.close(writer)
    children.append((pid, reader))
made = [new_ulid() for _ in range(500)]
for pid, reader in children:
    with os.fdopen(reader) as pipe:
        made += pipe.read().split()
    os.waitpid(pid, 0)
print(len(made), len(set(made)))
"""
    assert "4500 4500\n" == run(code)


def test_a_fork_while_another_thread_makes_ids_does_not_hang(tmp_path: Path):
    """The lock and the generator are made anew in the child, also when the first id is being made at that moment."""
    code = """
import faulthandler, os, sys, threading
from agentos import CheckpointManager
from agentos._ids import IdSource
# Whoever makes ids has a registry open, and with it the hooks.
manager = CheckpointManager(sys.argv[1])
for _ in range(15):
    source = IdSource()
    stop = threading.Event()
    def make():
        while not stop.is_set():
            source()
    threads = [threading.Thread(target=make) for _ in range(3)]
    for thread in threads:
        thread.start()
    pid = os.fork()
    if pid == 0:
        faulthandler.dump_traceback_later(20, exit=True)
        source()
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    stop.set()
    for thread in threads:
        thread.join()
print("done")
"""
    assert "done\n" == run(code, tmp_path / "registry.sqlite")


# The number that stands for a step inside the registry.


def test_the_keys_of_one_process_grow_with_its_ids():
    """Rows go to the end of their table: later step, larger key, and 63 bits are enough."""
    keys = [step_key_of(new_step_id()) for _ in range(3000)]
    assert all(isinstance(key, int) and 0 <= key < 2**63 for key in keys)
    assert sorted(set(keys), key=lambda key: key or 0) == keys


@pytest.mark.parametrize("text", ["", "step_", "step_x", "x" * 31, "step_" + "é" * 26, "step_" + "0" * 25 + "-", "0" * 26])
def test_what_was_never_a_steps_id_has_no_key(text: str):
    """Anything may be asked for; only what looks like one of ours can be one of ours."""
    assert step_key_of(text) is None


def test_two_steps_with_one_key_are_told_apart(tmp_path: Path, monkeypatch):
    """Two processes may draw the same key in one millisecond: both steps are begun, found and committed under their own ids."""
    (tmp_path / "out.txt").write_text("one")
    first = new_step_id()
    letter = first[-10]
    twin = first[:-10] + ALPHABET[(ALPHABET.index(letter) + 1) % 32] + first[-9:]
    assert step_key_of(first) == step_key_of(twin)
    drawn = iter([first, twin])
    monkeypatch.setattr(manager, "new_step_id", lambda: next(drawn, None) or new_step_id())
    with CheckpointManager(tmp_path / "registry.sqlite", tmp_path) as mine:
        steps = [mine.begin_step("t", "tool_executed", {"n": n}) for n in (1, 2)]
        assert 2 == len(set(steps))
        assert mine.get_step(twin if twin not in steps else new_step_id()) is None
        committed = [mine.commit_step(step, exists("out.txt")) for step in steps]
        assert [{"n": 1}, {"n": 2}] == [each.snapshot_data for each in committed]
        assert [{"n": 2}, {"n": 1}] == [each.snapshot_data for each in mine.list_checkpoints("t")]
