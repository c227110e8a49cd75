"""Scores of the suite `adapt` against an independent computation from raw records, and their coverage."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pytest

from dev.adapt_coverage import SEEDS, count_covered, coverage, repeat_levels, slip_coverage
from dev.adapt_errors import level_moments
from mage_envs.benchmarks.evaluation.run.agents import GeneratorAgent, make_agent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.run.options import PlayOptions
from mage_envs.benchmarks.evaluation.suites.adapt import CELLS, AdaptCell
from mage_envs.benchmarks.evaluation.suites.panels import cell_panel
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.exact.judged_hands import judge
from mage_envs.benchmarks.exact.recorded_generator import WatchedGenerator
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.benchmarks.runs.measuring import measure
from mage_envs.benchmarks.scale.adaptation import CellValues, exact_values, load_cell_run, scale_of_cell
from mage_envs.core import State, Turn
from mage_envs.opponents import make_opponent
from mage_envs.opponents.exact.regret import DecisionValues
from mage_envs.opponents.pools import as_pool
from mage_envs.registry import make_game
from mage_envs.text.generation import Completion
from tests.packages import mark_params

EPISODES = 3


class Particle(NamedTuple):
    """A possible state of a hand with its opponent, and their joint probability without the learner's choices."""

    state: State
    opponent: int
    weight: float


class Brute:
    """A small independent Bayes-adaptive solver for one hand per episode in the first seat: plain recursion."""

    def __init__(self, cell: AdaptCell) -> None:
        self.game, pool = make_game(cell.game, **cell.options), as_pool(cell.opponents)
        self.names, self.prior = [str(entry) for entry in pool.entries], tuple(pool.weights)
        self.opponents = [make_opponent(name, self.game) for name in self.names]
        self.value = lru_cache(maxsize=None)(self._value)

    def deal(self, belief):
        return [
            Particle(state, i, chance * share)
            for chance, state in self.game.initial_states()
            for i, share in enumerate(belief)
            if share > 0
        ]

    def _value(self, remaining, belief):
        """Return the optimum of `remaining` episodes under a belief."""
        return 0.0 if remaining == 0 else self.best(self.deal(belief), remaining)

    def next(self, particles):
        """Return the possible next endings and decisions of the learner, each with its particles."""
        finished, open_, waiting = defaultdict(list), defaultdict(list), list(particles)
        while waiting:
            particle = waiting.pop()
            state = particle.state
            if state.player is None:
                finished[state.observation(0)].append(particle)
            elif state.player == 0:
                open_[state.information_state(0)].append(particle)
            else:
                turn = Turn(1, state.observation(1), state.legal_actions, state.information_state(1))
                for action, chance in self.opponents[particle.opponent].distribution(turn).items():
                    if chance > 0:
                        waiting.append(Particle(state.after(action), particle.opponent, particle.weight * chance))
        return finished, open_

    def mass(self, particles):
        mass = np.zeros(len(self.names))
        for particle in particles:
            mass[particle.opponent] += particle.weight
        return mass

    def belief(self, particles):
        mass = self.mass(particles)
        return tuple(float(share) for share in np.round(mass / mass.sum(), 12))

    def best(self, particles, remaining):
        """Return the value of these particles times their probability, with the best play of the rest."""
        finished, open_ = self.next(particles)
        total = 0.0
        for group in finished.values():
            total += sum(particle.weight * particle.state.returns[0] for particle in group)
            total += sum(particle.weight for particle in group) * self.value(remaining - 1, self.belief(group))
        return total + sum(max(self.actions(group, remaining).values()) for group in open_.values())

    def actions(self, particles, remaining):
        return {
            action: self.best(
                [particle._replace(state=particle.state.after(action)) for particle in particles], remaining
            )
            for action in particles[0].state.legal_actions
        }

    def score(self, line):
        """Return the score of one recorded meta-episode: 1 - regret / headroom."""
        belief, lost = self.prior, 0.0
        for k, episode in enumerate(line["episodes"]):
            remaining, particles = EPISODES - k, self.deal(belief)
            plays = [call for call in line["calls"] if call["episode"] == k and call["phase"] == "play"]
            for call in plays:
                group = self.next(particles)[1][call["information_state"]]
                values = self.actions(group, remaining)
                lost += (max(values.values()) - values[call["action"]]) / sum(particle.weight for particle in group)
                particles = [particle._replace(state=particle.state.after(call["action"])) for particle in group]
            belief = self.belief(self.next(particles)[0][episode["ended_with"][-1]])
        blind = EPISODES * self.value(1, self.prior)
        return 1 - lost / (self.value(EPISODES, self.prior) - blind)

    def outcomes(self, player, particles, remaining):
        """Yield the probability by opponent and the sum of regrets of each way through the rest of a meta-episode."""
        finished, open_ = self.next(particles)
        for group in finished.values():
            mass, belief = self.mass(group), self.belief(group)
            later_outcomes = (
                self.outcomes(player, self.deal(belief), remaining - 1) if remaining > 1 else [(belief, 0.0)]
            )
            for chance, lost in later_outcomes:
                # The later hands condition on the belief after this one.
                yield [m * c / b if b > 0 else 0.0 for m, c, b in zip(mass, chance, belief, strict=True)], lost
        for key, group in open_.items():
            values, state = self.actions(group, remaining), group[0].state
            action = player.act(Turn(0, state.observation(0), state.legal_actions, key))
            regret = (max(values.values()) - values[action]) / sum(particle.weight for particle in group)
            moved = [particle._replace(state=particle.state.after(action)) for particle in group]
            yield from ((chance, regret + lost) for chance, lost in self.outcomes(player, moved, remaining))


