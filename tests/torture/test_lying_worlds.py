"""No world that lies is believed, and every one that stops lying is.

Each changes between, during and after looks, so that every part of a claim holds at some time and the whole of it never.
"""

import itertools
from collections.abc import Callable
from pathlib import Path
from random import Random

from agentos.core.checkpoints import Evidence
from agentos.core.checkpoints.kinds import KINDS
from tests.torture.liars import files, processes, repositories, rows, services, trees
from tests.torture.liars.liar import LEAST_LOOKS, Liar, lies_believed, truth_is_seen

LIARS: tuple[type[Liar], ...] = (
    files.HalvesInPlace,
    files.PrefixInPlace,
    files.SwappedByName,
    files.NeverThatKind,
    files.NeverGone,
    files.PatternInHalves,
    files.ValuesApart,
    trees.FilesApart,
    trees.NamesApart,
    trees.AlwaysOneAway,
    rows.ColumnsApart,
    rows.AlwaysOne,
    rows.NeverWithout,
    repositories.BranchesApart,
    processes.NeverTwo,
    processes.NeverNone,
    repositories.NeverCleanAtOnce,
    repositories.AlwaysOneBeside,
    services.NeverReached,
    services.NeverUnheard,
    services.NeverListenedOn,
    services.AnswersApart,
    services.ImagesApart,
    services.NeverTheSameRun,
)
# Of the rest nothing in the world is asked: what was recorded does not change.
RECORDED = {"command_exit"}
_LIES_FOR = 0.1


def test_no_lie_is_believed_and_every_truth_is(tmp_path: Path, seed: int, count: Callable[[int, int], int]):
    """60 worlds, and 500 with --full; each is looked at as often as its time allows."""
    looks, worlds = 0, count(60, 500)
    for number, kind in zip(range(worlds), itertools.cycle(LIARS), strict=False):
        folder = tmp_path / str(number)
        folder.mkdir()
        liar = kind(folder, Random(f"{seed}:{number}"))
        try:
            believed, looked = lies_believed(liar, _LIES_FOR)
            assert not believed, f"{kind.__name__}: {believed} of {looked} looks verified what never held"
            looks += looked
            if liar.has_truth:
                assert truth_is_seen(liar) is None, kind.__name__
        finally:
            liar.close()
    print(f"{worlds} worlds of {len(LIARS)} kinds, {looks} looks at them, none believed")
    assert looks >= LEAST_LOOKS * worlds


def test_every_type_has_a_liar(tmp_path: Path):
    """A type that is added is lied to as well."""
    lied_about = set()
    for number, kind in enumerate(LIARS):
        (tmp_path / str(number)).mkdir()
        liar = kind(tmp_path / str(number), Random(number))
        lied_about.add(str(liar.claim().evidence_type))
        liar.close()
    assert lied_about | RECORDED == set(KINDS)


class Careless(files.HalvesInPlace):
    """Lies with the truth: what it claims holds all the time."""

    def claim(self):
        return Evidence("artifact_exists", "x", {"path": "x"})


def test_a_lie_that_is_believed_is_counted(tmp_path: Path):
    """The count is able to find something."""
    believed, looked = lies_believed(Careless(tmp_path, Random(1)), 0.05)
    assert believed == looked > 0
