"""No order of claims, pauses, deaths, ticks and restarts lets a stale write land: every one of them is tried.

Bounds keep the search finite: how many tokens, ticks, begun steps, deaths and restarts one run may have.
A search that finds nothing proves little unless it finds what is planted, so every rule is also broken on purpose.
"""

from dataclasses import replace

import pytest

from agentos.core.checkpoints import claiming
from agentos.core.checkpoints.claiming import Claim, Decision
from agentos.core.checkpoints.identifiers import check_ttl
from agentos.core.checkpoints.lease import Lease
from agentos.errors import InvalidInputError, LeaseLostError
from tests.unit.checkpoints import claim_model
from tests.unit.checkpoints.claim_model import Action, Rules, search

RESTARTS = Rules(tokens=2, ticks=1, begins=1, deaths=1, reboots=1)
TWO_STEPS = Rules(tokens=2, ticks=1, begins=2, deaths=0, reboots=1)
TAKEOVERS = Rules(tokens=3, ticks=1, begins=1, deaths=0, reboots=0)


def believing(alive=lambda seen: seen, now=lambda moment: moment, boot=lambda claim, named: named):
    """The rule about takeovers, told something else than what was observed."""

    def planted(claim, holder, seen, moment, named):
        return claiming.may_take(claim, holder, alive(seen), now(moment), boot(claim, named))

    return planted


def granting(token):
    return lambda claim, *rest: replace(claiming.granted(claim, *rest), token=token(claim))


PLANTED = {
    "whoever asks gets it": ("may_take", lambda *_: Decision.TAKE, "a claim was stolen"),
    "out of sight is dead": ("may_take", believing(alive=bool), "a claim was stolen"),
    "the dead still hold": ("may_take", believing(alive=lambda _: True), "a dead holder kept the task"),
    "a clock is ahead": ("may_take", believing(now=lambda moment: moment + 1), "a claim was stolen"),
    "a clock stands still": ("may_take", believing(now=lambda _: 0), "an expired claim was kept"),
    "restarts go unnoticed": ("may_take", believing(boot=lambda claim, _: claim.boot), "a claim outlived its machine"),
    "one token for all": ("granted", granting(lambda claim: 1), "a token was given out twice"),
    "tokens run backwards": ("granted", granting(lambda claim: claim.token - 1), "a token went back"),
    "steps are not fenced": ("fence_step", lambda *_: None, "a stale write landed"),
    "leases are not fenced": ("fence_lease", lambda *_: None, "two current claims"),
    "a begin asks nobody": ("entered", lambda claim, *_: claim, "a write landed beside a living holder"),
}


class TestEveryOrderOfEvents:
    def test_no_promise_is_broken_across_deaths_and_restarts(self, full):
        """Holders die, come back as others, and the machine is restarted: nothing stale lands, nothing living is robbed."""
        found = search(replace(RESTARTS, ticks=2, begins=2) if full else RESTARTS)
        assert ("", ()) == (found.broken, found.trace)
        assert found.states > (600_000 if full else 75_000)

    def test_no_promise_is_broken_with_two_steps_under_way(self, full):
        """Two steps of one or two holders, with leases and without."""
        found = search(replace(TWO_STEPS, ticks=2) if full else TWO_STEPS)
        assert ("", ()) == (found.broken, found.trace)
        assert found.states > 70_000

    def test_no_promise_is_broken_by_a_takeover_of_a_takeover(self, full):
        """The first holder may be the third one again, with a lease of its own and a step from before."""
        found = search(replace(TAKEOVERS, begins=2, deaths=1) if full else TAKEOVERS)
        assert ("", ()) == (found.broken, found.trace)
        assert found.states > (400_000 if full else 9_000)


