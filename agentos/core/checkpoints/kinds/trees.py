"""Claims about everything beneath a folder: names, what they are, executable bits and contents.

A tree is claimed by one digest. Beside it lies its manifest, so that a failure says what changed; without it the claim is
judged all the same. Whatever was left out is part of the claim. What later claims speak for is left out on both sides, and for
that the manifest is needed: see nesting.py.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Hashable
from typing import Any

from agentos._text import listed, shown
from agentos.core.checkpoints.ignoring import UnreadableRulesError, bytes_of, excluded, leaves_out, text_of
from agentos.core.checkpoints.kinds.kind import HOLDS, Effort, Filled, Kind, Lifetime, Verdict, refuse, told
from agentos.core.checkpoints.kinds.places import PATH, check_path, from_base
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Seen
from agentos.core.checkpoints.packing import MOST_TEXT, UnfitManifestError, claimed_tree, decoded, packed
from agentos.core.checkpoints.results import Outcome
from agentos.core.checkpoints.trees import ALGORITHM, FOLDER, WORDS, Difference, Rules, Tree, difference, without

# What a look takes upon itself unless the claim says otherwise: entries, bytes, and folders within folders.
LIMITS = {"max_files": 1_000_000, "max_bytes": 1 << 50, "max_depth": 1024}
_LARGEST = 2**63
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_NAMED = 8
_TRUST = "nobody vouches for what is there now; put the recorded content back, or fall back to an earlier checkpoint"
_NOT_KEPT = "what the tree held was not kept beside the claim, so what changed is not known"


def rules_of(evidence: Evidence) -> Rules:
    """What the claim leaves out. It is part of the digest wherever it stands, so it cannot be widened afterwards."""
    lines = evidence.expected.get("exclude", evidence.metadata.get("exclude", ()))
    return Rules(tuple(lines), evidence.expected.get("gitignore", False))


def limit_of(evidence: Evidence, name: str) -> int:
    """How much a look at this claim takes upon itself."""
    most: int = evidence.metadata.get(name, LIMITS[name])
    return most


def _check(evidence: Evidence) -> None:
    check_path(evidence)
    digest = evidence.expected["digest"]
    if type(digest) is not str or not _SHA256.fullmatch(digest):
        refuse(evidence, f"expected['digest'] must be 64 hexadecimal digits, found {told(evidence, digest, 80)}")
    algorithm = evidence.expected.get("algo", ALGORITHM)
    if algorithm != ALGORITHM:
        refuse(evidence, f"expected['algo'] is {told(evidence, algorithm)}", f"the one that is known: {ALGORITHM}")
    for name in ("files", "bytes"):
        _check_count(evidence, f"expected['{name}']", evidence.expected.get(name, 0), 0)
    _check_rules(evidence)
    for name, usual in LIMITS.items():
        _check_count(evidence, f"metadata['{name}']", evidence.metadata.get(name, usual), 1)
    manifest = evidence.metadata.get("manifest", "")
    if type(manifest) is not str or len(manifest) > MOST_TEXT:
        refuse(evidence, f"metadata['manifest'] must be text of at most {MOST_TEXT:,} letters, as capturing makes it")


def _check_count(evidence: Evidence, name: str, value: object, least: int) -> None:
    if type(value) is not int or not least <= value < _LARGEST:
        refuse(evidence, f"{name} must be a whole number of at least {least}, found {told(evidence, value)}")


def _check_rules(evidence: Evidence) -> None:
    part = "metadata" if "exclude" in evidence.metadata else "expected"
    if part == "metadata" and "exclude" in evidence.expected:
        refuse(evidence, "exclude stands in expected and in metadata", "name what is left out in one of them")
    gitignore, lines = evidence.expected.get("gitignore", False), getattr(evidence, part).get("exclude", [])
    if type(gitignore) is not bool:
        refuse(evidence, f"expected['gitignore'] must be true or false, found {told(evidence, gitignore)}")
    if type(lines) is not list or not all(type(line) is str and "\n" not in line and "\0" not in line for line in lines):
        refuse(evidence, f"{part}['exclude'] must be a list of lines, found {told(evidence, lines, 80)}")
    try:
        excluded(tuple(lines))
    except UnreadableRulesError as error:
        refuse(evidence, f"{part}['exclude']: {error}", "lines are read as those of a .gitignore")


def subject(evidence: Evidence, base_path: str) -> str:
    """`tree:` and the path, spelled as that of a file."""
    return f"tree:{from_base(evidence.expected['path'], base_path)}"


def _look_key(evidence: Evidence) -> Hashable:
    return evidence.expected["path"], rules_of(evidence), *(limit_of(evidence, name) for name in LIMITS)


def _rules(evidence: Evidence) -> str:
    """A name for what is left out; those of `.gitignore` files differ from tree to tree."""
    rules = rules_of(evidence)
    if rules == Rules():
        return ""
    which = evidence.expected["digest"].lower() if rules.gitignore else ""
    return hashlib.sha256(json.dumps([rules.exclude, which]).encode()).hexdigest()[:16]


def _covers(evidence: Evidence, name: str, kept: Callable[[str], bytes | None]) -> bool:
    """Whether the tree speaks for this name beneath it: where `.gitignore` files may leave it out, if the tree holds it."""
    rules = rules_of(evidence)
    if leaves_out(rules.exclude, name):
        return False
    if not rules.gitignore:
        return True
    tree, _ = _claimed(evidence, {"kept": kept})
    wanted = bytes_of(name)
    return tree is not None and any(path == wanted for path, *_ in tree.entries)


def _judge(evidence: Evidence, facts: dict[str, Any]) -> Verdict:
    expected, path = evidence.expected, _named(evidence)
    if not facts["exists"]:
        near = facts.get("near", [])
        beside = f" Beside it: {', '.join(shown(name, 80) for name in near)}." if near else ""
        return Verdict(Outcome.FAILED, "ARTIFACT_MISSING", f"{path}: expected a folder, found nothing.{beside}", _TRUST)
    if facts["type"] != "directory":
        return Verdict(Outcome.FAILED, "WRONG_TYPE", f"{path}: expected a folder, found a {facts['type']}", _TRUST)
    if facts["aside"]:
        return _judge_rest(evidence, facts)
    verdict = HOLDS if expected["digest"].lower() == facts["digest"] else _differs(evidence, facts)
    if verdict.outcome is not Outcome.VERIFIED:
        return verdict
    for name in ("files", "bytes"):
        if expected.get(name, facts[name]) != facts[name]:
            said = f"{path}: expected {expected[name]:,} {name}, found {facts[name]:,}"
            return Verdict(Outcome.FAILED, "SIZE_MISMATCH", said, _TRUST)
    return verdict


def _judge_rest(evidence: Evidence, facts: dict[str, Any]) -> Verdict:
    """What the tree still speaks for, where later claims speak for parts of it: no digest says anything about that."""
    tree, note = _claimed(evidence, facts)
    if tree is None:
        said = f"{_named(evidence)}: later claims speak for {listed(facts['aside'])}, and the rest cannot be told apart: {note}"
        hint = "claim the tree again, so that one claim speaks for all of it"
        return Verdict(Outcome.ERROR, "MANIFEST_MISSING", said, hint, assurance=None)
    if tree.rules != rules_of(evidence):
        said = f"{_named(evidence)}: its digest was made leaving out something else than the claim does"
        return Verdict(Outcome.FAILED, "RULES_DIFFER", said, "capture the tree with the rules it is claimed with")
    differing = _difference(tree, facts)
    if not differing:
        return HOLDS
    return Verdict(Outcome.FAILED, "TREE_DIFFERS", _told(evidence, differing, tree), _TRUST)


def _differs(evidence: Evidence, facts: dict[str, Any]) -> Verdict:
    tree, note = _claimed(evidence, facts)
    differing = None if tree is None else _difference(tree, facts)
    if tree is not None and differing:
        return Verdict(Outcome.FAILED, "TREE_DIFFERS", _told(evidence, differing, tree), _TRUST)
    if tree is not None and tree.rules == rules_of(evidence):
        return Verdict(Outcome.VERIFIED, "VERIFIED", notes=("a folder came that holds only what the rules leave out",))
    if tree is not None:
        note = "what it holds is the same, but the digest was made leaving out something else"
    want, got = evidence.expected["digest"].lower(), facts["digest"]
    before = f"{evidence.expected['files']:,} -> " if "files" in evidence.expected else ""
    said = f"{_named(evidence)}: expected digest {want[:12]}…, found {got[:12]}… ({before}{facts['files']:,} files)"
    return Verdict(Outcome.FAILED, "TREE_DIFFERS", said, _TRUST, notes=(note,))


def _claimed(evidence: Evidence, facts: dict[str, Any]) -> tuple[Tree | None, str]:
    """The tree that was claimed; None, and why it is not known."""
    kept = facts.get("kept", lambda _: None)
    try:
        tree = claimed_tree(evidence.expected["digest"].lower(), evidence.metadata.get("manifest"), kept)
    except UnfitManifestError as error:
        return None, f"the manifest beside the claim was not used: {error}"
    return tree, _NOT_KEPT


def _difference(tree: Tree, facts: dict[str, Any]) -> Difference:
    aside = frozenset(map(bytes_of, facts["aside"]))
    now = decoded(facts["manifest"]).entries
    found = difference(*((without(entries, aside) if aside else entries) for entries in (tree.entries, now)))
    # A folder in which nothing but what is left out remains could only go together with that.
    extra = [(path, kind) for path, kind in found.extra if kind != FOLDER or path not in facts.get("hiding", ())]
    return found._replace(extra=extra)


def _told(evidence: Evidence, found: Difference, tree: Tree) -> str:
    """How many of what, and the first few names of each."""
    files = sum(WORDS[kind].endswith("file") for _, kind, *_ in tree.entries)
    parts = {
        "changed": [_text(path) if was == now else f"{_text(path)} ({_became(was, now)})" for path, was, now in found.changed],
        "missing": [_text(path, kind) for path, kind in found.missing],
        "extra": [_text(path, kind) for path, kind in found.extra],
    }
    counts = ", ".join(f"{len(names):,} {what}" for what, names in parts.items() if names)
    lists = " ".join(f"{what.capitalize()}: {listed(names, _NAMED)}." for what, names in parts.items() if names)
    return f"{_named(evidence)}: {counts} of {files:,} files. {lists}"


def _became(was: int, now: int) -> str:
    return f"{WORDS[was]} -> {WORDS[now]}"


def _text(path: bytes, kind: int = 0) -> str:
    return shown(text_of(path)) + ("/" if kind == FOLDER else "")


def _named(evidence: Evidence) -> str:
    return f"{shown(evidence.expected['path']).rstrip('/')}/"


def _fill(evidence: Evidence, seen: Seen) -> Filled | None:
    facts = seen.facts
    if "digest" not in facts:
        return None
    counts = {name: facts[name] for name in ("digest", "files", "bytes")}
    manifest = packed(facts["manifest"], kept=facts.get("keeps", False))
    metadata = {name: value for name, value in evidence.metadata.items() if name != "manifest"}
    if manifest is not None:
        metadata["manifest"] = manifest
    return {**evidence.expected, "algo": ALGORITHM, **counts}, metadata


def _brief(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: fact for name, fact in facts.items() if name not in ("manifest", "hiding", "kept")}


_COUNT = {"type": "integer", "minimum": 0, "maximum": _LARGEST - 1}
_LINES = {"type": "array", "items": {"type": "string", "pattern": "^[^\\u0000\\n]+$"}}
_LEAVES_OUT = {"required": ["exclude"]}
_LIMIT = {"type": "integer", "minimum": 1, "maximum": _LARGEST - 1}

DIRECTORY_TREE = Kind(
    {
        "path": PATH,
        "digest": {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"},
        "algo": {"const": ALGORITHM},
        "exclude": _LINES,
        "gitignore": {"type": "boolean"},
        "files": _COUNT,
        "bytes": _COUNT,
    },
    frozenset({"path", "digest"}),
    Lifetime.LASTING,
    _check,
    subject,
    _judge,
    metadata={"manifest": {"type": "string", "maxLength": MOST_TEXT}, "exclude": _LINES, **dict.fromkeys(LIMITS, _LIMIT)},
    together=({"not": {"properties": {"expected": _LEAVES_OUT, "metadata": _LEAVES_OUT}, "required": ["metadata"]}},),
    effort=Effort.READ,
    fill=_fill,
    look_key=_look_key,
    brief=_brief,
    rules=_rules,
    covers=_covers,
)
