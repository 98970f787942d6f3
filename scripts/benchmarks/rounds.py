"""Interleave contenders, so that whatever disturbs the machine disturbs all of them, and compare within a round.

A ratio is taken inside each round and the median of the rounds is the figure: a bad minute costs rounds, not the result. The
order rotates, because going first or following a certain neighbour may be an advantage.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from statistics import median, quantiles

# One turn of a contender: does its work and gives what it measured, usually seconds.
Turn = Callable[[], float]


class Rounds:
    """What every contender measured in every round."""

    def __init__(self, measured: Mapping[str, Sequence[float]]) -> None:
        self.measured = {name: list(figures) for name, figures in measured.items()}

    def median(self, name: str) -> float:
        """Of one contender over all rounds."""
        return median(self.measured[name])

    def ratios(self, name: str, baseline: str) -> list[float]:
        """Of a contender to its baseline, round by round."""
        return [ours / base for ours, base in zip(self.measured[name], self.measured[baseline], strict=True)]

    def ratio(self, name: str, baseline: str) -> float:
        """The median of those."""
        return median(self.ratios(name, baseline))

    def spread(self, name: str, baseline: str) -> str:
        """The quartiles of the ratios: how far the figure may be trusted."""
        low, high = quartiles(self.ratios(name, baseline))
        return f"{low:.2f} to {high:.2f}"


def quartiles(figures: Sequence[float]) -> tuple[float, float]:
    """The lower and the upper one; of fewer than two figures, the figure itself."""
    if len(figures) < 2:  # noqa: PLR2004 - statistics needs two
        return figures[0], figures[0]
    low, _, high = quantiles(figures, n=4, method="inclusive")
    return low, high


def interleaved(turns: Mapping[str, Turn], rounds: int) -> Rounds:
    """Give every contender a turn in every round, each round starting with another one."""
    names = list(turns)
    measured: dict[str, list[float]] = {name: [] for name in names}
    # What the program itself holds is no part of anybody's garbage.
    gc.collect()
    gc.freeze()
    try:
        for number in range(rounds):
            first = number % len(names)
            for name in names[first:] + names[:first]:
                measured[name].append(turns[name]())
    finally:
        gc.unfreeze()
    return Rounds(measured)
