"""Every example in the README and the docs is run, in order, in an empty folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [body for found, body in BLOCK.findall(page.read_text()) if found == language]


def with_python(page: Path) -> bool:
    return bool(blocks(page, "python"))


@pytest.mark.parametrize("page", [page for page in PAGES if with_python(page)], ids=lambda page: str(page.relative_to(ROOT)))
def test_the_examples_of_a_page_run_in_order(page, tmp_path):
    """A reader who copies every block of a page into one program gets what the page says."""
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks(page, "python"))], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (0, "") == (done.returncode, done.stderr)


def plain(text: str) -> list[str]:
    """Lines without what differs from run to run: process ids, folders, identifiers and times."""
    text = re.sub(r"process \d+", "process N", text)
    text = re.sub(r"/\S*agentos-demo-\w+", "FOLDER", text)
    text = re.sub(r"[0-9A-HJKMNP-TV-Z]{26}", "ULID", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.+]+", "TIME", text)
    text = re.sub(r"\d{4}-\d\d-\d\d", "DATE", text)
    text = re.sub(r"\d\d:\d\d:\d\d", "TIME", text)
    return [line.rstrip() for line in text.strip().splitlines()]


def test_the_readme_shows_what_the_demonstration_prints():
    """The first screen promises an output; this is that output."""
    shown = blocks(ROOT / "README.md", "text")[0]
    environment = {key: value for key, value in os.environ.items() if key != "FORCE_COLOR"}
    printed = subprocess.run(
        [sys.executable, "-m", "agentos", "demo"], cwd=ROOT, capture_output=True, text=True, check=True, env=environment
    ).stdout
    assert plain(shown) == plain(printed)


def test_every_page_that_is_linked_is_there():
    """A link in the README or the docs leads somewhere."""
    missing = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert [] == missing


def test_every_command_of_the_pages_is_one_that_exists():
    """A console block names only verbs that the command has, and scripts that are there."""
    from agentos.cli.main import VERBS

    lines = [line for page in PAGES for block in blocks(page, "console") for line in block.splitlines()]
    for line in lines:
        words = line.removeprefix("$ ").split()
        assert (ROOT / words[1]).exists() if words[0] == "python3" else words[1] in VERBS, line