class TestTheSearchFindsWhatIsPlanted:
    def test_without_the_token_check_a_stale_write_lands(self):
        """The shortest way there: a claim runs out, another holder takes the task, and the first one commits all the same."""
        found = search(Rules(token_decides=False, unleased=False))
        assert "a stale write landed" == found.broken
        first, last = found.trace[0], found.trace[-1]
        assert (Action("claim", 0, 1), Action("land", 0)) == (first, last)
        assert ["begin", "claim", "claim", "commit", "land", "tick"] == sorted(action.name for action in found.trace)
        assert {1} == {action.who for action in found.trace[1:] if action.name == "claim"}

    def test_without_the_token_check_a_step_without_a_lease_lands_late_too(self):
        """Nobody has to hold anything to be stale: begun, then another claims, then committed."""
        found = search(Rules(token_decides=False))
        assert "a stale write landed" == found.broken
        assert ("begin unleased", "commit", "claim", "land") == tuple(action.name for action in found.trace)

    def test_expiry_cannot_take_the_place_of_the_token(self):
        """Whoever asks the clock before it writes may be stopped between the two, until another has taken over."""
        found = search(Rules(token_decides=False, expiry_decides=True, unleased=False))
        assert "a stale write landed" == found.broken
        assert (
            Action("claim", 0, 1),
            Action("begin", 0),
            Action("commit", 0),
            Action("tick"),
            Action("claim", 1, 1),
            Action("land", 0),
        ) == found.trace

    def test_a_begin_without_a_lease_has_to_end_the_claim_that_it_overrides(self):
        """With the same token left in force, it would write beside a holder that only slept."""
        found = search(Rules(a_begin_ends_what_it_overrides=False))
        assert "a write landed beside a living holder" == found.broken
        assert ("claim", "tick", "begin unleased", "commit", "land") == tuple(action.name for action in found.trace)

    @pytest.mark.parametrize("mistake", [*PLANTED])
    def test_a_rule_that_is_broken_is_found_broken(self, monkeypatch, mistake):
        """Each rule by itself carries a promise that the search knows."""
        rule, planted, promise = PLANTED[mistake]
        monkeypatch.setattr(claim_model, rule, planted)
        assert promise == search(Rules()).broken


