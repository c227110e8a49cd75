"""`collect`: every spec once, in order, whatever the batch; what breaks is retried, then filed with its reason."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import pytest

from mage_envs.core import Task
from mage_envs.text.generation import Completion, Message, Prompt
from tests.trainer.foreign import Guess, ToldGuess
from trainer.generation import ScriptedGenerator, StreamingGenerator
from trainer.rollout import RolloutClock, RolloutSpec, collect
from trainer.trajectory import Trajectory
from wrappers import MetaEpisode
from wrappers.make import make_meta_env

ID = "mage/KuhnPoker-Meta-v0"


def make(opponent: Any = None, **options: Any) -> MetaEpisode:
    return make_meta_env("KuhnPoker", opponent=opponent, **{"num_episodes": 2, **options})


def answer(prompt: Prompt) -> str:
    """A function of the sampling key and the prompt alone, illegal now and then."""
    if prompt.phase == "reflect":
        return f"<remark>plan {prompt.seed}</remark>"
    number = sum((index + 3) * part for index, part in enumerate(prompt.seed))
    action = "nonsense" if number % 7 == 0 else prompt.legal_actions[number % len(prompt.legal_actions)]
    return f"<action>{action}</action>"


def specs(count: int, opponent: str | None = None, seat: int | None = None) -> list[RolloutSpec]:
    return [RolloutSpec(Task(ID, opponent, seat, 10 + i // 2), group=i // 2, member=i % 2) for i in range(count)]


def frozen(trajectories: Sequence[Trajectory]) -> list[bytes]:
    return [repr(trajectory).encode() for trajectory in trajectories]


class Asked:
    """Answers with `reply`, and keeps every batch that it was asked."""

    def __init__(self, reply: Callable[[Prompt], Completion] = lambda prompt: Completion(answer(prompt))) -> None:
        self.reply = reply
        self.batches: list[list[Prompt]] = []

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        self.batches.append(list(prompts))
        return [self.reply(prompt) for prompt in prompts]

    @property
    def prompts(self) -> list[Prompt]:
        return [prompt for batch in self.batches for prompt in batch]


class OneAtATime:
    """A streaming backend that answers the newest prompt first, one per poll."""

    def __init__(self) -> None:
        self.waiting: list[Prompt] = []
        self.most = 0

    def submit(self, prompt: Prompt) -> None:
        assert all(prompt.slot != other.slot for other in self.waiting)
        self.waiting.append(prompt)
        self.most = max(self.most, len(self.waiting))

    def poll(self) -> list[tuple[int, Completion]]:
        if not self.waiting:
            return []
        prompt = self.waiting.pop()
        return [(prompt.slot, Completion(answer(prompt)))]


class Flaky:
    """An opponent that raises at its first `failures` moves, then checks and folds."""

    def __init__(self, failures: int) -> None:
        self.failures = failures

    def reset(self, rng: Any) -> None: ...

    def act(self, turn: Any) -> str:
        if self.failures > 0:
            self.failures -= 1
            raise ConnectionError("the server is away")
        return str(turn.legal_actions[0])


class Hanging:
    """An opponent whose moves sleep, or loop."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def reset(self, rng: Any) -> None: ...

    def act(self, turn: Any) -> str:
        if self.kind == "sleep":
            time.sleep(60)
        while True:
            pass


def broken(failures: int) -> MetaEpisode:
    """An environment whose first `failures` plays raise."""
    env, left = make(), [failures]
    step = env.env.step

    def maybe(action: str) -> Any:
        if left[0] > 0:
            left[0] -= 1
            raise ZeroDivisionError("the simulator broke")
        return step(action)

    env.env.step = maybe  # type: ignore[method-assign]
    return env


# -- order, refill, independence ------------------------------------------------------------------------------


def test_results_come_in_the_order_of_the_specs_whatever_ends_first() -> None:
    wanted = specs(9)
    done = collect([make() for _ in range(4)], ScriptedGenerator(answer), wanted)
    assert [(t.task, t.group, t.member) for t in done] == [(s.task, s.group, s.member) for s in wanted]
    assert len({len(t.steps) for t in done}) > 1
    assert all(t.failure is None and t.retries == 0 and len(t.episodes) == t.num_episodes == 2 for t in done)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("options", [{}, {"memory": "both"}, {"context": "conversation", "memory": "history"}])
