"""Trees as values: one tree, one sequence of bytes; manifests that are lies; what is left out; and judging without a disk."""

from __future__ import annotations

import base64
import hashlib
import struct
from contextlib import suppress
from typing import Any

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from agentos.core.checkpoints import codec
from agentos.core.checkpoints.interrupted import fingerprint
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Seen
from agentos.core.checkpoints.packing import UnfitManifestError, claimed_tree, decoded, packed, tree_from, unpacked
from agentos.core.checkpoints.results import EvidenceResult, Outcome
from agentos.core.checkpoints.trees import (
    EXECUTABLE,
    FILE,
    FOLDER,
    LINK,
    Entry,
    Rules,
    Tree,
    difference,
    digest_of,
    serialised,
    without,
)
from agentos.errors import EvidenceDefinitionError

NO_RULES = Rules()


def file(path: str, content: str = "", kind: int = FILE) -> Entry:
    return path.encode(), kind, hashlib.sha256(content.encode()).digest(), len(content)


def nothing_kept(_: str) -> bytes | None:
    return None


def folder(path: str) -> Entry:
    return path.encode(), FOLDER, b"", 0


def digest(*entries: Entry, rules: Rules = NO_RULES) -> str:
    return digest_of(serialised(rules, list(entries)))


NAMES = st.binary(min_size=1, max_size=3).filter(lambda name: name not in (b".", b"..") and not set(name) & {0, 47})


@st.composite
def trees(draw: st.DrawFn) -> list[Entry]:
    """Folders, and in each of them names of any kind."""
    above, found = [b""], {}
    for name in draw(st.lists(NAMES, max_size=8)):
        path = draw(st.sampled_from(above)) + name
        kind = draw(st.sampled_from([FILE, EXECUTABLE, LINK, FOLDER]))
        if path in found:
            continue
        content = draw(st.binary(min_size=32, max_size=32)) if kind != FOLDER else b""
        found[path] = (path, kind, content, draw(st.integers(0, 2**64 - 1)) if kind != FOLDER else 0)
        above += [path + b"/"] if kind == FOLDER else []
    return list(found.values())


RULES = st.builds(Rules, st.lists(st.text(max_size=4), max_size=3).map(tuple), st.booleans())


# The bytes and their digest.


def test_the_bytes_of_a_tree_are_those_of_the_page():
    """Byte by byte, written down a second time: whoever has the page can make the digest without this code."""
    expected = b"agentos-tree-v1\0" + b"\x01" + struct.pack(">I", 1) + struct.pack(">Q", 4)
    expected += struct.pack(">I", 3) + b"*.o"
    expected += b"f" + struct.pack(">I", 1) + struct.pack(">Q", 2) + b"a" + hashlib.sha256(b"hi").digest()
    expected += b"d" + struct.pack(">I", 1) + struct.pack(">Q", 0) + b"b"
    expected += b"x" + struct.pack(">I", 3) + struct.pack(">Q", 0) + b"b/c" + hashlib.sha256(b"").digest()
    expected += b"l" + struct.pack(">I", 1) + struct.pack(">Q", 1) + b"z" + hashlib.sha256(b"a").digest()
    entries = [file("z", "a", LINK), folder("b"), file("b/c", "", EXECUTABLE), file("a", "hi")]
    assert expected == serialised(Rules(("*.o",), gitignore=True), entries)
    assert hashlib.sha256(expected).hexdigest() == digest(*entries, rules=Rules(("*.o",), gitignore=True))


@given(trees(), RULES)
def test_a_tree_comes_back_from_its_bytes(entries, rules):
    """Packed or not, and whatever order its entries were found in."""
    data = serialised(rules, list(entries))
    assert Tree(rules, sorted(entries)) == decoded(data)
    text = packed(data)
    assert text is not None
    assert data == unpacked(text) == serialised(rules, entries[::-1])


@given(trees(), trees(), RULES, RULES)
def test_two_trees_have_two_digests(one, other, rules, other_rules):
    """Only the same names, kinds, contents and rules have the same digest."""
    same = sorted(one) == sorted(other) and rules == other_rules
    assert same == (digest(*one, rules=rules) == digest(*other, rules=other_rules))


