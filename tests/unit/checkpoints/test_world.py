"""The world of a checkpoint: every sentence of its definition, and the fold against one that is too simple to be wrong."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.core.checkpoints.kinds import KINDS
from agentos.core.checkpoints.models import Evidence, EvidenceType
from agentos.core.checkpoints.nesting import Entry
from agentos.core.checkpoints.subjects import SUBJECT_KINDS
from agentos.core.checkpoints.world import World, Worlds

X, Y = "file:x", "file:y"


def claim(sequence: int, subject: str = X, item: int = 0, lifetime: str = "lasting", base: str = "/base") -> Entry:
    return Entry(subject, sequence, item, lifetime, base)


def world(*entries: Entry, at: int = 99, own: Sequence[Entry] = (), moved: bool = False) -> dict[int, list[Entry]]:
    return Worlds(entries, moved=moved).at(at, own).groups


# The definition, sentence by sentence.


def test_the_newest_claim_at_or_before_a_checkpoint_stands():
    """Later claims are of no concern to an earlier checkpoint; its own are."""
    one, two, three = claim(1), claim(2), claim(3)
    assert world(one, two, three, at=3) == {3: [three]}
    assert world(one, two, three, at=2) == {2: [two]}
    assert world(one, two, three, at=1) == {1: [one]}
    assert world(one, two, three, at=0) == {}


def test_what_no_later_step_spoke_about_stands_on():
    """The world is more than the newest pack."""
    old, new = claim(1, X), claim(7, Y)
    assert world(old, new) == {1: [old], 7: [new]}


@pytest.mark.parametrize("later", ["lasting", "task", "step", "release"])
@pytest.mark.parametrize("earlier", ["lasting", "task", "step"])
def test_a_later_claim_or_release_of_any_lifetime_ends_all_earlier_ones(earlier, later):
    """Also one that does not stand itself, and also claims for the whole task."""
    before, after = claim(1, lifetime=earlier), claim(2, lifetime=later)
    assert world(before, after) == ({2: [after]} if later in ("lasting", "task") else {})


def test_an_ended_claim_does_not_come_back():
    """When the claim that ended it is released, the older one is as wrong as it was before."""
    assert world(claim(1), claim(2), claim(3, lifetime="release")) == {}
    again = claim(4)
    assert world(claim(1), claim(2), claim(3, lifetime="release"), again) == {4: [again]}


def test_claims_of_one_step_stand_together():
    """Two claims of one step about one subject do not end each other."""
    both = [claim(2, item=0), claim(2, item=1)]
    assert world(claim(1), *both) == {2: both}


def test_beside_a_lasting_claim_one_for_the_step_alone_ends_nothing_of_its_own_step():
    """Only where a step claims a subject for its own length and no longer does nothing stand."""
    lasting = claim(2, item=0)
    assert world(lasting, claim(2, item=1, lifetime="step")) == {2: [lasting]}


def test_a_release_wins_over_claims_of_its_own_step():
    """Whoever lets go of a thing does not vouch for it."""
    assert world(claim(1), claim(2, item=0), claim(2, item=1, lifetime="release")) == {}


def test_task_claims_belong_to_every_later_world():
    """Until a later step speaks about their subject."""
    whole = claim(1, lifetime="task")
    assert world(whole, claim(2, Y), claim(3, Y), at=2) == {1: [whole], 2: [claim(2, Y)]}
    assert world(whole, at=9) == {1: [whole]}


def test_what_is_left_of_a_pack_is_one_group_in_its_own_order():
    """A later step takes one item out of the middle; the others stay together."""
    pack = [claim(1, f"file:{name}", item) for item, name in enumerate("cab")]
    assert world(*reversed(pack), claim(2, "file:a")) == {1: [pack[0], pack[2]], 2: [claim(2, "file:a")]}


def test_groups_are_told_oldest_first():
    """The same claims give the same answer in the same order, however they arrive and are asked for."""
    entries = [claim(number, f"file:{number % 3}") for number in (5, 3, 9, 4)]
    worlds = Worlds(entries, moved=False)
    assert list(worlds.at(9).groups) == [4, 5, 9]
    assert list(worlds.at(5).groups) == [3, 4, 5]
    assert [entry.sequence for entry in worlds.at(9).entries()] == [4, 5, 9]
    assert worlds.at(9).subjects() == {"file:0", "file:1", "file:2"}


# A checkpoint that does not contribute itself.


def test_its_own_claims_stand_though_it_contributes_nothing_to_others():
    """A checkpoint that was never judged ends and replaces earlier claims in its own world and in no other."""
    worlds = Worlds([claim(1), claim(3, Y)], moved=False)
    assert worlds.at(2, [claim(2)]).groups == {2: [claim(2)]}
    assert worlds.at(3).groups == {1: [claim(1)], 3: [claim(3, Y)]}
    assert worlds.at(2).groups == {1: [claim(1)]}


def test_its_own_release_ends_earlier_claims():
    """Nothing stands in its world then."""
    assert world(claim(1), at=2, own=[claim(2, lifetime="release")]) == {}


def test_its_own_claims_leave_the_rest_of_an_earlier_pack():
    """One item is taken over, its neighbours stay."""
    pack = [claim(1, X, 0), claim(1, Y, 1)]
    assert world(*pack, at=2, own=[claim(2, X)]) == {1: [pack[1]], 2: [claim(2, X)]}


# Which subjects are one.


@pytest.mark.parametrize("subject", ["file:rel", "row:rel.db#t?{}", "row:a#b/c"])
def test_relative_subjects_of_two_bases_are_two_things(subject):
    """Unless the workspace moved: then the later one is about the same thing."""
    here, there = claim(1, subject, base="/a"), claim(2, subject, base="/b")
    assert world(here, there) == {1: [here], 2: [there]}
    assert world(here, there, moved=True) == {2: [there]}


@pytest.mark.parametrize("subject", ["file:/x", "row:/x.db#t?{}", "row:#tasks?{}", "command:make test"])
def test_absolute_subjects_have_no_base(subject):
    """Wherever they are claimed from: the path, our own registry, a command line."""
    here, there = claim(1, subject, base="/a"), claim(2, subject, base="/b")
    assert world(here, there) == world(here, there, moved=True) == {2: [there]}


def test_every_kind_of_subject_is_known():
    """A type whose subjects start with another word could be claimed and never be released."""
    expected = {"path": "x", "sha256": "0" * 64, "exit_code": 0, "table": "t", "where": {"id": 1}, "repo": "x"}
    expected |= {"host": "h", "port": 1, "url": "http://h/", "name": "n"}
    for type_, kind in KINDS.items():
        item = Evidence(type_, "d", {key: value for key, value in expected.items() if key in kind.expected})
        assert kind.subject(item, "/base").split(":")[0] in SUBJECT_KINDS
    assert set(KINDS) == set(EvidenceType)


# Who said what.


def test_everyone_who_ever_spoke_about_a_subject_is_found_newest_first():
    """Contributing or not, ended or not: what is found in the world may be anybody's."""
    counted, released, other = claim(1), claim(4, lifetime="release"), claim(2)
    worlds = Worlds([counted, released, claim(3, Y)], moved=False, others=[other, claim(2, base="/elsewhere")])
    assert worlds.recorders(X, "/base") == [released, other, counted]
    assert worlds.recorders("file:unknown", "/base") == []
    assert worlds.at(3).groups == {1: [counted], 3: [claim(3, Y)]}


