"""EvidenceVerifier: looks at the world through probes, judges by kinds and policy, and records what came of it.

The order is fixed: (1) the definition is checked, (2) the probe observes, (3) the kind judges. One bad item never stops the
others, and nothing here raises for bad evidence: the answer is False, and why.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints import policy
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.models import Evidence, EvidencePack, EvidenceResult, EvidenceType, Outcome
from agentos.core.checkpoints.observing import Observation, Probe, Surroundings, Unseen
from agentos.errors import EvidenceDefinitionError, InvalidInputError

DEFAULT_TIMEOUT = 300.0


class EvidenceVerifier:
    """Checks evidence against the world as it is now.

    Args:
        base_path: where relative paths resolve (default: the current directory, made absolute now).
        allowed_roots: if given, absolute paths must lie beneath one of these.
        timeout: seconds one item may take before it counts as not checkable.
    """

    def __init__(
        self,
        base_path: str | Path | None = None,
        *,
        allowed_roots: Iterable[str | Path] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        probes: Mapping[EvidenceType, Probe] | None = None,
    ) -> None:
        if probes is None:
            from agentos.wiring import default_probes  # noqa: PLC0415 - rules do not know the eyes; wiring does

            probes = default_probes()
        if type(timeout) not in (int, float) or not timeout > 0:
            raise InvalidInputError(f"timeout must be a positive number of seconds, found {shown(timeout, 60)}")
        self._probes = probes
        self.around = Surroundings(
            base_path=absolute(base_path),
            allowed_roots=_roots(allowed_roots),
            timeout=timeout,
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
        self._look(evidence, self.around)
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
        verified = sum(self.verify_evidence(evidence) for evidence in evidence_list)
        total = len(evidence_list)
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
        look = self._judge if checked else self._look
        return policy.verdict(pack, [look(evidence, around).outcome for evidence in pack.evidence_list])

    def _look(self, evidence: Evidence, around: Surroundings) -> EvidenceResult:
        if not isinstance(evidence, Evidence):
            raise InvalidInputError(f"what is verified must be Evidence, found {shown(evidence, 80)}")
        try:
            kind_of(evidence).refuse_malformed(evidence)  # (1)
        except EvidenceDefinitionError as error:
            result = EvidenceResult(Outcome.ERROR, "INVALID_DEFINITION", error.message, error.hint)
            evidence.record(result, datetime.now(UTC))
            return result
        return self._judge(evidence, around)

    def _judge(self, evidence: Evidence, around: Surroundings) -> EvidenceResult:
        started = time.monotonic()
        observation = self.observe(evidence, around)  # (2)
        result = kind_of(evidence).result(evidence, observation, round((time.monotonic() - started) * 1000, 3))  # (3)
        evidence.record(result, datetime.now(UTC))
        return result

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        """Look once, and judge nothing. What a probe raises is its bug, and reads as "could not look"."""
        probe = self._probes.get(evidence.evidence_type)
        if probe is None:
            return Unseen("NO_PROBE", f"nothing here can look at {evidence.evidence_type}")
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