@pytest.mark.parametrize("name", ["noisy", "soft"])
def test_the_standard_error_of_blind_play_is_that_of_an_enumeration_of_all_meta_episodes(name):
    cell = CELLS[name]
    brute, cell_values = Brute(cell), exact_values(cell)
    player = make_opponent(cell.agent("blind").removeprefix("policy:"), brute.game)
    ways = list(brute.outcomes(player, brute.deal(brute.prior), EPISODES))
    chances, lost = np.array([chance for chance, _ in ways]).T / np.array(brute.prior)[:, None], [r for _, r in ways]
    assert chances.sum(axis=1) == pytest.approx(1)
    variances = chances @ np.square(lost) - (chances @ lost) ** 2
    counts = [[task.opponent for task in cell_panel(cell, 50).tasks()].count(opponent) for opponent in brute.names]
    error = (np.square(brute.prior) * variances / counts).sum() ** 0.5
    score, exact = level_moments(cell, scale_of_cell(cell), "blind")
    assert score == pytest.approx(0, abs=1e-9)
    assert exact * EPISODES * (np.mean(cell_values.per_episode["sum"]) - cell_values.blind) == pytest.approx(
        error, abs=1e-9
    )


def test_the_exact_score_of_the_myopic_learner_is_that_of_its_value():
    # Kuhn Poker has several hands per episode and both seats, and the tasks of encounters come in any order.
    for name in ("dilemma3", "kuhn", "encounters"):
        cell_values = exact_values(CELLS[name])
        zero, best, myopic = (
            sum(line)
            for line in (
                cell_values.no_memory_per_episode,
                cell_values.per_episode["sum"],
                cell_values.per_episode["myopic"],
            )
        )
        level, error = level_moments(CELLS[name], scale_of_cell(CELLS[name]), "myopic")
        assert level == pytest.approx((myopic - zero) / (best - zero), abs=1e-9), name
        assert (error < 1e-6) == (name == "dilemma3"), name