def test_whoever_spoke_under_another_base_is_found_once_the_workspace_moved():
    """Then it was the same thing."""
    worlds = Worlds([claim(1, base="/a")], moved=True, others=[claim(2, base="/b")])
    assert worlds.recorders(X, "/c") == [claim(2, base="/b"), claim(1, base="/a")]


# Trees.


def test_a_later_tree_replaces_what_was_claimed_beneath_it():
    """Files, trees and repositories, however deep; its own folder, what lies beside it, and rows are another matter."""
    beneath = [claim(1, subject) for subject in ("file:out/a", "file:out/d/b", "tree:out/d", "repo:out/r")]
    beside = [claim(1, subject, 9) for subject in ("file:outer", "file:out", "row:out/db#t?{}", "file:/out/a")]
    tree = claim(2, "tree:out")
    assert world(*beneath, *beside, tree) == {1: beside, 2: [tree]}
    assert world(*beneath, *beside, tree, at=1)[1] == sorted([*beneath, *beside], key=lambda each: each.item)


def test_what_a_tree_replaced_does_not_come_back_when_it_is_released():
    """The tree said something newer about it, and then let go of that."""
    assert world(claim(1, "file:out/a"), claim(2, "tree:out"), claim(3, "tree:out", lifetime="release")) == {}


def test_a_tree_and_a_file_of_one_step_stand_together():
    """Claims of one step do not end each other, nor overlay each other."""
    both = [claim(2, "tree:."), claim(2, "file:a", 1)]
    worlds = Worlds([claim(1, "file:a"), *both], moved=False)
    assert worlds.at(2).groups == {2: both}
    assert worlds.at(2).aside(both[0]) == frozenset()


