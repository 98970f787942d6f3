"""Trees in the life of a task: captured, proven by steps, overlaid and replaced by other claims, and looked at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints import CheckpointManager, Evidence, EvidencePack, EvidenceVerifier, Verdict
from agentos.core.checkpoints.kinds import trees
from agentos.errors import EvidenceDefinitionError, EvidenceUnavailableError, InvalidInputError, NotVerifiedError
from agentos.probes.directory_tree import DirectoryTree
from tests.unit.checkpoints.steps import absent, committed, wrote


@pytest.fixture
def out(work: Path) -> Path:
    folder = work / "out"
    (folder / "d").mkdir(parents=True)
    for name in ("a", "b", "d/x", "run.log"):
        (folder / name).write_text(name)
    return folder


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The path of every tree that is looked at from now on."""
    real, paths = DirectoryTree.observe, []

    def observed(self: Any, evidence: Evidence, around: Any) -> Any:
        paths.append(evidence.expected["path"])
        return real(self, evidence, around)

    monkeypatch.setattr(DirectoryTree, "observe", observed)
    return paths


def proven(manager: CheckpointManager, state: dict[str, Any] | None = None, **more: Any) -> Evidence:
    """A step that proves the tree as it is, and keeps nothing of it unless the manager keeps everything."""
    with manager.task("t").step("tool_executed", state or {}) as step:
        step.proves_tree("out", **{"keep": False, **more})
    assert step.checkpoint is not None
    return step.checkpoint.evidence_pack.evidence_list[0]


def verdict(manager: CheckpointManager) -> tuple[Verdict, list[str]]:
    found = manager.recover("t")
    return found.verdict, [each.message for each in found.differences]


# Captured and proven.


def test_what_is_left_out_may_stand_in_the_metadata_and_binds_the_digest(out: Path):
    """As the catalogue of evidence writes it; what it leaves out cannot be changed there either."""
    captured = Evidence.capture_tree("out", exclude=["*.log"], base_path=out.parent)
    expected = {key: value for key, value in captured.expected.items() if key != "exclude"}
    verifier = EvidenceVerifier(out.parent)
    (out / "run.log").write_text("more")
    assert verifier.verify_evidence(Evidence("directory_tree", "d", expected, {"exclude": ["*.log"]}))
    for widened in (["*.log", "a"], []):
        assert not verifier.verify_evidence(Evidence("directory_tree", "d", expected, {"exclude": widened}))
    for metadata in ({"exclude": "*.log"}, {"exclude": ["["]}):
        refused = Evidence("directory_tree", "d", expected, metadata)
        assert not verifier.verify_evidence(refused)
        assert "metadata['exclude']" in (refused.verification_error or "")
    both = Evidence("directory_tree", "d", captured.expected, {"exclude": ["*.log"]})
    assert not verifier.verify_evidence(both)
    assert "exclude stands in expected and in metadata" in (both.verification_error or "")


def test_a_captured_tree_holds_until_it_differs(manager: CheckpointManager, out: Path):
    """What was measured is what is claimed: digest, counts, rules and manifest."""
    claim = Evidence.capture_tree("out", exclude=["*.log"], base_path=out.parent, description="the output")
    assert ("the output", 3, 5, ["*.log"]) == (
        claim.description,
        claim.expected["files"],
        claim.expected["bytes"],
        claim.expected["exclude"],
    )
    assert committed(manager, EvidencePack([claim])).verified
    (out / "run.log").write_text("more")
    assert (Verdict.RESUME, []) == verdict(manager)
    (out / "d" / "x").write_text("other")
    assert Verdict.DIVERGED is verdict(manager)[0]


def test_what_is_no_folder_is_not_captured(out: Path):
    """The reason is said."""
    for path, code in (("gone", "ARTIFACT_MISSING"), ("out/a", "WRONG_TYPE")):
        with pytest.raises(EvidenceUnavailableError) as refusal:
            Evidence.capture_tree(path, base_path=out.parent)
        assert code == refusal.value.diagnostics()["code"]


def test_lines_that_cannot_be_read_are_refused_where_they_are_given(manager: CheckpointManager, out: Path):
    """Not when the block ends; and a text is no list of lines."""
    with pytest.raises(EvidenceDefinitionError, match="leaves nothing out"):
        Evidence.capture_tree("out", exclude=["# remark"])
    with pytest.raises(InvalidInputError, match="list of lines"):
        Evidence.capture_tree("out", exclude="*.log")
    with pytest.raises(EvidenceDefinitionError, match="gitignore"), manager.task("t").step("tool_executed", {}) as step:
        step.proves_tree("out", gitignore="yes")  # type: ignore[arg-type]


def test_a_step_measures_its_tree_when_its_block_ends_and_once(manager: CheckpointManager, out: Path, looks: list[str]):
    """The look that measures is the one that verifies."""
    with manager.task("t").step("tool_executed", {}) as step:
        step.proves_tree("out", gitignore=True)
        (out / "late").write_text("late")
        assert [] == looks
    assert ["out"] == looks
    assert step.checkpoint is not None
    assert (True, 5) == (step.checkpoint.verified, step.checkpoint.evidence_pack.evidence_list[0].expected["files"])


def test_a_step_that_left_no_folder_fails_honestly(manager: CheckpointManager, work: Path):
    """The checkpoint is stored, unverified, and says what is missing."""
    with pytest.raises(NotVerifiedError, match="gone: expected a directory, found nothing"):  # noqa: SIM117 - it is the block
        with manager.task("t").step("tool_executed", {}) as step:
            step.proves_tree("gone")
    assert step.checkpoint is not None
    assert not step.checkpoint.verified


