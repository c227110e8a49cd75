"""Which meta-episodes a rollout plays."""

from collections import Counter

import numpy as np

from mage_envs.trainer.method.tasks import draw_evenly, rollout_specs


def test_specs_are_a_function_of_seed_and_rollout() -> None:
    first_specs = rollout_specs("id", 1, 0, 4, 3, {"a": 1.0, "b": 1.0})
    assert first_specs == rollout_specs("id", 1, 0, 4, 3, {"a": 1.0, "b": 1.0})
    assert [(spec.group, spec.member) for spec in first_specs] == [(g, m) for g in range(4) for m in range(3)]
    for group in range(4):
        assert len({spec.task for spec in first_specs if spec.group == group}) == 1
    seeds = {spec.task.seed for spec in first_specs}
    others = {spec.task.seed for r, s in ((1, 1), (0, 2)) for spec in rollout_specs("id", s, r, 4, 3)}
    assert len(seeds | others) == 12
    assert all(0 <= seed < 2**62 for seed in seeds)


def test_the_environment_may_draw_its_own() -> None:
    assert {spec.task.opponent for spec in rollout_specs("id", 1, 0, 2, 2)} == {None}


def test_non_stationary_groups_mix_opponents() -> None:
    specs = rollout_specs("id", 1, 0, 2, 8, {"a": 1.0, "b": 1.0}, stationary=False)
    for group in range(2):
        members = [spec.task for spec in specs if spec.group == group]
        assert len({task.seed for task in members}) == 1
    assert Counter(spec.task.opponent for spec in specs) == {"a": 8, "b": 8}


def test_opponents_are_drawn_evenly() -> None:
    rng = np.random.default_rng(0)
    weights = {"a": 0.5, "b": 1.0, "c": 0.1, "d": 2.4}
    total: Counter[str] = Counter()
    for _ in range(2000):
        names = draw_evenly(weights, 7, rng)
        counted = Counter(names)
        for name, weight in weights.items():
            assert abs(counted[name] - 7 * weight / 4) < 1
        total.update(names)
    for name, weight in weights.items():
        assert abs(total[name] / 14_000 - weight / 4) < 0.01