def test_a_slot_that_is_used_again_changes_nothing(count: int, options: dict[str, Any]) -> None:
    wanted = specs(8)
    full = collect([make(**options) for _ in wanted], ScriptedGenerator(answer), wanted)
    reused = collect([make(**options) for _ in range(count)], ScriptedGenerator(answer), wanted)
    assert frozen(reused) == frozen(full)


def test_a_fate_depends_on_the_own_spec_alone() -> None:
    wanted = specs(8)
    full = frozen(collect([make() for _ in wanted], ScriptedGenerator(answer), wanted))
    alone = [frozen(collect([make()], ScriptedGenerator(answer), [spec]))[0] for spec in wanted]
    backwards = frozen(collect([make() for _ in range(3)], ScriptedGenerator(answer), wanted[::-1]))
    assert alone == full
    assert backwards == full[::-1]


def test_a_streaming_backend_gives_the_same_trajectories() -> None:
    wanted = specs(8)
    backend = OneAtATime()
    assert isinstance(backend, StreamingGenerator)
    lock_step = collect([make() for _ in range(3)], ScriptedGenerator(answer), wanted)
    assert frozen(collect([make() for _ in range(3)], backend, wanted)) == frozen(lock_step)
    assert backend.most == 3


def test_the_task_chooses_opponent_and_seat() -> None:
    (done,) = collect([make()], ScriptedGenerator(answer), specs(1, "kuhn/nash", 1))
    assert done.opponent == "kuhn/nash"
    assert [episode.seats for episode in done.episodes] == [(1,), (0,)]


# -- two ways, one trajectory ---------------------------------------------------------------------------------


class Shouting(gym.Wrapper[str, str, str, str]):
    """A user's wrapper: what the model reads is in capitals, and what it answers is counted."""

    answers = 0

    def reset(self, **options: Any) -> tuple[str, dict[str, Any]]:
        observation, info = self.env.reset(**options)
        return observation.upper(), info

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        self.answers += 1
        observation, *rest = self.env.step(action)
        return observation.upper(), *rest  # type: ignore[return-value]


class Doubling(MetaEpisode):
    """A user's subclass: its rewards are doubled."""

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, 2 * reward, terminated, truncated, info | {"hand_reward": 2 * info["hand_reward"]}


def plain(env: gym.Env[Any, Any], spec: RolloutSpec) -> list[tuple[Any, ...]]:
    """What a plain loop over `reset` and `step` sees: prompt, reward, penalty, reason, end of the episode."""
    observation, info = env.reset(seed=spec.task.seed, options={"opponent": spec.task.opponent, "seat": spec.task.seat})
    chat: list[Message] = []
    seen: list[tuple[Any, ...]] = []
    done = False
    while not done:
        chat = [*([] if info["fresh_chat"] else chat), Message("user", observation)]
        key = (spec.task.seed, spec.member, len(seen), 0)
        prompt = Prompt(tuple(chat), 0, key, tuple(info["legal_actions"]), info["phase"])
        text = bare(prompt, info["answer_tag"])
        observation, _, done, _, info = env.step(text)
        told = tuple(info[name] for name in ("hand_reward", "penalty", "invalid_reason", "episode_return", "success"))
        seen.append((prompt.messages, text, *told))
        chat.append(Message("assistant", text))
    return seen


def bare(prompt: Prompt, tag: str | None) -> str:
    """`answer`, without tags in a style that has none."""
    text = answer(prompt)
    return text if tag is not None else text.partition(">")[2].partition("<")[0]


