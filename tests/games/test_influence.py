"""Influence: who may join, and exact values by hand and by whole histories."""

from __future__ import annotations

import pytest

from mage_envs.games.influence import Influence, Town
from mage_envs.opponents import as_pool, make_opponent
from mage_envs.opponents.exact import best_response, headroom
from mage_envs.tree import tree_of
from tests.games.whole_histories import optimum, view
from tests.mage_envs.test_words import play_texts

NEAR, FAR = (state for _, state in Influence().initial_states())
"""First states of the two networks: friends are neighbours, or the next but one."""
POOL = "pool:influence/towns"


def test_the_networks_are_two_circles():
    pairs = [{frozenset((name, friend)) for name in town.names for friend in town.friends_of(name)} for town in TOWNS]
    assert [len(network) for network in pairs] == [5, 5]
    assert not pairs[0] & pairs[1]
    assert TOWNS[0].friends_of("Ana") == ("Ben", "Eva")
    assert TOWNS[1].friends_of("Ana") == ("Cleo", "Dan")
    assert [len(Town(7, 1, step).friends_of("Gus")) for step in (1, 2, 3)] == [2, 2, 2]
    assert Town(3, 1).friends_of("Ana") == ("Ben", "Cleo")


TOWNS = (NEAR.town, FAR.town)


def test_who_may_join():
    state = NEAR.after("write to Ana")
    assert state.legal_actions == (
        "no one joins",
        "Ana joins",
        "Ana and Ben join",
        "Ana and Eva join",
        "Ana and Ben and Eva join",
    )
    state = state.after("Ana and Ben join")
    assert state.legal_actions == ("write to Cleo", "write to Dan", "write to Eva")
    assert state.after("write to Eva").legal_actions == ("no one joins", "Eva joins", "Eva and Dan join")
    assert state.observation(0) == (
        "Friends: Ana and Ben, Ana and Eva, Ben and Cleo, Cleo and Dan, Dan and Eva.\n"
        "Round 1: you write to Ana: Ana and Ben join.\n"
        "Round 2 of 3: Who gets your message?"
    )
    assert state.information_state(0) == "writer circle-1 write-to-Ana Ana-and-Ben-join"
    everybody = state.after("write to Cleo").after("Cleo and Dan join").after("write to Eva").after("Eva joins")
    assert everybody.returns == (1, 0)
    assert everybody.won(0)
    assert not everybody.won(1)
    early = (
        NEAR.after("write to Ana").after("Ana and Ben and Eva join").after("write to Cleo").after("Cleo and Dan join")
    )
    assert early.player is None
    assert early.observation(0).endswith("The hand is over: 5 of 5 people joined.")


def test_size_of_the_tree():
    assert len(tree_of(Influence()).order) == 8762
    assert len(tree_of(Influence(changes=False)).order) == 4381


@pytest.mark.parametrize(
    ("attitudes", "messages", "answers"),
    [
        # Ben and Eva are Ana's friends, Cleo and Dan the others' friends.
        ("occcs", "Ana Cleo Eva", ["Ana and Ben join", "Cleo and Dan join", "no one joins"]),
        ("sccco", "Ben Eva Cleo", ["no one joins", "Eva and Dan join", "Cleo and Ben join"]),
        ("ooooo", "Ana Ben Cleo", ["Ana joins", "Ben joins", "Cleo joins"]),
        ("ccccc", "Ana Ben Cleo", ["no one joins"] * 3),
    ],
)
def test_attitudes(attitudes, messages, answers):
    policy, state = make_opponent(f"influence/town:{attitudes}", Influence()), NEAR
    for name, expected in zip(messages.split(), answers, strict=True):
        state = state.after(f"write to {name}")
        assert policy.distribution(view(state, 1, 0)) == {expected: 1.0}
        state = state.after(expected)


def test_who_tires_joins_every_other_episode():
    policy, memory = make_opponent("influence/town:tocss", Influence()), ()
    for expected in ("Ana joins", "no one joins", "no one joins"):
        state = NEAR.after("write to Ana")
        assert policy.distribution_given(view(state, 1, 0), memory) == {expected: 1.0}
        memory = policy.step(memory, view(state.after(expected), 1, 0))
        assert memory == ("Ana",)
    rested = policy.step(memory, view(NEAR.after("write to Ben").after("Ben and Cleo join"), 1, 0))
    assert rested == ()
    assert policy.distribution_given(view(NEAR.after("write to Ana"), 1, 0), rested) == {"Ana joins": 1.0}


def test_best_responses_by_hand():
    game = Influence()
    # Near: Ana with Ben, then Cleo with Dan. Far: Ana with Cleo and Dan, then Ben. Eva never joins.
    assert best_response(game, "influence/town:occcs", 0).value == pytest.approx(0.8)
    # Each message wins one person.
    assert best_response(game, "influence/town:ooooo", 0).value == pytest.approx(0.6)
    # Near: Ana, and nobody follows. Far: Ana with Cleo; Dan is stubborn, and Eva is no friend of Ana or Cleo there.
    assert best_response(game, "influence/town:oscss", 0).value == pytest.approx((0.2 + 0.4) / 2)


@pytest.mark.more
def test_headroom():
    values = headroom(Influence(), POOL, seat="first")
    # Each open town gives .8. One that tires gives .8 and rests for an episode, in which no one joins.
    assert values.known_per_episode == pytest.approx((0.8, 0.5, 0.8))
    no_memory, stationary, best, known = (
        sum(row) / 3
        for row in (
            values.no_memory_per_episode,
            values.stationary_per_episode,
            values.per_episode["sum"],
            values.known_per_episode,
        )
    )
    assert no_memory + 0.1 < stationary < best - 0.09 < best < known - 0.09
    assert (no_memory, best) == pytest.approx((0.3625, 0.608333), abs=5e-4)


@pytest.mark.more
def test_two_episodes_against_whole_histories():
    game = Influence()
    opponents = [make_opponent(name, game) for name in as_pool(POOL).entries]
    values = headroom(game, POOL, episodes=2, seat="first")
    assert sum(values.per_episode["sum"]) / 2 == pytest.approx(optimum(game, opponents, 2), abs=1e-9)


def test_options():
    state = Influence(people=7, rounds=2).initial_states()[2][1]
    assert state.observation(0).startswith("Friends: Ana and Dan, Ana and Eva, Ben and Eva, Ben and Finn")
    for options, message in (
        ({"people": 4}, "people=4 is unknown; choose one of: 3, 5, 7"),
        ({"rounds": 7}, "rounds=7 must be at most 6"),
        ({"changes": "no"}, "changes='no' is unknown; choose one of: True, False"),
    ):
        with pytest.raises(ValueError, match=message):
            Influence(**options)
    for game, name in (
        (Influence(), "influence/town:occx"),
        (Influence(people=7), "influence/town:occcs"),
        (Influence(), "influence/town:occcx"),
    ):
        with pytest.raises(ValueError, match=r"attitudes must be [57] of the letters o, c, t, s, got 'occ"):
            make_opponent(name, game)


def test_a_conversation_in_words():
    texts = play_texts("Influence", ["write to Ana"], opponent="influence/town:ooooo", changes=False, num_episodes=1)
    assert texts[:2] == ["episode 1 first writer circle-1", "Ana-joins"]
