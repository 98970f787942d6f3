"""Subjects: every spelling of one thing is one subject, and what is claimed or released meets in the index."""

from __future__ import annotations

from typing import Any

import pytest

from agentos.core.checkpoints import records
from agentos.core.checkpoints.kinds import as_claimed, kind_of
from agentos.core.checkpoints.models import Evidence, EvidencePack, EvidenceType
from agentos.errors import InvalidInputError


def subject(kind: str, expected: dict[str, Any], base: str = "/base", **metadata: Any) -> str:
    item = Evidence(EvidenceType(kind), "d", expected, metadata)
    return kind_of(item).subject(item, base)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("out/x", "file:out/x"),
        ("./out//x", "file:out/x"),
        ("out/y/../x", "file:out/x"),
        ("out/x/", "file:out/x"),
        ("/base/out/x", "file:out/x"),
        ("//base/./out/x", "file:out/x"),
        ("/based/x", "file:/based/x"),
        ("/elsewhere/x", "file:/elsewhere/x"),
        (".", "file:."),
        ("/base", "file:."),
        ("/base/", "file:."),
        ("a\nb", "file:a\nb"),
    ],
)
def test_every_spelling_of_a_path_is_one_subject(path, expected):
    """All file checks share it, and so does a release of it."""
    for kind in ("artifact_exists", "artifact_absent", "file_sha256"):
        assert subject(kind, {"path": path}) == expected
    assert as_claimed(f"file:{path}", "/base") == expected


@pytest.mark.parametrize(("path", "expected"), [("/x", "file:x"), ("x", "file:x"), ("/", "file:.")])
def test_the_root_may_be_the_base(path, expected):
    """Then everything lies beneath it."""
    assert subject("artifact_exists", {"path": path}, "/") == expected


@pytest.mark.parametrize("path", ["data/app.db", "./data//app.db", "/base/data/app.db"])
def test_every_spelling_of_a_database_is_one_subject(path):
    """A row is the same row however its database is named."""
    row = {"table": "t", "where": {"b": 1, "a": 2}}
    assert subject("db_row", row, db_path=path) == 'row:data/app.db#t?{"a": 2, "b": 1}'
    assert subject("db_row", row) == 'row:#t?{"a": 2, "b": 1}'


def test_releases_are_indexed_after_the_items():
    """Their numbers go on where those of the items end, and they are spelled as claims are."""
    item = Evidence(EvidenceType.ARTIFACT_EXISTS, "d", {"path": "a"}, {"lifetime": "task"})
    pack = EvidencePack([item], releases=["file:/base/old", "command:make"])
    claims = [(claim.subject, claim.item, claim.lifetime) for claim in records.claims_of(pack, "/base")]
    assert claims == [("file:a", 0, "task"), ("file:old", 1, "release"), ("command:make", 2, "release")]


def test_releases_are_stored_and_come_back():
    """A pack without any is stored as if the field did not exist."""
    item = Evidence(EvidenceType.ARTIFACT_EXISTS, "d", {"path": "a"})
    data, copied = records.encode_pack(EvidencePack([item], releases=["file:old"]))
    assert records.decode_pack(data) == copied == EvidencePack([item], releases=["file:old"])
    data, copied = records.encode_pack(EvidencePack([item]))
    assert b"releases" not in data
    assert records.decode_pack(data).releases == copied.releases == []


@pytest.mark.parametrize("bad", ["", "x", "file:", "file:a\0b", "fle:x", 7, None, "file:\ud800"])
def test_what_is_no_subject_cannot_be_released(bad):
    """Refused by name where the pack is made: it would release nothing, and nobody would notice."""
    with pytest.raises(InvalidInputError, match=r"EvidencePack\.releases"):
        EvidencePack(releases=[bad])
