"""Evidence types of your own: a name, a function that looks, and the same limits, retries and reports as every other type.

    @evidence_type("queue_drained", required=("queue",), retries="failures")
    def queue_drained(claim, around):
        depth = broker.depth(claim.expected["queue"], timeout=around.timeout)
        if depth == 0:
            return Found.holds(depth=depth)
        return Found.differs(f"queue {claim.expected['queue']}: expected it empty, found {depth} messages", depth=depth)

A type is known once the module that defines it was imported. A package may also name it under the entry point group
`agentos.evidence`, by the name of the type: then it is loaded when a claim of that type is met. Only what is installed is ever
loaded; nothing stored says what.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from agentos._fork import importing
from agentos._log import warn
from agentos._text import listed, shown
from agentos.core.checkpoints import codec
from agentos.core.checkpoints.kinds.kind import Effort, Kind, Lifetime, Retries, Schema, Verdict, refuse, told
from agentos.core.checkpoints.kinds.unknown import named_by_all
from agentos.core.checkpoints.models import Evidence, EvidenceType
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings, Unseen
from agentos.core.checkpoints.results import Outcome
from agentos.errors import InvalidInputError, SnapshotError

GROUP = "agentos.evidence"
_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_OUTCOMES = (Outcome.VERIFIED, Outcome.FAILED, Outcome.ERROR)


@dataclass(frozen=True, slots=True)
class Found:
    """What a look at a claim of your own gave: it holds, it differs, or it could not be seen. The rest is for the report."""

    outcome: Outcome
    message: str = ""
    hint: str = ""
    facts: dict[str, Any] | None = None
    transient: bool = False

    @classmethod
    def holds(cls, **facts: Any) -> Found:
        """The world is as claimed."""
        return cls(Outcome.VERIFIED, facts=facts)

    @classmethod
    def differs(cls, message: str, *, hint: str = "", **facts: Any) -> Found:
        """The world was seen, and is not as claimed; say what was expected and what was found."""
        return cls(Outcome.FAILED, message, hint, facts)

    @classmethod
    def unseen(cls, message: str, *, hint: str = "", transient: bool = False) -> Found:
        """It could not be looked at, which says nothing about the world; `transient` if looking again may help."""
        return cls(Outcome.ERROR, message, hint, transient=transient)


Looks = Callable[[Evidence, Surroundings], Found]


def evidence_type(
    name: str,
    *,
    required: Collection[str] = (),
    optional: Collection[str] = (),
    lifetime: str = "step",
    retries: str = "transient",
    content: bool = True,
    subject: Callable[[Evidence], str] | None = None,
) -> Callable[[Looks], Looks]:
    """Register a type of evidence: the decorated function looks at one claim and gives a `Found`.

    Args:
        name: what the type is called, in lower case.
        required: keys that `expected` must have; `optional`: keys that it may have. Others are refused when it is committed.
        lifetime: `lasting`, `step` or `task`: how long such a claim stands.
        retries: what is looked at again: `never`, `transient` (a look that could not be taken), or `failures` (one that
            differed too, within a deadline).
        content: what is looked at does not come and go by itself: a pass after a failure does not count.
        subject: what a claim is about, in a few words; a later claim about the same ends an earlier one (default: all of
            `expected`).

    Raises:
        InvalidInputError: the name is taken, or an argument is none of these.
    """
    _refuse_unusable(name)
    _refuse_no_arguments(required, optional, content, subject)
    keys: dict[str, Schema] = {key: {} for key in (*optional, *required)}
    kind = Kind(
        keys,
        frozenset(required),
        _choice(Lifetime, "lifetime", lifetime),
        # What it is about is asked for here too: it must be known before anything is stored.
        lambda evidence: None if subject is None else _refuse_no_subject(evidence, subject),
        named_by_all if subject is None else lambda evidence, _: f"custom:{name}:{subject(evidence)}",
        _judge,
        retries=_choice(Retries, "retries", retries),
        effort=Effort.WAIT,
        deadline=30.0,
        content=content,
    )

    def register(looks: Looks) -> Looks:
        if not callable(looks):
            raise InvalidInputError(f"evidence_type: {name} must be defined by a function that looks, found {shown(looks, 60)}")
        known = _probes.get(name)
        if known is not None and known.origin != _origin(looks):
            raise InvalidInputError(f"evidence_type: {name} is taken by {known.origin}", hint="give it another name")
        _kinds[name], _probes[name] = kind, _Own(name, looks)
        return looks

    return register


_kinds: dict[str, Kind] = {}
_probes: dict[str, _Own] = {}
_asked_for: set[str] = set()


class _Own:
    """The probe around a function of somebody else's."""

    def __init__(self, name: str, looks: Looks) -> None:
        self._name, self._looks = name, looks
        self.origin = _origin(looks)

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        try:
            # A copy: whoever looks must not change what is claimed.
            found = self._looks(deepcopy(evidence), around)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - somebody else's bug says nothing about the world
            said = f"{self._name}: the probe broke: {type(error).__name__}: {shown(str(error), 200)}"
            return Unseen("INTERNAL", said, "this is a bug in what looks for this type; the claim was not checked")
        if not isinstance(found, Found):
            return Unseen("BAD_ANSWER", f"{self._name}: a look must give a Found, and gave {shown(found, 80)}")
        if found.outcome not in _OUTCOMES or type(found.message) is not str or type(found.hint) is not str:
            said = f"{self._name}: a Found holds, differs or is unseen, with a message in text, and gave {shown(found, 80)}"
            return Unseen("BAD_ANSWER", said, "make it with Found.holds, Found.differs or Found.unseen")
        if found.outcome is Outcome.ERROR:
            return Unseen("UNSEEN", shown(found.message), shown(found.hint), transient=found.transient)
        try:
            facts = codec.decode(codec.encode(found.facts or {}, "facts"))
        except SnapshotError as error:
            return Unseen("BAD_ANSWER", f"{self._name}: {error.message}", error.hint)
        holds = found.outcome is Outcome.VERIFIED
        return Seen({"holds": holds, "message": shown(found.message), "hint": shown(found.hint), "facts": facts})


