"""The file probes on a made-up file system, as a user who is not root: permissions that a test run as root cannot meet."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest
from pyfakefs.fake_filesystem import FakeFilesystem
from pyfakefs.helpers import reset_ids, set_uid

from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Seen, Surroundings, Unseen
from agentos.probes import PROBES


@pytest.fixture
def user(fs: FakeFilesystem) -> Iterator[FakeFilesystem]:
    """A made-up base folder, looked at as somebody without privileges."""
    fs.create_dir("/proc/self/fd")  # where the real probe sees what this process has open
    fs.create_dir("/base")
    fs.chmod("/base", 0o777)
    set_uid(1000)
    yield fs
    reset_ids()


def observe(kind: str, path: str) -> Seen | Unseen:
    claim = Evidence(kind, "what is claimed", {"path": path})
    return PROBES[claim.evidence_type].observe(claim, Surroundings("/base"))


@pytest.mark.parametrize("path", ["d/x", "/base/d/x", "link/x", "/base/link/x"])
def test_a_file_is_found_and_hashed(user, path):
    """Relative, absolute and through a link: the same file."""
    user.create_file("/base/d/x", contents=b"content")
    user.create_symlink("/base/link", "d")
    assert observe("artifact_exists", path) == Seen({"exists": True, "type": "file"})
    assert observe("file_sha256", path).facts["sha256"] == hashlib.sha256(b"content").hexdigest()


def test_a_missing_file_is_seen_to_be_missing(user):
    """Absence is a fact, also here."""
    user.create_file("/base/out.tmp")
    assert observe("file_sha256", "out") == Seen({"exists": False, "type": None, "near": ["out.tmp"]})


def test_a_folder_that_may_not_be_entered_hides_its_files(user):
    """Behind a closed door nothing is known: not even that the file is there."""
    user.create_file("/base/d/x", contents=b"content")
    user.chmod("/base/d", 0o000, force_unix_mode=True)
    assert observe("artifact_exists", "/base/d/x").code == "UNREADABLE"


def test_a_file_that_may_not_be_read_is_there_and_has_no_digest(user):
    """Existence needs no permission to read; content does."""
    user.create_file("/base/x", contents=b"content")
    user.chmod("/base/x", 0o000, force_unix_mode=True)
    assert observe("artifact_exists", "x").facts["exists"] is True
    assert observe("file_sha256", "x").code == "UNREADABLE"


def test_links_in_a_circle_are_not_absence(user):
    """ELOOP is a reason."""
    user.create_symlink("/base/a", "b")
    user.create_symlink("/base/b", "a")
    assert observe("file_sha256", "a").code == "UNREADABLE"


def test_a_link_out_of_the_base_is_refused(user):
    """The walk needs nothing of the real system to hold."""
    set_uid(0)
    user.create_file("/elsewhere/x", contents=b"secret")
    set_uid(1000)
    user.create_symlink("/base/link", "/elsewhere")
    assert observe("file_sha256", "link/x").code == "PATH_ESCAPES"
    assert observe("file_sha256", "/base/link/x").facts["exists"] is True
