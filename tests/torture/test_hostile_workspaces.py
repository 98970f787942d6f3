"""Hostile workspaces and manifests: nothing outside is opened, read, written or deleted, and nothing inside is lost."""

import os
from collections import Counter
from pathlib import Path

import pytest

from agentos.probes import tree_walk
from agentos.vault import beneath, planning
from agentos.vault.restoring import Restorer
from tests.torture.hostile.forging import Forgery
from tests.torture.hostile.rounds import Round


def test_hostile_workspaces_lead_nowhere_and_lose_nothing(tmp_path: Path, seed: int, count):
    """Links, hard links, odd names, twins, special files, shut, immutable and mounted folders, swapped while it goes on."""
    found: list[str] = []
    ends: Counter[tuple[str, str, str]] = Counter()
    skipped: Counter[str] = Counter()
    for number in range(count(40, 200)):
        played = Round(seed, number, tmp_path / f"{number}")
        found += [f"{line} | {played}" for line in played.play()]
        ends[played.act, played.enemy, played.ended] += 1
        skipped.update(each.partition(":")[0] for each in played.skipped)
    assert [] == found
    print(f"{sum(ends.values())} rounds: {dict(ends)}; could not be done here: {dict(skipped)}")


def test_hostile_manifests_and_claims_lead_nowhere(tmp_path: Path, seed: int, count):
    """What a pack, a manifest in the vault or the journal names outside of the root is neither written nor read nor deleted."""
    found: list[str] = []
    ends: Counter[tuple[str, str]] = Counter()
    for number in range(count(40, 200)):
        told = Forgery(seed, number, tmp_path / f"{number}")
        found += [f"{line} | {told}" for line in told.play()]
        ends[told.kind, told.ended] += 1
    assert [] == found
    assert {kind for kind, _ in ends} >= {"tree", "file", "absent"}
    print(f"{sum(ends.values())} forgeries: {dict(ends)}")


# Planted faults, each of which must be found.


def _found(kind: type[Round] | type[Forgery], seed: int, folder: Path, sign: str) -> bool:
    """Whether a round finds it; more of them than are needed."""
    return any(line.startswith(sign) for number in range(150) for line in kind(seed, number, folder / f"{number}").play())


def _follow_links(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(beneath, "enter", lambda folder, name: os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder))


def _keep_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Restorer, "_keep", lambda *_: None)


def _believe_names(patch: pytest.MonkeyPatch) -> None:
    for module in (beneath, planning):
        patch.setattr(module, "parts_of", lambda path: path.split("/"))
        # The system refuses to lead upwards, too.
        patch.setattr(module, "enter", lambda folder, name: os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder))


def _walk_through_links(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(tree_walk, "_OPEN", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


@pytest.mark.planted
@pytest.mark.parametrize(
    ("kind", "plant", "sign"),
    [
        (Round, _follow_links, "outside: "),
        (Round, _walk_through_links, "outside: "),
        (Round, _keep_nothing, "lost: "),
        (Forgery, _believe_names, "outside: "),
    ],
)
def test_hostile_rounds_find(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch, kind, plant, sign: str):
    """A way through links, a look through links, an overwritten file that was not kept, a path that is not checked."""
    plant(monkeypatch)
    assert _found(kind, seed, tmp_path, sign)