@pytest.mark.parametrize("lifetime", ["lasting", "task", "step", "release"])
def test_a_later_word_beneath_a_tree_takes_that_out_of_it(lifetime: str):
    """The tree stands for the rest, in the worlds from then on and in none before."""
    tree, word = claim(1, "tree:out"), claim(3, "file:out/d/a", lifetime=lifetime)
    worlds = Worlds([tree, word, claim(4, "file:elsewhere"), claim(5, "tree:out/e")], moved=False)
    asides = {number: worlds.at(number).aside(tree) for number in (2, 3, 4, 5)}
    assert asides == {2: set(), 3: {"d/a"}, 4: {"d/a"}, 5: {"d/a", "e"}}
    assert tree in worlds.at(5).groups[1]


def test_a_tree_of_everything_covers_every_relative_name_and_no_other():
    """The base itself is the tree of all that lies in it."""
    entries = [claim(1, "file:a"), claim(1, "file:d/b", 1), claim(1, "file:/abs", 2), claim(2, "tree:.")]
    assert world(*entries) == {1: [entries[2]], 2: [entries[3]]}


def test_a_tree_elsewhere_is_another_tree():
    """Relative names are things of their base, unless the workspace moved."""
    entries = [claim(1, "file:out/a", base="/a"), claim(2, "tree:out", base="/b")]
    assert world(*entries) == {1: [entries[0]], 2: [entries[1]]}
    assert world(*entries, moved=True) == {2: [entries[1]]}


def test_what_a_tree_leaves_out_it_does_not_replace():
    """A file that is proven by name is not ignored because a later tree ignores it; whether it does is asked."""
    tree = claim(2, "tree:.")._replace(rules="r1")
    asked: list[tuple[str, str]] = []

    def covers(entry: Entry, path: str) -> bool:
        asked.append((entry.rules, path))
        return not path.endswith(".log")

    worlds = Worlds([claim(1, "file:a.log"), claim(1, "file:b", 1), tree], moved=False, covers=covers)
    assert worlds.at(2).groups == {1: [claim(1, "file:a.log")], 2: [tree]}
    assert sorted(asked) == [("r1", "a.log"), ("r1", "b")]


def test_of_a_tree_whose_rules_are_not_known_nothing_is_replaced():
    """Who cannot ask claims more, and not less."""
    tree = claim(2, "tree:.")._replace(rules="r1")
    assert world(claim(1, "file:a"), tree) == {1: [claim(1, "file:a")], 2: [tree]}


def test_its_own_tree_counts_in_the_world_of_a_checkpoint_that_was_never_judged():
    """It ends what lies beneath it there, and a file of its own overlays an older tree; other worlds know nothing of it."""
    worlds = Worlds([claim(1, "file:out/a"), claim(2, "tree:src")], moved=False)
    own = [claim(3, "tree:out"), claim(3, "file:src/b", 1)]
    found = worlds.at(3, own)
    assert found.groups == {2: [claim(2, "tree:src")], 3: own}
    assert found.aside(claim(2, "tree:src")) == {"b"}
    assert worlds.at(2).groups == {1: [claim(1, "file:out/a")], 2: [claim(2, "tree:src")]}
    assert worlds.at(2).aside(claim(2, "tree:src")) == frozenset()


# Against a fold that is too simple to be wrong.

BASES = ("/a", "/b")
SUBJECTS = (X, Y, "file:/x", "row:db#t?1", "row:#t?1", "command:make", "file:d/x", "tree:d", "tree:.", "file:d", "tree:/")
PACKS = st.lists(
    st.tuples(st.sampled_from(SUBJECTS), st.sampled_from(["lasting", "task", "step", "release"]), st.sampled_from(BASES)),
    max_size=4,
)
TIMELINES = st.dictionaries(st.integers(1, 12), PACKS, max_size=8)


def entries_of(sequence: int, pack: list[tuple[str, str, str]]) -> list[Entry]:
    return [Entry(subject, sequence, item, lifetime, base) for item, (subject, lifetime, base) in enumerate(pack)]


def is_beneath(one: Entry, tree: str) -> bool:
    """Spelled out for the few subjects there are."""
    beneath = {"tree:d": {"file:d/x"}, "tree:.": {X, Y, "file:d/x", "tree:d", "file:d"}, "tree:/": {"file:/x"}}
    return one.subject in beneath.get(tree, set())


