"""The measuring script at a toy size; no test looks at a clock."""

import itertools

import pytest

from benchmarks.speed import vector as vector_speed
from benchmarks.speed.vector import CASES, Batched, Case, Effort, Singles


def test_one_of_each(monkeypatch, capsys):
    monkeypatch.setattr(vector_speed, "QUICK", Effort(repeats=1, moves=16, room_moves=4, slow_moves=16))
    monkeypatch.setattr(vector_speed, "SIZES", (4, 2))
    assert vector_speed.main(["--quick"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum("single environments" in line for line in lines) == 2 * len(CASES)
    assert lines[-1].startswith("TicTacToe, mcts:1000, n = 16, 2 workers")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_subjects_replay_the_recorded_game(case):
    """Recorded answers are legal in the replay, and the ratio compares the same moves."""
    batched, singles = Batched(case, 3), Singles(case, 3)
    answers = batched.record(60)
    assert [len(given) for given in answers] == [3] * 20
    batched.reset()
    rewards = [batched.envs.step(given)[1].tolist() for given in answers]
    singles.reset()
    for given, paid in zip(answers, rewards, strict=True):
        for env, answer, reward in zip(singles.envs, given, paid, strict=True):
            _, single_reward, over, _, info = env.step(answer)
            assert (single_reward, info["invalid_reason"]) == (reward, None)
            if over:
                env.reset()


def test_rates_are_medians_of_what_the_clock_says():
    clock = itertools.count(0, 2).__next__  # every play takes two seconds
    case = Case("", "mage/KuhnPoker-v0", {})
    batched = Batched(case, 4)
    assert vector_speed.rates({"batch": batched}, batched.record(80), 3, clock) == {"batch": 80 / 2}
