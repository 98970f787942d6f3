"""The JSON schema of a type, and what proves and commits accept, are two forms of one thing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

import agentos
from agentos.core.checkpoints import Evidence, Found, evidence_schema, evidence_type
from agentos.core.checkpoints.kinds import KINDS, kind_of
from agentos.core.checkpoints.kinds.command_record import RECORD
from agentos.core.checkpoints.kinds.rows import ELSEWHERE
from agentos.errors import EvidenceDefinitionError, InvalidInputError
from tests.unit.checkpoints import definitions
from tests.unit.checkpoints.definitions import GOOD, Definition, faulty

# What no schema can say: each is on the page about schemas, and is met below.
BEYOND = (
    r"leaves the base path",
    r"is no regular expression|can match nothing but the empty text|has letters that",
    r"matches no number of things",
    r"does not fit a 64-bit column",
    r"is met by every status, or by none",
    r"must be seconds between samples that fit",
    r"(?:expected|metadata)\['exclude'\]:",
    r"must be a host's name or address|must be an address|names no host, or a port",
)


def _as_ecma(pattern: str) -> str:
    """Python's `$` also matches before a last newline; the `$` of a schema does not."""
    out, in_class, escaped = [], False, False
    for letter in pattern:
        if not escaped and letter in "[]":
            in_class = letter == "["
        out.append(r"\Z" if letter == "$" and not (in_class or escaped) else letter)
        escaped = letter == "\\" and not escaped
    return "".join(out)


def _pattern(_: Any, pattern: str, value: Any, __: Any) -> Any:
    if isinstance(value, str) and not re.search(_as_ecma(pattern), value):
        yield jsonschema.ValidationError(f"{value!r} is not {pattern!r}")


Validator = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": _pattern})
VALIDATORS = {name: Validator(evidence_schema(name)) for name in KINDS}


def by_schema(definition: Definition) -> bool:
    kind, expected, metadata = definition
    document = {"evidence_type": kind, "description": "d", "expected": expected, "metadata": metadata}
    return bool(VALIDATORS[kind].is_valid(document))


def refusal(definition: Definition) -> str | None:
    """Why it is refused when it is committed; None if it is not."""
    kind, expected, metadata = definition
    # A sensitive one is refused without its values; the reasons are to be read here.
    item = Evidence(kind, "d", expected, metadata)
    try:
        kind_of(item).refuse_malformed(item)
    except EvidenceDefinitionError as error:
        return error.message
    return None


def check(definition: Definition, met: set[str]) -> None:
    """The schema refuses what validation refuses and nothing else, but for what no schema can say."""
    said, accepted = refusal(definition), by_schema(definition)
    if said is None:
        assert accepted, f"only the schema refuses {definition}"
    elif accepted:
        beyond = [reason for reason in BEYOND if re.search(reason, said)]
        assert beyond, f"only validation refuses {definition}: {said}"
        met.update(beyond)


@pytest.mark.parametrize("name", KINDS)
def test_every_type_has_a_schema_that_is_one(name):
    """It is a schema by the rules for schemas, and JSON as it is."""
    schema = evidence_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema == json.loads(json.dumps(schema, allow_nan=False))


@pytest.mark.parametrize("name", KINDS)
def test_the_definitions_of_these_tests_use_every_key(name):
    """A key that is added is tried here too."""
    kind = KINDS[name]
    assert set(kind.expected) == {key for type_, expected, _ in GOOD if type_ == name for key in expected}
    # These are keys to be refused: see container_running and db_row.
    used = {key for type_, _, metadata in GOOD if type_ == name for key in metadata} | {"socket", *ELSEWHERE}
    assert set(kind.metadata) - used == set()


@pytest.mark.parametrize("name", KINDS)
def test_what_can_be_checked_passes_both(name):
    """Neither form is narrower than what is meant."""
    for definition in GOOD:
        if definition[0] == name:
            assert (None, True) == (refusal(definition), by_schema(definition)), definition


def test_what_is_wrong_with_a_definition_is_found_by_both():
    """Every definition with every small fault; the two disagree only about what no schema can say."""
    met: set[str] = set()
    for good in GOOD:
        for definition in faulty(good):
            check(definition, met)
    assert set(BEYOND) == met


def test_what_is_wrong_in_several_places_is_found_by_both(seed: int, count: Callable[[int, int], int]):
    """Faults that meet, as drawn by the seed."""
    rng, met = Random(seed), set[str]()
    once = {good: list(faulty(definition)) for good, definition in enumerate(GOOD)}
    for _ in range(count(500, 20_000)):
        definition = rng.choice(once[rng.randrange(len(GOOD))])
        more = list(faulty(definition))
        check(rng.choice(more) if more else definition, met)


@pytest.mark.parametrize("key", ["timeout", "deadline"])
def test_a_time_limit_of_any_type_is_part_of_its_schema(key):
    """Nothing is waited for where what was recorded is judged: there the word may mean something else."""
    for name, expected, _ in GOOD:
        assert by_schema((name, expected, {key: -1})) is (name == "command_exit")


def test_the_schema_of_a_record_is_met_by_what_capturing_writes():
    """And not by what the judge of a record refuses."""
    record = Evidence.capture_command(["true"], cwd="/").metadata["record"]
    validator = jsonschema.Draft202012Validator(RECORD)
    assert validator.is_valid(record)
    assert validator.is_valid(definitions.RECORD)
    assert not validator.is_valid({**record, "exit_code": "0"})
    assert not validator.is_valid({name: value for name, value in record.items() if name != "argv"})


def test_a_type_of_your_own_has_one_too():
    """Its keys, which must be there, and what every claim may say."""

    @evidence_type("schema_of_my_own", required=("queue",), optional=("least",))
    def looks(_claim: Evidence, _around: object) -> Found:
        return Found.holds()

    validator = Validator(evidence_schema("schema_of_my_own"))
    good: dict[str, Any] = {
        "evidence_type": "schema_of_my_own",
        "description": "d",
        "expected": {"queue": "a"},
        "metadata": {"timeout": 1},
    }
    assert validator.is_valid(good)
    assert not validator.is_valid({**good, "expected": {"least": 1}})
    assert not validator.is_valid({**good, "expected": {"queue": "a", "other": 1}})
    assert not validator.is_valid({**good, "metadata": {"timeout": "soon"}})
    Evidence(**good)


@pytest.mark.parametrize("name", ["nothing_of_this_name", "", None, 3])
def test_a_type_that_nobody_knows_has_none(name):
    """The error names it, and the types that are known."""
    with pytest.raises(InvalidInputError, match="evidence_type is") as refused:
        evidence_schema(name)
    assert "file_sha256" in refused.value.hint


def test_it_is_reached_from_the_top():
    """Whoever writes claims finds it beside `Evidence`."""
    assert agentos.evidence_schema("db_row") == evidence_schema("db_row")
