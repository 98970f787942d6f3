"""EvidenceVerifier: looks at the world through probes, judges by kinds and policy, and records what came of it.

The order is fixed: (1) the definition is checked, (2) the probe observes, (3) the kind judges. One bad item never stops the
others, and nothing here raises for bad evidence: the answer is False, and why.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentos._fork import importing
from agentos._text import shown
from agentos.core.checkpoints import policy
from agentos.core.checkpoints.kinds import kind_of, probe_of
from agentos.core.checkpoints.kinds.kind import Effort
from agentos.core.checkpoints.models import Evidence, EvidencePack
from agentos.core.checkpoints.observing import Observation, Probe, Surroundings, Unseen
from agentos.core.checkpoints.patience import limit_of, patiently
from agentos.core.checkpoints.results import Assurance, EvidenceResult, Outcome
from agentos.errors import EvidenceDefinitionError, InvalidInputError

DEFAULT_TIMEOUT = 300.0


class EvidenceVerifier:
    """Checks evidence against the world as it is now.

    Args:
        base_path: where relative paths resolve (default: the current directory, made absolute now).
        allowed_roots: if given, absolute paths must lie beneath one of these.
        timeout: seconds one item may take before it counts as not checkable.
        deadline: seconds all items of a pack may take together (default: each has its own limit only).
        strict: what is only declared does not count.
    """

    def __init__(
        self,
        base_path: str | Path | None = None,
        *,
        allowed_roots: Iterable[str | Path] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        deadline: float | None = None,
        strict: bool = False,
        probes: Mapping[Any, Probe] | None = None,
    ) -> None:
        if probes is None:
            from agentos.wiring import default_probes  # noqa: PLC0415 - rules do not know the eyes; wiring does

            probes = default_probes()
        if type(strict) is not bool:
            raise InvalidInputError(f"strict must be true or false, found {shown(strict, 60)}")
        self._probes = probes
        self._deadline = None if deadline is None else _seconds("deadline", deadline)
        self._least = Assurance.RECORDED if strict else None
        self.around = Surroundings(
            base_path=absolute(base_path),
            allowed_roots=_roots(allowed_roots),
            timeout=_seconds("timeout", timeout),
        )

    @property
    def base_path(self) -> Path:
        """Where relative paths resolve."""
        return Path(self.around.base_path)

    def moved(self, base_path: str) -> EvidenceVerifier:
        """The same verifier, looking from another base."""
        other = copy(self)
        other.around = replace(self.around, base_path=base_path)
        return other

    def verify_evidence(self, evidence: Evidence) -> bool:
        """Whether this one claim holds now. The item carries the answer: `verified`, `verification_error`, `result`."""
        self._look_at([evidence], self.around, None)
        return evidence.verified

    def verify_evidence_pack(self, pack: EvidencePack) -> bool:
        """Whether enough of the pack holds now, by its own policy. Every item is looked at."""
        if not isinstance(pack, EvidencePack):
            raise InvalidInputError(f"what is verified must be an EvidencePack, found {shown(pack, 80)}")
        try:
            policy.refuse_spoiled(pack)
        except EvidenceDefinitionError:
            return False
        return self.judge_pack(pack, self.around) is Outcome.VERIFIED

    def verify_multiple(self, evidence_list: list[Evidence]) -> dict[str, Any]:
        """Look at each item and count. `failed` is everything that is not verified; no items is no success."""
        if not isinstance(evidence_list, (list, tuple)):
            raise InvalidInputError(f"what is verified must be a list of Evidence, found {shown(evidence_list, 80)}")
        self._look_at(evidence_list, self.around, None)
        verified, total = sum(evidence.verified for evidence in evidence_list), len(evidence_list)
        return {
            "total": total,
            "verified": verified,
            "failed": total - verified,
            "success_rate": verified / total if total else 0.0,
            "all_passed": total > 0 and verified == total,
        }

    def judge_pack(self, pack: EvidencePack, around: Surroundings, *, checked: bool = False) -> Outcome:
        """Look at every item from `around`; the outcome of the whole pack.

        Args:
            checked: the definitions were checked just now, or when they were stored.
        """
        if checked:
            return self.judge_seen(pack, self.observe_all([(item, around) for item in pack.evidence_list]))
        self._look_at(pack.evidence_list, around, pack.min_assurance)
        return policy.outcome_of(pack)

    def judge_seen(self, pack: EvidencePack, seen: Sequence[Observation]) -> Outcome:
        """The same where the looks were taken already, one per item in order."""
        least, now = self.least(pack), datetime.now(UTC)
        for item, observation in zip(pack.evidence_list, seen, strict=True):
            item.record(kind_of(item).result(item, observation, observation.took_ms, least=least), now)
        return policy.outcome_of(pack)

    def least(self, pack: EvidencePack) -> Assurance | None:
        """How sure an item of this pack must be to count."""
        wanted = pack.min_assurance
        if self._least is None or (wanted is not None and wanted.reaches(self._least)):
            return wanted
        return self._least

    def _look_at(self, evidence: Sequence[Evidence], around: Surroundings, least: Assurance | None) -> None:
        """Check each definition, look at those that can be, and record what came of it."""
        pack = EvidencePack(min_assurance=least)
        for item in evidence:
            if not isinstance(item, Evidence):
                raise InvalidInputError(f"what is verified must be Evidence, found {shown(item, 80)}")
            try:
                kind_of(item).refuse_malformed(item)  # (1)
            except EvidenceDefinitionError as error:
                item.record(EvidenceResult(Outcome.ERROR, "INVALID_DEFINITION", error.message, error.hint), datetime.now(UTC))
            else:
                pack.evidence_list.append(item)
        seen = self.observe_all([(item, around) for item in pack.evidence_list])  # (2)
        self.judge_seen(pack, seen)  # (3)

    # Looking without judging.

    def observe(self, evidence: Evidence, around: Surroundings, *, once: bool = True) -> Observation:
        """Look at one thing. What a probe raises is its bug, and reads as "could not look".

        Args:
            once: what differs is not looked at again, whatever it is.
        """
        return patiently(lambda around: self._probed(evidence, around), kind_of(evidence), evidence, around, once=once)

    def observe_all(
        self, asked: Sequence[tuple[Evidence, Surroundings]], *, once: bool = False, deadline: float | None = None
    ) -> list[Observation]:
        """Look at each of these, side by side where that helps; what was seen, in this order.

        Args:
            deadline: seconds for all of them together.
        """
        until = self._deadline if deadline is None else deadline
        if not asked:
            return []
        if len(asked) == 1 and until is None and kind_of(asked[0][0]).effort is not Effort.WAIT:
            return [self.observe(*asked[0], once=once)]
        with importing:
            from agentos.core.checkpoints.together import Asked, look_at_all  # noqa: PLC0415 - a pack of one needs no company

        def look(evidence: Evidence, around: Surroundings) -> Observation:
            return self.observe(evidence, around, once=once)

        def one(evidence: Evidence, around: Surroundings) -> Asked:
            kind, probe = kind_of(evidence), self._probe(evidence)
            size = getattr(probe, "size", None) if kind.effort is Effort.READ else None
            return Asked(evidence, around, kind.effort, limit_of(evidence, kind, around), look, size)

        return look_at_all([one(*each) for each in asked], until)

    def _probe(self, evidence: Evidence) -> Probe | None:
        return self._probes.get(evidence.evidence_type) or probe_of(evidence)

    def _probed(self, evidence: Evidence, around: Surroundings) -> Observation:
        probe = self._probe(evidence)
        if probe is None:
            name = shown(evidence.evidence_type, 60)
            return Unseen("NO_PROBE", f"nothing here can look at {name}", "import the module that brings this type of evidence")
        try:
            return probe.observe(evidence, around)
        except Exception as error:  # noqa: BLE001 - a probe's bug must never read as "the world differs"
            return Unseen(
                "INTERNAL",
                f"{evidence.evidence_type}: the probe broke: {type(error).__name__}: {shown(str(error), 200)}",
                "this is a bug in agentos; the claim was not checked",
            )


def _roots(allowed_roots: Iterable[str | Path] | None) -> tuple[str, ...]:
    if allowed_roots is None:
        return ()
    # A single path would be taken letter by letter, and its first letter is the root of everything.
    if isinstance(allowed_roots, (str, bytes, os.PathLike)) or not isinstance(allowed_roots, Iterable):
        raise InvalidInputError(f"allowed_roots must be a list of paths, found {shown(allowed_roots, 80)}")
    roots = tuple(absolute(root, "allowed_roots") for root in allowed_roots)
    if not roots:
        raise InvalidInputError("allowed_roots is empty and would bound nothing", hint="leave it out to allow every path")
    return roots


def absolute(path: str | Path | None, name: str = "base_path", start: str | Path | None = None) -> str:
    """The path made absolute now, against `start` or the current directory: a later chdir does not change its meaning."""
    if path is not None and (not isinstance(path, (str, os.PathLike)) or not os.fspath(path) or "\0" in os.fspath(path)):
        raise InvalidInputError(f"{name} must be a path, found {shown(path, 80)}")
    try:
        found = os.path.abspath(os.path.join(start or "", path or ""))
    except FileNotFoundError:
        raise InvalidInputError(
            f"the current directory is not there: {name} has nothing to start from", hint="change to a folder that exists"
        ) from None
    try:
        found.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(
            f"{name} {shown(found, 120)}: its name is not UTF-8, which the registry cannot keep", hint="rename the folder"
        ) from None
    return found


def _seconds(name: str, value: float) -> float:
    try:
        # A whole number may be larger than any time can be counted in.
        seconds = float(value) if type(value) in (int, float) else 0.0
    except OverflowError:
        seconds = 0.0
    if not seconds > 0:
        raise InvalidInputError(f"{name} must be a positive number of seconds, found {shown(value, 60)}")
    return value
