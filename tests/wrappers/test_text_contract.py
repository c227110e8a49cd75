"""Contents of every prompt of every id, under every memory and context, in the default style."""

from __future__ import annotations

import re

import gymnasium as gym
import pytest

from mage_envs import load_game
from mage_envs.wrappers import as_memory, list_memories
from mage_envs.wrappers.baselines.memento import MementoQ
from tests.contract import OPTIONS

GAMES = tuple(
    pytest.param(spec.kwargs["game_name"], id=spec.kwargs["game_name"])
    for name, spec in gym.registry.items()
    if name.startswith("mage/") and name.endswith("-Meta-v0")
)
EPISODES, LIMIT = 3, 3
STATES_THE_END = set(list_memories()) - {"none", "react"}
"""Memories that show how an episode ended. The others show nothing of it."""
RAN_OUT = "Result: a failure, because the answers ran out"
OLD_WORDS = re.compile(
    r"You ran out of|Status: |neither a success|whoever (plays against|you face)|"
    r"\+[\d.]+ \(?[a-z]|\d \((?!left|right)[a-z]|[Pp]layer [01]\b"
)
"""Words that no prompt has: a notice instead of the last state, units in parentheses."""


def spec_of(memory, folder):
    """Return a specification of the memory; that of a bank names an empty one."""
    if memory != "memento_q":
        return memory
    bank = folder / "bank.json"
    bank.write_text(MementoQ(scope="fill").bank_text())
    return f"memento_q:scope=run,bank={bank}"


def iterate_prompts(game, **options):
    """Play and yield (user messages of the chat, info, number of answers so far, last state) of each prompt.

    The answers of episode 1 are illegal, so that it ends by its limit. The first legal action follows later.
    """
    options = {"num_episodes": EPISODES, "max_turns": LIMIT, **OPTIONS.get(game, {}), **options}
    env = gym.make(f"mage/{game}-Meta-v0", disable_env_checker=True, **options)
    _, info = env.reset(seed=4)
    num_answers, state, over = 0, "", False
    while not over:
        chat = [message["content"] for message in info["messages"] if message["role"] == "user"]
        yield chat, info, num_answers, state
        if info["phase"] == "play":
            illegal = info["episode_index"] == 0
            reply = "<action>no such thing</action>" if illegal else f"<action>{info['legal_actions'][0]}</action>"
            num_answers, state = num_answers + 1, info["anchor"]
        else:
            reply = '<remark>1. Look.\n2. Act.</remark>{"keywords": ["a"], "context": "b", "tags": ["c"]}'
        _, _, over, _, info = env.step(reply)
        if info["episode_end"]:
            num_answers = 0


@pytest.mark.parametrize("memory", list_memories())
@pytest.mark.parametrize("game", GAMES)
def test_every_prompt_states_its_frame_its_place_and_the_end(game, memory, tmp_path):
    game_spec = load_game(game).spec
    frame = ["episodes against the same opponent", "is drawn anew in each episode"]
    if game_spec.players == 1:
        frame = ["episodes of the same task: each starts in the same state", "nothing else is new"]
    elif game_spec.series:
        frame = [f"episodes. {game_spec.stays}"]
    for context in ("rebuilt", "conversation"):
        ends, first_state = [], ""
        spec = spec_of(memory, tmp_path)
        if context == "conversation" and as_memory(spec).no_conversation:
            continue
        for chat, info, num_answers, state in iterate_prompts(game, memory=spec, context=context):
            text = "\n".join(chat)
            assert f"You play {EPISODES} {frame[0]}" in text
            assert frame[-1] in text
            assert f"at most {LIMIT} answers per episode" in text
            if info["phase"] == "play":
                position = f"Episode {info['episode_index'] + 1} of {EPISODES}. Answer {num_answers + 1} of {LIMIT}."
                assert chat[-1].count(f"# Now\n{position}") == 1
            if info["phase"] == "play" and num_answers and info["episode_index"] == 0:
                assert 'Your last answer was "no such thing", which is not a legal action here.' in chat[-1]
            match = OLD_WORDS.search(text)
            assert not match, match
            assert text.count("Result: ") <= info["episode_index"], "an end is stated once"
            first_state = first_state or (state if info["episode_index"] == 1 else "")
            # Later episodes end in another way.
            ends += [message for message in chat if RAN_OUT in message and info["episode_index"] == 1]
        assert bool(ends) == (memory in STATES_THE_END - {"memento_q"})
        for text in ends:
            assert text.count(RAN_OUT) == 1
            # A case of Memento shows where the episode began, its plan and its verdict.
            if not memory.startswith("memento"):
                assert f"{first_state}\n{RAN_OUT}" in text
            assert re.search(rf"{RAN_OUT}(\.|$|\n|; in total (-?[\d.]+ [a-z]+|a [a-z ]+ of -?[\d.]+))", text)