@pytest.mark.parametrize(
    "other",
    [
        [file("a", "1"), file("b", "3")],
        [file("a", "1"), file("b", "2", EXECUTABLE)],
        [file("a", "1"), file("b", "2", LINK)],
        [file("a", "1"), file("B", "2")],
        [file("a", "2"), file("b", "1")],
        [file("a", "1"), file("b", "2"), folder("empty")],
        [file("a", "1")],
        [file(f"a\n{hashlib.sha256(b'2').hexdigest()}  b", "1")],
    ],
)
def test_every_change_changes_the_digest(other):
    """Content, executable bit, kind, case, swapped contents, an empty folder, a missing file, and a name that imitates two."""
    assert digest(file("a", "1"), file("b", "2")) != digest(*other)


# Manifests that an enemy wrote.


def raw(*entries: Entry, head: bytes | None = None) -> bytes:
    """Bytes of entries in the order they are given."""
    head = b"agentos-tree-v1\0" + struct.pack(">BIQ", 0, 0, len(entries)) if head is None else head
    return head + b"".join(struct.pack(">BIQ", kind, len(path), size) + path + sha for path, kind, sha, size in entries)


HOSTILE = {
    "up": raw(file("..")),
    "up within": raw(folder("a"), file("a/..")),
    "absolute": raw(file("/etc")),
    "absolute beneath": raw(folder(""), file("/etc")),
    "here": raw(file(".")),
    "no name": raw(file("")),
    "ends in a slash": raw(folder("a"), file("a/")),
    "two slashes": raw(folder("a"), file("a//b")),
    "NUL": raw(file("a\0b")),
    "twice": raw(file("a"), file("a")),
    "unsorted": raw(file("b"), file("a")),
    "beneath a file": raw(file("a"), file("a/b")),
    "beneath a link": raw(file("a", kind=LINK), file("a/b")),
    "beneath nothing": raw(file("a/b")),
    "another kind": raw((b"a", ord("p"), b"\0" * 32, 0)),
    "a folder with a size": raw((b"a", FOLDER, b"", 1)),
    "something behind it": raw(file("a")) + b"\0",
    "cut off": raw(file("a"))[:-1],
    "cut off in its head": raw(file("a"))[:20],
    "more than it holds": raw(file("a"), head=b"agentos-tree-v1\0" + struct.pack(">BIQ", 0, 0, 2**60)),
    "more rules than it holds": raw(head=b"agentos-tree-v1\0" + struct.pack(">BIQ", 0, 2**32 - 1, 0)),
    "unknown rules": raw(head=b"agentos-tree-v1\0" + struct.pack(">BIQ", 2, 0, 0)),
    "rules that are no text": raw(head=b"agentos-tree-v1\0" + struct.pack(">BIQI", 0, 1, 0, 1) + b"\xff"),
    "another algorithm": b"agentos-tree-v2\0" + bytes(13),
    "nothing": b"",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_a_manifest_of_what_no_folder_holds_is_refused(data):
    """Also if its digest is the claimed one: who restores from it must not be led anywhere."""
    with pytest.raises(UnfitManifestError):
        tree_from(data, digest_of(data))


def test_the_hostile_manifests_are_one_fault_away_from_a_good_one():
    """What makes them is able to make good ones, so each was refused for its fault."""
    entries = [folder("a"), file("a/b"), file("b", kind=LINK)]
    assert entries == decoded(raw(*entries)).entries


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_refused_in_words(data):
    """No other exception, and no crash."""
    for claimed in (data, b"agentos-tree-v1\0" + data):
        with suppress(UnfitManifestError):
            assert claimed == serialised(*decoded(claimed))


@pytest.mark.parametrize("text", ["", "é", "====", "AAAA", base64.b64encode(b"plain").decode(), "not base64 at all!"])
def test_text_that_is_no_packed_manifest_is_refused(text):
    """Whatever is wrong with it."""
    with pytest.raises(UnfitManifestError):
        unpacked(text)


def test_a_manifest_that_swells_is_not_unpacked():
    """A few kilobytes that become gigabytes are refused on the way."""
    bomb = base64.b64encode(zstd.compress(bytes(100 << 20))).decode()
    assert len(bomb) < 1 << 16
    with pytest.raises(UnfitManifestError, match="too large"):
        unpacked(bomb)


def test_two_frames_are_not_one_manifest():
    """What lies behind the first one would never have been looked at."""
    two = zstd.compress(serialised(Rules(), [])) + zstd.compress(b"more")
    with pytest.raises(UnfitManifestError, match="behind"):
        unpacked(base64.b64encode(two).decode())


def test_a_manifest_is_found_beside_the_claim_or_among_what_was_kept():
    """By its digest; and what is there under another digest is refused."""
    data = serialised(Rules(), [file("a")])
    claimed = digest_of(data)
    kept: dict[str, bytes] = {claimed: data}
    assert decoded(data) == claimed_tree(claimed, packed(data), nothing_kept) == claimed_tree(claimed, None, kept.get)
    assert claimed_tree(claimed, None, nothing_kept) is None
    with pytest.raises(UnfitManifestError, match="digest"):
        claimed_tree("0" * 64, packed(data), kept.get)


def test_a_large_manifest_is_not_put_beside_the_claim():
    """A pack stays a few hundred kilobytes, however large the tree."""
    entries = [file(f"{number:06}", str(number)) for number in range(10_000)]
    assert packed(serialised(Rules(), entries)) is None
    text = packed(serialised(Rules(), entries[:4000]))
    assert text is not None
    assert 100_000 < len(text) <= 256 << 10


# How two trees differ.


def test_a_difference_names_what_changed_went_and_came():
    """And nothing that is as it was."""
    before = [file("same"), file("a", "1"), file("gone"), file("run", "x"), folder("d")]
    now = [file("same"), file("a", "2"), file("new"), file("run", "x", EXECUTABLE), folder("d")]
    found = difference(before, now)
    assert [(b"a", FILE, FILE), (b"run", FILE, EXECUTABLE)] == found.changed
    assert ([(b"gone", FILE)], [(b"new", FILE)]) == (found.missing, found.extra)
    assert not difference(before, before[::-1])


def test_of_a_folder_that_went_its_files_are_named():
    """The folder itself only if there was nothing in it."""
    found = difference([folder("d"), folder("d/e"), file("d/e/x"), folder("f")], [])
    assert [(b"d/e/x", FILE), (b"f", FOLDER)] == found.missing


def test_what_later_claims_speak_for_is_set_aside_with_all_that_leads_there():
    """A folder that was made for it came with it; a file in that folder's place did not."""
    entries = [folder("a"), folder("a/b"), file("a/b/x"), file("a/y"), file("ab"), folder("c")]
    assert [file("a/y"), file("ab"), folder("c")] == without(entries, frozenset({b"a/b/x"}))
    assert [file("a/y"), file("ab"), folder("c")] == without(entries, frozenset({b"a/b"}))
    assert [file("a")] == without([file("a")], frozenset({b"a/b"}))


# Judging.


def claim(*entries: Entry, rules: Rules = NO_RULES, manifest: bool = True, **more: Any) -> Evidence:
    data = serialised(rules, list(entries))
    expected = {"path": "build", "digest": digest_of(data), "exclude": list(rules.exclude), "gitignore": rules.gitignore}
    return Evidence("directory_tree", "the build", {**expected, **more}, {"manifest": packed(data)} if manifest else {})


def seen(*entries: Entry, rules: Rules = NO_RULES, aside: tuple[str, ...] = (), kept: Any = None) -> Seen:
    data = serialised(rules, list(entries))
    counts = {"files": sum(kind in (FILE, EXECUTABLE) for _, kind, *_ in entries), "bytes": sum(each[3] for each in entries)}
    facts = {"exists": True, "type": "directory", "digest": digest_of(data), **counts, "aside": list(aside)}
    return Seen({**facts, "manifest": data, "kept": kept or (lambda _: None)})


def judged(evidence: Evidence, observation: Seen) -> EvidenceResult:
    kind_of(evidence).refuse_malformed(evidence)
    return kind_of(evidence).result(evidence, observation)


TREE = [folder("d"), file("d/x", "1"), file("a", "2"), file("b", "3")]


def test_a_tree_holds_by_its_digest():
    """In whatever case it is written, and with or without a manifest."""
    assert "VERIFIED" == judged(claim(*TREE), seen(*TREE)).code
    shouted = claim(*TREE, manifest=False)
    shouted.expected["digest"] = shouted.expected["digest"].upper()
    assert "VERIFIED" == judged(shouted, seen(*TREE)).code


def test_a_failure_says_what_changed():
    """How many of what, and the first names of each."""
    now = [folder("d"), file("d/x", "9"), file("a", "2", EXECUTABLE), file("new"), folder("e")]
    found = judged(claim(*TREE), seen(*now))
    said = (
        "build/: 2 changed, 1 missing, 2 extra of 3 files. "
        "Changed: a (file -> executable file), d/x. Missing: b. Extra: e/, new."
    )
    assert (Outcome.FAILED, "TREE_DIFFERS", said, []) == (found.outcome, found.code, found.message, found.notes)


def test_without_a_manifest_a_failure_says_that_the_details_are_not_kept():
    """It is judged all the same."""
    found = judged(claim(*TREE, manifest=False, files=3), seen(folder("d")))
    assert (Outcome.FAILED, "TREE_DIFFERS") == (found.outcome, found.code)
    assert "(3 -> 0 files)" in found.message
    assert "not kept" in found.notes[0]


def test_a_kept_manifest_serves_where_none_lies_beside_the_claim():
    """Large trees have theirs in the vault, under their digest."""
    data = serialised(Rules(), list(TREE))
    found = judged(claim(*TREE, manifest=False), seen(*TREE[:3], kept={digest_of(data): data}.get))
    assert "build/: 1 missing of 3 files. Missing: b." == found.message


@pytest.mark.parametrize("forged", [packed(serialised(Rules(), [file("lie")])), "AAAA", ""])
def test_a_forged_manifest_is_not_believed(forged):
    """Its digest is another one: the claim is judged without it, and a note says so."""
    evidence = claim(*TREE)
    evidence.metadata["manifest"] = forged
    assert "VERIFIED" == judged(evidence, seen(*TREE)).code
    found = judged(evidence, seen(*TREE[:3]))
    assert "TREE_DIFFERS" == found.code
    assert "lie" not in found.message
    assert "was not used" in found.notes[0]
    assert "MANIFEST_MISSING" == judged(evidence, seen(*TREE, aside=("a",))).code


def test_names_are_escaped_in_messages():
    """A name can hold anything, and must not move anybody's cursor."""
    evil = (b"\x1b[2J\n\xff", FILE, bytes(32), 0)
    assert "Extra: \\x1b[2J\\x0a\\udcff." in judged(claim(*TREE), seen(*TREE, evil)).message


def test_many_names_are_cut_short():
    """The first eight, and how many more."""
    found = judged(claim(*TREE), seen(*TREE, *(file(f"n{number:03}") for number in range(100))))
    assert found.message.endswith("n006, n007, and 92 more.")


def test_nothing_or_something_else_there_fails():
    """A file is no tree."""
    missing, wrong = {"exists": False, "type": None, "near": ["build.tmp"]}, {"exists": True, "type": "file"}
    assert ("ARTIFACT_MISSING", "WRONG_TYPE") == tuple(judged(claim(*TREE), Seen(each)).code for each in (missing, wrong))
    assert "build.tmp" in judged(claim(*TREE), Seen(missing)).message


def test_counts_that_are_claimed_must_be_those_of_the_tree():
    """A claim that contradicts itself never holds."""
    assert "VERIFIED" == judged(claim(*TREE, files=3, bytes=3), seen(*TREE)).code
    assert "SIZE_MISMATCH" == judged(claim(*TREE, files=4), seen(*TREE)).code
    assert "SIZE_MISMATCH" == judged(claim(*TREE, bytes=4), seen(*TREE)).code


def test_what_later_claims_speak_for_is_not_compared():
    """Whatever became of it, and of nothing else."""
    evidence = claim(*TREE)
    for rest in ([], [folder("d")], [file("d", "now a file")]):
        now = seen(*rest, file("a", "2"), file("b", "3"), aside=("d",))
        assert "VERIFIED" == judged(evidence, now).code
    assert "build/: 1 missing of 3 files. Missing: b." == judged(evidence, seen(file("a", "2"), aside=("d",))).message
    assert "VERIFIED" == judged(evidence, seen(file("a", "2"), file("b", "3"), aside=("d/x",))).code


def test_without_a_manifest_the_rest_of_a_tree_cannot_be_checked():
    """That is said, and is no failure: nothing is known to differ."""
    found = judged(claim(*TREE, manifest=False), seen(*TREE, aside=("d/x",)))
    assert (Outcome.ERROR, "MANIFEST_MISSING") == (found.outcome, found.code)
    assert "d/x" in found.message


def test_a_digest_made_by_other_rules_never_holds():
    """Also where only a part of the tree is compared."""
    evidence = claim(*TREE)
    evidence.expected["exclude"] = ["*.o"]
    now = seen(*TREE, rules=Rules(("*.o",)))
    assert ("TREE_DIFFERS", "leaving out something else") == (judged(evidence, now).code, judged(evidence, now).notes[0][-26:])
    assert "RULES_DIFFER" == judged(evidence, seen(*TREE, rules=Rules(("*.o",)), aside=("d",))).code


def test_the_report_holds_counts_and_no_entries():
    """What is stored of a look is plain JSON, however large the tree was."""
    found = judged(claim(*TREE), seen(*TREE))
    assert {"exists", "type", "digest", "files", "bytes", "aside"} == set(found.found)
    codec.encode(found.to_dict())


def test_a_baseline_of_a_tree_is_the_same_whoever_asks_for_it():
    """What is compared after a crash does not depend on the process that looked."""
    assert fingerprint(seen(*TREE)) == fingerprint(seen(*TREE, kept={}.get))
    assert fingerprint(seen(*TREE)) != fingerprint(seen(*TREE[:2]))


def test_what_is_captured_is_what_was_seen():
    """The digest, the counts and the manifest; and it holds."""
    kind, now = kind_of(claim()), seen(*TREE)
    assert kind.fill is not None
    filled = kind.fill(Evidence("directory_tree", "x", {"path": "build"}, {"max_files": 9, "manifest": "old"}), now)
    assert filled is not None
    evidence = Evidence("directory_tree", "x", *filled)
    assert {"path", "digest", "algo", "files", "bytes"} == set(evidence.expected)
    assert {"max_files": 9, "manifest": packed(now.facts["manifest"])} == evidence.metadata
    assert "VERIFIED" == judged(evidence, now).code
    assert kind.fill(evidence, Seen({"exists": False, "type": None})) is None


# Definitions.


@pytest.mark.parametrize(
    "wrong",
    [
        {"path": ""},
        {"path": "../x"},
        {"digest": "abc"},
        {"digest": 7},
        {"algo": "dirhash1"},
        {"files": -1},
        {"bytes": True},
        {"gitignore": 1},
        {"exclude": "*.o"},
        {"exclude": [1]},
        {"exclude": ["a\nb"]},
        {"exclude": ["!"]},
        {"exclude": ["# remark"]},
        {"exclude": [""]},
        {"exclude": ["[a"]},
        {"exclude": ["*a*a*a*a*a"]},
        {"exclude": ["**/a/**/b/**/c"]},
        {"exclude": ["x" * 2000]},
        {"surprise": 1},
    ],
)
def test_a_definition_that_could_never_be_checked_is_refused(wrong):
    """With the key that is wrong in the message."""
    evidence = claim(*TREE, **wrong)
    with pytest.raises(EvidenceDefinitionError, match=next(iter(wrong))):
        kind_of(evidence).refuse_malformed(evidence)


@pytest.mark.parametrize(
    "wrong",
    [{"max_files": 0}, {"max_bytes": 1.5}, {"max_depth": True}, {"manifest": 7}, {"manifest": "x" * 300_000}],
    ids=["files", "bytes", "depth", "no text", "too long"],
)
def test_metadata_that_says_nothing_is_refused(wrong):
    """Limits are numbers, and a manifest is text of some size."""
    evidence = claim(*TREE)
    evidence.metadata.update(wrong)
    with pytest.raises(EvidenceDefinitionError, match=next(iter(wrong))):
        kind_of(evidence).refuse_malformed(evidence)
