"""Hostile workspaces and manifests: nothing outside is opened, read, written or deleted, and nothing inside is lost."""

from collections import Counter
from pathlib import Path

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
