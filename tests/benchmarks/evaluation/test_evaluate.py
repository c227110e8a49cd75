"""Agents on panels through the one rollout loop, against exact values."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"

from dataclasses import replace
from typing import ClassVar

import gymnasium as gym
import numpy as np
import pytest

from mage_envs.benchmarks import GeneratorAgent, PolicyAgent, evaluate, game_of, make_agent, panel, summarise, table
from mage_envs.benchmarks.evaluation.run.agents import FORMS, SavedModelAgent
from mage_envs.cli.program import main
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.games.tictactoe import TicTacToe
from mage_envs.opponents.exact import best_response, policy_value
from mage_envs.text.generation import Message, Prompt
from mage_envs.text.words.vocabulary import vocabulary
from mage_envs.trainer.backends.play_settings import PlaySettings
from mage_envs.trainer.backends.tiny import save_tiny, tiny_model, tiny_tokenizer
from mage_envs.wrappers import MetaEpisode
from mage_envs.wrappers.rollout.policy_generator import REMARK
from mage_envs.wrappers.rollout.scripted import ScriptedGenerator
from tests.packages import mark_params

KUHN = "mage/KuhnPoker-Meta-v0"
GAME = KuhnPoker()


class BestResponder:
    """Return the value of the best response in either seat."""

    def __init__(self, opponent: str) -> None:
        self.policies = [best_response(GAME, opponent, seat).policy for seat in (0, 1)]

    def reset(self, rng):
        for policy in self.policies:
            policy.reset(rng)

    def act(self, turn):
        return self.policies[turn.player].act(turn)


def within(measure, value):
    """Inside the interval, which is narrow enough to say something."""
    e = measure.estimate
    assert e.high - e.low < 0.12
    return e.low <= value <= e.high


@pytest.mark.parametrize("opponent", mark_params(["kuhn/conservative", "kuhn/soft-scared"], step=2))
def test_a_best_response_reaches_the_ceiling(opponent):
    agent = PolicyAgent(lambda game: BestResponder(opponent), "best response")
    tasks = panel(KUHN, [opponent], 500, 7)
    row = summarise(evaluate(agent, tasks, {"hands_per_episode": 4}), GAME).rows[0]
    for episode in row.episodes:
        assert within(episode.returns, episode.returns.ceiling)
    assert row.gain.low <= 0 <= row.gain.high
    assert row.invalid == row.failures == 0


@pytest.mark.more
@pytest.mark.parametrize(("seat", "value"), [("first", -1 / 18), ("second", 1 / 18)])
def test_nash_against_nash(seat, value):
    tasks = panel(KUHN, ["kuhn/nash"], 500, 1)
    options = {"hands_per_episode": 8, "num_episodes": 2, "memory": "none"}
    tasks = tuple(task for task in tasks if task.seat == ("first", "second").index(seat))
    row = summarise(evaluate(make_agent("policy:kuhn/nash"), tasks, options | {"seat": seat}), GAME).rows[0]
    assert all(within(episode.returns, value) for episode in row.episodes)


def test_random_play_has_its_exact_value():
    tasks = panel(KUHN, ["kuhn/rock", "kuhn/maniac"], 300, 2)
    options = {"hands_per_episode": 6, "num_episodes": 1}
    for row in summarise(evaluate(make_agent("scripted:random"), tasks, options), GAME).rows:
        first_value = policy_value(GAME, ["uniform", row.opponent])[0]
        second_value = policy_value(GAME, [row.opponent, "uniform"])[1]
        assert within(row.episodes[0].returns, (first_value + second_value) / 2)


def test_an_exchanged_opponent_is_met_in_the_last_episode():
    tasks = panel(KUHN, ["switch:kuhn/passive,kuhn/maniac,2"], 200, 3)
    row = summarise(evaluate(make_agent("scripted:last"), tasks), GAME).rows[0]
    # always bet and call: +1 from an opponent that always folds, evens against one that never does
    assert [e.returns.estimate.mean for e in row.episodes[:2]] == [1, 1]
    assert within_zero(row.episodes[2].returns.estimate)
    assert row.episodes[2].returns.ceiling < 1


def within_zero(e):
    return e.low <= 0 <= e.high


def test_results_do_not_depend_on_batch_or_workers():
    tasks = panel(KUHN, ["uniform", "kuhn/nash"], 6, 4)
    agent = make_agent("scripted:random")
    expected = evaluate(agent, tasks)
    assert evaluate(agent, tasks, batch=1) == evaluate(agent, tasks, batch=5, workers=2) == expected
    assert [t.task for t in expected] == list(tasks)
    assert len({repr(t.episodes) for t in expected}) > 5


def test_policies_play_searches_patterns_and_reflect_in_tictactoe():
    tasks = panel("mage/TicTacToe-Meta-v0", ["tictactoe/pattern-1", "minimax"], 2, 4)
    trajectories = evaluate(make_agent("policy:mcts:60"), tasks)
    assert all(t.failure is None for t in trajectories)
    steps = [step for t in trajectories for step in t.steps]
    assert all(step.invalid_reason is None for step in steps)
    assert {step.text for step in steps if step.phase == "reflect"} == {f"<remark>{REMARK}</remark>"}
    rows = {row.opponent: row for row in summarise(trajectories, TicTacToe()).rows}
    assert rows["tictactoe/pattern-1"].pass_at[-1].mean == 1
    assert rows["minimax"].pass_at[-1].mean == 0
    assert rows["minimax"].episodes[0].draws > 0


def test_scripted_agents_take_the_ends():
    tasks = panel(KUHN, ["uniform"], 5, 0)
    for spec, actions in (("scripted:first", {"check", "fold"}), ("scripted:last", {"bet", "call"})):
        texts = {s.text for t in evaluate(make_agent(spec), tasks, {"memory": "none"}) for s in t.steps}
        assert texts == {f"<action>{action}</action>" for action in actions}


def test_a_policy_that_breaks_is_counted_not_raised():
    class Breaks(BestResponder):
        def act(self, turn):
            if turn.information_state == "J":
                raise ZeroDivisionError("oops")
            return super().act(turn)

    tasks = panel(KUHN, ["kuhn/conservative"], 40, 5)
    trajectories = evaluate(PolicyAgent(lambda game: Breaks("kuhn/conservative"), "breaks"), tasks)
    row = summarise(trajectories, GAME).rows[0]
    assert 0 < row.failures < 80
    assert row.meta_episodes + row.failures == 80
    assert {t.failure for t in trajectories} == {None, "generator: ZeroDivisionError: oops"}


def test_when_everything_breaks_the_reason_is_reported():
    def breaks(prompt):
        raise ConnectionError("no route to host")

    agent = GeneratorAgent(ScriptedGenerator(breaks), "far away")
    with pytest.raises(RuntimeError, match="All 4 meta-episodes of far away failed; .* no route to host"):
        evaluate(agent, panel(KUHN, ["uniform"], 2, 0))


def test_progress_is_reported():
    progress = []
    evaluate(make_agent("scripted:first"), panel(KUHN, ["uniform"], 3, 0), on_step=lambda *args: progress.append(args))
    assert progress[-1] == (6, 6)
    assert progress == sorted(progress)


@pytest.mark.parametrize("context", ["conversation", "rebuilt"])
def test_a_saved_model(tmp_path, context):
    tokenizer = tiny_tokenizer(vocabulary(KuhnPoker()))
    save_tiny(tmp_path, tiny_model(len(tokenizer), hidden=16, layers=1, heads=2), tokenizer)
    options = {"style": "words", "context": context, "memory": "history"}
    PlaySettings(KUHN, options, max_new_tokens=1, constrained=True).save(tmp_path)
    agent = make_agent(str(tmp_path))
    assert isinstance(agent, SavedModelAgent)
    tasks = panel(agent.settings.env_id, ["uniform", f"checkpoint:{tmp_path}"], 6, 0)
    trajectories = evaluate(agent, tasks, agent.settings.env_kwargs)
    second_trajectories = evaluate(agent, tasks, agent.settings.env_kwargs, batch=5)
    assert [t.episodes for t in second_trajectories] == [t.episodes for t in trajectories]
    summary = summarise(trajectories, GAME)
    assert summary.overall.failures == summary.overall.invalid == 0
    assert summary.rows[1].episodes[0].returns.ceiling is None


def test_policies_of_a_slot_start_afresh_with_every_meta_episode():
    class Remembers:
        def __init__(self):
            self.begun, self.hands = 0, 0

        def on_meta_episode_start(self):
            self.begun, self.hands = self.begun + 1, 0

        def reset(self, rng: np.random.Generator):
            self.hands += 1
            self.draw = rng.random()

        def act(self, turn):
            hands_seen.append((self.begun, self.hands, turn.episode, round(self.draw, 6)))
            return turn.legal_actions[0]

    hands_seen: list[tuple] = []
    # one seed for both seats, one hand each: only the call's index separates the second meta-episode from the first
    evaluate(PolicyAgent(lambda game: Remembers(), "r"), panel(KUHN, ["cfr"], 1, 0), {"num_episodes": 1}, batch=1)
    assert sorted({row[:3] for row in hands_seen}) == [(1, 1, 0), (2, 1, 0)]
    assert len({row[3] for row in hands_seen}) == 1  # common random numbers


@pytest.mark.parametrize("spec", ["policy:kuhn/nash", "policy:cfr", "scripted:last", "scripted:random"])
def test_policies_play_the_same_for_any_prompt_style(spec):
    """They play by `info`, and their draws are keyed by the hand, not by the call."""
    tasks = panel(KUHN, ["kuhn/conservative", "uniform"], 8, 6)
    options = {"hands_per_episode": 2}
    expected = [t.episodes for t in evaluate(make_agent(spec), tasks, options)]
    for context, memory, style in (
        ("conversation", "history", "plain"),
        ("conversation", "both", "words"),
        ("rebuilt", "none", "words"),
    ):
        changed = options | {"context": context, "memory": memory, "style": style}
        trajectories = evaluate(make_agent(spec), tasks, changed)
        assert [t.failure for t in trajectories] == [None] * len(tasks)
        assert [t.episodes for t in trajectories] == expected


def test_a_policy_sees_how_its_hands_ended():
    class Listens:
        def on_meta_episode_start(self):
            policy_calls.append(("begin",))

        def reset(self, rng):
            policy_calls.append(("hand",))

        def act(self, turn):
            return turn.legal_actions[-1]

        def on_hand_end(self, turn):
            policy_calls.append(
                ("end", turn.player, turn.episode, turn.legal_actions, "The hand is over" in turn.observation)
            )
            ends.append(turn.information_state)

    policy_calls: list[tuple] = []
    ends: list[str] = []
    options = {"num_episodes": 2, "hands_per_episode": 2, "seat": "first"}
    tasks = panel(KUHN, ["kuhn/maniac"], 2, 0)[::2]
    evaluate(PolicyAgent(lambda game: Listens(), "listens"), tasks, options, batch=1)
    hand = lambda episode: [("hand",), ("end", 0, episode, (), True)]  # noqa: E731
    # The environment calls no hook after the last hand of a meta-episode.
    assert policy_calls == 2 * [("begin",), *hand(0), *hand(0), *hand(1), ("hand",)]
    assert {state[1:4] for state in ends} == {"bb|"}


def test_a_policys_draws_are_keyed_by_task_member_retry_and_hand():
    class Draws:
        def reset(self, rng):
            self.draw = rng.random()

        def act(self, turn):
            draws.append(self.draw)
            return turn.legal_actions[0]

    draws: list[float] = []
    generator = PolicyAgent(lambda game: Draws(), "draws").generator(GAME)

    def ask(seed, **info):
        prompt_info = {"episode_index": 0, "hand": 0, "seat": 0, "answer_tag": None, **info}
        generator.generate([Prompt((Message("user", "?"),), seed=seed, legal_actions=("check",), info=prompt_info)])

    for seed in ((7, 0, 0, 0), (8, 0, 0, 0), (7, 1, 0, 0), (7, 0, 0, 1)):
        ask(seed)
    ask((7, 0, 1, 0), hand=1)
    ask((7, 0, 2, 0), episode_index=1)
    assert len(set(draws)) == 6
    ask((7, 0, 3, 0), episode_index=1)
    ask((7, 0, 0, 0))
    assert draws[6:] == [draws[5], draws[0]]


# -- wrappers and rules of an id --------------------------------------------------------------------------------


class Reversed(gym.Wrapper):
    """A wrapper that turns a bet into a check and a call into a fold."""

    SWAPS: ClassVar = {"check": "bet", "bet": "check", "fold": "call", "call": "fold"}

    def step(self, action):
        return self.env.step(next(f"<action>{b}</action>" for a, b in self.SWAPS.items() if a in action))


def register_env(env_id, entry_point):
    if env_id not in gym.registry:
        gym.register(env_id, entry_point)
    return env_id


def test_wrappers_of_an_id_count():
    plain = {"memory": "none", "num_episodes": 2}
    wrapped = register_env("test/Reversed-v0", lambda **options: Reversed(gym.make(KUHN, **options)))
    tasks = panel(KUHN, ["kuhn/nash"], 20, 1)
    others = panel(wrapped, ["kuhn/nash"], 20, 1)
    assert [replace(task, env_id=KUHN) for task in others] == list(tasks)
    first_trajectories = evaluate(make_agent("scripted:first"), others, plain)
    assert [t.episodes for t in first_trajectories] == [
        t.episodes for t in evaluate(make_agent("scripted:last"), tasks, plain)
    ]
    assert summarise(first_trajectories, game_of(wrapped)).rows[0].episodes[0].returns.ceiling is not None


class Guess(gym.Env):
    """Say heads or tails; nothing in its `info`."""

    observation_space = action_space = gym.spaces.Text(10)

    def reset(self, *, seed=None, options=None):
        assert options is None
        super().reset(seed=seed)
        self.side = ("heads", "tails")[int(self.np_random.integers(2))]
        return f"It looks like {self.side}.", {}

    def step(self, action):
        return "Over.", float(action == self.side), True, False, {}


def test_anybodys_text_environment_is_evaluated(capfd):
    rules = "A coin was tossed. Say heads or tails."
    env_id = register_env("test/Guess-v0", lambda **options: MetaEpisode(Guess(), rules=rules, **options))

    def answer(prompt):
        if prompt.phase == "reflect":
            return "<remark>look</remark>"
        sees = "heads" if "like heads" in prompt.messages[-1].content else "tails"
        return f"<action>{sees if prompt.seed[2] else 'edge'}</action>"

    tasks = panel(env_id, [None], 5, 0)
    assert {(task.opponent, task.seat) for task in tasks} == {(None, None)}
    trajectories = evaluate(GeneratorAgent(ScriptedGenerator(answer), "looks"), tasks)
    summary = summarise(trajectories, game_of(env_id))
    assert [e.returns.estimate.mean for e in summary.overall.episodes] == [0, 1, 1]
    assert (summary.overall.episodes[0].returns.ceiling, summary.overall.failures) == (None, 0)
    assert summary.rows_are == "tasks"
    assert "n/a" in table(summary)
    assert main(["eval", "scripted:first", "--env", env_id, "--rows", "3"]) == 0
    assert "Points per hand" in capfd.readouterr().out
    with pytest.raises(ValueError, match="'kuhn/nash' plays KuhnPoker, not "):
        evaluate(make_agent("policy:kuhn/nash"), tasks)


class Refuses:
    """An opponent that fails."""

    def reset(self, rng): ...

    def act(self, turn):
        raise ArithmeticError("no more numbers")


def test_an_opponent_without_any_score_ends_the_command_with_status_1(capfd):
    refuses = f"{__name__}:Refuses"
    arguments = ["eval", "scripted:first", "--env", KUHN, "--rows", "2", "--opponents", f"kuhn/nash,{refuses}"]
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    assert exit_info.value.code == 1
    captured = capfd.readouterr()
    assert "kuhn/nash" in captured.out
    last_line = captured.err.splitlines()[-1]
    assert last_line.startswith(f"mage: no meta-episode of {refuses} could be played; the first: opponent: ")
    assert last_line.endswith("no more numbers")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("plicy:cfr", "Unknown agent 'plicy:cfr'.* Did you mean 'policy:cfr'\\?"),
        ("cfr", r"Did you mean 'policy:cfr'\?$"),
        ("zzz", r"MODEL@URL, module:function\.$"),
        ("scripted:best", "one of the forms policy:NAME"),
        ("policy:", "Unknown"),
        ("model:nowhere", "the folder does not exist"),
    ],
)
def test_agent_errors(spec, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        make_agent(spec)


def test_evaluate_errors():
    tasks = panel(KUHN, ["uniform"], 1, 0)
    agent = make_agent("policy:tictactoe/pattern-1")
    with pytest.raises(ValueError, match="plays TicTacToe, not KuhnPoker"):
        evaluate(agent, tasks)
    with pytest.raises(ValueError, match="could not be made with .*num_episode"):
        evaluate(agent, tasks, {"num_episode": 2})
    with pytest.raises(ValueError, match="holds no task"):
        evaluate(agent, ())
    with pytest.raises(ValueError, match="batch >= 1"):
        evaluate(agent, tasks, batch=0)
    with pytest.raises(ValueError, match="share one environment"):
        evaluate(agent, (*tasks, *panel("mage/TicTacToe-Meta-v0", ["uniform"], 1, 0)))


def test_forms_are_all_made():
    specs = {
        "policy:NAME": "policy:kuhn/nash",
        "model:FOLDER": None,
        "hf:MODEL": None,
        "llm:MODEL@URL": "llm:tiny@http://127.0.0.1/v1,cache=off",
        "module:function": "tests.benchmarks.loops.function_agents:reply",
    }
    for form in FORMS:
        spec = specs.get(form, form)
        if spec is not None:
            assert make_agent(spec).name == spec.partition("@")[0]