@pytest.mark.parametrize("kind", ["bare", "wrapped", "subclass"])
@pytest.mark.parametrize("style", ["prose", "kuhn-words"])
@pytest.mark.parametrize("protocol", ["adaptive", "paper"])
@pytest.mark.parametrize("context", ["rebuilt", "conversation"])
@pytest.mark.parametrize("memory", ["reflection", "history", "both", "none"])
def test_two_ways_one_trajectory(memory: str, context: str, protocol: str, style: str, kind: str) -> None:
    def made() -> gym.Env[Any, Any]:
        options = {"memory": memory, "context": context, "style": style, "hands_per_episode": 2, "protocol": protocol}
        env = make(**options)
        if kind == "subclass":
            return Doubling(env.env, num_episodes=2, **{k: v for k, v in options.items() if k != "hands_per_episode"})
        return Shouting(env) if kind == "wrapped" else env

    backend = Asked(lambda prompt: Completion(bare(prompt, prompt.info["answer_tag"])))
    env = made()
    for spec in specs(4, "kuhn/soft-station", 1):
        backend.batches.clear()
        [played] = collect([env], backend, [spec])
        assert played.failure is None
        ends = [step.episode for step in played.steps]
        results = iter(played.episodes)
        by_collect = []
        for number, (prompt, step) in enumerate(zip(backend.prompts, played.steps, strict=True)):
            last = step.phase == "play" and (number + 1 == len(ends) or ends[number + 1] != step.episode)
            result = next(results) if last else None
            told = (None, None) if result is None else (result.reward, result.success)
            by_collect.append((prompt.messages, step.text, step.reward, step.penalty, step.invalid_reason, *told))
        assert by_collect == plain(made(), spec)
    if isinstance(env, Shouting):
        assert env.answers > 4
        assert all(m.content == m.content.upper() for p in backend.prompts for m in p.messages if m.role == "user")


# -- what the generator is asked ------------------------------------------------------------------------------


def test_the_sampling_key_is_seed_member_call_and_retry() -> None:
    backend = Asked()
    wanted = specs(4)
    done = collect([make() for _ in range(2)], backend, wanted)
    keys = [prompt.seed for prompt in backend.prompts]
    assert len(set(keys)) == len(keys)
    assert sorted(keys) == sorted(
        (spec.task.seed, spec.member, call, 0)
        for spec, trajectory in zip(wanted, done, strict=True)
        for call in range(len(trajectory.steps))
    )


def test_a_retry_enters_the_sampling_key() -> None:
    backend = Asked()
    (done,) = collect([make(Flaky(1))], backend, specs(1, seat=0))
    keys = [prompt.seed for prompt in backend.prompts]
    assert done.retries == 1
    assert keys[0] == (10, 0, 0, 0)
    assert keys[-len(done.steps) :] == [(10, 0, call, 1) for call in range(len(done.steps))]


def test_a_prompt_carries_the_chat_the_phase_and_in_a_conversation_the_last_completion() -> None:
    backend = Asked()
    collect([make(context="conversation", memory="both")], backend, specs(1, "kuhn/aggressive"))
    first, *later = backend.prompts
    assert all(first.previous is None and prompt.previous is not None and len(prompt.messages) > 2 for prompt in later)
    reflections = [prompt for prompt in later if prompt.phase == "reflect"]
    assert [prompt.legal_actions for prompt in reflections] == [()]
    rebuilt = Asked()
    collect([make()], rebuilt, specs(1, "kuhn/aggressive"))
    assert all(prompt.previous is None and len(prompt.messages) == 1 for prompt in rebuilt.prompts)


def test_a_rank_without_work_keeps_generating_until_all_are_done() -> None:
    left = [3]

    def any_rank(mine: bool) -> bool:
        if mine:
            return True
        left[0] -= 1
        return left[0] >= 0

    idle, busy = Asked(), Asked()
    assert collect([], idle, [], any_rank_live=any_rank) == []
    assert idle.batches == [[], [], []]
    left[0] = 2
    done = collect([make()], busy, specs(1), any_rank_live=any_rank)
    assert busy.batches[-2:] == [[], []]
    assert frozen(done) == frozen(collect([make()], Asked(), specs(1)))


def test_the_length_of_a_reply_is_punished_by_the_limit() -> None:
    def reply(prompt: Prompt) -> Completion:
        return Completion(answer(prompt), prompt_ids=(1,), ids=(2,) * 6)

    (done,) = collect([make(length_penalty=2.0, invalid_penalty=0.0)], Asked(reply), specs(1), reply_limit=8)
    assert {step.penalty for step in done.steps} == {1.0}
    (free,) = collect([make(length_penalty=2.0, invalid_penalty=0.0)], Asked(reply), specs(1))
    assert {step.penalty for step in free.steps} == {0.0}


# -- failures -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seat", [0, 1])
def test_an_opponent_that_fails_once_is_played_again(seat: int) -> None:
    (done,) = collect([make(Flaky(1))], ScriptedGenerator(answer), specs(1, seat=seat))
    assert (done.failure, done.retries, len(done.episodes)) == (None, 1, 2)