def _origin(looks: Looks) -> str:
    """Where it is defined: a module that is loaded again may define its types again."""
    return f"{getattr(looks, '__module__', '')}.{getattr(looks, '__qualname__', repr(looks))}"


def _judge(evidence: Evidence, facts: dict[str, Any]) -> Verdict:
    if facts["holds"]:
        return Verdict(Outcome.VERIFIED, "VERIFIED")
    said = facts["message"] or f"{evidence.evidence_type}: not as claimed"
    return Verdict(Outcome.FAILED, "DIFFERS", said, facts["hint"])


def kind_named(name: str) -> Kind | None:
    """The rules of a type that was registered, or that an installed package brings."""
    if name not in _kinds and name not in _asked_for and _NAME.fullmatch(name):
        _asked_for.add(name)
        _load(name)
    return _kinds.get(name)


def probe_named(name: str) -> _Own | None:
    """What looks at it."""
    return _probes.get(name)


def _load(name: str) -> None:
    with importing:
        from importlib.metadata import entry_points  # noqa: PLC0415 - only for a type that is not ours

        for entry in entry_points(group=GROUP, name=name):
            try:
                entry.load()
            except Exception as error:  # noqa: BLE001 - a plugin that cannot be imported makes its claims uncheckable, nothing else
                warn("evidence", "entry point %s cannot be loaded: %s", shown(name, 80), shown(repr(error), 200))


def _refuse_unusable(name: str) -> None:
    if type(name) is not str or not _NAME.fullmatch(name):
        said = f"evidence_type: {shown(name, 80)} is no name for a type"
        raise InvalidInputError(said, hint="lower case, such as queue_drained")
    if name in {each.value for each in EvidenceType}:
        raise InvalidInputError(f"evidence_type: {name} comes with agentos", hint="give it another name")


def _refuse_no_arguments(required: object, optional: object, content: object, subject: object) -> None:
    for what, keys in (("required", required), ("optional", optional)):
        # A single name would be taken letter by letter, and no claim could have these keys.
        if isinstance(keys, (str, bytes)) or not isinstance(keys, Collection) or not all(type(key) is str for key in keys):
            hint = 'such as required=("queue",)'
            raise InvalidInputError(f"evidence_type: {what} must be a list of keys, found {shown(keys, 60)}", hint=hint)
    if type(content) is not bool:
        raise InvalidInputError(f"evidence_type: content must be true or false, found {shown(content, 60)}")
    if subject is not None and not callable(subject):
        raise InvalidInputError(f"evidence_type: subject must be a function of the claim, found {shown(subject, 60)}")


def _refuse_no_subject(evidence: Evidence, subject: Callable[[Evidence], str]) -> None:
    try:
        named = subject(evidence)
    except Exception as error:  # noqa: BLE001 - somebody else's bug; what it is about is not known
        named = None
        why = f"its subject could not be told: {type(error).__name__}: {told(evidence, str(error), 200)}"
    else:
        why = f"its subject must be text, found {told(evidence, named)}"
    if type(named) is not str or not named or "\0" in named:
        refuse(evidence, why, "this is a bug in what defines this type")


def _choice(of: Any, what: str, given: str) -> Any:
    if given not in {each.value for each in of}:
        raise InvalidInputError(f"evidence_type: {what} is {shown(given, 60)}", hint=f"one of: {listed([*of])}")
    return of(given)
