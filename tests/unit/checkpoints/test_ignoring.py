"""What a tree leaves out: as git would, but for what could be used to hide something or to take hours."""

from __future__ import annotations

import time

import pytest

from agentos.core.checkpoints.ignoring import (
    Chain,
    Lines,
    UnreadableRulesError,
    excluded,
    gitignore_lines,
    is_left_out,
    leaves_out,
    text_of,
)
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.packing import packed
from agentos.core.checkpoints.trees import FILE, FOLDER, Rules, digest_of, serialised


@pytest.mark.parametrize(
    ("lines", "left_out", "taken_in"),
    [
        (["*.o"], ["a.o", "d/a.o"], ["a.c", "a.o.c"]),
        (["/build"], ["build", "build/x"], ["d/build"]),
        (["build/"], ["build/x", "d/build/x"], ["build.c"]),
        (["*", "!keep"], ["x", "d/keep"], ["keep"]),
        (["*.o", "!keep.o"], ["a.o"], ["keep.o", "d/keep.o"]),
        (["d/**"], ["d/x", "d/e/x"], ["e/d"]),
        (["a/**/b"], ["a/b", "a/x/y/b"], ["b"]),
        (["d/", "!d/keep"], ["d/keep"], []),
    ],
)
def test_lines_are_read_as_git_reads_them(lines, left_out, taken_in):
    """The last line that matches decides; beneath a folder that is left out nothing comes back."""
    assert [True] * len(left_out) == [leaves_out(lines, path) for path in left_out]
    assert [False] * len(taken_in) == [leaves_out(lines, path) for path in taken_in]


def test_a_folder_whose_content_is_left_out_is_not_left_out_itself():
    """So something in it can be taken in again."""
    assert excluded(("a/**",)).word("a", folder=True) is None
    assert not leaves_out(["a/**", "!a/keep"], "a/keep")


@pytest.mark.parametrize("name", ["evil.sh\n", "log\n", "\nlog", "d\ne/log\n"])
def test_a_line_feed_hides_no_file(name):
    """A name that only looks like one that is left out is another name."""
    assert not leaves_out(["log", "*.sh"], name)


def test_a_line_feed_in_a_folder_stops_no_line():
    """What lies in it is matched like anything else."""
    assert leaves_out(["a/**/b"], "a/x\ny/b")
    assert leaves_out(["*.log"], "x\ny/a.log")


def test_names_that_are_no_text_are_matched():
    """Byte for byte where the line says so."""
    name = text_of(b"\xff\xfe.log")
    assert leaves_out(["*.log"], name)
    assert not leaves_out(["*.txt"], name)
    assert gitignore_lines(b"\xff*\n").word(name, folder=False)


def test_the_nearest_lines_with_a_word_decide():
    """Of several `.gitignore` files the nearest; the lines of the claim before all of them."""
    claimed, near, far = Lines(["!vital.log"]), Lines(["!b.log"]), Lines(["*.log"])
    chain: Chain = ((0, claimed), (2, near), (0, far))
    names = ("d/a.log", "d/b.log", "d/vital.log", "d/x")
    assert [True, False, False, False] == [is_left_out(name, chain, folder=False) for name in names]


def test_a_gitignore_file_may_hold_remarks_and_marks():
    """Empty lines, remarks, a byte order mark and line ends of other systems say nothing."""
    lines = gitignore_lines(b"\xef\xbb\xbf*.o\r\n\r\n# remark\r\n")
    assert lines.word("a.o", folder=False)
    assert not gitignore_lines(b"# nothing\n\n#*** a * b * c ***\n")


@pytest.mark.parametrize("line", ["!", "a\\", "\\"])
def test_a_line_that_cannot_be_read_is_refused(line):
    """Nobody would know what it was to leave out."""
    with pytest.raises(UnreadableRulesError, match="no line"):
        gitignore_lines(line.encode())


def test_a_line_and_a_name_that_would_take_hours_do_not():
    """The most that is allowed, against the worst name for it, takes a moment; more is refused."""
    begun = time.monotonic()
    assert not leaves_out(["*a*a*ab"], "a" * 255)
    assert not is_left_out("/".join("a" * 1000), ((0, excluded(("**/a/**/ab",))),), folder=False)
    assert time.monotonic() - begun < 5
    for line in ("*a*a*a*ab", "**/a/**/b/**/c", "a" * 2000):
        with pytest.raises(UnreadableRulesError, match="bounded time"):
            excluded((line,))


# What the index is told.


def tree(*, gitignore: bool = False, manifest: bool = True, exclude: tuple[str, ...] = ()) -> Evidence:
    entries = [(b"d", FOLDER, b"", 0), (b"d/x", FILE, bytes(32), 1)]
    data = serialised(Rules(exclude, gitignore), entries)
    expected = {"path": "out", "digest": digest_of(data), "exclude": list(exclude), "gitignore": gitignore}
    return Evidence("directory_tree", "x", expected, {"manifest": packed(data)} if manifest else {})


def rules(evidence: Evidence) -> str:
    kind = kind_of(evidence)
    assert kind.rules is not None
    return kind.rules(evidence)


def covers(evidence: Evidence, name: str) -> bool:
    kind = kind_of(evidence)
    assert kind.covers is not None
    return kind.covers(evidence, name, lambda _: None)


def test_equal_rules_have_equal_names_and_no_rules_none():
    """What `.gitignore` files leave out differs from tree to tree, so such a tree has a name of its own."""
    assert "" == rules(tree())
    assert rules(tree(exclude=("a",))) == rules(tree(exclude=("a",), manifest=False)) != rules(tree(exclude=("b",)))
    ignoring, other = tree(gitignore=True), tree(gitignore=True)
    other.expected["digest"] = "0" * 64
    assert 3 == len({rules(ignoring), rules(other), rules(tree())})


def test_a_tree_speaks_for_what_it_does_not_leave_out():
    """A file that is proven by name is never ignored because a later tree ignores it."""
    assert (True, False) == (covers(tree(exclude=("*.log",)), "d/y"), covers(tree(exclude=("*.log",)), "d/a.log"))
    assert not covers(tree(exclude=("d/",)), "d/x")


def test_a_tree_with_gitignore_files_speaks_for_what_it_holds():
    """What they left out is not known from here; what is in the manifest was not left out."""
    assert (True, False) == (covers(tree(gitignore=True), "d/x"), covers(tree(gitignore=True), "d/ignored"))
    assert not covers(tree(gitignore=True, manifest=False), "d/x")