@pytest.mark.parametrize("seat", [0, 1])
def test_an_opponent_that_always_fails_is_a_typed_failure(seat: int) -> None:
    wanted = specs(3, seat=seat)
    done = collect([make(Flaky(10_000))], ScriptedGenerator(answer), wanted)
    assert [(t.task, t.retries) for t in done] == [(spec.task, 1) for spec in wanted]
    for trajectory in done:
        assert trajectory.failure is not None
        assert trajectory.failure.startswith("opponent: Opponent 'Flaky' failed in KuhnPoker: the server is away")
        assert len(trajectory.episodes) < trajectory.num_episodes


def test_one_that_fails_leaves_the_others_alone() -> None:
    wanted = specs(4)
    sound = frozen(collect([make() for _ in range(2)], ScriptedGenerator(answer), wanted))
    done = frozen(collect([broken(1), make()], ScriptedGenerator(answer), wanted))
    assert [new == old for new, old in zip(done, sound, strict=True)] == [False, True, True, True]


@pytest.mark.parametrize("retries", [0, 1, 2])
def test_a_broken_environment_is_a_typed_failure(retries: int) -> None:
    wanted = specs(1)
    (done,) = collect([broken(retries + 1)], ScriptedGenerator(answer), wanted, retries=retries)
    assert (done.failure, done.retries) == ("environment: ZeroDivisionError: the simulator broke", retries)
    (again,) = collect([broken(retries)], ScriptedGenerator(answer), wanted, retries=retries)
    assert (again.failure, again.retries) == (None, retries)


def test_a_failed_call_is_a_typed_failure() -> None:
    def reply(prompt: Prompt) -> Completion:
        broken = prompt.seed[0] == 10 and prompt.seed[2] == 1
        return Completion("", error="HTTP 503") if broken else Completion(answer(prompt))

    done = collect([make() for _ in range(4)], Asked(reply), specs(4))
    assert [t.failure for t in done] == ["generator: HTTP 503", "generator: HTTP 503", None, None]
    assert [(len(t.steps), t.retries) for t in done[:2]] == [(1, 1), (1, 1)]


@pytest.mark.parametrize("kind", ["sleep", "loop"])
def test_a_hung_opponent_is_interrupted_and_its_environment_replaced(kind: str) -> None:
    made: list[MetaEpisode] = []

    def replacement() -> MetaEpisode:
        made.append(make("kuhn/aggressive"))
        return made[-1]

    done = collect(
        [make(Hanging(kind)), make("kuhn/aggressive")],
        ScriptedGenerator(lambda p: answer(p).replace("nonsense", "bet")),
        specs(2, seat=0),
        env_timeout=0.3,
        make_env=replacement,
    )
    assert [(t.failure, t.retries, len(t.episodes)) for t in done] == [(None, 1, 2), (None, 0, 2)]
    [failure] = done[0].failures
    assert str(failure) == "hang: no answer within 0.3 s"
    assert "in act" in failure.traceback
    assert len(made) == 1


def test_one_that_hangs_again_is_filed_as_a_failure() -> None:
    (done,) = collect([make(Hanging("sleep"))], ScriptedGenerator(answer), specs(1, seat=0), env_timeout=0.2)
    assert (done.failure, done.retries) == ("hang: no answer within 0.2 s", 1)
    assert [(failure.kind, failure.attempt) for failure in done.failures] == [("hang", 0), ("hang", 1)]


def test_one_line_names_who_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    env = make(Hanging("sleep"))
    collect([env], ScriptedGenerator(answer), specs(1, seat=0), env_timeout=0.6, slow_after=0.2, retries=0)
    [line] = [record.message for record in caplog.records]
    assert line == (
        f"Waiting for 0 s already for {ID}, opponent of its own choice, task 10, meta-episode 0 of group 0, episode 1, "
        "attempt 1."
    )


