"""Whole runs of the memories: bad replies in every call, any batch, any process, and the contract of environments."""

from __future__ import annotations

import hashlib
import json
from collections import Counter

import pytest

from mage_envs.benchmarks import GeneratorAgent, evaluate, panel
from mage_envs.testing import check_id
from mage_envs.wrappers.rollout.loop import RolloutSpec, collect
from mage_envs.wrappers.rollout.scripted import ScriptedGenerator
from tests.processes import run_in_two_processes
from tests.wrappers.memory_players import KUHN, FaultyLearner, good, make

MEMORIES = ("react", "react:think_action=true", "reflexion:reflect_on=always", "amem", "memento", "memento_trace")


class Counted:
    """An environment that adds up what its memory recorded and which answers were invalid, by kind of call."""

    def __init__(self, env):
        self.env, self.asked, self.failures, self.invalid, self.thoughts = env, None, Counter(), Counter(), 0

    def reset(self, **options):
        observation, self.asked = self.env.reset(**options)
        return observation, self.asked

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        self.invalid[self.asked["kind"]] += info["invalid_reason"] is not None
        self.thoughts += info.get("thought", False)
        for event in info.get("memory_events", ()):
            if event["event"] == "parse_failure":
                self.failures[event["kind"]] += 1
        self.asked = info
        return observation, reward, terminated, truncated, info


@pytest.mark.parametrize("memory", [*MEMORIES, "amem:query_llm=true", "amem:granularity=turn"])
def test_bad_replies_lose_no_meta_episode_and_are_all_recorded(memory):
    """20% malformed, 5% empty, 5% cut replies in every kind of call."""
    learner = FaultyLearner()
    envs = [Counted(make(memory=memory, num_episodes=4)) for _ in range(8)]
    specs = [RolloutSpec(task) for task in panel(KUHN, ["kuhn/nash", "kuhn/maniac"], 16, 0)]
    trajectories = collect(envs, learner, specs, retries=0)
    assert [trajectory.failure for trajectory in trajectories] == [None] * 64
    assert all(len(trajectory.episodes) == 4 for trajectory in trajectories)
    failures = sum((env.failures for env in envs), Counter())
    invalid = sum((env.invalid for env in envs), Counter())
    thoughts = sum(env.thoughts for env in envs)
    injected = {kind: count for kind, count in learner.faults.items() if kind != "play"}
    if "query" in injected:  # any text is a query, so a reply that is malformed elsewhere is valid here
        assert 0 < failures.pop("query") < injected.pop("query")
    assert failures == injected
    assert invalid["play"] + thoughts == learner.faults["play"] > 20
    assert (thoughts > 0) == (memory == "react:think_action=true")


def digest(trajectories):
    """A hash of all that was asked and answered."""
    steps = [[[s.episode, s.phase, s.text, s.reward, s.invalid_reason] for s in t.steps] for t in trajectories]
    return hashlib.sha256(json.dumps(steps).encode()).hexdigest()


def prompts_digest(memory, batch, count=32):
    """A hash over every prompt and reply of a panel, in the panel's order."""
    messages_by_key = {}

    def answer(prompt):
        messages_by_key.setdefault((prompt.seed[0], prompt.info["seat"], prompt.slot, prompt.seed[2]), prompt.messages)
        text = "".join(message.content for message in prompt.messages)
        return good(dict(prompt.info), hashlib.sha256(text.encode()).hexdigest()[:6])

    tasks = panel(KUHN, ["kuhn/nash"], count // 2, 5)
    agent = GeneratorAgent(ScriptedGenerator(answer), "hashing")
    return digest(evaluate(agent, tasks, {"memory": memory, "num_episodes": 4}, batch=batch))


@pytest.mark.parametrize("memory", MEMORIES)
def test_the_same_bytes_for_any_batch(memory):
    """Each reply is a hash of its whole prompt, so that any difference in a prompt lasts to the end."""
    assert len({prompts_digest(memory, batch) for batch in (1, 8, 256)}) == 1


def test_the_same_bytes_in_two_processes():
    code = (
        "from tests.wrappers.test_memory_runs import *\n"
        "for memory in MEMORIES: print(memory, prompts_digest(memory, 8, 8))"
    )
    assert len(run_in_two_processes(code).splitlines()) == len(MEMORIES)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("game", ["KuhnPoker", "WebShop"])
def test_the_contract_of_environments_holds(game, memory):
    options = {"size": "tiny"} if game == "WebShop" else {"opponent": "kuhn/nash"}
    check_id(f"mage/{game}-Meta-v0", memory=memory, **options)
