"""A world that is never as claimed, though every part of it is at some moment; and its truth, when the lying is over."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from agentos.core.checkpoints import Evidence, EvidencePack
from agentos.core.checkpoints.results import Outcome
from agentos.core.checkpoints.verifier import EvidenceVerifier

# Whatever a look costs: one alone sees nothing change.
LEAST_LOOKS, MOST_LOOKS = 2, 20


class Liar(ABC):
    """Makes a world in a folder of its own, and changes it. At no instant does what it claims hold.

    `has_truth` is False where the claim can never hold, whatever is done: then nothing is asked of the end.
    """

    has_truth = True

    def __init__(self, folder: Path, rng: Random) -> None:
        self.folder = folder
        self.rng = rng

    @abstractmethod
    def claim(self) -> Evidence:
        """What is claimed."""

    @abstractmethod
    def change(self) -> None:
        """Change the world; not even on the way is it as claimed."""

    def tell_the_truth(self) -> None:
        """Make the claim hold."""
        raise NotImplementedError

    def close(self) -> None:
        """Give back what the world was made of."""
        return


def lies_believed(liar: Liar, seconds: float) -> tuple[int, int]:
    """How often a look at the changing world verified what never held, and how many looks there were."""
    verifier = EvidenceVerifier(liar.folder, timeout=2)
    looks, believed, until = 0, 0, time.monotonic() + seconds
    with changing(liar):
        while time.monotonic() < until or looks < LEAST_LOOKS:
            believed += verifier.verify_evidence_pack(EvidencePack([liar.claim()]))
            looks += 1
    return believed, looks


def truth_is_seen(liar: Liar) -> str | None:
    """What is wrong with a world that is as claimed and holds still; None if nothing is."""
    liar.tell_the_truth()
    claim = liar.claim()
    # What is counted among others, who come and go on a busy machine, may take more than one look to be known.
    for _ in range(MOST_LOOKS):
        EvidenceVerifier(liar.folder).verify_evidence(claim)
        if claim.result is None or claim.result.outcome is not Outcome.ERROR:
            break
    return claim.verification_error


@contextmanager
def changing(liar: Liar) -> Iterator[None]:
    """Change the world all the time, as fast as it goes and at times more slowly."""
    over = threading.Event()
    trouble: list[BaseException] = []

    def work() -> None:
        pauses = Random(liar.rng.random())
        try:
            while not over.is_set():
                liar.change()
                if pauses.random() < 0.2:
                    time.sleep(pauses.random() * 0.004)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test must not pass without its liar
            trouble.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert not trouble, trouble
