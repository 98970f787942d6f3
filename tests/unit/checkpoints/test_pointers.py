"""JSON pointers: read as RFC 6901 says, and a dead end says how far it led."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.core.checkpoints.kinds.pointers import POINTER, check_pointer, resolve
from agentos.core.checkpoints.models import Evidence
from agentos.errors import EvidenceDefinitionError

# The document and the table of RFC 6901, section 5.
RFC: dict[str, Any] = {
    "foo": ["bar", "baz"],
    "": 0,
    "a/b": 1,
    "c%d": 2,
    "e^f": 3,
    "g|h": 4,
    "i\\j": 5,
    'k"l': 6,
    " ": 7,
    "m~n": 8,
}
TABLE = {
    "": RFC,
    "/foo": ["bar", "baz"],
    "/foo/0": "bar",
    "/": 0,
    "/a~1b": 1,
    "/c%d": 2,
    "/e^f": 3,
    "/g|h": 4,
    "/i\\j": 5,
    '/k"l': 6,
    "/ ": 7,
    "/m~0n": 8,
}


def test_pointers_are_read_as_the_standard_says():
    """Every row of the standard's own table; `~01` is a tilde and a one; the empty key is a key."""
    assert TABLE == {pointer: resolve(pointer, RFC).value for pointer in TABLE}
    document = {"~1": 3, "": {"": 4}, "list": [5, {"x": None}]}
    assert [3, 4, 5] == [resolve(pointer, document).value for pointer in ("/~01", "//", "/list/0")]
    assert (True, None, "") == resolve("/list/1/x", document)


@pytest.mark.parametrize(
    ("pointer", "why"),
    [
        ("/result/metrics/f1", '/result/metrics has keys acc, loss; no "f1"'),
        ("/resutl/metrics/f1", 'the document has keys result, runs; no "resutl"'),
        ("/runs/2", '/runs is a list of 2; no "2"'),
        ("/runs/-", '/runs is a list of 2; no "-"'),
        ("/runs/01", '/runs is a list of 2; no "01"'),
        ("/runs/+1", '/runs is a list of 2; no "+1"'),
        ("/runs/\u0661", '/runs is a list of 2; no "\u0661"'),
        ("/runs/" + "9" * 5000, '/runs is a list of 2; no "' + "9" * 59 + '…"'),
        ("/runs/0/x", '/runs/0 is no object and no list; no "x" in it'),
        ("/runs/1/x", '/runs/1 has no keys; no "x"'),
        ("/a\nb", 'the document has keys result, runs; no "a\\x0ab"'),
    ],
)
def test_a_pointer_to_nothing_says_how_far_it_led(pointer, why):
    """The deepest place that is there, what it has, and the name that it has not."""
    document = {"result": {"metrics": {"acc": 1, "loss": 2}}, "runs": ["text", {}]}
    assert (False, None, why) == resolve(pointer, document)


@pytest.mark.parametrize("pointer", ["a", "a/b", "/~", "/~2", "/a~", "#/a", 1, None, ["a"]])
def test_what_is_no_pointer_is_refused_in_words(pointer):
    """With the place where it stands; a tilde says what it means."""
    with pytest.raises(EvidenceDefinitionError, match=r"expected\['pointer'\] must be a JSON pointer"):
        check_pointer(Evidence("command_exit", "x", {}), "expected['pointer']", pointer)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


@given(st.lists(st.text(max_size=4), max_size=6), st.integers())
def test_every_name_can_be_pointed_at(names, value):
    """Whatever characters are in the names: the pointer made of them is accepted and leads to what they name."""
    document: Any = value
    for name in reversed(names):
        document = {name: document, f"{name}?": "beside it"}
    pointer = "".join(f"/{_escaped(name)}" for name in names)
    check_pointer(Evidence("command_exit", "x", {}), "pointer", pointer)
    assert (True, value, "") == resolve(pointer, document)


def test_the_schema_and_the_check_agree():
    """What an editor is told is what is refused."""
    import re

    for pointer in [*TABLE, "/~", "/~2", "a", "/a~"]:
        try:
            check_pointer(Evidence("command_exit", "x", {}), "pointer", pointer)
            accepted = True
        except EvidenceDefinitionError:
            accepted = False
        assert accepted is bool(re.search(POINTER["pattern"], pointer)), pointer
