"""`Turn.from_info`: the turn that an environment's `info` describes."""

from __future__ import annotations

import gymnasium as gym
import pytest

from mage_envs import Turn

INFO = {
    "seat": 1,
    "anchor": "Your card: Q.",
    "legal_actions": ["fold", "call"],
    "information_state": "Qb",
    "episode_index": 2,
    "history": ["deal Q", "bet"],
    "private": {"task": "levels/7"},
}


def test_every_entry_becomes_its_field():
    turn = Turn.from_info(INFO, "You won 1 chip.\n\nYour card: Q.")
    assert turn == Turn(
        player=1,
        observation="Your card: Q.",
        legal_actions=("fold", "call"),
        information_state="Qb",
        episode=2,
        history=("deal Q", "bet"),
        task_id="levels/7",
    )
    # Turns are keys of tables, so a list in `info` must not become part of one.
    assert hash(turn) == hash(Turn.from_info(INFO, ""))


def test_missing_entries_have_the_defaults_of_a_third_party_environment():
    assert Turn.from_info({}, "Room 1.") == Turn(0, "Room 1.", (), "Room 1.", episode=0, history=(), task_id=None)
    # The anchor may be equal in states with another past, so it cannot replace the information state.
    assert Turn.from_info({"anchor": "Room"}, "Room 1.")[1:4] == ("Room", (), "Room 1.")


@pytest.mark.parametrize(("episode", "index"), [(None, 2), (0, 0), (5, 5)])
def test_the_callers_own_count_of_episodes_comes_first(episode, index):
    assert Turn.from_info(INFO, "", episode).episode == index


@pytest.mark.parametrize(("name", "hands"), [("KuhnPoker", 3), ("TicTacToe", 3), ("Sokoban", 1)])
def test_it_is_the_turn_of_the_hand(name, hands):
    env = gym.make(f"mage/{name}-v0", hands_per_episode=hands)
    observation, info = env.reset(seed=5)
    hands_seen, over = set(), False
    while not over:
        assert Turn.from_info(info, observation) == env.unwrapped.hand.turn(info["seat"])
        hands_seen.add(info["hand"])
        observation, _, terminated, truncated, info = env.step(info["legal_actions"][0])
        over = terminated or truncated
    assert hands_seen == set(range(hands))