# Beside other claims.


def test_a_later_claim_beneath_a_tree_speaks_for_that_part(manager: CheckpointManager, out: Path):
    """What it says now is what must hold; the tree stands for the rest."""
    proven(manager)
    wrote(manager, "out/d/x", "second")
    wrote(manager, "out/e", "a name of its own")
    assert (Verdict.RESUME, []) == verdict(manager)
    (out / "b").unlink()
    (out / "a").write_text("changed")
    said = "out/: 1 changed, 1 missing of 4 files. Changed: a. Missing: b."
    assert said in verdict(manager)[1]


def test_a_later_step_may_make_and_take_away_folders(manager: CheckpointManager, out: Path):
    """Those that lead to what it claims came and went with it."""
    proven(manager)
    (out / "new" / "deep").mkdir(parents=True)
    wrote(manager, "out/new/deep/y", "y")
    (out / "d" / "x").unlink()
    (out / "d").rmdir()
    committed(manager, absent("out/d/x"))
    assert (Verdict.RESUME, []) == verdict(manager)


def test_without_its_manifest_a_tree_that_is_overlaid_cannot_be_checked(manager: CheckpointManager, out: Path, monkeypatch):
    """That blocks, and fails nothing: it is not known whether the rest differs."""
    monkeypatch.setattr(trees, "packed", lambda _, **__: None)
    assert "manifest" not in proven(manager).metadata
    assert (Verdict.RESUME, []) == verdict(manager)
    wrote(manager, "out/d/x", "second")
    found, said = verdict(manager)
    assert Verdict.BLOCKED is found
    assert "later claims speak for d/x" in said[0]


def test_a_later_tree_replaces_what_was_claimed_beneath_it(manager: CheckpointManager, out: Path):
    """But for what it leaves out: a file that was proven by name is never ignored."""
    wrote(manager, "out/a", "first")
    wrote(manager, "out/run.log", "proven")
    (out / "a").write_text("second")
    proven(manager, exclude=["*.log"])
    assert (Verdict.RESUME, []) == verdict(manager)
    (out / "run.log").write_text("changed")
    assert Verdict.RESUME is not verdict(manager)[0]


def test_what_gitignore_files_leave_out_is_not_replaced_either(manager: CheckpointManager, out: Path):
    """The manifest says what the tree speaks for."""
    wrote(manager, "out/a", "first")
    wrote(manager, "out/run.log", "proven")
    (out / "a").write_text("second")
    (out / ".gitignore").write_text("*.log\n")
    proven(manager, gitignore=True)
    assert (Verdict.RESUME, []) == verdict(manager)
    (out / "run.log").write_text("changed")
    assert Verdict.RESUME is not verdict(manager)[0]


@pytest.mark.parametrize("gitignore", [True, False])
def test_a_tree_whose_manifest_is_in_the_vault_speaks_for_the_same(db: Path, out: Path, gitignore: bool):
    """Where contents are kept no large manifest lies beside the claim; nothing that it replaced comes back for that."""
    for number in range(40):
        (out / f"more {number}").write_text(f"{number}")
    with CheckpointManager(db, keep=True) as manager:
        wrote(manager, "out/a", "first")
        (out / "a").write_text("second")
        (out / ".gitignore").write_text("*.log\n")
        assert "manifest" not in proven(manager, gitignore=gitignore, keep=None).metadata
        wrote(manager, "out/d/x", "third")
        assert (Verdict.RESUME, []) == verdict(manager)
        (out / "b").unlink()
        assert any("1 missing of" in said for said in verdict(manager)[1])


def test_one_look_at_a_tree_serves_every_claim_about_it(manager: CheckpointManager, out: Path, looks: list[str]):
    """Each checkpoint's claim is judged against its own manifest, by what one look saw."""
    for number in range(4):
        (out / "a").write_text(f"{number}")
        proven(manager, {"n": number})
    (out / "a").write_text("1")
    looks.clear()
    found = manager.recover("t")
    assert ["out"] == looks
    assert (Verdict.RESUME, 2) == (found.verdict, found.checkpoint.sequence_number if found.checkpoint else 0)


def test_trees_with_other_rules_are_other_looks(manager: CheckpointManager, out: Path, looks: list[str]):
    """What one left out the other may speak for."""
    proven(manager)
    proven(manager, exclude=["b"])
    (out / "b").write_text("changed")
    looks.clear()
    assert Verdict.RESUME is verdict(manager)[0]
    (out / "a").write_text("changed")
    assert Verdict.DIVERGED is verdict(manager)[0]
    assert 3 == len(looks)


def test_a_tree_that_differs_is_accepted_as_it_is_now(manager: CheckpointManager, out: Path):
    """It is measured anew, by the rules it was claimed with; one that is gone is let go of."""
    proven(manager, {"n": 1}, exclude=["*.log"])
    (out / "a").write_text("by hand")
    accepted = manager.accept("t", by="someone", reason="mended by hand")
    claim = accepted.evidence_pack.evidence_list[0]
    assert ("directory_tree", ["*.log"], 3) == (claim.evidence_type, claim.expected["exclude"], claim.expected["files"])
    assert (Verdict.RESUME, []) == verdict(manager)
    (out / "b").unlink()
    assert "out/: 1 missing of 3 files. Missing: b." in verdict(manager)[1]


def test_what_a_report_keeps_of_a_tree_are_counts(manager: CheckpointManager, out: Path):
    """Not its entries."""
    claim = proven(manager)
    assert claim.result is not None
    assert {"exists", "type", "digest", "bytes", "files", "executables", "links", "folders", "aside"} == set(claim.result.found)
