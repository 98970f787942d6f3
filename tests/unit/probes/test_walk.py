"""Paths: what is inside the base is found, what is outside is never looked at, and not seeing is not absence."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import threading
import time
from pathlib import Path

import pytest

from agentos.core.checkpoints.observing import Seen, Surroundings, Unseen
from agentos.probes.cannot_see import CannotSee
from agentos.probes.paths import place_of
from agentos.probes.walk import beneath
from tests.unit.probes.databases import Look


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_bytes(b"outside")
    return folder


def refused(look: Look, path: str, **around: object) -> str:
    seen = look("artifact_exists", path=path, around=around)
    assert isinstance(seen, Unseen), seen
    return seen.code


def found(look: Look, path: str, **around: object) -> object:
    seen = look("artifact_exists", path=path, around=around)
    assert isinstance(seen, Seen), seen
    return seen.facts["type"]


@pytest.mark.parametrize("path", ["../outside/secret", "a/../../outside/secret", "..", "a/../.."])
def test_dots_do_not_lead_out(look, base, outside, path):
    """A relative path that climbs above the base is refused, whatever is there."""
    (base / "a").mkdir()
    assert refused(look, path) == "PATH_ESCAPES"


@pytest.mark.parametrize("target", ["../outside", "../outside/secret", "{outside}", "{outside}/secret", "/", "a/../../outside"])
def test_a_link_does_not_lead_out(look, base, outside, target):
    """A symbolic link out of the base is refused, relative or absolute, in the middle or at the end of the path."""
    (base / "a").mkdir()
    (base / "link").symlink_to(target.format(outside=outside))
    assert refused(look, "link") == refused(look, "link/secret") == "PATH_ESCAPES"


@pytest.mark.parametrize("target", ["d/x", "./d//x", "d/../d/x", "{base}/d/x", "//{base}/./d/x", "hop"])
def test_a_link_that_stays_inside_is_followed(look, base, target):
    """A link whose target lies in the base is as good as the target."""
    (base / "d").mkdir()
    (base / "d" / "x").write_bytes(b"x")
    (base / "hop").symlink_to("d/x")
    (base / "link").symlink_to(target.format(base=base))
    assert found(look, "link") == "file"


def test_an_absolute_link_starts_again_at_the_base(look, base):
    """Wherever the link lies: what it names is found from the base down, and not from the folder of the link."""
    (base / "far" / "away").mkdir(parents=True)
    (base / "x").write_bytes(b"x")
    (base / "far" / "away" / "link").symlink_to(base / "x")
    (base / "far" / "up").symlink_to(base / ".." / "outside")
    assert found(look, "far/away/link") == "file"
    assert refused(look, "far/up") == "PATH_ESCAPES"


def test_an_absolute_link_may_spell_the_base_without_links(look, base, tmp_path):
    """The base may be reached through a link; a target that names it by its real path is still inside."""
    (base / "x").write_bytes(b"x")
    (base / "link").symlink_to(base.resolve() / "x")
    (tmp_path / "alias").symlink_to(base)
    assert found(look, "link", base_path=str(tmp_path / "alias")) == "file"


def test_dots_after_a_link_mean_the_parent_of_its_target(look, base):
    """`link/..` is where the link leads to, as the system has it, and not where it lies."""
    (base / "deep" / "er").mkdir(parents=True)
    (base / "deep" / "x").write_bytes(b"x")
    (base / "link").symlink_to("deep/er")
    assert found(look, "link/../x") == "file"
    assert found(look, "x") is None


def test_a_loop_of_links_is_not_absence(look, base):
    """Links that lead in a circle say that nothing could be seen, not that nothing is there."""
    (base / "a").symlink_to("b")
    (base / "b").symlink_to("a")
    assert refused(look, "a") == refused(look, "a/x") == "UNREADABLE"
    assert refused(look, str(base / "a")) == "UNREADABLE"


def test_forty_links_are_followed_and_no_more(look, base):
    """The number of links on one path is bounded."""
    (base / "0").write_bytes(b"end")
    for number in range(1, 42):
        (base / str(number)).symlink_to(str(number - 1))
    assert found(look, "40") == "file"
    assert refused(look, "41") == "UNREADABLE"


@pytest.mark.parametrize("path", ["gone", "gone/x", "x/below", "x/", "dangling", "d/gone/.."])
def test_nothing_there_is_a_fact(look, base, path):
    """A name, a folder or a link's target that is missing, and a file in the middle of the path: nothing is there."""
    (base / "x").write_bytes(b"x")
    (base / "d").mkdir()
    (base / "dangling").symlink_to("nowhere")
    assert found(look, path) is None
    assert found(look, str(base) + "/" + path) is None


@pytest.mark.parametrize("path", [".", "d", "d/", "d/.", "./d//", "d/e/.."])
def test_every_spelling_of_a_folder_is_found(look, base, path):
    """Dots and repeated slashes change nothing."""
    (base / "d" / "e").mkdir(parents=True)
    assert found(look, path) == "directory"


def test_a_base_that_is_not_there_says_nothing_about_the_work(look, base):
    """An unmounted disk or a wrong directory must not look like lost work."""
    (base / "file").write_bytes(b"")
    assert refused(look, "x", base_path=str(base / "gone")) == "BASE_MISSING"
    assert refused(look, "x", base_path=str(base / "file")) == "BASE_MISSING"