def test_a_hung_model_fails_its_prompts_and_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    calls = []

    def reply(prompt: Prompt) -> Completion:
        calls.append(prompt)
        if len(calls) == 3:
            time.sleep(60)
        return Completion(answer(prompt))

    done = collect([make(), make()], Asked(reply), specs(2), model_timeout=0.3, slow_after=0.1)
    assert [(t.failure, t.retries) for t in done] == [(None, 1)] * 2
    assert [str(f) for t in done for f in t.failures] == ["generator: no answer within 0.3 s"] * 2
    assert caplog.records[0].message.startswith(
        "Waiting for 0 s already for the model, for 2 meta-episodes; the first: "
    )


def test_a_model_that_raises_fails_its_prompts_unless_nothing_was_played() -> None:
    class Raising(Asked):
        def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
            if len(self.batches) == at:
                self.batches.append([])
                raise ValueError("no memory left")
            return super().generate(prompts)

    at = 2
    done = collect([make(), make()], Raising(), specs(2))
    assert [str(f) for t in done for f in t.failures] == ["generator: ValueError: no memory left"] * 2
    assert all("in generate" in f.traceback for t in done for f in t.failures)
    at = 0
    with pytest.raises(ValueError, match="no memory left"):
        collect([make(), make()], Raising(), specs(2))
    assert [t.retries for t in collect([make(), make()], Raising(), specs(2), begun=True)] == [1, 1]


def test_a_reset_that_breaks_is_a_failure_and_a_bad_task_an_error() -> None:
    env = make("kuhn/aggressive")

    def broken_reset(**options: object) -> Any:
        raise OSError("no such level file")

    env.env.reset = broken_reset  # type: ignore[method-assign]
    (done,) = collect([env], ScriptedGenerator(answer), specs(1))
    assert (done.failure, done.retries) == ("environment: OSError: no such level file", 1)
    with pytest.raises(KeyError, match="Unknown opponent 'kuhn/nobody'"):
        collect([make()], ScriptedGenerator(answer), specs(1, "kuhn/nobody"))
    (late,) = collect([make()], ScriptedGenerator(answer), specs(1, "kuhn/nobody"), begun=True)
    assert late.failure is not None
    assert late.failure.startswith("environment: UnknownOpponent: Unknown opponent 'kuhn/nobody'")


def test_no_environment_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one environment"):
        collect([], Asked(), specs(1))


# -- environments that are no meta-episode --------------------------------------------------------------------


def bisect(prompt: Prompt) -> Completion:
    """Answers 2, then below or above it."""
    text = prompt.messages[-1].content
    guess = "3" if "Too low." in text else "1" if "Too high." in text else "2"
    return Completion(guess if "<action>" not in text else f"<action>{guess}</action>")


@pytest.mark.parametrize("env_type", [Guess, ToldGuess])
def test_a_plain_text_environment_is_played_as_one_episode(env_type: type[Guess]) -> None:
    backend = Asked(bisect)
    done = collect([env_type()], backend, [RolloutSpec(Task("", seed=seed)) for seed in range(20)])
    assert {len(t.steps) for t in done} == {1, 2, 3}
    for trajectory in done:
        [episode] = trajectory.episodes
        assert (trajectory.num_episodes, trajectory.opponent, trajectory.failure) == (1, "", None)
        assert episode.success is (episode.reward == 1.0)
        assert [step.turn for step in trajectory.steps] == list(range(len(trajectory.steps)))
        assert sum(step.reward for step in trajectory.steps) == episode.reward
        assert episode.timeout is not episode.success
    assert backend.prompts[0].messages == (Message("user", "Guess a number from 0 to 4."),)


@pytest.mark.parametrize("env_type", [Guess, ToldGuess])
@pytest.mark.parametrize("deal", ["fresh", "replay"])
def test_a_foreign_environment_becomes_a_meta_episode(env_type: type[Guess], deal: str) -> None:
    env = MetaEpisode(env_type(), rules="Guess the number.", deal=deal, memory="both")
    numbers = []

    def guess(prompt: Prompt) -> Completion:
        numbers.append(env.env.unwrapped.number)  # type: ignore[attr-defined]
        return Completion("<remark>Halve it.</remark>") if prompt.phase == "reflect" else bisect(prompt)

    done = collect([env], Asked(guess), [RolloutSpec(Task("", seed=seed)) for seed in range(10)])
    for trajectory in done:
        assert (trajectory.failure, len(trajectory.episodes), trajectory.num_episodes) == (None, 3, 3)
        plays = [step for step in trajectory.steps if step.phase == "play"]
        assert len(trajectory.steps) - len(plays) == 2
        assert all(episode.success is (episode.reward == 1.0) for episode in trajectory.episodes)
        assert sum(step.reward for step in plays) == sum(episode.reward for episode in trajectory.episodes)
    firsts = [t.episodes[0].reward for t in done]
    assert all((t.episodes[2].reward == first) for t, first in zip(done, firsts, strict=True)) is (deal == "replay")