@pytest.mark.parametrize("name", mark_params(["dilemma3", "noisy", "ultimatum", "offers", "soft"], step=5))
def test_twenty_cells_are_those_of_an_independent_computation_from_raw_records(name, tmp_path):
    cell = CELLS[name]
    brute, cell_values = Brute(cell), exact_values(cell)
    assert sum(cell_values.per_episode["sum"]) == pytest.approx(brute.value(EPISODES, brute.prior), abs=1e-9)
    assert cell_values.blind == pytest.approx(brute.value(1, brute.prior), abs=1e-9)
    for reference in ("random", "nash", "no-memory", "myopic"):
        records = _records(name, reference, tmp_path / reference)
        level = load_cell_run(records, cell, scale_of_cell(cell)).level()
        by_opponent = defaultdict(list)
        for line in records.lines.values():
            by_opponent[line["opponent"]].append(brute.score(line))
        mean = sum(
            weight * np.mean(by_opponent[opponent]) for opponent, weight in zip(brute.names, brute.prior, strict=True)
        )
        assert level is not None
        assert level.mean == pytest.approx(mean, abs=1e-9), reference


def _records(name: str, reference: str, folder) -> Records:
    cell = CELLS[name]
    spec = cell.agent(reference)
    setting = Setting(cell_panel(cell, 16), name, {"memory": "none"})
    measure(replace(PlayOptions(), out=folder, baselines=False), make_agent(spec), setting, spec)
    return Records(folder)


def test_the_interval_of_a_player_without_memory_covers_zero():
    levels = repeat_levels("noisy", CELLS["noisy"].agent("no-memory"), 12)
    count, _ = count_covered(levels, 0.0)
    assert count >= 10
    means = [level.mean for level in levels]
    assert abs(np.mean(means)) < 3 * np.std(means) / len(means) ** 0.5


class SilentAtTimes:
    """A generator without a usable answer from the second hand of the second episode on; else it checks or folds."""

    def generate(self, prompts):
        return [
            Completion("" if prompt.info["episode_index"] == 1 and prompt.info["hand"] == 1 else self._first(prompt))
            for prompt in prompts
        ]

    def _first(self, prompt):
        return f"<action>{prompt.legal_actions[0]}</action>"


def test_a_meta_episode_in_which_time_runs_out_has_a_score():
    """An episode of three hands ends after an answer that never comes; its other hands are not played, but paid."""
    cell = CELLS["kuhn"]
    panel = cell_panel(cell, 12)
    options = {**panel.env_kwargs, "memory": "none", "max_turns": 2}
    values = CellValues(panel.env_id, options, panel.weights())
    watched = WatchedGenerator(SilentAtTimes())
    tasks = panel.tasks()
    trajectories = evaluate(GeneratorAgent(watched, "silent"), tasks, options, batch=len(tasks))
    assert any(episode.timeout for trajectory in trajectories for episode in trajectory.episodes)
    decision_values = DecisionValues(make_game(cell.game), panel.weights())
    for slot, trajectory in enumerate(trajectories):
        hands = judge(decision_values, trajectory, watched.seen[slot, 0])
        for k, episode in enumerate(trajectory.episodes):
            mine = [hand.value for hand, at in zip(hands.hands, hands.episode_of, strict=True) if at == k]
            assert sum(mine) == episode.value
        assert np.isfinite(values.of(trajectory, watched.seen[slot, 0]).total)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("reference", SEEDS)
def test_the_intervals_cover_the_exact_score_over_many_seeds(reference):
    covered_share = coverage(reference, SEEDS[reference])
    assert covered_share.covered >= 0.93 * covered_share.seeds
    assert covered_share.half <= 0.2


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ["dilemma", "noisy", "soft", "kuhn"])
@pytest.mark.parametrize("slip", [0.02, 0.1])
def test_the_intervals_cover_agents_that_slip(name, slip):
    for coverage_row in slip_coverage(name, slip, 60):
        assert coverage_row.covered >= 0.85 * coverage_row.seeds
