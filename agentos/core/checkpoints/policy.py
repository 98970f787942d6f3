"""Judge a pack of evidence.

Silence is failure: an item that was not looked at does not count, and an empty pack never verifies.
Looking at the world is not done here: see probes/.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentos._text import listed, shown
from agentos.core.checkpoints.kinds import is_known
from agentos.core.checkpoints.models import Evidence, EvidencePack
from agentos.core.checkpoints.results import Assurance, Outcome
from agentos.core.checkpoints.subjects import SUBJECT_KINDS
from agentos.errors import EvidenceDefinitionError


def required(pack: EvidencePack) -> int:
    """How many items must hold. Part is enough only when the pack says so twice."""
    if not pack.require_all and pack.allow_partial:
        return max(1, pack.min_verified)
    return max(len(pack.evidence_list), pack.min_verified)


def holds(pack: EvidencePack, outcomes: Sequence[Outcome]) -> bool:
    """Whether these outcomes, one per item in order, meet the pack's policy."""
    if not pack.evidence_list or len(outcomes) != len(pack.evidence_list):
        return False
    return outcomes.count(Outcome.VERIFIED) >= required(pack)


def verdict(pack: EvidencePack, outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome of the whole pack.

    `error` when it does not hold but might, were everything visible: nothing destructive may follow from that.
    """
    if holds(pack, outcomes):
        return Outcome.VERIFIED
    return _shortfall(outcomes, required(pack)) if pack.evidence_list else Outcome.FAILED


def outcome_of(pack: EvidencePack) -> Outcome:
    """The outcome of the whole pack by the results its items carry; what carries none was not looked at."""
    return verdict(pack, [Outcome.NOT_RUN if item.result is None else item.result.outcome for item in pack.evidence_list])


def left_holds(pack: EvidencePack, outcomes: Sequence[Outcome]) -> bool:
    """The same for what later steps left of the pack, one outcome per item that is left.

    Whoever asks for two of three does not ask for two of the one that is left.
    """
    return 0 < len(outcomes) <= len(pack.evidence_list) and outcomes.count(Outcome.VERIFIED) >= _required_left(pack, outcomes)


def left_verdict(pack: EvidencePack, outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome of what is left of the pack; `error` as in `verdict`."""
    return Outcome.VERIFIED if left_holds(pack, outcomes) else _shortfall(outcomes, _required_left(pack, outcomes))


def _required_left(pack: EvidencePack, outcomes: Sequence[Outcome]) -> int:
    return min(required(pack), len(outcomes))


def _shortfall(outcomes: Sequence[Outcome], needed: int) -> Outcome:
    unseen = outcomes.count(Outcome.ERROR)
    return Outcome.ERROR if unseen and outcomes.count(Outcome.VERIFIED) + unseen >= needed else Outcome.FAILED


def refuse_spoiled(pack: EvidencePack) -> None:
    """The models check what they are made of; what was put into them afterwards is checked here."""
    good = type(pack.evidence_list) is list and type(pack.require_all) is bool and type(pack.allow_partial) is bool
    if not good or type(pack.min_verified) is not int or pack.min_verified < 0:
        raise EvidenceDefinitionError("EvidencePack: a field was changed to something that the constructor would refuse")
    if pack.min_assurance is not None and not isinstance(pack.min_assurance, Assurance):
        raise EvidenceDefinitionError(
            f"EvidencePack.min_assurance: {shown(pack.min_assurance, 60)} is none of {listed([*Assurance])}"
        )
    refuse_no_subject(pack.releases)
    for number, item in enumerate(pack.evidence_list):
        if not isinstance(item, Evidence) or not _is_whole(item):
            raise EvidenceDefinitionError(
                f"EvidencePack.evidence_list[{number}]: must be Evidence, found {shown(item, 120)}",
                hint="make it with Evidence(evidence_type, description, expected)",
            )


def refuse_no_subject(releases: object) -> None:
    """What is released must be named as a subject is; a name that fits nothing would release nothing, silently."""
    if type(releases) is not list:
        raise EvidenceDefinitionError(f"EvidencePack.releases: must be a list of subjects, found {shown(releases, 80)}")
    for number, subject in enumerate(releases):
        kind, _, rest = subject.partition(":") if type(subject) is str else ("", "", "")
        if kind not in SUBJECT_KINDS or not rest or "\0" in rest:
            raise EvidenceDefinitionError(
                f"EvidencePack.releases[{number}]: must be a subject, found {shown(subject, 120)}",
                hint=f"such as file:out/x; one of these, a colon, and what it is: {', '.join(SUBJECT_KINDS)}",
            )


def _is_whole(item: Evidence) -> bool:
    return (
        is_known(item.evidence_type)
        and type(item.description) is str
        and type(item.expected) is dict
        and type(item.metadata) is dict
    )


def refuse_unreachable(pack: EvidencePack) -> None:
    """A pack that asks for more items than it has can never verify, and says so before anything is stored."""
    if pack.min_verified > len(pack.evidence_list):
        raise EvidenceDefinitionError(
            f"EvidencePack.min_verified: {pack.min_verified} of {len(pack.evidence_list)} items can never be verified",
            hint="lower min_verified or add evidence",
        )
