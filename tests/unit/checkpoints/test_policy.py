"""Policy: how much of a pack must hold, as one table, and what not seeing means for it."""

from __future__ import annotations

from itertools import product

import pytest

from agentos.core.checkpoints import policy
from agentos.core.checkpoints.models import Evidence, EvidencePack, EvidenceType
from agentos.core.checkpoints.results import Outcome
from agentos.errors import EvidenceDefinitionError

VERIFIED, FAILED, ERROR, NOT_RUN = Outcome.VERIFIED, Outcome.FAILED, Outcome.ERROR, Outcome.NOT_RUN

# (require_all, allow_partial, min_verified) -> how many of three must hold.
REQUIRED = {
    (True, False, 0): 3,
    (True, False, 1): 3,
    (True, False, 2): 3,
    (True, True, 0): 3,
    (True, True, 1): 3,
    (True, True, 2): 3,
    (False, False, 0): 3,
    (False, False, 1): 3,
    (False, False, 2): 3,
    (False, True, 0): 1,
    (False, True, 1): 1,
    (False, True, 2): 2,
    (False, True, 3): 3,
}


def pack_of(count: int, *settings: bool | int) -> EvidencePack:
    claims = [Evidence(EvidenceType.COMMAND_EXIT, f"claim {number}", {"exit_code": 0}) for number in range(count)]
    return EvidencePack(claims, *settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(("settings", "needed"), REQUIRED.items())
def test_part_is_enough_only_when_the_pack_says_so_twice(settings, needed):
    """Partial counts with require_all off and allow_partial on; in every other combination all must hold."""
    for outcomes in product((VERIFIED, FAILED, ERROR, NOT_RUN), repeat=3):
        assert policy.holds(pack_of(3, *settings), outcomes) is (outcomes.count(VERIFIED) >= needed), outcomes


@pytest.mark.parametrize(("settings", "needed"), REQUIRED.items())
def test_not_seeing_is_an_error_only_where_seeing_could_have_helped(settings, needed):
    """What cannot hold even if everything unseen did is failed; what might is an error, and nothing destructive follows."""
    for outcomes in product((VERIFIED, FAILED, ERROR, NOT_RUN), repeat=3):
        verified, unseen = outcomes.count(VERIFIED), outcomes.count(ERROR)
        expected = VERIFIED if verified >= needed else ERROR if unseen and verified + unseen >= needed else FAILED
        assert policy.verdict(pack_of(3, *settings), outcomes) is expected, outcomes


@pytest.mark.parametrize("settings", list(REQUIRED))
def test_an_empty_pack_never_verifies(settings):
    """Zero checks is not success, under any policy."""
    pack = pack_of(0, *settings)
    assert policy.holds(pack, []) is False
    assert policy.verdict(pack, []) is FAILED
    assert pack.is_verified() is False


def test_silence_is_failure():
    """An outcome for each item, or nothing holds."""
    pack = pack_of(2, False, True, 1)
    assert policy.holds(pack, [VERIFIED]) is False
    assert policy.holds(pack, [VERIFIED, VERIFIED, VERIFIED]) is False


@pytest.mark.parametrize("settings", [(True, False), (False, True), (False, False), (True, True)])
def test_asking_for_more_than_there_is_never_verifies(settings):
    """A minimum above the number of items cannot be met, and is refused before anything is stored."""
    pack = pack_of(2, *settings, 3)
    assert policy.holds(pack, [VERIFIED, VERIFIED]) is False
    with pytest.raises(EvidenceDefinitionError, match="3 of 2 items can never be verified"):
        policy.refuse_unreachable(pack)
    policy.refuse_unreachable(pack_of(2, *settings, 2))


# What is left of a pack when later steps have taken over some of its subjects.

# (require_all, allow_partial, min_verified) of three -> how many must hold of one, two, three that are left.
REQUIRED_OF_LEFT = {
    **{settings: (1, 2, 3) for settings, needed in REQUIRED.items() if needed == 3},
    (False, True, 0): (1, 1, 1),
    (False, True, 1): (1, 1, 1),
    (False, True, 2): (1, 2, 2),
}


@pytest.mark.parametrize("left", [1, 2, 3])
@pytest.mark.parametrize("settings", list(REQUIRED))
def test_what_is_left_is_judged_by_the_packs_own_policy(settings, left):
    """The minimum is capped at what is left; part is enough only where it was for the whole; errors stay errors."""
    needed = REQUIRED_OF_LEFT[settings][left - 1]
    for outcomes in product((VERIFIED, FAILED, ERROR, NOT_RUN), repeat=left):
        verified, unseen = outcomes.count(VERIFIED), outcomes.count(ERROR)
        expected = VERIFIED if verified >= needed else ERROR if unseen and verified + unseen >= needed else FAILED
        assert policy.left_verdict(pack_of(3, *settings), outcomes) is expected, outcomes
        assert policy.left_holds(pack_of(3, *settings), outcomes) is (expected is VERIFIED), outcomes


@pytest.mark.parametrize("settings", list(REQUIRED))
def test_a_pack_of_which_everything_is_left_is_judged_as_a_pack(settings):
    """The two rules meet where nothing was taken over."""
    for outcomes in product((VERIFIED, FAILED, ERROR, NOT_RUN), repeat=3):
        assert policy.left_verdict(pack_of(3, *settings), outcomes) is policy.verdict(pack_of(3, *settings), outcomes)


@pytest.mark.parametrize("settings", list(REQUIRED))
def test_nothing_left_does_not_hold(settings):
    """Zero checks is not success here either, and neither are more answers than there were claims."""
    assert policy.left_verdict(pack_of(3, *settings), []) is FAILED
    assert policy.left_verdict(pack_of(1, *settings), [VERIFIED, VERIFIED]) is FAILED


# What is released.


@pytest.mark.parametrize("releases", [None, ("file:x",), "file:x", ["x"], ["file:"], ["file:a\0b"], ["fle:x"], [7], [None]])
def test_a_release_that_names_nothing_is_refused_after_the_fact_too(releases):
    """A field can be overwritten with anything; what could release nothing is refused before anything is stored."""
    pack = pack_of(1)
    pack.releases = releases
    with pytest.raises(EvidenceDefinitionError, match=r"EvidencePack\.releases"):
        policy.refuse_spoiled(pack)


def test_releases_alone_verify_nothing():
    """Letting go is no evidence: without a claim the pack is empty."""
    assert EvidencePack(releases=["file:x"]).is_verified() is False
