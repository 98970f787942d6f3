"""artifact_absent: nothing there is seen as such, anything there is named, and not seeing is never absence."""

from __future__ import annotations

import errno
import os

import pytest

from agentos.core.checkpoints.observing import Seen, Unseen

NOTHING = Seen({"exists": False, "type": None})


@pytest.mark.parametrize("path", ["gone", "gone/x", "d/gone", "x/below", "dangling/x", "./d//gone/"])
def test_nothing_there_is_a_fact(look, base, path):
    """A name that is missing, a folder on the way that is, and a file or a link to nowhere where a folder would have to be."""
    (base / "d").mkdir()
    (base / "x").write_bytes(b"x")
    (base / "dangling").symlink_to("nowhere")
    assert look("artifact_absent", path=path) == NOTHING
    assert look("artifact_absent", path=f"{base}/{path}") == NOTHING


@pytest.mark.parametrize("spelled", ["{}", "{}/", "{}/.", "{}//"])
@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("x", {"type": "file", "size": 3}),
        ("d", {"type": "directory"}),
        ("fifo", {"type": "fifo"}),
        ("dangling", {"type": "link"}),
        ("circle", {"type": "link"}),
        ("leaving", {"type": "link"}),
        ("good", {"type": "link"}),
    ],
)
def test_whatever_is_there_is_named_and_not_opened(look, base, opened, name, facts, spelled):
    """A link is something by itself, wherever it leads; a slash at the end changes nothing."""
    (base / "x").write_bytes(b"xyz")
    (base / "d").mkdir()
    os.mkfifo(base / "fifo")
    for link, target in (("dangling", "nowhere"), ("circle", "circle"), ("leaving", "/"), ("good", "x")):
        (base / link).symlink_to(target)
    assert look("artifact_absent", path=spelled.format(name)) == Seen({"exists": True, **facts})
    assert look("artifact_absent", path=spelled.format(base / name)) == Seen({"exists": True, **facts})
    assert set(opened) <= {str(base), "."}


def test_what_a_link_on_the_way_leads_to_is_looked_at(look, base):
    """Only the last name is taken as it stands."""
    (base / "d").mkdir()
    (base / "d" / "x").write_bytes(b"")
    (base / "link").symlink_to("d")
    assert look("artifact_absent", path="link/x") == Seen({"exists": True, "type": "file", "size": 0})
    assert look("artifact_absent", path="link/gone") == NOTHING


def test_a_base_that_is_not_there_proves_no_absence(look, base):
    """An unmounted disk must not read as a deletion that holds, however the path beneath it is spelled."""
    gone = str(base / "unmounted")
    for path in ("x", f"{gone}/x", f"{gone}//d/x"):
        seen = look("artifact_absent", path=path, around={"base_path": gone})
        assert isinstance(seen, Unseen)
        assert seen.code == "BASE_MISSING"
    assert look("artifact_absent", path=f"{base}/x", around={"base_path": gone}) == NOTHING


@pytest.mark.parametrize("path", ["../x", "out/x", "a\0b", "", "n" * 300, "circle/x"])
def test_what_cannot_be_looked_at_is_not_absent(look, base, path):
    """Paths that leave the base, that no file can have, or that lead in a circle."""
    (base / "out").symlink_to("/")
    (base / "circle").symlink_to("circle")
    assert isinstance(look("artifact_absent", path=path), Unseen)


def test_allowed_roots_confine_the_look(look, base, tmp_path):
    """Beyond them nothing is known; inside them a link at the end is something."""
    (base / "link").symlink_to(tmp_path)
    around = {"allowed_roots": (str(base),)}
    assert look("artifact_absent", path=str(tmp_path / "gone"), around=around).code == "PATH_ESCAPES"
    assert look("artifact_absent", path=str(base / "link" / "gone"), around=around).code == "PATH_ESCAPES"
    assert look("artifact_absent", path=str(base / "link"), around=around).facts["type"] == "link"
    assert look("artifact_absent", path=str(base / "gone"), around=around) == NOTHING


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE])
def test_what_the_system_refuses_is_not_absence(look, base, monkeypatch, number):
    """Permission, a broken disk and a lost mount say nothing about the file."""

    def refuse(*_: object, **__: object) -> os.stat_result:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "stat", refuse)
    for path in ("x", str(base / "x")):
        assert look("artifact_absent", path=path).code == "UNREADABLE"
