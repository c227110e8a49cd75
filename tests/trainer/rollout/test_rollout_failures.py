"""Rollouts in which an opponent, an environment or a call of the model fails or hangs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from mage_envs.text.generation import Completion, Prompt
from mage_envs.wrappers import MetaEpisode
from mage_envs.wrappers.rollout.generation_client import RunStopped
from mage_envs.wrappers.rollout.loop import collect
from mage_envs.wrappers.rollout.scripted import ScriptedGenerator
from tests.trainer.rollouts import ID, Asked, Flaky, Hanging, OneAtATime, answer, broken, frozen, make, specs

# -- failures -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seat", [0, 1])
def test_an_opponent_that_fails_once_is_played_again(seat: int) -> None:
    (trajectory,) = collect([make(Flaky(1))], ScriptedGenerator(answer), specs(1, seat=seat))
    assert (trajectory.failure, trajectory.retries, len(trajectory.episodes)) == (None, 1, 2)


@pytest.mark.parametrize("seat", [0, 1])
def test_an_opponent_that_always_fails_is_a_typed_failure(seat: int) -> None:
    planned_specs = specs(3, seat=seat)
    trajectories = collect([make(Flaky(10_000))], ScriptedGenerator(answer), planned_specs)
    assert [(t.task, t.retries) for t in trajectories] == [(spec.task, 1) for spec in planned_specs]
    for trajectory in trajectories:
        assert trajectory.failure is not None
        assert trajectory.failure.startswith("opponent: Opponent 'Flaky' failed in KuhnPoker: the server is away")
        assert len(trajectory.episodes) < trajectory.num_episodes


def test_one_that_fails_leaves_the_others_alone() -> None:
    planned_specs = specs(4)
    sound = frozen(collect([make() for _ in range(2)], ScriptedGenerator(answer), planned_specs))
    with_broken = frozen(collect([broken(1), make()], ScriptedGenerator(answer), planned_specs))
    assert [new == old for new, old in zip(with_broken, sound, strict=True)] == [False, True, True, True]


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_a_broken_environment_is_a_typed_failure(retries: int) -> None:
    planned_specs = specs(1)
    (failed,) = collect([broken(retries + 1)], ScriptedGenerator(answer), planned_specs, retries=retries)
    assert (failed.failure, failed.retries) == ("environment: ZeroDivisionError: the simulator broke", retries)
    (retried,) = collect([broken(retries)], ScriptedGenerator(answer), planned_specs, retries=retries)
    assert (retried.failure, retried.retries) == (None, retries)


def test_a_failed_call_is_a_typed_failure() -> None:
    def reply(prompt: Prompt) -> Completion:
        broken = prompt.seed[0] == 10 and prompt.seed[2] == 1
        return Completion("", error="HTTP 503") if broken else Completion(answer(prompt))

    trajectories = collect([make() for _ in range(4)], Asked(reply), specs(4))
    assert [t.failure for t in trajectories] == ["generator: HTTP 503", "generator: HTTP 503", None, None]
    assert [(len(t.steps), t.retries) for t in trajectories[:2]] == [(1, 1), (1, 1)]


@pytest.mark.parametrize("kind", ["sleep", "loop"])
def test_a_hung_opponent_is_interrupted_and_its_environment_replaced(kind: str) -> None:
    envs: list[MetaEpisode] = []

    def replacement() -> MetaEpisode:
        envs.append(make("kuhn/aggressive"))
        return envs[-1]

    trajectories = collect(
        [make(Hanging(kind)), make("kuhn/aggressive")],
        ScriptedGenerator(lambda p: answer(p).replace("nonsense", "bet")),
        specs(2, seat=0),
        env_timeout=0.3,
        make_env=replacement,
    )
    assert [(t.failure, t.retries, len(t.episodes)) for t in trajectories] == [(None, 1, 2), (None, 0, 2)]
    [failure] = trajectories[0].failures
    assert str(failure) == "hang: no answer within 0.3 s"
    assert "in act" in failure.traceback
    assert len(envs) == 1


def test_one_that_hangs_again_is_filed_as_a_failure() -> None:
    (trajectory,) = collect([make(Hanging("sleep"))], ScriptedGenerator(answer), specs(1, seat=0), env_timeout=0.2)
    assert (trajectory.failure, trajectory.retries) == ("hang: no answer within 0.2 s", 1)
    assert [(failure.kind, failure.attempt) for failure in trajectory.failures] == [("hang", 0), ("hang", 1)]


def test_one_line_names_the_slow_environment(caplog: pytest.LogCaptureFixture) -> None:
    env = make(Hanging("sleep"))
    collect([env], ScriptedGenerator(answer), specs(1, seat=0), env_timeout=0.6, slow_after=0.2, retries=0)
    [line] = [record.message for record in caplog.records]
    assert line == (
        f"Waiting for 0 s already for {ID}, opponent of its own choice, task 10, meta-episode 0 of group 0, episode 1, "
        "attempt 1 (in this process; use --env-workers 1 to play it in a process that can be stopped)."
    )


def test_a_hung_model_fails_its_prompts_and_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    calls = []

    def reply(prompt: Prompt) -> Completion:
        calls.append(prompt)
        if len(calls) == 3:
            time.sleep(60)
        return Completion(answer(prompt))

    trajectories = collect([make(), make()], Asked(reply), specs(2), model_timeout=0.3, slow_after=0.1)
    assert [(t.failure, t.retries) for t in trajectories] == [(None, 1)] * 2
    assert [str(f) for t in trajectories for f in t.failures] == ["generator: no answer within 0.3 s"] * 2
    assert caplog.records[0].message.startswith(
        "Waiting for 0 s already for the model, for 2 meta-episodes; the first: "
    )


class Breaking(OneAtATime):
    """A streaming backend whose polls hang or raise, those of the numbers in `broken`."""

    def __init__(self, *broken: int, raises: bool = False) -> None:
        super().__init__()
        self.broken, self.raises = broken, raises
        self.polls = 0
        self.given_up: list[int] = []

    def poll(self, timeout: float | None = None) -> list[tuple[int, Completion]]:
        if timeout == 0.0:
            return []
        self.polls += 1
        if self.polls in self.broken:
            if self.raises:
                raise OSError("the engine's socket is gone")
            time.sleep(60)
        return super().poll(timeout)

    def cancel(self) -> None:
        self.given_up.append(len(self.waiting))
        super().cancel()


@pytest.mark.parametrize(
    ("raises", "reason"),
    [(False, "generator: no answer within 0.4 s"), (True, "generator: OSError: the engine's socket is gone")],
)
def test_a_streaming_backend_that_hangs_or_raises_costs_what_it_had_under_way(raises: bool, reason: str) -> None:
    sound = frozen(collect([make() for _ in range(3)], OneAtATime(), specs(6)))
    backend = Breaking(7, raises=raises)
    trajectories = collect([make() for _ in range(3)], backend, specs(6), model_timeout=0.2)
    assert backend.given_up == [3]
    assert [str(f) for t in trajectories for f in t.failures] == [reason] * 3
    assert all("in poll" in f.traceback for t in trajectories for f in t.failures)
    assert sorted((t.failure, t.retries) for t in trajectories) == [(None, 0)] * 3 + [(None, 1)] * 3
    assert all(
        frozen_now == frozen_before
        for t, frozen_now, frozen_before in zip(trajectories, frozen(trajectories), sound, strict=True)
        if not t.failures
    )


@pytest.mark.parametrize("raises", [False, True])
def test_a_streaming_backend_that_stays_dead_ends_the_run_in_one_line(raises: bool) -> None:
    backend = Breaking(4, 5, 6, raises=raises)
    reason = "OSError: the engine's socket is gone" if raises else "no answer within 0.4 s"
    line = f"The streaming backend is dead: {reason}, twice without an answer in between; waited for: the model, for 3 "
    with pytest.raises(RunStopped, match=line):
        collect([make() for _ in range(3)], backend, specs(6), model_timeout=0.2)
    assert (backend.polls, backend.waiting) == (5, [])


def test_a_streaming_backend_is_cancelled_when_the_rollout_stops() -> None:
    backend = OneAtATime()

    def stop(num_done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collect([make() for _ in range(3)], backend, specs(6), on_step=stop)
    assert backend.waiting == []
    with pytest.raises(OSError, match="socket"):  # in the very first call, the exception says more
        collect([make()], Breaking(1, raises=True), specs(1))


def test_a_model_that_raises_fails_its_prompts_unless_nothing_was_played() -> None:
    class Raising(Asked):
        def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
            if len(self.batches) == at:
                self.batches.append([])
                raise ValueError("no memory left")
            return super().generate(prompts)

    at = 2
    trajectories = collect([make(), make()], Raising(), specs(2))
    assert [str(f) for t in trajectories for f in t.failures] == ["generator: ValueError: no memory left"] * 2
    assert all("in generate" in f.traceback for t in trajectories for f in t.failures)
    at = 0
    with pytest.raises(ValueError, match="no memory left"):
        collect([make(), make()], Raising(), specs(2))
    assert [t.retries for t in collect([make(), make()], Raising(), specs(2), begun=True)] == [1, 1]


def test_a_reset_that_breaks_is_a_failure_and_a_bad_task_an_error() -> None:
    env = make("kuhn/aggressive")

    def broken_reset(**options: object) -> Any:
        raise OSError("no such level file")

    env.env.reset = broken_reset  # type: ignore[method-assign]
    (trajectory,) = collect([env], ScriptedGenerator(answer), specs(1))
    assert (trajectory.failure, trajectory.retries) == ("environment: OSError: no such level file", 1)
    with pytest.raises(KeyError, match="Unknown opponent 'kuhn/nobody'"):
        collect([make()], ScriptedGenerator(answer), specs(1, "kuhn/nobody"))
    (late,) = collect([make()], ScriptedGenerator(answer), specs(1, "kuhn/nobody"), begun=True)
    assert late.failure is not None
    assert late.failure.startswith("environment: UnknownOpponent: Unknown opponent 'kuhn/nobody'")


def test_no_environment_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one environment"):
        collect([], Asked(), specs(1))
