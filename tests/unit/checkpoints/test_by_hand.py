"""What a person does with what was kept: copy it out, look at a whole world, settle what was killed, resume with a report."""

import os
from pathlib import Path

import pytest

from agentos.core.checkpoints import CheckpointManager, Evidence, EvidenceType, Verdict
from agentos.core.checkpoints.results import Outcome
from agentos.errors import CheckpointNotFoundError, InvalidInputError, NotSafeToResumeError
from tests.support import content, dump, exists
from tests.unit.checkpoints.steps import committed


@pytest.fixture
def kept(db: Path, work: Path):
    with CheckpointManager(db, work, keep=True) as manager:
        yield manager


def test_the_world_of_a_checkpoint_is_copied_and_not_only_its_own_claims(kept: CheckpointManager, work: Path, tmp_path: Path):
    """What earlier steps proved is part of it, what later ones changed is as it was; nobody looks at the workspace."""
    (work / "a").write_text("1")
    (work / "b").write_text("1")
    committed(kept, content("a", "1"))
    middle = committed(kept, content("b", "1"))
    (work / "a").write_text("2")
    committed(kept, content("a", "2"))
    for name in ("a", "b"):
        (work / name).unlink()
    before = dump(kept.db_path)
    copied = kept.copy_out(middle.checkpoint_id, tmp_path / "out")
    assert {"a": "1", "b": "1"} == {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert (2, True, before) == (copied.files, copied.is_complete, dump(kept.db_path))
    only = kept.copy_out(middle.checkpoint_id, str(tmp_path / "only"), only=["b"])
    assert (["b"], 1) == (os.listdir(tmp_path / "only"), only.files)


def test_what_has_no_content_is_said(kept: CheckpointManager, work: Path, tmp_path: Path):
    """A file of which only its being there was claimed, one outside of the folder, one that was not to be kept; no absence."""
    (work / "there").write_text("x")
    (tmp_path / "elsewhere").write_text("y")
    (work / "unkept").write_text("z")
    pack = exists("there", tmp_path / "elsewhere")
    pack.evidence_list += content("unkept", "z").evidence_list
    pack.evidence_list[-1].metadata["keep"] = False
    pack.evidence_list.append(Evidence(EvidenceType.ARTIFACT_ABSENT, "gone", {"path": "gone"}))
    made = committed(kept, pack)
    copied = kept.copy_out(made.checkpoint_id, tmp_path / "out")
    assert {"file:there", f"file:{tmp_path}/elsewhere", "unkept"} == {each.subject for each in copied.cannot}
    assert (0, []) == (copied.files, os.listdir(tmp_path / "out"))
    assert copied.to_dict()["is_complete"] is False


def test_a_whole_folder_is_copied_while_it_is_not_there(manager: CheckpointManager, work: Path, tmp_path: Path):
    """A workspace that was lost with its disk comes out of the vault."""
    (work / "src/deep").mkdir(parents=True)
    (work / "src/deep/run").write_text("#!")
    (work / "src/deep/run").chmod(0o755)
    (work / "src/link").symlink_to("deep")
    with manager.task("t", workspace="src") as task:
        task.resume({})
        [baseline] = task.checkpoints()
    (work / "src").rename(tmp_path / "lost")
    assert manager.copy_out(baseline.checkpoint_id, tmp_path / "out").is_complete
    assert ("#!", "deep") == ((tmp_path / "out/deep/run").read_text(), os.readlink(tmp_path / "out/link"))
    assert os.access(tmp_path / "out/deep/run", os.X_OK)


def test_a_copy_that_is_asked_for_wrongly_is_refused(kept: CheckpointManager, tmp_path: Path):
    """An unknown checkpoint, one path where a list of them is due."""
    with pytest.raises(CheckpointNotFoundError):
        kept.copy_out("nope", tmp_path / "out")
    with pytest.raises(InvalidInputError, match="only must be a list of paths"):
        kept.copy_out("nope", tmp_path / "out", only="a")
    assert not (tmp_path / "out").exists()


def test_a_look_at_the_world_is_more_than_one_at_the_checkpoint(kept: CheckpointManager, work: Path):
    """What an earlier step proved must hold too; what cannot be seen is an error; nothing is recorded."""
    (work / "a").write_text("1")
    committed(kept, content("a", "1"))
    (work / "b").write_text("1")
    made = committed(kept, content("b", "1"))
    before = dump(kept.db_path)
    assert Outcome.VERIFIED is kept.look_at_world(made.checkpoint_id)
    (work / "a").write_text("2")
    assert Outcome.FAILED is kept.look_at_world(made.checkpoint_id)
    work.rename(work.with_name("unmounted"))
    assert Outcome.ERROR is kept.look_at_world(made.checkpoint_id)
    work.with_name("unmounted").rename(work)
    assert before == dump(kept.db_path)
    assert [] == kept.settle_restores("t")


def test_resume_with_a_report_says_what_was_put_back(kept: CheckpointManager, work: Path):
    """As `resume` does it, with everything that was found; refused alike."""
    (work / "a").write_text("1")
    made = committed(kept, content("a", "1"), {"n": 1})
    (work / "a").write_text("2")
    with pytest.raises(NotSafeToResumeError):
        kept.resume_report("t")
    found = kept.resume_report("t", repair=True)
    assert (Verdict.RESUME, {"n": 1}, 1) == (found.verdict, found.snapshot, len(found.restored))
    assert found.checkpoint is not None
    assert made.checkpoint_id == found.checkpoint.checkpoint_id
    with pytest.raises(InvalidInputError, match="repair must be true or false"):
        kept.resume_report("t", repair=1)  # type: ignore[arg-type]
