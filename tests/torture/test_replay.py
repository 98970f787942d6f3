"""A replay of this project's own history as an agent's steps: no crash in it leads to a wrong resume."""

from pathlib import Path

import pytest

from agentos.core.checkpoints import CheckpointManager
from tests.support import REPOSITORY


@pytest.fixture(autouse=True)
def _beside_the_scripts(monkeypatch):
    """The package lies where the program finds it."""
    monkeypatch.syspath_prepend(str(REPOSITORY / "scripts"))


def test_a_history_is_read_as_steps_and_the_same_every_time():
    """Whatever is known of the repository gives enough steps, with edits of what was there before among them."""
    from benchmarks.commits import ENOUGH, past_of

    past = past_of(REPOSITORY)
    assert ENOUGH <= len(past.steps)
    assert past == past_of(REPOSITORY)
    written = [path for step in past.steps for path in step.files]
    assert len({*written}) < len(written)


def test_a_folder_that_is_no_checkout_has_a_history_too(tmp_path: Path):
    """What is unpacked from an archive is replayed as one commit taken apart."""
    from benchmarks.commits import past_of

    (tmp_path / "agentos").mkdir()
    (tmp_path / "agentos" / "a.py").write_text("line\n" * 60, encoding="ascii")
    steps = past_of(tmp_path).steps
    assert [60, 40] == sorted({len((step.files["agentos/a.py"] or b"").splitlines()) for step in steps}, reverse=True)


@pytest.mark.skipif(not hasattr(CheckpointManager, "recover"), reason="nothing recovers yet")
def test_no_crash_in_the_replay_leads_to_a_wrong_resume(tmp_path: Path, seed: int, count):
    """Part of the next step's files is there, one of them half-written: what is resumed from is what is there."""
    from benchmarks.commits import Past, past_of
    from benchmarks.replay import replay

    past = past_of(REPOSITORY)
    steps = past.steps[: count(60, len(past.steps))]
    replayed = replay(Past(steps, past.told), tmp_path, crashes=count(25, 300), seed=seed)
    assert [] == replayed.wrong
    assert replayed.crashes == replayed.counts["right"]
    assert 0 == replayed.counts["needless"]
