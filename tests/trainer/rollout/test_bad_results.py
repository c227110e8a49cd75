"""Bad values from `reset` and `step` of a foreign environment: one bad value is one typed, counted failure."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dev.peers.foreign_run import settings
from mage_envs.core import Task
from mage_envs.step_checks import MAX_CHARACTERS, MAX_ENTRIES, BadResult, check_reset, check_step
from mage_envs.text.generation import Completion
from mage_envs.trainer import MAGETrainer, Trajectory
from mage_envs.trainer.backends.tiny import general_tiny
from mage_envs.wrappers import MetaEpisode
from mage_envs.wrappers.rollout.env_pool import WorkerProcessEnvs
from mage_envs.wrappers.rollout.loop import RolloutSpec, collect
from tests.trainer.foreign import Bad, Guess, ToldGuess
from tests.trainer.rollouts import Asked

SURROGATE = "half \ud800 of a pair"


def step_of(observation: Any = "Too low.", reward: Any = 0.0, flag: Any = False, **info: Any) -> Any:
    return observation, reward, flag, False, info


RESETS = {
    "float": (0.5, "reset() must return (observation, info), got float."),
    "observation alone": ("Guess.", "reset() must return (observation, info), got str."),
    "surrogate": ((SURROGATE, {}), "the observation holds half of a surrogate pair at character 5"),
    "None": ((None, {}), "the observation must be a str, got NoneType."),
    "array": ((np.zeros(3), {}), "the observation must be a str, got ndarray."),
    "info": (("Guess.", None), "info must be a dict, got NoneType."),
    "actions": (("Guess.", {"legal_actions": 7}), "legal_actions must be a list or a tuple, got int."),
    "action": (("Guess.", {"legal_actions": ["0", 1]}), "each entry of legal_actions must be a str, got int."),
    "letters": (("Guess.", {"legal_actions": "01"}), "legal_actions must be a list or a tuple, got str."),
    "odd action": (("Guess.", {"legal_actions": (SURROGATE,)}), "legal_actions holds half of a surrogate pair"),
    "messages": (("Guess.", {"messages": [{"role": "user"}]}), "each entry of messages must be a dict with role and"),
    "long": (("x" * (MAX_CHARACTERS + 1), {}), "the observation has 10,000,001 characters; at most 10,000,000"),
    "many": (("Guess.", {"legal_actions": ("0",) * (MAX_ENTRIES + 1)}), "legal_actions has 100,001 entries"),
}
STEPS = {
    "old Gymnasium": (("Too low.", 0.0, False, {}), "step() must return (observation, reward, terminated, truncated,"),
    "None": (step_of(None), "the observation must be a str, got NoneType."),
    "text reward": (step_of(reward="1"), "the reward must be a number, got str."),
    "no reward": (step_of(reward=None), "the reward must be a number, got NoneType."),
    "rewards": (step_of(reward=np.zeros(2)), "the reward must be a number, got ndarray."),
    "huge reward": (step_of(reward=10**400), "the reward must be a number, got int."),
    "text flag": (step_of(flag="no"), "terminated must be a bool, got str."),
    "no flag": (step_of(flag=None), "terminated must be a bool, got NoneType."),
    "hand": (step_of(hand="left"), "hand must be an int, got str."),
    "huge hand": (step_of(hand=10**5000), "hand must be between -2**53 and 2**53."),
    "share": (step_of(hand_reward=None), "hand_reward must be an int, got NoneType."),
    "metrics": (step_of(private={"metrics": {"moves": "three"}}), "each value in metrics must be an int, got str."),
    "events": (step_of(memory_events=[1]), "each entry of memory_events must be a dict, got int."),
}
CASES = [("reset", *case) for case in RESETS.values()] + [("step", *case) for case in STEPS.values()]


@pytest.mark.parametrize(("method", "result", "reason"), CASES, ids=[*RESETS, *(f"step: {name}" for name in STEPS)])
@pytest.mark.parametrize("meta", [False, True], ids=["plain", "meta"])
def test_one_bad_result_is_one_failure(method: str, result: Any, reason: str, meta: bool) -> None:
    """In the very first call, too; and inside a meta-episode, whose own result is sound."""
    env: Any = Bad(method, result, seed=0)
    if meta:
        env = MetaEpisode(env, rules="Guess the number.", memory="none", num_episodes=1, deal="replay")
    specs = [RolloutSpec(Task("", seed=seed)) for seed in range(2)]
    broken, sound = collect([env], Asked(lambda prompt: Completion("<action>0</action>" if meta else "0")), specs)
    if meta and "messages" in reason:
        # A meta-episode builds its own chat and never reads that of its environment.
        assert broken.failure is None
        return
    assert broken.failure is not None
    assert broken.failure.startswith(f"environment: BadResult: {reason}")
    assert (broken.retries, sound.failure, len(sound.episodes)) == (1, None, 1)


def test_numbers_and_flags_of_numpy_are_legal() -> None:
    info = {"hand": np.int64(1), "success": np.bool_(True), "private": {"metrics": {"moves": np.float32(2)}}}
    for reward in (1, True, np.float32(1), np.int8(1), np.array(1.0), np.bool_(True)):
        for flag in (True, np.bool_(True), 1, np.int64(1)):
            checked = check_step(("Right.", reward, flag, np.False_, info))
            assert checked == ("Right.", 1.0, True, False, info)
            assert [type(value) for value in checked[:4]] == [str, float, bool, bool]
    assert np.isnan(check_step(step_of(reward=float("nan")))[1])
    assert check_reset(("ä \U0001f600", {"mine": object()}))[0] == "ä \U0001f600"
    with pytest.raises(BadResult, match="terminated must be a bool, got int"):
        check_step(step_of(flag=2))


def test_a_worker_reports_it_and_continues() -> None:
    specs = [RolloutSpec(Task("", seed=seed)) for seed in range(3)]
    for method, result in (("reset", 0.5), ("step", step_of(SURROGATE))):
        envs = WorkerProcessEnvs(partial(Bad, method, result), 2, 1)
        try:
            trajectories = collect(envs, Asked(lambda prompt: Completion("0")), specs)
        finally:
            envs.close()
        assert [t.failure is None for t in trajectories] == [True, False, True]
        assert str(trajectories[1].failure).startswith("environment: BadResult: ")


def test_a_reply_that_is_quoted_breaks_nothing() -> None:
    """An environment may quote the reply; half a surrogate pair in it is the model's, and no failure of the game."""

    class Echo(Guess):
        def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
            return f"You said {action}.", *super().step(action)[1:]

    for env in (Echo(), MetaEpisode(Echo(), rules="Guess.", memory="history", num_episodes=2, deal="replay")):
        recorder = Asked(lambda prompt: Completion(f"<action>{SURROGATE}</action>"))
        [trajectory] = collect([env], recorder, [RolloutSpec(Task("", seed=1))])
        assert trajectory.failure is None
        assert any("half \ufffd of a pair" in prompt.messages[-1].content for prompt in recorder.prompts)


def test_a_training_continues_after_it(tmp_path: Path) -> None:
    """Through the tokenizer, which reads all prompts of a batch at once."""
    all_trajectories: list[Trajectory] = []

    def keep(trainer: MAGETrainer, trajectories: Sequence[Trajectory]) -> None:
        all_trajectories.extend(trajectories)

    resets: list[int | None] = []

    class Once(ToldGuess):
        """Bad at the first reset of all."""

        def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
            resets.append(seed)
            observation, info = super().reset(seed=seed)
            return (SURROGATE if len(resets) == 1 else observation), info

    trainer = MAGETrainer(
        general_tiny(tmp_path / "model"), settings(tmp_path / "run", members=2), Once, on_rollout_end=keep
    )
    trainer.train()
    assert trainer.state.global_step == 2
    assert [(t.failure, t.retries) for t in all_trajectories] == [(None, 1), (None, 0), (None, 0), (None, 0)]
    [row] = trainer.failure_log.rows()
    assert (row["kind"], row["given_up"]) == ("environment", False)
    assert row["reason"].startswith("BadResult: the observation holds half of a surrogate pair at character 5")
