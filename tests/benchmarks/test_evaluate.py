"""Agents on panels through the one rollout loop, against exact values."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import pytest

from benchmarks import GeneratorAgent, PolicyAgent, evaluate, make_agent, panel, summarise
from benchmarks.evaluation.agents import FORMS, REMARK, SavedModelAgent
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.games.tictactoe import TicTacToe
from mage_envs.text.words import VOCABULARY
from opponents.exact import best_response, policy_value
from trainer.generation import ScriptedGenerator
from trainer.saved import PlaySettings
from trainer.tiny import save_tiny, tiny_model, tiny_tokenizer

KUHN = "mage/KuhnPoker-Meta-v0"
GAME = KuhnPoker()


class BestResponder:
    """The best response of whichever seat it is in."""

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


@pytest.mark.parametrize("opponent", ["kuhn/conservative", "kuhn/soft-scared"])
def test_a_best_response_reaches_the_ceiling(opponent):
    agent = PolicyAgent(lambda game: BestResponder(opponent), "best response")
    tasks = panel(KUHN, [opponent], 500, 7)
    row = summarise(evaluate(agent, tasks, {"hands_per_episode": 4}), GAME).rows[0]
    for episode in row.episodes:
        assert within(episode.returns, episode.returns.ceiling)
    assert row.gain.low <= 0 <= row.gain.high
    assert row.invalid == row.failures == 0


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
        first = policy_value(GAME, ["uniform", row.opponent])[0]
        second = policy_value(GAME, [row.opponent, "uniform"])[1]
        assert within(row.episodes[0].returns, (first + second) / 2)


def test_an_exchanged_opponent_is_met_in_the_last_episode():
    tasks = panel(KUHN, ["switch:kuhn/passive,kuhn/maniac,2"], 200, 3)
    row = summarise(evaluate(make_agent("scripted:last"), tasks), GAME).rows[0]
    # always bet and call: +1 from one who always folds, evens against one who never does
    assert [e.returns.estimate.mean for e in row.episodes[:2]] == [1, 1]
    assert within_zero(row.episodes[2].returns.estimate)
    assert row.episodes[2].returns.ceiling < 1


def within_zero(e):
    return e.low <= 0 <= e.high


def test_results_do_not_depend_on_batch_or_workers():
    tasks = panel(KUHN, ["uniform", "kuhn/nash"], 6, 4)
    agent = make_agent("scripted:random")
    expected = evaluate(agent, tasks)
    assert evaluate(agent, tasks, batch=1) == evaluate(agent, tasks, batch=5, workers=3) == expected
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


def test_when_everything_breaks_the_reason_is_told():
    def breaks(prompt):
        raise ConnectionError("no route to host")

    agent = GeneratorAgent(ScriptedGenerator(breaks), "far away")
    with pytest.raises(RuntimeError, match="All 4 meta-episodes of far away broke; .* no route to host"):
        evaluate(agent, panel(KUHN, ["uniform"], 2, 0))


def test_progress_is_reported():
    seen = []
    evaluate(make_agent("scripted:first"), panel(KUHN, ["uniform"], 3, 0), on_step=lambda *args: seen.append(args))
    assert seen[-1] == (6, 6)
    assert seen == sorted(seen)


@pytest.mark.parametrize("context", ["conversation", "rebuilt"])
def test_a_saved_model(tmp_path, context):
    tokenizer = tiny_tokenizer(VOCABULARY)
    save_tiny(tmp_path, tiny_model(len(tokenizer), hidden=16, layers=1, heads=2), tokenizer)
    options = {"style": "kuhn-words", "context": context, "memory": "history"}
    PlaySettings(KUHN, options, max_new_tokens=1, constrained=True).save(tmp_path)
    agent = make_agent(str(tmp_path))
    assert isinstance(agent, SavedModelAgent)
    tasks = panel(agent.settings.env_id, ["uniform", f"checkpoint:{tmp_path}"], 6, 0)
    trajectories = evaluate(agent, tasks, agent.settings.env_kwargs)
    again = evaluate(agent, tasks, agent.settings.env_kwargs, batch=5)
    assert [t.episodes for t in again] == [t.episodes for t in trajectories]
    summary = summarise(trajectories, GAME)
    assert summary.overall.failures == summary.overall.invalid == 0
    assert summary.rows[1].episodes[0].returns.ceiling is None


def test_policies_of_a_slot_start_afresh_with_every_meta_episode():
    class Remembers:
        def __init__(self):
            self.begun, self.hands = 0, 0

        def begin_meta_episode(self):
            self.begun, self.hands = self.begun + 1, 0

        def reset(self, rng: np.random.Generator):
            self.hands += 1
            self.draw = rng.random()

        def act(self, turn):
            seen.append((self.begun, self.hands, turn.episode, round(self.draw, 6)))
            return turn.legal_actions[0]

    seen: list[tuple] = []
    # one seed for both seats, one hand each: nothing but the call's index tells the second meta-episode from the first
    evaluate(PolicyAgent(lambda game: Remembers(), "r"), panel(KUHN, ["cfr"], 1, 0), {"num_episodes": 1}, batch=1)
    assert sorted({row[:3] for row in seen}) == [(1, 1, 0), (2, 1, 0)]
    assert len({row[3] for row in seen}) == 1  # common random numbers


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("plicy:cfr", "Unknown agent 'plicy:cfr'"),
        ("scripted:best", "none of the forms policy:NAME"),
        ("policy:", "Unknown"),
        ("model:nowhere", "there is no such folder"),
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
    made = {
        "policy:NAME": "policy:kuhn/nash",
        "model:FOLDER": None,
        "llm:MODEL@URL": "llm:tiny@http://127.0.0.1/v1,cache=off",
    }
    for form in FORMS:
        spec = made.get(form, form)
        if spec is not None:
            assert make_agent(spec).name == spec
