"""Every type of evidence has its page, and the page says what the code does: its keys, its lifetime, its codes."""

import re
from pathlib import Path

import pytest

from agentos.core.checkpoints.kinds import KINDS, Lifetime

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs/specs/evidence"
# A code is a text of several words in capitals. So are the names of variables and of constants of the system.
_CODE = re.compile(r'"([A-Z]+(?:_[A-Z0-9]+)+)"')
_NO_CODE = ("GIT_A", "GIT_C", "GIT_D", "GIT_I", "GIT_N", "GIT_O", "GIT_T", "GIT_W", "LC_", "O_PATH", "SC_", "SEEK_", "XDG_")
SAID = re.compile("`([^`]+)`")


def said_on(page: Path) -> set[str]:
    """Everything that the page puts in code."""
    return set(SAID.findall(re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)))


@pytest.mark.parametrize("name", KINDS)
def test_every_type_has_a_page_that_names_its_keys(name):
    """Whatever may stand in a claim is explained there."""
    kind, said = KINDS[name], said_on(PAGES / f"{name}.md")
    # One key is there to be refused.
    keys = {*kind.expected, *kind.metadata} - {"socket"}
    assert keys - said == set()


@pytest.mark.parametrize("name", KINDS)
def test_every_type_is_listed_with_its_lifetime(name):
    """In the order of nothing: the list is what a reader chooses from."""
    row = next(line for line in (PAGES / "README.md").read_text().splitlines() if line.startswith(f"| [`{name}`]({name}.md)"))
    assert KINDS[name].lifetime.value == row.split("|")[-2].strip()
    page = (PAGES / f"{name}.md").read_text()
    other = {Lifetime.LASTING: r"speaks for its own step|lifetime is `step`|Lifetime: step"}
    assert not re.search(other.get(KINDS[name].lifetime, r"Lifetime: lasting|the claim is lasting|The claim lasts"), page)


def test_there_is_no_page_of_a_type_that_is_not_there():
    """What is gone is not explained."""
    assert {*KINDS, "README"} == {page.stem for page in PAGES.glob("*.md")}


def test_every_code_is_on_a_page():
    """Programs may depend on a code, so a reader finds what it means."""
    rooms = ("agentos/core/checkpoints/kinds", "agentos/probes")
    text = "".join(file.read_text() for room in rooms for file in (ROOT / room).glob("*.py"))
    codes = {code for code in _CODE.findall(text) if not code.startswith(_NO_CODE)}
    assert len(codes) > 90
    said = set().union(*(said_on(page) for page in PAGES.glob("*.md")))
    assert codes - said == set()


def test_every_attack_that_is_listed_has_its_test():
    """The table of attacks names tests that are there."""
    named = re.findall(r"`([\w./]+\.py)::(test_\w+)`", (ROOT / "docs/reliability.md").read_text())
    assert len(named) > 30
    folder = ROOT / "tests/unit/probes"
    assert [] == [f"{file}::{test}" for file, test in named if f"def {test}(" not in (folder / file).read_text()]
