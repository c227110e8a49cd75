"""`collect`: every spec once, in order, for any batch; a failure is retried, then filed with its reason."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest

from mage_envs.text.generation import Completion, Prompt, StreamingGenerator
from mage_envs.wrappers.rollout.loop import RolloutClock, collect
from mage_envs.wrappers.rollout.scripted import ScriptedGenerator
from tests.trainer.rollouts import Asked, Flaky, OneAtATime, answer, frozen, make, specs

# -- order, refill, independence ------------------------------------------------------------------------------


def test_results_come_in_the_order_of_the_specs() -> None:
    planned_specs = specs(9)
    trajectories = collect([make() for _ in range(4)], ScriptedGenerator(answer), planned_specs)
    assert [(t.task, t.group, t.member) for t in trajectories] == [(s.task, s.group, s.member) for s in planned_specs]
    assert len({len(t.steps) for t in trajectories}) > 1
    assert all(t.failure is None and t.retries == 0 and len(t.episodes) == t.num_episodes == 2 for t in trajectories)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("options", [{}, {"memory": "both"}, {"context": "conversation", "memory": "history"}])
def test_a_slot_that_is_used_again_changes_nothing(count: int, options: dict[str, Any]) -> None:
    planned_specs = specs(8)
    full = collect([make(**options) for _ in planned_specs], ScriptedGenerator(answer), planned_specs)
    reused = collect([make(**options) for _ in range(count)], ScriptedGenerator(answer), planned_specs)
    assert frozen(reused) == frozen(full)


def test_a_fate_depends_on_the_own_spec_alone() -> None:
    planned_specs = specs(8)
    full = frozen(collect([make() for _ in planned_specs], ScriptedGenerator(answer), planned_specs))
    single_runs = [frozen(collect([make()], ScriptedGenerator(answer), [spec]))[0] for spec in planned_specs]
    backwards = frozen(collect([make() for _ in range(3)], ScriptedGenerator(answer), planned_specs[::-1]))
    assert single_runs == full
    assert backwards == full[::-1]


def test_a_streaming_backend_gives_the_same_trajectories() -> None:
    planned_specs = specs(8)
    backend = OneAtATime()
    assert isinstance(backend, StreamingGenerator)
    lock_step = collect([make() for _ in range(3)], ScriptedGenerator(answer), planned_specs)
    assert frozen(collect([make() for _ in range(3)], backend, planned_specs)) == frozen(lock_step)
    assert backend.most == 3


def test_spare_environments_start_when_they_hold_the_rest() -> None:
    planned_specs, backend = specs(8), OneAtATime()
    finished: list[int] = []
    peaks: list[int] = []

    def on_finished(index: int, trajectory: object) -> None:
        finished.append(index)
        peaks.append(backend.most)

    envs = [make() for _ in range(5)]
    trajectories = collect(envs, backend, planned_specs, at_once=2, on_finished=on_finished)
    assert frozen(trajectories) == frozen(collect([make()], ScriptedGenerator(answer), planned_specs))
    # The third one that ends leaves three specs, for which there are three more environments.
    assert peaks[:3] == [2, 2, 2]
    assert backend.most == 5
    assert sorted(finished) == list(range(8))


def test_the_task_chooses_opponent_and_seat() -> None:
    (trajectory,) = collect([make()], ScriptedGenerator(answer), specs(1, "kuhn/nash", 1))
    assert trajectory.opponent == "kuhn/nash"
    assert [episode.seats for episode in trajectory.episodes] == [(1,), (0,)]


# -- prompts of the generator -------------------------------------------------------------------------------


def test_the_sampling_key_is_seed_member_call_and_retry() -> None:
    backend = Asked()
    planned_specs = specs(4)
    trajectories = collect([make() for _ in range(2)], backend, planned_specs)
    keys = [prompt.seed for prompt in backend.prompts]
    assert len(set(keys)) == len(keys)
    assert sorted(keys) == sorted(
        (spec.task.seed, spec.member, call, 0)
        for spec, trajectory in zip(planned_specs, trajectories, strict=True)
        for call in range(len(trajectory.steps))
    )


def test_a_retry_enters_the_sampling_key() -> None:
    backend = Asked()
    (trajectory,) = collect([make(Flaky(1))], backend, specs(1, seat=0))
    keys = [prompt.seed for prompt in backend.prompts]
    assert trajectory.retries == 1
    assert keys[0] == (10, 0, 0, 0)
    assert keys[-len(trajectory.steps) :] == [(10, 0, call, 1) for call in range(len(trajectory.steps))]


def test_a_prompt_carries_the_chat_the_phase_and_in_a_conversation_the_last_completion() -> None:
    backend = Asked()
    collect([make(context="conversation", memory="both")], backend, specs(1, "kuhn/aggressive"))
    first_prompt, *later_prompts = backend.prompts
    assert all(
        first_prompt.previous is None and prompt.previous is not None and len(prompt.messages) > 2
        for prompt in later_prompts
    )
    reflections = [prompt for prompt in later_prompts if prompt.phase == "reflect"]
    assert [prompt.legal_actions for prompt in reflections] == [()]
    rebuilt = Asked()
    collect([make()], rebuilt, specs(1, "kuhn/aggressive"))
    assert all(prompt.previous is None and len(prompt.messages) == 1 for prompt in rebuilt.prompts)


def test_a_rank_without_work_keeps_generating_until_all_are_done() -> None:
    rounds_left = [3]

    def any_rank(mine: bool) -> bool:
        if mine:
            return True
        rounds_left[0] -= 1
        return rounds_left[0] >= 0

    idle, busy = Asked(), Asked()
    assert collect([], idle, [], any_rank_live=any_rank) == []
    assert idle.batches == [[], [], []]
    rounds_left[0] = 2
    trajectories = collect([make()], busy, specs(1), any_rank_live=any_rank)
    assert busy.batches[-2:] == [[], []]
    assert frozen(trajectories) == frozen(collect([make()], Asked(), specs(1)))


def test_the_length_of_a_reply_is_punished_by_the_limit() -> None:
    def reply(prompt: Prompt) -> Completion:
        return Completion(answer(prompt), prompt_ids=(1,), ids=(2,) * 6)

    (trajectory,) = collect([make(length_penalty=2.0, invalid_penalty=0.0)], Asked(reply), specs(1), reply_limit=8)
    assert {step.penalty for step in trajectory.steps} == {1.0}
    (free,) = collect([make(length_penalty=2.0, invalid_penalty=0.0)], Asked(reply), specs(1))
    assert {step.penalty for step in free.steps} == {0.0}


# -- prompts that are too long --------------------------------------------------------------------------------


def limit_prompts(limit: int) -> Asked:
    """A backend that takes prompts of at most `limit` characters."""

    def reply(prompt: Prompt) -> Completion:
        length = sum(len(message.content) for message in prompt.messages)
        return Completion("", overflow=True) if length > limit else Completion(answer(prompt))

    return Asked(reply)


@pytest.mark.parametrize("options", [{"memory": "history"}, {"memory": "history", "context": "conversation"}])
def test_history_is_trimmed_until_the_prompt_fits(options: dict[str, Any]) -> None:
    free = Asked()
    collect([make(num_episodes=4, **options)], free, specs(1, "kuhn/aggressive", 0))
    lengths = [sum(len(message.content) for message in prompt.messages) for prompt in free.prompts]
    limit = max(lengths[0] + 450, 1000)  # the first message, which holds the rules, stays in a conversation
    assert max(lengths) > limit
    backend = limit_prompts(limit)
    (trajectory,) = collect([make(num_episodes=4, **options)], backend, specs(1, "kuhn/aggressive", 0))
    assert len(backend.prompts) > len(trajectory.steps)
    assert "overflow" not in [step.invalid_reason for step in trajectory.steps]
    assert [episode.timeout for episode in trajectory.episodes] == [False] * 4
    assert backend.prompts[-1].seed[2] == len(trajectory.steps) - 1


def test_a_prompt_that_never_fits_times_the_episode_out() -> None:
    backend = limit_prompts(0)
    (trajectory,) = collect([make(memory="history")], backend, specs(1, "kuhn/aggressive", 0))
    assert [(step.invalid_reason, step.penalty) for step in trajectory.steps] == [("overflow", 0.0)] * 2
    assert [(episode.timeout, episode.value) for episode in trajectory.episodes] == [(True, -2.0)] * 2
    assert trajectory.failure is None


# -- reports --------------------------------------------------------------------------------------------------


def test_the_clock_separates_generation_from_environments() -> None:
    def slow(prompts: Sequence[Prompt]) -> list[Completion]:
        time.sleep(0.02)
        return [Completion(answer(prompt)) for prompt in prompts]

    backend = Asked()
    backend.generate = slow  # type: ignore[method-assign]
    clock, reports = RolloutClock(), []
    trajectories = collect(
        [make(), make()],
        backend,
        specs(4),
        clock=clock,
        on_step=lambda finished, planned: reports.append((finished, planned)),
    )
    assert clock.calls == sum(len(t.steps) for t in trajectories)
    assert clock.generate >= 0.02 * len(reports)
    assert 0 < clock.total - clock.generate
    assert reports[-1] == (4, 4)
    assert reports == sorted(reports)
