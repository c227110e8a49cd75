"""The style `neutral`: the same game, with no word of it in the prompts."""

from __future__ import annotations

import re

import gymnasium as gym
import pytest

from mage_envs.registry import list_games, load_game, make_game
from mage_envs.text.styles import NeutralWords
from mage_envs.wrappers import list_memories
from tests.contract import OPTIONS

# OpenSpiel's games get their words only when they are made, so they are named.
LARGE = tuple(name for name in ("LeducPoker", "SokobanControls") if name in list_games())
"""Games of folders that may be deleted."""
GAMES = tuple(dict.fromkeys((*LARGE, *(name for name in list_games() if load_game(name).spec.neutral))))
LORE = re.compile(
    r"prisoner|dilemma|cooperat|defect|ultimatum|\bpies?\b|slice|\boffer|accept|refus|inspect|attacker|defender|vault|"
    r"gallery|archive|garage|garden|\brock\b|paper|scissors|bargain|\bbook\b|\bhat\b|\bball\b|kuhn|leduc|poker|\bchips?\b|"
    r"\bpot\b|\bbets?\b|\bcalls?\b|\bchecks?\b|\bfolds?\b|\braises?\b|\bbetting\b|stag hunt|chicken|sokoban|\bbox\b",
    re.IGNORECASE,
)
CARDS = re.compile(r"\b[JQK]\b")


def play_meta_episode(game, style, index=0, **options):
    """The prompts, the rewards and the actions of a meta-episode, in which answers are given by their place."""
    defaults = {"num_episodes": 3, **OPTIONS.get(game, {})}
    env = gym.make(f"mage/{game}-Meta-v0", style=style, disable_env_checker=True, **defaults | options)
    _, info = env.reset(seed=11)
    prompts, rewards, actions, over = [], [], [], False
    while not over:
        prompts += [message["content"] for message in info["messages"] if message["role"] == "user"]
        if info["phase"] == "play":
            legal = info["legal_actions"]
            answer = legal[(index + len(actions)) % len(legal)]
            if style == "neutral":
                answer = env.get_wrapper_attr("style").renaming.rename(answer).upper()
            reply = f"<action>{answer}</action>"
        else:
            reply = "<remark>a note</remark>"
        _, reward, over, _, info = env.step(reply)
        rewards.append(reward)
        actions += [info["action"]] if info["action"] else []
    return prompts, rewards, actions


def test_the_games_of_the_suite_have_neutral_words():
    assert len(GAMES) == 11 + len(LARGE)


@pytest.mark.parametrize("game", GAMES)
def test_the_game_is_the_same_and_no_prompt_names_it(game):
    for index in range(3):
        plain, paid, actions = play_meta_episode(game, "plain", index, memory="both")
        neutral, also_paid, also = play_meta_episode(game, "neutral", index, memory="both")
        assert also_paid == paid
        assert also == actions
        assert len(neutral) == len(plain)
        for text in neutral:
            assert (match := LORE.search(text)) is None, f"{match} in {text}"
            assert game not in ("KuhnPoker", "LeducPoker") or not CARDS.search(text)


@pytest.mark.parametrize("memory", sorted(set(list_memories()) - {"memento_q"}))
def test_every_memory_is_renamed(memory):
    for text in play_meta_episode("PrisonersDilemma", "neutral", memory=memory)[0]:
        assert (match := LORE.search(text)) is None, f"{match} in {text}"


@pytest.mark.parametrize("game", GAMES)
def test_neutral_words_are_not_words_of_the_game_and_differ(game):
    spec = make_game(game).spec
    words = NeutralWords(spec)
    neutral_words = [words.rename(action) for action in spec.actions or ()]
    assert len(set(neutral_words)) == len(neutral_words)
    for word in (*neutral_words, *spec.neutral.values()):
        assert words.rename(word) == word, "a text that is renamed twice stays the same"
    assert [words.read(word) for word in neutral_words] == list(spec.actions or ())
    assert words.read("anything else") == "anything else"


def test_feedback_names_the_nearest_action_in_neutral_words():
    env = gym.make("mage/PrisonersDilemma-Meta-v0", style="neutral", disable_env_checker=True)
    env.reset(seed=1)
    text, *_ = env.step("<action>go lefft</action>")
    assert 'Your last answer was "go lefft"' in text
    assert "The nearest legal action is: go left." in text
    # The game's own word is accepted too, and the prompt repeats it in neutral words.
    text, *_, info = env.step("<action>cooperate</action>")
    assert info["action"] == "cooperate"
    assert "You answered: go left" in text


def test_the_question_for_the_opponent_hides_registered_names():
    names = ["pd/all-c", "pd/tit-for-tat"]
    prompts, *_ = play_meta_episode("PrisonersDilemma", "neutral", memory="history", elicit=names)
    question_prompts = [text for text in prompts if "# Question" in text]
    assert len(question_prompts) == 2
    assert all("1. type 1\n2. type 2\n" in text and "tit" not in text for text in question_prompts)


def test_a_game_without_neutral_words_is_refused():
    with pytest.raises(ValueError, match=r"TicTacToe has no neutral words \(GameSpec.neutral\); use style='plain'"):
        gym.make("mage/TicTacToe-Meta-v0", style="neutral", disable_env_checker=True)