def test_an_absolute_path_needs_no_base(look, base):
    """Where relative paths start is of no concern to an absolute one."""
    (base / "x").write_bytes(b"x")
    assert found(look, str(base / "x"), base_path=str(base / "gone")) == "file"


def test_an_absolute_path_follows_links_as_the_system_does(look, base, outside):
    """Without allowed roots an absolute path may lead anywhere."""
    (base / "link").symlink_to(outside)
    assert found(look, str(base / "link" / "secret")) == "file"


def test_allowed_roots_confine_absolute_paths(look, base, outside):
    """With allowed roots an absolute path stays beneath one of them: by its text, by dots and by links."""
    (base / "x").write_bytes(b"x")
    (base / "link").symlink_to(outside)
    roots = (str(base), str(base / "inner"))
    assert found(look, str(base / "x"), allowed_roots=roots) == "file"
    assert found(look, str(base), allowed_roots=roots) == "directory"
    for path in (outside / "secret", base / "link" / "secret", f"{base}/../outside/secret", f"{base}x", "/"):
        assert refused(look, str(path), allowed_roots=roots) == "PATH_ESCAPES"


def test_an_allowed_root_may_be_spelled_through_a_link(look, base, tmp_path):
    """A root and its real path are the same root."""
    (base / "x").write_bytes(b"x")
    (tmp_path / "alias").symlink_to(base)
    assert found(look, str(base.resolve() / "x"), allowed_roots=(str(tmp_path / "alias"),)) == "file"


@pytest.mark.parametrize("path", ["", "a\0b", "\0", "a\ud800b"])
def test_a_name_that_no_file_can_have_is_refused(look, path):
    """A NUL cuts a path short on its way to the system; it never gets there."""
    assert refused(look, path) == "PATH_INVALID"


def test_a_name_that_is_too_long_is_not_absence(look, base):
    """What the system cannot look up has not been looked for."""
    assert refused(look, "a" * 300) == refused(look, "a" * 300 + "/x") == "UNREADABLE"


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE, errno.EMFILE])
def test_what_the_system_refuses_is_not_absence(look, base, monkeypatch, number):
    """Permission, a broken disk and a lost mount say nothing about the file; the reason is passed on."""

    def refuse(*_: object, **__: object) -> os.stat_result:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "stat", refuse)
    for path in ("x", str(base / "x")):
        seen = look("artifact_exists", path=path)
        assert isinstance(seen, Unseen)
        assert seen.code == "UNREADABLE"
        assert os.strerror(number) in seen.message


def test_control_characters_do_not_reach_a_terminal(look, base):
    """A hostile name is escaped in messages."""
    (base / "\x1b[31m").symlink_to("\x1b[31m")
    seen = look("artifact_exists", path="\x1b[31m")
    assert isinstance(seen, Unseen)
    assert seen.message.startswith("\\x1b[31m: ")
    assert seen.message.isprintable()


def test_names_beneath_a_root():
    """Text alone decides where a walk starts; it looks nothing up and knows whole names only."""
    assert beneath("/a/b", "/a/b/c/d") == ["c", "d"]
    assert beneath("/a/b", "//a/./b/c/") == ["c", "."]
    assert beneath("/a/b", "/a/b") == []
    assert beneath("/a/b", "/a/bc") is None
    assert beneath("/", "/a") == ["a"]


def swap_for_ever(base: Path, stop: threading.Event) -> None:
    """The attack: the folder `d` is a link to the outside half of the time."""
    while not stop.is_set():
        for source, target in (("d", "kept"), ("link", "d"), ("d", "link"), ("kept", "d")):
            os.rename(base / source, base / target)


def test_a_walk_cannot_be_raced_out_of_its_root(base, outside):
    """While a folder is swapped for a link to the outside, thousands of walks read the inside or nothing; `open` does not."""
    (base / "d").mkdir()
    (base / "d" / "secret").write_bytes(b"inside")
    (base / "link").symlink_to(outside)
    stop = threading.Event()
    attack = threading.Thread(target=swap_for_ever, args=(base, stop))
    attack.start()
    walked, naive = [], []
    end = time.monotonic() + 1.0
    try:
        while time.monotonic() < end:
            with contextlib.suppress(CannotSee, OSError), place_of("d/secret", Surroundings(str(base))) as place:
                if place.status:
                    descriptor = place.open(os.O_RDONLY)
                    walked.append(os.read(descriptor, 100))
                    os.close(descriptor)
            with contextlib.suppress(OSError):
                naive.append((base / "d" / "secret").read_bytes())
    finally:
        stop.set()
        attack.join()
    assert set(walked) == {b"inside"}
    assert b"outside" in naive, "the attack must be one"


def test_a_hash_cannot_be_raced_out_of_the_base(look, base, outside):
    """The digest of a file outside the base is never reported, however the way to it is swapped."""
    (base / "d").mkdir()
    (base / "d" / "secret").write_bytes(b"inside")
    (base / "link").symlink_to(outside)
    stop = threading.Event()
    attack = threading.Thread(target=swap_for_ever, args=(base, stop))
    attack.start()
    end, seen = time.monotonic() + 0.5, []
    try:
        while time.monotonic() < end:
            seen.append(look("file_sha256", path="d/secret"))
    finally:
        stop.set()
        attack.join()
    digests = {each.facts.get("sha256") for each in seen if isinstance(each, Seen)}
    assert digests <= {None, hashlib.sha256(b"inside").hexdigest()}
