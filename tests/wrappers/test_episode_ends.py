"""How an episode ended: one verdict in `info`, prompts and records, and one sentence for every memory."""

from __future__ import annotations

import re

import gymnasium as gym
import pytest

import mage_envs  # noqa: F401  (registers the ids)
from mage_envs.core import BY_TIMEOUT, HandResult, episode_outcome

MEMORIES = ("reflection", "history", "both", "reflexion", "amem", "memento", "memento_trace")


def play(env, choose, seed=0):
    """Every prompt with its info, the last one included."""
    text, info = env.reset(seed=seed)
    texts_and_infos = [(text, info)]
    over = False
    while not over:
        tag = info["answer_tag"]
        answer = choose(info) if info["phase"] == "play" else "a plan"
        text, _, over, _, info = env.step(f"<{tag}>{answer}</{tag}>" if tag else answer)
        texts_and_infos.append((text, info))
    return texts_and_infos


@pytest.mark.parametrize(
    ("hands", "outcome"),
    [
        ([HandResult(1.0)], "success"),
        ([HandResult(0.0)], "draw"),
        ([HandResult(1.0), HandResult(-1.0)], "draw"),
        ([HandResult(-1.0)], "failure"),
        ([HandResult(0.0, success=False)], "failure"),
        ([HandResult(3.0, success=False)], "failure"),
        ([HandResult(-1.0, success=True)], "success"),
        ([HandResult(2.0, ended_by=BY_TIMEOUT)], "failure"),
        ([], "draw"),
    ],
)
def test_the_games_own_verdict_comes_before_the_sign_of_the_return(hands, outcome):
    assert episode_outcome(hands) == outcome


@pytest.mark.parametrize(
    ("game", "opponent", "action"),
    [("PrisonersDilemma", "pd/all-d", "cooperate"), ("Ultimatum", "ultimatum/reserve:7", "offer 6")],
)
def test_prompts_say_what_info_says(game, opponent, action):
    env = gym.make(f"mage/{game}-Meta-v0", num_episodes=2, opponent=opponent, memory="history")
    log = play(env, lambda info: action)
    ends = [info for _, info in log[1:] if info["episode_end"]]
    assert {(info["success"], info["outcome"]) for info in ends} <= {(False, "failure"), (True, "success")}
    assert any(info["outcome"] == "failure" and info["episode_value"] == 0 for info in ends)
    sentences = [sentence for text, _ in log for sentence in re.findall(r"^Result: ([^;]*);", text, re.MULTILINE)]
    assert sentences
    assert set(sentences) <= {"a success", "a failure"}
    assert [info["ended_episode"] for info in ends] == [0, 1]
    assert [info["episode_values"] for info in ends] == [
        [ends[0]["episode_value"]],
        [info["episode_value"] for info in ends],
    ]
    assert [len(info["ended_with"]) for info in ends] == [len(info["seats"]) for info in ends]


@pytest.mark.parametrize("show_score", [None, False, True])
def test_every_memory_shows_the_same_sentence(show_score):
    """A failed purchase in WebShop: whether the score is shown is the environment's option, not the memory's."""

    def buy(info):
        legal = info["legal_actions"]
        if "click[buy now]" in legal:
            return "click[buy now]"
        return next((action for action in legal if action.startswith("click[b0")), "search[shoes]")

    score_shown = {}
    for memory in MEMORIES:
        env = gym.make("mage/WebShop-Meta-v0", memory=memory, num_episodes=2, show_score=show_score, size="tiny")
        later_texts = [text for text, info in play(env, buy) if info["episode_index"] >= 1]
        score_shown[memory] = any(re.search(r"in total a score of \d", text) for text in later_texts)
    assert set(score_shown.values()) == {bool(show_score)}, score_shown


def test_a_game_of_one_player_has_no_fresh_deals():
    with pytest.raises(ValueError, match="a game of one player repeats its task"):
        gym.make("mage/Sokoban-Meta-v0", deal="fresh")
    gym.make("mage/Sokoban-Meta-v0", deal="replay")


@pytest.mark.parametrize("memory", ["none", "memento", "reflection"])
def test_the_metrics_at_the_end_are_those_of_the_episode_that_ended(memory):
    """Some memories start the next episode within the step that ends one."""
    env = gym.make("mage/Sokoban-Meta-v0", memory=memory, num_episodes=2, max_turns=2)
    log = play(env, lambda info: "up", seed=3)
    ends = [info["private"]["episode_metrics"] for _, info in log if info["episode_end"]]
    # Both moves of seed 3 run against a wall, and a new episode has no regret.
    assert [end["regret"] for end in ends] == [2.0, 2.0]
