"""The settings of a repository: what this reader understands, git understands in the same way."""

from __future__ import annotations

import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agentos.probes.git_config import parsed
from tests.unit.probes.repositories import ALONE

PIECES = [
    *(
        "[core]",
        '[filter "x"]',
        "[filter.x]",
        '[filter "A.\\"\\\\b"]',
        "[include]",
        "[Core ",
        "[",
        "]",
        '"',
        "\\",
        "\\\n",
        "\\n",
    ),
    *('\\"', "\n", "\r\n", "\t", " ", "#", ";", "=", "clean", "fsMonitor", "path", "a-b", "1", "é", "true", "fsmonitor = x"),
    *("\ufeff", "\x0b"),
]


def as_git(path: Path, text: str) -> list[tuple[str, str]] | None:
    """What git finds in it; None if it refuses."""
    path.write_bytes(text.encode())
    command = ["git", "config", "--file", str(path), "--no-includes", "--list", "--null"]
    done = subprocess.run(command, env=ALONE, capture_output=True, check=False)
    if done.returncode:
        return None
    records = done.stdout.decode().split("\0")[:-1]
    return [(name, value if line else "true") for name, line, value in (record.partition("\n") for record in records)]


def plainly(found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Without what blanks become, which differs between versions of git and decides nothing."""
    return [(name, " ".join(value.split())) for name, value in found]


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join), st.booleans())
def test_what_is_understood_is_what_git_understands(tmp_path_factory, text, headed):
    """Setting by setting; what git refuses may be understood here, but never otherwise than git would."""
    text = f"[core]\n\t{text}" if headed else text
    ours, theirs = parsed(text), as_git(tmp_path_factory.getbasetemp() / "config", text)
    if ours is not None and theirs is not None:
        assert plainly(theirs) == plainly(ours)


def test_the_usual_is_understood():
    """As git writes it."""
    assert parsed(
        '[core]\n\tbare = false\n[remote "o.x"]\n\turl = "a;b" # c\n\tfetch = +refs/*:refs/*\n[Branch.Main]\n\tRebase\n'
    ) == [
        ("core.bare", "false"),
        ("remote.o.x.url", "a;b"),
        ("remote.o.x.fetch", "+refs/*:refs/*"),
        ("branch.main.rebase", "true"),
    ]
