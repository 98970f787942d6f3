"""Giving space back: what is needed stays, what is not goes, whoever is at work meanwhile and whoever died."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agentos.errors import StoreBusyError, StoreUnavailableError
from agentos.vault import objects
from agentos.vault.collecting import collect
from agentos.vault.vault import Vault
from tests.support import environment
from tests.unit.vault.conftest import Keep

KEEPER = """
import sys
from agentos.vault.vault import Vault
with Vault(sys.argv[1]).keeping() as keeping:
    keeping.add(b"being kept")
    print("ready", flush=True)
    sys.stdin.readline()
    keeping.settle()
    print("kept", flush=True)
    sys.stdin.readline()
"""


def test_what_is_not_needed_goes(vault: Vault, keep: Keep):
    """With the figures, and nothing at all in a dry run."""
    kept, gone = keep(b"a" * 1000), [keep(os.urandom(1000)) for _ in range(3)]
    size = sum(map(vault.size, gone))
    dry = collect(vault, lambda: [kept], dry_run=True)
    assert (3, size, 1, True, 4) == (dry.contents, dry.bytes, dry.kept, dry.dry_run, len(list(vault.digests())))
    done = collect(vault, lambda: [kept], dry_run=False)
    assert (3, size, 1, False, [kept]) == (done.contents, done.bytes, done.kept, done.dry_run, list(vault.digests()))


def test_what_a_needed_difference_stands_on_is_needed(vault: Vault, keep: Keep):
    """All the way down: the third to the second, which is to the first; the fifth to the first."""
    rng = random.Random(1)
    lines = [rng.randbytes(20).hex() for _ in range(300)]
    chain: list[str] = []
    for number in range(5):
        lines[number] = f"changed {number}"
        chain.append(keep("\n".join(lines).encode(), chain[-1] if chain else None))
    assert [0, 1, 2, 3, 4] == [vault.header(each).place for each in chain]
    assert 1 == collect(vault, lambda: chain[3:], dry_run=False).contents
    assert [chain[0], chain[2], chain[3], chain[4]] == sorted(vault.digests(), key=chain.index)
    assert 2 == collect(vault, lambda: chain[4:], dry_run=False).contents
    assert "\n".join(lines).encode() == vault.read(chain[4])


def test_what_is_needed_and_not_there_is_named(vault: Vault, keep: Keep):
    """A hole is reported, and no reason to stop."""
    gone, hole = keep(b"x" * 200), "0" * 64
    done = collect(vault, lambda: [hole], dry_run=False)
    assert ((hole,), 1, False) == (done.missing, done.contents, vault.has(gone))


def test_a_vault_that_was_never_made_has_nothing_to_give_back(vault: Vault):
    """And is not made by asking."""
    assert 0 == collect(vault, list, dry_run=False).contents
    assert not os.path.exists(vault.root)


def test_whoever_keeps_content_is_waited_for(vault: Vault):
    """What is being kept and not yet committed is never removed; what was committed meanwhile is asked for again."""
    with subprocess.Popen(
        [sys.executable, "-c", KEEPER, vault.root], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as keeper:
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        assert "ready\n" == keeper.stdout.readline()
        impatient = Vault(vault.root, lock_timeout=0.05)
        with pytest.raises(StoreBusyError):
            collect(impatient, list, dry_run=False)
        committed: list[str] = []
        asked: list[int] = []

        def needed() -> list[str]:
            asked.append(len(committed))
            return committed

        done: list[int] = []
        collector = threading.Thread(target=lambda: done.append(collect(vault, needed, dry_run=False).contents))
        collector.start()
        keeper.stdin.write("\n")
        keeper.stdin.flush()
        assert "kept\n" == keeper.stdout.readline()
        committed += list(Vault(vault.root).digests())
        keeper.stdin.write("\n")
        keeper.stdin.flush()
        collector.join(30)
    assert ([0], 1, True) == (done, len(committed), vault.has(committed[0]))
    assert [0, 1] == asked


def test_what_a_killed_keeper_left_is_removed(vault: Vault):
    """Its draft is garbage, and its lock is gone with it."""
    with subprocess.Popen(
        [sys.executable, "-c", KEEPER, vault.root], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as keeper:
        assert keeper.stdout is not None
        assert "ready\n" == keeper.stdout.readline()
        keeper.send_signal(signal.SIGKILL)
        keeper.wait(30)
    assert 1 == len(os.listdir(vault.draft()))
    assert 1 == collect(vault, list, dry_run=False).drafts
    assert [] == os.listdir(vault.draft())


def test_whoever_knew_what_was_there_looks_again(vault: Vault, keep: Keep):
    """Another process removed it: keeping the same content again really keeps it."""
    digest = keep(b"y" * 200)
    assert digest in vault.known
    collect(Vault(vault.root), list, dry_run=False)
    assert digest == keep(b"y" * 200)
    assert b"y" * 200 == vault.read(digest)


def test_keeping_and_collecting_side_by_side_loses_nothing(tmp_path: Path, seed: int):
    """One thread keeps, commits and lets go, another collects all the time: what is committed can be read, always."""
    root, committed, over = str(tmp_path / "vault"), set[str](), threading.Event()
    broken: list[BaseException] = []

    def keeper(number: int) -> None:
        rng, vault = random.Random(seed + number), Vault(root)
        try:
            while not over.is_set():
                with vault.keeping() as keeping:
                    # Few contents, so that they are kept, let go of and met again.
                    digest = keeping.add(bytes([rng.randrange(6)]) * 300)
                    keeping.settle()
                    committed.add(digest)
                assert 300 == len(vault.read(digest))
                if rng.random() < 0.3:
                    with vault.keeping():
                        committed.discard(digest)
        except BaseException as error:  # noqa: BLE001 - told below
            broken.append(error)

    # One keeper: what several let go of behind each other's back is no affair of the vault.
    thread = threading.Thread(target=keeper, args=(1,))
    thread.start()
    end = time.monotonic() + 1
    while time.monotonic() < end:
        collect(Vault(root), lambda: list(committed), dry_run=False)
    over.set()
    thread.join()
    assert [] == broken
    assert all(len(Vault(root).read(digest)) == 300 for digest in committed)


def test_the_kind_of_an_object_is_what_its_header_says(vault: Vault, keep: Keep):
    """Compressed where that helps, raw where it does not."""
    assert objects.ZSTD == vault.header(keep(b"z" * 1000)).kind
    assert objects.RAW == vault.header(keep(os.urandom(1000))).kind


def test_a_vault_that_cannot_be_read_is_our_error(vault: Vault, keep: Keep):
    """Something else has the name of a folder of it: said, and nothing is removed."""
    kept = keep(b"kept")
    Path(vault.root, "objects", "zz").write_bytes(b"no folder")
    with pytest.raises(StoreUnavailableError, match="not all that nothing needs could be removed"):
        collect(vault, list, dry_run=False)
    assert b"kept" == vault.read(kept)
