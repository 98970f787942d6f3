"""What somebody who has just found agentos ran into, each once."""

import json
import os
import subprocess
import sys

import pytest

from agentos import CheckpointManager, Evidence, EvidencePack, EvidenceType, EvidenceVerifier
from agentos.errors import InvalidInputError, SnapshotError, StoreReplacedError


def exists(path, **metadata):
    return EvidencePack([Evidence(EvidenceType.ARTIFACT_EXISTS, "d", {"path": path}, metadata)])


def commit(manager, pack):
    return manager.commit_step(manager.begin_step("t", "tool_executed", {"n": 1}), pack)


def test_a_manager_whose_registry_vanished_stays_refused(tmp_path):
    """A retry must not start anew in an empty file over committed work; the file put back is used again."""
    (tmp_path / "x").write_text("x")
    with CheckpointManager(tmp_path / "r.db", tmp_path) as manager:
        commit(manager, exists("x"))
        os.rename(tmp_path / "r.db", tmp_path / "gone")
        for _ in range(3):
            with pytest.raises(StoreReplacedError):
                manager.begin_step("t", "tool_executed", {})
        assert not (tmp_path / "r.db").exists()
        os.rename(tmp_path / "gone", tmp_path / "r.db")
        assert 1 == len(manager.list_checkpoints("t"))


def test_a_folder_whose_name_is_no_utf_8_is_refused_with_a_sentence(tmp_path):
    """The registry keeps text; what it cannot keep is refused when the manager is made."""
    folder = os.path.join(os.fsencode(tmp_path), b"w\xff")
    os.mkdir(folder)
    with pytest.raises(InvalidInputError, match="not UTF-8"):
        CheckpointManager(tmp_path / "r.db", base_path=os.fsdecode(folder))


@pytest.mark.parametrize("verb", ["verify", "log", "show"])
def test_a_report_in_json_masks_what_is_sensitive(tmp_path, verb):
    """Neither the path that was claimed nor anything beside it is printed."""
    (tmp_path / "SECRET").write_text("x")
    with CheckpointManager(tmp_path / "r.db", tmp_path) as manager:
        checkpoint = commit(manager, exists("SECRET", sensitive=True, note="SECRET"))
    what = "t" if verb == "log" else checkpoint.checkpoint_id
    done = subprocess.run(
        [sys.executable, "-m", "agentos", verb, what, "--json", "--db", tmp_path / "r.db"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)
    assert "SECRET" not in done.stdout


@pytest.mark.parametrize("stream", ["closed", "full"])
def test_an_output_that_cannot_be_written_to_ends_without_a_traceback(tmp_path, stream):
    """A closed or full standard output is a sentence, not a crash report."""
    CheckpointManager(tmp_path / "r.db").close()
    command = f"{sys.executable} -m agentos log t --db {tmp_path}/r.db {'>&-' if stream == 'closed' else '>/dev/full'}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert (2, stream == "closed") == (done.returncode, "nothing was done" in done.stderr)


def test_no_file_takes_the_place_of_a_stream_that_is_closed(tmp_path):
    """A command that is run without a standard output does nothing, and what it would have written is in no registry."""
    CheckpointManager(tmp_path / "r.db").close()
    before = (tmp_path / "r.db").read_bytes()
    command = f"{sys.executable} -m agentos run t --db {tmp_path}/r.db -- sh -c 'echo mine; echo mine >&2'"
    for closed, code in ((">&-", 2), (">&- 2>&-", 2), ("<&- 2>&-", 0)):
        done = subprocess.run(["sh", "-c", f"{command} {closed}"], capture_output=True, text=True, check=False, cwd=tmp_path)
        assert (code, "mine\n" if code == 0 else "") == (done.returncode, done.stdout)
    assert before[:100] == (tmp_path / "r.db").read_bytes()[:100]
    with CheckpointManager(tmp_path / "r.db") as manager:
        assert 1 == len(manager.list_checkpoints("t"))


@pytest.mark.parametrize("given", [None, "x", 3])
def test_the_verifier_refuses_what_is_no_evidence(given, tmp_path):
    """Wrong types are named, whichever call they are given to."""
    verifier = EvidenceVerifier(tmp_path)
    for call in (verifier.verify_evidence, verifier.verify_evidence_pack, verifier.verify_multiple):
        with pytest.raises(InvalidInputError):
            call(given)


def test_a_pack_that_was_spoiled_never_verifies(tmp_path):
    """What the constructor would refuse is not believed when it is put in afterwards."""
    pack = exists(".")
    pack.min_verified = -1
    assert EvidenceVerifier(tmp_path).verify_evidence_pack(pack) is False


@pytest.mark.parametrize("model", ["", "/", {1: 2}, None, 5])
def test_a_snapshot_is_revived_into_types_only(model, tmp_path):
    """Anything else is refused with a sentence."""
    (tmp_path / "x").write_text("x")
    with CheckpointManager(tmp_path / "r.db", tmp_path) as manager, pytest.raises(SnapshotError):
        commit(manager, exists("x")).snapshot_as(model)


def test_a_checkpoint_that_could_not_be_checked_is_shown_as_unknown(tmp_path):
    """The mark and the counts of a timeline do not contradict each other."""
    base = tmp_path / "base"
    base.mkdir()
    (base / "x").write_text("x")
    with CheckpointManager(tmp_path / "r.db", base) as manager:
        checkpoint = commit(manager, exists("x"))
        os.rename(base, tmp_path / "elsewhere")
        assert manager.verify_checkpoint(checkpoint.checkpoint_id) is False
    agentos = [sys.executable, "-m", "agentos"]
    shown = subprocess.run([*agentos, "log", "t", "--db", tmp_path / "r.db"], capture_output=True, text=True, check=True).stdout
    assert "could not be checked just now" in shown
    moved = ["verify", checkpoint.checkpoint_id, "--db", tmp_path / "r.db", "--base", tmp_path / "elsewhere"]
    assert 0 == subprocess.run([*agentos, *moved], capture_output=True, check=False).returncode
