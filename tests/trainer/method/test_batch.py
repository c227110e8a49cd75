"""Rows, mini-batches, micro-batches and collation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mage_envs.trainer.method.batch import (
    MIN_FILL,
    Row,
    balance_rows,
    build_rows,
    collate,
    dummy_row,
    plan_micro_batches,
    split_rows,
    split_updates,
)
from tests.trainer.tiny_runs import step, trajectory


def make_rows(lengths: list[int]) -> list[Row]:
    trajectories = [trajectory([step(range(1, length), [length])]) for length in lengths]
    return build_rows(trajectories, [[1.0]] * len(lengths))


def test_steps_that_extend_each_other_become_one_row() -> None:
    steps = [
        step([1, 2], [3], logprobs=(-0.5,), legal=((3, 4),)),
        step([1, 2, 3, 5], [6, 7], logprobs=(-1.0, -2.0)),
        step([9], [8], logprobs=(-3.0,), legal=((8,),)),
    ]
    first_row, second_row = build_rows([trajectory(steps)], [[1.0, -2.0, 0.5]])
    assert first_row.ids.tolist() == [1, 2, 3, 5, 6, 7]
    assert first_row.targets.tolist() == [2, 4, 5]
    assert first_row.advantages.tolist() == [1.0, -2.0, -2.0]
    assert first_row.sampling is not None
    assert first_row.sampling.tolist() == [-0.5, -1.0, -2.0]
    assert first_row.legal == ((0, (3, 4)),)
    assert (first_row.steps, second_row.steps) == (2, 1)
    assert second_row.ids.tolist() == [9, 8]


def test_without_merging_every_step_is_a_row() -> None:
    steps = [step([1, 2], [3]), step([1, 2, 3, 5], [6])]
    rows = build_rows([trajectory(steps)], [[1.0, 2.0]], merge=False)
    assert [row.ids.tolist() for row in rows] == [[1, 2, 3], [1, 2, 3, 5, 6]]
    assert rows[0].sampling is None


def test_the_trained_ids_are_those_that_were_sampled() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        ids: list[int] = []
        steps = []
        for _ in range(int(rng.integers(1, 6))):
            ids = ids + rng.integers(1, 9, int(rng.integers(1, 4))).tolist()
            reply = rng.integers(1, 9, int(rng.integers(0, 4))).tolist()
            steps.append(step(ids, reply))
            ids = ids + reply
        rows = build_rows([trajectory(steps)], [[0.0] * len(steps)])
        trained = [token for row in rows for token in row.ids[row.targets].tolist()]
        assert trained == [token for model_step in steps for token in model_step.completion_ids]
        assert len(rows) == (1 if trained else 0)


def test_empty_truncated_and_failed_replies_train_nothing() -> None:
    overflow = step([], [])
    cut = step([1], [2, 3], truncated=True)
    next_step = step([1, 2, 3, 4], [5])
    assert build_rows([trajectory([overflow])], [[1.0]]) == []
    assert build_rows([trajectory([next_step], failure="generator: x")], [[1.0]]) == []
    assert build_rows([trajectory([cut])], [[1.0]], mask_truncated=True) == []
    (row,) = build_rows([trajectory([cut, overflow, next_step])], [[1.0, 2.0, 3.0]], mask_truncated=True)
    assert row.ids.tolist() == [1, 2, 3, 4, 5], "a masked reply stays as context"
    assert row.targets.tolist() == [4]
    assert row.steps == 1
    (full_row,) = build_rows([trajectory([cut, next_step])], [[1.0, 3.0]])
    assert full_row.targets.tolist() == [1, 2, 4]


def test_a_reply_without_prompt_ids_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must return Completion\.prompt_ids"):
        build_rows([trajectory([step([], [1])])], [[1.0]])


@settings(max_examples=60)
@given(st.lists(st.integers(2, 300), min_size=1, max_size=60), st.integers(1, 1000))
def test_micro_batches_hold_every_row_once_within_the_budget(lengths: list[int], budget: int) -> None:
    plan = plan_micro_batches(lengths, budget)
    assert sorted(i for part in plan for i in part) == list(range(len(lengths)))
    for part in plan:
        longest = max(lengths[i] for i in part)
        assert len(part) == 1 or len(part) * longest <= budget
        assert min(lengths[i] for i in part) >= MIN_FILL * longest


@settings(max_examples=60)
@given(st.lists(st.integers(2, 300), min_size=1, max_size=40), st.integers(1, 5))
def test_dealing_gives_every_row_once_and_balances_tokens(lengths: list[int], ranks: int) -> None:
    rows = make_rows(lengths)
    shares = balance_rows(rows, ranks)
    assert sorted(row.length for share in shares for row in share) == sorted(lengths)
    loads = [sum(row.length for row in share) for share in shares]
    assert max(loads) - min(loads) <= max(lengths)


def test_mini_batches_are_seeded_and_hold_every_row_once() -> None:
    rows = make_rows(list(range(2, 25)))
    parts = split_updates(rows, 4, np.random.default_rng(1))
    second_split = split_updates(rows, 4, np.random.default_rng(1))
    assert [[row.length for row in part] for part in parts] == [[row.length for row in part] for part in second_split]
    assert sorted(row.length for part in parts for row in part) == list(range(2, 25))
    assert sorted(map(len, parts)) == [5, 6, 6, 6]
    assert len(split_updates(rows[:2], 4, np.random.default_rng(1))) == 2, "never an empty update"


def test_collation_aligns_to_the_right() -> None:
    steps = [step([1, 2, 3], [4], legal=((4, 5),), logprobs=(-1.0,))]
    rows = [*build_rows([trajectory(steps)], [[0.5]]), *build_rows([trajectory([step([6], [7])])], [[2.0]])]
    batch = collate([*rows, dummy_row(0)], pad_id=9)
    assert batch.ids.tolist() == [[1, 2, 3, 4], [9, 9, 6, 7], [9, 9, 0, 0]]
    assert batch.attention.tolist() == [[1, 1, 1, 1], [0, 0, 1, 1], [0, 0, 1, 1]]
    assert batch.positions.tolist() == [[0, 1, 2, 3], [0, 0, 0, 1], [0, 0, 0, 1]]
    assert list(zip(batch.rows.tolist(), batch.columns.tolist())) == [(0, 3), (1, 3)]
    assert batch.advantages.tolist() == [0.5, 2.0]
    assert batch.sampling is not None
    assert batch.sampling.isnan().tolist() == [False, True]
    assert batch.old is None
    assert batch.legal_at.tolist() == [0]
    assert batch.legal_ids.tolist() == [[4, 5]]
    assert [part.tolist() for part in split_rows(batch.advantages, [*rows, dummy_row(0)])] == [[0.5], [2.0], []]
