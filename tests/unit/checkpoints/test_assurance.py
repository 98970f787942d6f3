"""How sure is sure enough: min_assurance of a pack, strict verifiers and managers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints import Assurance, CheckpointManager, Evidence, EvidencePack, EvidenceType, EvidenceVerifier
from agentos.errors import EvidenceDefinitionError, InvalidInputError
from tests.support import exists, exited

ORDER = ["declared", "recorded", "sealed", "observed"]


def codes(pack: EvidencePack) -> list[str]:
    return [item.result.code if item.result else "" for item in pack.evidence_list]


def test_the_order_is_that_of_the_list():
    """Each reaches itself and everything weaker, and nothing stronger."""
    for number, name in enumerate(ORDER):
        assert [*[True] * (number + 1), *[False] * (3 - number)] == [Assurance(name).reaches(Assurance(each)) for each in ORDER]
        assert Assurance(name).reaches(None)


@pytest.mark.parametrize(
    ("least", "holds", "code"),
    [
        (None, True, "DECLARED"),
        ("declared", True, "DECLARED"),
        ("recorded", False, "NOT_RECORDED"),
        ("observed", False, "NOT_RECORDED"),
    ],
)
def test_what_is_only_declared_counts_only_where_that_is_enough(least: Any, holds: bool, code: str):
    """The item says why it does not count, and how sure it was."""
    pack = exited(0)
    pack.min_assurance = None if least is None else Assurance(least)
    assert EvidenceVerifier().verify_evidence_pack(pack) is holds
    assert [code] == codes(pack)
    [item] = pack.evidence_list
    assert item.result is not None
    assert "declared" == item.result.assurance
    assert holds or "holds, but is only declared, and" in item.result.message


def test_what_was_recorded_is_not_what_was_observed():
    """A recorded exit code reaches `recorded`, and no more."""
    pack = exited(0, actual_exit_code=0)
    assert EvidenceVerifier().verify_evidence_pack(EvidencePack(pack.evidence_list, min_assurance=Assurance.RECORDED))
    assert not EvidenceVerifier().verify_evidence_pack(EvidencePack(pack.evidence_list, min_assurance=Assurance.OBSERVED))
    assert ["ASSURANCE_TOO_LOW"] == codes(pack)


@pytest.mark.parametrize(("strict", "holds"), [(False, True), (True, False)])
def test_a_strict_verifier_asks_for_a_record(strict: bool, holds: bool):
    """For one item, for a pack, and for a list."""
    verifier = EvidenceVerifier(strict=strict)
    assert verifier.verify_evidence(exited(0).evidence_list[0]) is holds
    assert verifier.verify_evidence_pack(exited(0)) is holds
    assert verifier.verify_multiple(exited(0).evidence_list)["all_passed"] is holds


def test_the_stronger_of_both_wishes_counts():
    """A pack cannot lower what a strict verifier asks for, nor the other way round."""
    pack = exited(0)
    pack.min_assurance = Assurance.DECLARED
    assert not EvidenceVerifier(strict=True).verify_evidence_pack(pack)
    recorded = exited(0, actual_exit_code=0)
    recorded.min_assurance = Assurance.OBSERVED
    assert not EvidenceVerifier(strict=True).verify_evidence_pack(recorded)


def test_a_strict_manager_stores_it_unverified_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The commit is no error, and nothing is resumed from it."""
    monkeypatch.chdir(tmp_path)
    with CheckpointManager("r.sqlite", strict=True) as manager:
        checkpoint = manager.commit_step(manager.begin_step("t", "tool_executed", {}), exited(0))
        assert not checkpoint.verified
        assert ["NOT_RECORDED"] == codes(checkpoint.evidence_pack)


def test_the_wish_is_stored_with_the_pack_and_judges_a_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Lasting claims of a pack that asks for observations are judged by that at every recovery; a copy carries it too."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("a")
    pack = exists("a")
    pack.evidence_list += exited(0, lifetime="lasting", actual_exit_code=0).evidence_list
    pack.min_assurance = Assurance.RECORDED
    with CheckpointManager("r.sqlite") as manager:
        stored = manager.commit_step(manager.begin_step("t", "tool_executed", {}), pack)
        assert stored.verified
        loaded = manager.get_checkpoint(stored.checkpoint_id)
        assert loaded is not None
        assert Assurance.RECORDED is loaded.evidence_pack.min_assurance
        assert EvidencePack.from_dict(loaded.evidence_pack.to_dict()).min_assurance is Assurance.RECORDED
        assert "resume" == manager.recover("t").verdict


@pytest.mark.parametrize("bad", ["certain", 3, True, ""])
def test_an_assurance_that_is_none_is_refused(bad: Any):
    """At construction, and where it was put in afterwards."""
    make: Any = EvidencePack
    with pytest.raises(InvalidInputError, match=r"EvidencePack\.min_assurance"):
        make([], min_assurance=bad)
    pack = EvidencePack([Evidence(EvidenceType.COMMAND_EXIT, "d", {"exit_code": 0})])
    pack.min_assurance = bad
    assert not EvidenceVerifier().verify_evidence_pack(pack)


def test_a_spoiled_wish_is_refused_at_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Nothing is stored."""
    monkeypatch.chdir(tmp_path)
    pack = exited(0)
    pack.min_assurance = "recorded"  # type: ignore[assignment]
    with CheckpointManager("r.sqlite") as manager:
        step_id = manager.begin_step("t", "tool_executed", {})
        with pytest.raises(EvidenceDefinitionError, match=r"EvidencePack\.min_assurance"):
            manager.commit_step(step_id, pack)
        assert [] == manager.list_checkpoints("t")
