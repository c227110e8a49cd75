"""`MetaEpisode` as a Gymnasium environment: made by hand, copied, wrapped, subclassed, and used for long."""

import copy
import gc
import json
import pickle
import tracemalloc

import gymnasium as gym
import pytest

from mage_envs import Task
from mage_envs.wrappers import ADAPTIVE, PAPER, EpisodicMemory, MetaEpisode, Protocol
from mage_envs.wrappers.rollout.loop import RolloutSpec, collect
from mage_envs.wrappers.rollout.scripted import ScriptedGenerator
from tests.wrappers.playing import answer, make, play


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"protocol": "papr"}, "protocol='papr' is unknown; choose one of: adaptive, paper"),
        ({"memory": "all"}, "memory='all' is unknown; choose one of: reflection, history, both, none"),
        ({"context": "chat"}, "context='chat' is unknown; choose one of: 'rebuilt', 'conversation'"),
        ({"style": "verse"}, "style='verse' is unknown; choose one of: plain, paper, neutral, words"),
        ({"reward": "chips"}, "reward='chips' is unknown in KuhnPoker; choose one of: task, released, sign"),
        ({"num_episodes": 0}, "num_episodes=0 must be a whole number of at least 1"),
        ({"deal": "old"}, "deal='old' is unknown"),
    ],
)
def test_bad_options_get_one_line(kwargs, text):
    with pytest.raises(ValueError, match=text) as caught:
        make(**kwargs)
    assert "\n" not in str(caught.value)


def test_protocols_are_frozen_data():
    assert ADAPTIVE == Protocol()
    assert (PAPER.deal, PAPER.seat, PAPER.early_stop) == ("replay", "fixed", True)
    with pytest.raises(AttributeError):
        ADAPTIVE.deal = "replay"
    with pytest.raises(ValueError, match="choose one of: worst, zero"):
        Protocol(timeout_reward="none")


def test_wrapping_by_hand_equals_make():
    env = gym.make("mage/KuhnPoker-v0", opponent="kuhn/nash")
    env.unwrapped.hand.timeout_value = -2.0
    assert play(MetaEpisode(env)) == play(make(opponent="kuhn/nash"))
    assert isinstance(make().memory, EpisodicMemory)


@pytest.mark.more
def test_memory_stays_flat_over_many_meta_episodes():
    env = make(opponent="kuhn/nash", hands_per_episode=2)

    def run(count, start):
        for seed in range(start, start + count):
            play(env, 1, seed)
        gc.collect()

    tracemalloc.start()
    run(500, 0)  # fills the bounded cache of stream states
    bytes_before = tracemalloc.get_traced_memory()[0]
    run(500, 500)
    grown = tracemalloc.get_traced_memory()[0] - bytes_before
    tracemalloc.stop()
    assert grown < 200_000


def test_outside_of_play_there_is_nothing_to_act_on():
    env = make(opponent="kuhn/nash", num_episodes=2)
    _, info = env.reset(seed=1)
    phases, terminated = set(), False
    while not terminated:
        phases.add(info["phase"])
        if info["phase"] == "reflect":
            assert (info["legal_actions"], info["anchor"], info["hand"]) == ((), "reflection", 0)
            assert (info["answer_tag"], "information_state" in info) == ("remark", False)
        else:
            assert info["legal_actions"]
            assert info["answer_tag"] == "action"
        *_, terminated, _, info = env.step(answer(env, info))
    assert phases == {"play", "reflect"}
    assert (info["legal_actions"], info["anchor"]) == ((), "reflection")


def test_info_is_made_of_json_values():
    for env in (make(), make("TicTacToe", opponent="minimax"), make(context="conversation", hands_per_episode=2)):
        for _, info_before, _, info_after in play(env):
            for info in (info_before, info_after):
                assert json.loads(json.dumps(info)).keys() == info.keys()


def test_statistics_of_gymnasium_stand_beside_ours():
    for env_id in ("mage/KuhnPoker-Meta-v0", "mage/KuhnPoker-v0"):
        env = gym.wrappers.RecordEpisodeStatistics(gym.make(env_id, opponent="kuhn/nash"))
        _, info = env.reset(seed=0)
        terminated, total = False, 0.0
        while not terminated:
            reply = info["legal_actions"][0] if info["legal_actions"] else ""
            _, reward, terminated, _, info = env.step(f"<action>{reply}</action>" if "Meta" in env_id else reply)
            total += reward
        assert info["episode"]["r"] == pytest.approx(total)


@pytest.mark.parametrize("opponent", ["kuhn/nash", "uniform", "counting", "switch:kuhn/rock,kuhn/maniac,1"])
@pytest.mark.parametrize("options", [{}, {"context": "conversation", "memory": "both", "hands_per_episode": 2}])
def test_copies_in_mid_episode_continue_alike(opponent, options):
    def rest(env, info):
        log, terminated = [], False
        while not terminated:
            observation, reward, terminated, _, info = env.step(answer(env, info, -1 if info["legal_actions"] else 0))
            log.append((observation, reward, info))
        return log

    env = make(opponent=opponent, **options)
    for steps in range(5):
        _, info = env.reset(seed=3)
        for _ in range(steps):
            *_, info = env.step(answer(env, info))
        copies = [copy.deepcopy(env), pickle.loads(pickle.dumps(env))]
        expected = rest(env, info)
        assert [rest(env_copy, info) for env_copy in copies] == [expected, expected]


class LoudMeta(MetaEpisode):
    """A user's subclass."""

    def step(self, action):
        observation, *others = super().step(action.replace("shout", "bet"))
        return observation.upper(), *others


def test_a_subclass_is_called_by_the_rollout_loop():
    env = LoudMeta(gym.make("mage/KuhnPoker-v0", opponent="kuhn/nash"), memory="history", context="conversation")
    prompts_seen = []

    def shout(prompt):
        prompts_seen.append(prompt.messages[-1].content)
        return "<action>shout</action>"

    [trajectory] = collect([env], ScriptedGenerator(shout), [RolloutSpec(Task("", seed=3))])
    assert trajectory.failure is None
    assert all(text == text.upper() for text in prompts_seen[1:])
    assert any(step.invalid_reason is None for step in trajectory.steps)


def test_there_is_nothing_to_show_before_the_first_reset():
    with pytest.raises(gym.error.ResetNeeded, match="before the first reset"):
        make(render_mode="ansi").render()