class TestTheRules:
    HELD = Claim("a", 7, "boot", 100.0)

    @pytest.mark.parametrize(
        ("claim", "alive", "now", "expected"),
        [
            (Claim(None, 7), None, 0.0, "take"),
            (HELD, True, 99.9, "held"),
            (HELD, None, 99.9, "held"),
            (HELD, False, 99.9, "take"),
            (HELD, True, 100.0, "take"),
            (HELD, None, 100.0, "take"),
            (replace(HELD, expires=None), True, 1e12, "held"),
            (replace(HELD, expires=None), None, 1e12, "held"),
            (replace(HELD, boot="an earlier one"), True, 0.0, "take"),
            (replace(HELD, boot="an earlier one", expires=None), None, 0.0, "take"),
            (replace(HELD, boot=None), None, 1e12, "held"),
        ],
    )
    def test_when_another_holder_gets_the_task(self, claim, alive, now, expected):
        """Free, dead, expired by the clock of the same boot, or held before the machine was restarted."""
        assert expected == claiming.may_take(claim, "b", alive, now, "boot")

    def test_a_holder_renews_also_when_it_is_late(self):
        """Nobody took the task in between, so its token stays and its steps go on."""
        decision = claiming.may_take(self.HELD, "a", True, 500.0, "boot")
        assert "renew" == decision
        assert Claim("a", 7, "boot", 510.0) == claiming.granted(self.HELD, decision, "a", 10.0, 500.0, "boot")

    def test_a_name_that_comes_back_after_a_restart_takes_the_task_anew(self):
        """What it began before the restart is another process's work, whatever the name."""
        assert "take" == claiming.may_take(self.HELD, "a", None, 1.0, "another boot")

    def test_a_system_that_does_not_name_its_boots_is_judged_by_its_clock(self):
        """Neither an unnamed boot nor a named one beside it says that the machine was restarted."""
        unnamed = replace(self.HELD, boot="")
        assert ("held", "take") == (
            claiming.may_take(unnamed, "b", None, 1.0, ""),
            claiming.may_take(unnamed, "b", None, 100.0, ""),
        )
        assert "held" == claiming.may_take(unnamed, "b", None, 1e9, "boot")

    @pytest.mark.parametrize(
        ("claim", "alive", "now", "expected"),
        [
            (Claim(None, 7), None, 0.0, Claim(None, 7)),
            (HELD, True, 99.9, None),
            (HELD, None, 99.9, None),
            (HELD, False, 0.0, Claim(None, 8)),
            (HELD, True, 100.0, Claim(None, 8)),
            (replace(HELD, boot="an earlier one"), None, 0.0, Claim(None, 8)),
        ],
    )
    def test_a_write_without_a_lease_comes_in_where_the_task_could_be_taken(self, claim, alive, now, expected):
        """And if it overrides a claim, that one is over: its holder's token is an old one."""
        assert expected == claiming.entered(claim, alive, now, "boot")

    def test_a_refusal_is_never_granted(self):
        """Our own mistake, and it stops there."""
        with pytest.raises(AssertionError):
            claiming.granted(self.HELD, Decision.HELD, "b", None, 0.0, "boot")

    def test_release_frees_the_task_and_keeps_the_token(self):
        """The next holder gets a higher one all the same."""
        free = claiming.released(self.HELD, Lease("t", "a", 7))
        assert Claim(None, 7) == free
        assert 8 == claiming.granted(free, Decision.TAKE, "b", None, 0.0, "boot").token

    @pytest.mark.parametrize("lease", [Lease("t", "a", 6), Lease("t", "b", 7), Lease("t", "b", 8)])
    def test_a_lease_that_is_not_current_releases_nothing_and_writes_nothing(self, lease):
        """The holder and the token must both be the task's."""
        assert claiming.released(self.HELD, lease) is None
        with pytest.raises(LeaseLostError) as refusal:
            claiming.fence_lease(self.HELD, lease)
        assert (7, "a") == tuple(refusal.value.diagnostics()[key] for key in ("current_token", "holder"))

    def test_a_lease_for_another_task_writes_nothing(self):
        """One holder may have two tasks, both with their seventh token."""
        claim = replace(self.HELD, task_id="t")
        claiming.fence_lease(claim, Lease("t", "a", 7))
        with pytest.raises(LeaseLostError, match="task t: this lease is for another task, u"):
            claiming.fence_lease(claim, Lease("u", "a", 7))
        assert claiming.released(claim, Lease("u", "a", 7)) is None
        assert "t" == claiming.released(claim, Lease("t", "a", 7)).task_id
        assert "t" == claiming.entered(claim, False, 0.0, "boot").task_id
        assert "t" == claiming.granted(claim, Decision.TAKE, "b", None, 0.0, "boot").task_id

    def test_a_lease_that_was_given_back_writes_nothing(self):
        """Although nobody has taken the task since."""
        lease = Lease("t", "a", 7)
        claiming.fence_lease(self.HELD, lease)
        with pytest.raises(LeaseLostError, match="it was given back"):
            claiming.fence_lease(Claim(None, 7), lease)

    def test_a_step_ends_only_under_the_token_it_was_begun_under(self):
        """Also once the task is free again."""
        claiming.fence_step("t", self.HELD, 7)
        with pytest.raises(LeaseLostError, match="begun under token 6, the task's is 7: it is held by a"):
            claiming.fence_step("t", self.HELD, 6)
        with pytest.raises(LeaseLostError, match="nobody holds it now"):
            claiming.fence_step("t", Claim(None, 7), 6)

    @pytest.mark.parametrize(("ttl", "expected"), [(None, None), (1, 1.0), (0.5, 0.5), (10**300, 1e300)])
    def test_a_ttl_is_a_positive_number_or_none(self, ttl, expected):
        """Seconds, whole or not."""
        assert expected == check_ttl(ttl)

    @pytest.mark.parametrize("ttl", [0, -1, 0.0, float("nan"), float("inf"), True, "5", 10**400, b"1", [1]])
    def test_any_other_ttl_is_refused(self, ttl):
        """A claim that is over at once, or never although a number was given, is a mistake of the caller."""
        with pytest.raises(InvalidInputError, match="ttl must be a positive number of seconds or None"):
            check_ttl(ttl)
