"""Exceptions of every kind and size from code of others: each is a failure with its name, with and without workers."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from mage_envs.exceptions import MAX_REASON, Interruption, cut, stops
from mage_envs.processes.call_outcomes import attempt
from mage_envs.wrappers.rollout.env_pool import WorkerProcessEnvs
from mage_envs.wrappers.rollout.loop import collect
from mage_envs.wrappers.rollout.scripted import ScriptedGenerator
from mage_envs.wrappers.rollout.trajectory import Failure
from tests.packages import mark_params
from tests.trainer.rollouts import answer, make, specs

HUGE = 100_000_000


class Strange(BaseException):
    """Derived from no Exception."""


class Unreadable(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError


KINDS: dict[str, Any] = {
    "Strange": lambda: Strange("mine"),
    "GeneratorExit": GeneratorExit,
    "ExceptionGroup": lambda: ExceptionGroup("two", [ValueError("a"), TypeError("b")]),
    "BaseExceptionGroup": lambda: BaseExceptionGroup("two", [ValueError("a"), Strange("b")]),
    "Unreadable": Unreadable,
    "ValueError": lambda: ValueError("x" * HUGE),
    "RuntimeError": lambda: RuntimeError("two words " * (HUGE // 10)),
}


class Raising:
    """An opponent that raises an exception of that kind."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def reset(self, rng: Any) -> None: ...

    def act(self, turn: Any) -> str:
        raise KINDS[self.kind]()


class Talkative:
    """An opponent whose answer is huge."""

    def reset(self, rng: Any) -> None: ...

    def act(self, turn: Any) -> str:
        return "bet" * (HUGE // 3)


def failures(opponent: Any, workers: int) -> list[Failure]:
    make_env = partial(make, opponent)
    envs: Any = WorkerProcessEnvs(make_env, 2, workers) if workers else [make_env()]
    try:
        trajectories = collect(envs, ScriptedGenerator(answer), specs(2, seat=0), make_env=make_env, env_timeout=60)
    finally:
        if workers:
            envs.close()
    return [failure for trajectory in trajectories for failure in trajectory.failures]


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", mark_params(KINDS, step=2))
def test_an_exception_of_an_opponent_is_a_failure_with_its_name(kind: str, workers: int) -> None:
    failures_found = failures(Raising(kind), workers)
    assert len(failures_found) == 4
    assert {failure.kind for failure in failures_found} == {"opponent"}
    assert all(len(failure.reason) <= MAX_REASON and len(failure.traceback) <= MAX_REASON for failure in failures_found)
    assert all(kind in failure.traceback for failure in failures_found)
    is_named = kind in failures_named_in_reason
    assert all((kind in failure.reason) is is_named for failure in failures_found)


failures_named_in_reason = ("Strange", "GeneratorExit", "BaseExceptionGroup")
"""The reason of an ordinary exception is its message, because the traceback has its name."""


@pytest.mark.parametrize("workers", [0, 1])
def test_a_huge_answer_of_an_opponent_is_a_failure(workers: int) -> None:
    failures_found = failures(Talkative(), workers)
    assert [failure.kind for failure in failures_found] == ["opponent"] * 4
    assert all(len(failure.reason) <= MAX_REASON and len(failure.traceback) <= MAX_REASON for failure in failures_found)


class RaisingEnv:
    """Makes an environment that raises in its first step."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self) -> Any:
        env = make()

        def step(action: str) -> Any:
            raise KINDS[self.kind]()

        env.env.step = step  # type: ignore[method-assign]
        return env


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("kind", mark_params(KINDS, step=2))
def test_an_exception_of_an_environment_is_a_failure_with_its_name(kind: str, workers: int) -> None:
    make_env = RaisingEnv(kind)
    envs: Any = WorkerProcessEnvs(make_env, 1, workers) if workers else [make_env()]
    try:
        [trajectory] = collect(envs, ScriptedGenerator(answer), specs(1), make_env=make_env, retries=0, env_timeout=60)
    finally:
        if workers:
            envs.close()
    [failure] = trajectory.failures
    assert failure.kind == "environment"
    assert kind in failure.reason
    assert max(len(failure.reason), len(failure.traceback)) <= MAX_REASON


def test_ctrl_c_still_ends_the_command() -> None:
    class Interrupted:
        def reset(self, rng: Any) -> None: ...

        def act(self, turn: Any) -> str:
            raise error

    for error in (KeyboardInterrupt(), BaseExceptionGroup("tasks", [ValueError(), KeyboardInterrupt()])):
        assert stops(error)
        with pytest.raises(type(error)):
            collect([make(Interrupted())], ScriptedGenerator(answer), specs(1, seat=0))

    def interrupt() -> None:
        raise Interruption

    with pytest.raises(Interruption):
        attempt(interrupt)


def test_a_text_is_cut_in_its_middle() -> None:
    assert cut("short") == "short"
    text = cut("a" * 10_000 + "b" * 10_000)
    assert len(text) <= MAX_REASON
    assert text.startswith("aaa")
    assert text.endswith("bbb")
    assert "characters left out" in text