def test_a_foreign_environment_that_never_ends_times_out() -> None:
    class Endless(gym.Env[str, str]):
        def reset(self, **options: Any) -> tuple[str, dict[str, Any]]:
            return "Go on.", {}

        def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
            return "Go on.", 0.5, False, False, {}

    env = MetaEpisode(Endless(), rules="Go on.", max_turns=4, num_episodes=2, memory="none")
    [done] = collect([env], Asked(lambda prompt: Completion("on")), [RolloutSpec(Task("", seed=1))])
    assert [(e.reward, e.timeout, e.success) for e in done.episodes] == [(2.0, True, False)] * 2
    assert {step.invalid_reason for step in done.steps} == {"invalid"}
    with pytest.raises(ValueError, match="give MetaEpisode\\(env, rules='...'\\)"):
        MetaEpisode(Endless())
    with pytest.raises(TypeError, match="needs observations of text"):
        MetaEpisode(gym.make("CartPole-v1"), rules="Balance.").reset(seed=0)


def test_a_step_says_what_was_known_from_where_and_what_was_played() -> None:
    for trajectory in collect([make("kuhn/nash")], Asked(), specs(6)):
        for step in trajectory.steps:
            if step.phase == "reflect":
                assert (step.information_state, step.action) == ("", None)
            else:
                assert step.information_state[0] in "JQK"
                assert step.seat == (trajectory.episodes[0].seats[0] + step.episode) % 2
                assert (step.action is None) == (step.invalid_reason is not None)
                assert step.action is None or f"<action>{step.action}</action>" == step.text


def test_a_base_id_is_played_as_one_episode() -> None:
    backend = Asked(lambda prompt: Completion(prompt.legal_actions[0]))
    env = gym.make("mage/KuhnPoker-v0", opponent="kuhn/maniac")
    [done] = collect([env], backend, specs(1, seat=0))
    assert (done.opponent, len(done.episodes), [step.reward for step in done.steps]) == ("kuhn/maniac", 1, [0.0, -1.0])


# -- prompts that are too long --------------------------------------------------------------------------------


def limited(limit: int) -> Asked:
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
    limit = max(lengths[0] + 400, 1000)
    assert max(lengths) > limit
    backend = limited(limit)
    (done,) = collect([make(num_episodes=4, **options)], backend, specs(1, "kuhn/aggressive", 0))
    assert len(backend.prompts) > len(done.steps)
    assert "overflow" not in [step.invalid_reason for step in done.steps]
    assert [episode.timeout for episode in done.episodes] == [False] * 4
    assert backend.prompts[-1].seed[2] == len(done.steps) - 1


def test_a_prompt_that_never_fits_times_the_episode_out() -> None:
    backend = limited(0)
    (done,) = collect([make(memory="history")], backend, specs(1, "kuhn/aggressive", 0))
    assert [(step.invalid_reason, step.penalty) for step in done.steps] == [("overflow", 0.0)] * 2
    assert [(episode.timeout, episode.value) for episode in done.episodes] == [(True, -2.0)] * 2
    assert done.failure is None


# -- reports --------------------------------------------------------------------------------------------------


def test_the_clock_tells_generation_from_environments() -> None:
    def slow(prompts: Sequence[Prompt]) -> list[Completion]:
        time.sleep(0.02)
        return [Completion(answer(prompt)) for prompt in prompts]

    backend = Asked()
    backend.generate = slow  # type: ignore[method-assign]
    clock, reports = RolloutClock(), []
    done = collect(
        [make(), make()],
        backend,
        specs(4),
        clock=clock,
        on_step=lambda finished, planned: reports.append((finished, planned)),
    )
    assert clock.calls == sum(len(t.steps) for t in done)
    assert clock.generate >= 0.02 * len(reports)
    assert 0 < clock.environment == clock.total - clock.generate
    assert reports[-1] == (4, 4)
    assert reports == sorted(reports)
