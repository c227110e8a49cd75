"""Network defence: what is stolen and reported, and exact values by hand and by whole histories."""

from __future__ import annotations

import gymnasium as gym
import pytest

from mage_envs.cli.program import main
from mage_envs.games.network_defense import SENSORS, NetworkDefense
from mage_envs.opponents import as_pool, make_opponent
from mage_envs.opponents.exact import best_response, headroom
from mage_envs.tree import tree_of
from tests.games.whole_histories import optimum, view
from tests.mage_envs.test_words import play_texts

STATES = dict(zip(SENSORS, (state for _, state in NetworkDefense().initial_states()), strict=True))
"""State of the sensors to the first state of a hand."""
POOL = "pool:network/habits"


@pytest.mark.parametrize(
    ("watched", "attack", "stolen", "reports"),
    [
        ("database", "strike mailbox", 4, {"good": "alert-mailbox", "weak": "alert-mailbox", "down": "silent"}),
        ("database", "probe mailbox", 2, {"good": "alert-mailbox", "weak": "silent", "down": "silent"}),
        ("database", "wait", 0, dict.fromkeys(SENSORS, "silent")),
        ("database", "strike database", 0, dict.fromkeys(SENSORS, "caught-database")),
        ("website", "probe website", 0, dict.fromkeys(SENSORS, "caught-website")),
    ],
)
def test_what_a_round_steals_and_what_the_sensors_report(watched, attack, stolen, reports):
    for sensors, report in reports.items():
        state = STATES[sensors].after(f"watch {watched}").after(attack)
        assert state.information_state(0).split()[1:3] == [f"watch-{watched}", report]
        assert state.information_state(1) == f"attacker {attack.replace(' ', '-')} watch-{watched}"
        is_caught = report.startswith("caught")
        assert (state.player is None) == is_caught
        if is_caught:
            assert state.returns == (0, 0)
            continue
        # The attacker is caught in the second round, so the rest of the hand adds nothing.
        end = state.after("watch mailbox").after("strike mailbox")
        assert end.returns == pytest.approx((-stolen / 3, stolen / 3))
        assert end.observation(0).endswith(f"The hand is over after round 2: the attacker stole {stolen} points.")


def test_the_defender_cannot_tell_the_sensors_apart_before_they_report():
    for actions in (("watch database", "wait"), ("watch mailbox", "wait", "watch mailbox", "wait")):
        states = [*STATES.values()]
        for action in actions:
            states = [state.after(action) for state in states]
        assert len({state.observation(0) for state in states}) == 1
    assert len(tree_of(NetworkDefense()).order) == 3 * 5785


def test_probabilities_of_the_sensors():
    """A strike is reported in 8 of 10 hands, and a probe half as often."""
    assert sum(chance for chance, reported in SENSORS.values() if "strike" in reported) == pytest.approx(0.8)
    assert sum(chance for chance, reported in SENSORS.values() if "probe" in reported) == pytest.approx(0.4)
    assert sum(chance for chance, _ in SENSORS.values()) == pytest.approx(1)


def test_best_responses_by_hand():
    """A favourite is watched in every round: what the others lose, until the attacker is caught."""
    game = NetworkDefense()
    for host, loss in (("database", 0.1 * 4 + 0.1 * 2), ("mailbox", 0.1 * 6 + 0.1 * 2), ("website", 0.1 * 6 + 0.1 * 4)):
        value = best_response(game, f"network/favourite:{host}", 0).value
        assert value == pytest.approx(-loss * (1 + 0.2 + 0.04) / 3)
    # It strikes in the last round only, a host that is known by then.
    assert best_response(game, "network/patient", 0).value == 0
    assert best_response(game, "network/stealthy", 0).value == 0
    # An attacker that knows where nobody watches strikes the database three times.
    assert best_response(game, "network/favourite:mailbox,1", 1).value == pytest.approx(6)