def brute(entries: list[Entry], at: int, own: list[Entry], moved: bool) -> dict[int, list[Entry]]:
    """Claim by claim: it stands if it may, was not released by its own step, and no later step spoke about its subject."""
    spoken = [each for each in entries if each.sequence < at] + (own or [each for each in entries if each.sequence == at])

    def bound(one: Entry) -> bool:
        kind, rest = one.subject.split(":", 1)
        return kind in ("file", "row", "tree") and rest[0] not in ("/", "#")

    def same_place(one: Entry, other: Entry) -> bool:
        return bound(one) == bound(other) and (moved or not bound(one) or one.base == other.base)

    def stands(one: Entry) -> bool:
        about = [other for other in spoken if one.subject == other.subject and same_place(one, other)]
        above = [other for other in spoken if is_beneath(one, other.subject) and same_place(one, other)]
        trees = [other for other in above if other.lifetime != "release"]
        ended = any(other.sequence > one.sequence for other in (*about, *trees))
        released = any(other.sequence == one.sequence and other.lifetime == "release" for other in about)
        return one.lifetime in ("lasting", "task") and not ended and not released

    groups: dict[int, list[Entry]] = {}
    for one in sorted(spoken, key=lambda each: (each.sequence, each.item)):
        if stands(one):
            groups.setdefault(one.sequence, []).append(one)
    return groups


@given(timeline=TIMELINES, moved=st.booleans(), data=st.data())
def test_the_fold_is_the_definition_in_any_order(timeline, moved, data):
    """Any claims in any order, any worlds in any order, with and without claims of their own; read at once or later."""
    entries = [each for sequence, pack in timeline.items() for each in entries_of(sequence, pack)]
    worlds = Worlds(data.draw(st.permutations(entries)), moved=moved)
    asked = data.draw(st.lists(st.tuples(st.integers(0, 14), PACKS, st.booleans()), min_size=1, max_size=6))
    read: list[tuple[World, dict[int, list[Entry]]]] = []
    for at, pack, at_once in asked:
        own = entries_of(at, pack)
        found, expected = worlds.at(at, own), brute(entries, at, own, moved)
        if at_once:
            assert found.groups == expected
            assert list(found.groups) == sorted(found.groups)
        assert {number: found.group(number) for number in range(15) if found.group(number)} == expected
        read.append((found, expected))
    for found, expected in read:
        assert found.groups == expected
        assert {number: found.group(number) for number in range(15) if found.group(number)} == expected


@given(timeline=TIMELINES, moved=st.booleans(), data=st.data())
def test_what_changed_from_world_to_world_is_told(timeline, moved, data):
    """Whoever looks again only at the groups that changed knows every world as if all of it had been looked at."""
    entries = [each for sequence, pack in timeline.items() for each in entries_of(sequence, pack)]
    worlds = Worlds(entries, moved=moved)
    known: dict[int, list[Entry]] = {}
    for at, pack in data.draw(st.lists(st.tuples(st.integers(0, 14), PACKS), max_size=8)):
        found = worlds.at(at, entries_of(at, pack))
        for number in found.changed:
            known[number] = found.group(number)
        assert {number: group for number, group in known.items() if group} == found.groups


def test_what_was_handed_out_stays_as_it_was():
    """A group that grows in an older world is another list; one that does not is the same."""
    pack = [claim(1, X, 0), claim(1, Y, 1)]
    worlds = Worlds([*pack, claim(2, "file:z"), claim(3, X)], moved=False)
    three, two = worlds.at(3).groups, worlds.at(2).groups
    assert three == {1: [pack[1]], 2: [claim(2, "file:z")], 3: [claim(3, X)]}
    assert two == {1: pack, 2: [claim(2, "file:z")]}
    assert three[2] is two[2]


# Ten thousand checkpoints.


def best_of(times: int, work) -> float:
    def once() -> float:
        begun = time.perf_counter()
        work()
        return time.perf_counter() - begun

    return min(once() for _ in range(times))


def long_task(subjects: int) -> list[Entry]:
    claims = [claim(number, f"file:out/{number * 7919 % subjects}") for number in range(1, 10_001)]
    return claims + [claim(number, f"file:more/{number * 7919 % subjects}", 1) for number in range(1, 10_001, 5)]


def test_a_long_task_is_folded_in_milliseconds():
    """12,000 claims about a thousand subjects: a few milliseconds; the limit is one for slow machines."""
    entries = long_task(1000)
    assert best_of(5, lambda: Worlds(entries, moved=False).at(10_000).groups) < 0.1


@pytest.mark.parametrize("subjects", [1000, 1_000_003])
def test_walking_down_a_long_task_is_one_pass(subjects):
    """Every claim becomes visible once and goes once, over all ten thousand worlds together."""
    worlds = Worlds(long_task(subjects), moved=False)
    changes = sum(len(worlds.at(number).changed) for number in range(10_000, 0, -1))
    assert changes < 4 * 12_000