def test_headroom():
    game = NetworkDefense()
    values = headroom(game, POOL, seat="first")
    known = -(0.6 + 0.8 + 1.0) * 1.24 / 3 / 6
    assert values.known_per_episode == pytest.approx([known] * 3)
    no_memory, stationary, best = (
        sum(row) / 3 for row in (values.no_memory_per_episode, values.stationary_per_episode, values.per_episode["sum"])
    )
    assert no_memory + 0.05 < stationary < best - 0.1 < best < known - 0.2
    assert (no_memory, best) == pytest.approx((-0.708, -0.445), abs=5e-4)


@pytest.mark.more
def test_two_episodes_against_whole_histories():
    game = NetworkDefense()
    opponents = [make_opponent(name, game) for name in as_pool(POOL).entries]
    values = headroom(game, POOL, episodes=2, seat="first")
    assert sum(values.per_episode["sum"]) / 2 == pytest.approx(optimum(game, opponents, 2), abs=1e-9)


def test_the_careful_attacker_avoids_where_it_was_caught():
    game = NetworkDefense()
    policy, memory = make_opponent("network/careful", game), ()
    for host in ("database", "mailbox", "website", "database"):
        state = STATES["good"].after(f"watch {host}")
        turn = view(state, 1, 0)
        assert policy.distribution_given(turn, memory) == {f"strike {host}": 1.0}
        memory = policy.step(memory, view(state.after(f"strike {host}"), 1, 0))
    assert memory == ("database",)
    escaped = STATES["good"].after("watch website").after("strike mailbox").after("watch website")
    assert policy.step(memory, view(escaped.after("wait"), 1, 0)) == memory


def test_larger_networks():
    game = NetworkDefense(rounds=2, hosts=4, watches=2)
    state = game.initial_states()[0][1].after("watch database and website")
    assert len(state.legal_actions) == 9
    caught = state.after("probe website")
    assert caught.observation(0).startswith("Round 1: you watch the database and the website: you catch the attacker")
    assert best_response(game, "network/favourite:backup,1", 0).value == 0
    for options, message in (
        ({"watches": 3}, "watches=3 must be less than hosts=3"),
        ({"hosts": 1}, "watches=1 must be less than hosts=1"),
        ({"hosts": 7}, "hosts=7 must be at most 6"),
        ({"rounds": 0}, "rounds=0 must be a whole number"),
    ):
        with pytest.raises(ValueError, match=message):
            NetworkDefense(**options)
    for name, message in (
        ("network/favourite:cellar", "host must be one of database, backup, mailbox, website, got 'cellar'"),
        ("network/favourite:printer", "host must be one of database, backup, mailbox, website, got 'printer'"),
        ("network/favourite:mailbox,2", "probability must be between 0 and 1"),
        ("network/patient:0", "rounds must be at least 1, got 0"),
    ):
        with pytest.raises(ValueError, match=message):
            make_opponent(name, game)


def test_a_conversation_in_words():
    texts = play_texts(
        "NetworkDefense", ["watch website", "watch mailbox"], opponent="network/favourite:mailbox,1", num_episodes=2
    )
    assert texts[:2] == ["episode 1 first defender", "alert-mailbox"]
    assert "caught-mailbox lost-4" in texts[2]


def test_smaller_options_play_the_opponents_that_are_named(tmp_path):
    """The game's own pool has a favourite host that a smaller network lacks; nobody draws it here."""
    words = ["eval", "scripted:random", "--env", "mage/NetworkDefense-Meta-v0", "--opponents", "network/patient"]
    assert main([*words, "--game-option", "hosts=2", "--rows", "1", "--no-baselines", "--out", str(tmp_path)]) == 0
    assert main(["verify", str(tmp_path), "--replay"]) == 0
    env = gym.make("mage/NetworkDefense-Meta-v0", hosts=2)
    with pytest.raises(ValueError, match="host must be one of database, mailbox, got 'website'"):
        env.reset(seed=0)
