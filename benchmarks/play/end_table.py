"""The table at the end of a meta-episode: a player's value per episode beside the exact lines, and the level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate, estimate
from mage_envs.benchmarks.evaluation.scoring.exact_values import STATES
from mage_envs.benchmarks.evaluation.tables.layout import spread
from mage_envs.benchmarks.evaluation.tables.summary_table import NOT_KNOWN, number, share
from mage_envs.benchmarks.exact.judged_hands import JudgedMetaEpisode, judge
from mage_envs.benchmarks.exact.regret import report_of
from mage_envs.benchmarks.play.remarks import MIN_HANDS, remarks, too_few
from mage_envs.benchmarks.play.sitting import Sitting
from mage_envs.benchmarks.scale.scale import ROUNDING
from mage_envs.cli.tables import Block, TextTable
from mage_envs.core import Game, NotEnumerable
from mage_envs.opponents import OpponentPool, as_pool
from mage_envs.opponents.exact import BayesSolution, Meeting, NotExact, TooManyStates
from mage_envs.opponents.exact.learner_hands import Floats
from mage_envs.opponents.exact.learner_values import Schedule, best_plan
from mage_envs.opponents.exact.modes import Modes
from mage_envs.opponents.exact.plans import LearnerHands
from mage_envs.opponents.exact.regret import DecisionValues
from mage_envs.opponents.exact.rest import Rest
from mage_envs.opponents.exact.single_hands import SingleHands

Seats = tuple[tuple[int, ...], ...]
"""Learner's seat in each hand of each episode."""


LINES = ("no memory", "best learner", "knows the opponent")
"""Names of the exact lines, in the order of `ReferenceValues`."""
LEVEL = "Level (0: no memory, 1: best learner)"


class ReferenceValues(NamedTuple):
    """Exact values per hand of each episode in the learner's seats, (K,)."""

    no_memory: Floats
    """Values of the best play that forgets between episodes; NaN if there are too many states of belief."""
    best_learner: Floats
    """Values of the best learner for the sum of the episodes; NaN if there are too many states of belief."""
    knows_opponent: Floats


class ExactSetting:
    """The exact values of a game against a pool, each computed once; none if they do not exist."""

    def __init__(self, game: Game, pool: Mapping[str, float], missing: str = "") -> None:
        """Prepare the values.

        Args:
            game: Game, which is not played.
            pool: Weights of the opponents by name.
            missing: Reason why there are no exact values, if the caller knows one.
        """
        self.game, self.pool = game, pool
        self.missing = missing
        """Reason why there are no exact values."""
        self.values: DecisionValues | None = None
        """Values of decisions, for their regret."""
        self._rest: DecisionValues | None = None
        self._rest_length: tuple[int, int] | None = None
        """Episodes and hands per episode of `_rest`."""
        self._hands: dict[int, SingleHands] = {}
        self._found: dict[Seats, ReferenceValues] = {}
        if game.spec.players != 2:
            self.missing = f"{game.title} has no opponent whose play could be known"
        if self.missing:
            return
        try:
            self.values = DecisionValues(game, dict(pool))
        except (NotExact, NotEnumerable, TooManyStates) as error:
            self.missing = str(error).rstrip(".")

    @property
    def learns(self) -> bool:
        """Return True if opponents of the pool learn or change between episodes."""
        return self.values is not None and self.values.modes.learns

    def references(self, seats: Seats) -> ReferenceValues:
        """Return the values in these seats. Call it only if `missing` is empty."""
        if seats not in self._found:
            pool, hands = as_pool(dict(self.pool)), len(seats[0])
            all_seats = [seat for episode in seats for seat in episode]
            if self.learns:
                self._found[seats] = self._learning_references(all_seats, pool, len(seats))
                return self._found[seats]
            for seat in set(all_seats) - self._hands.keys():
                self._hands[seat] = SingleHands(
                    game=self.game, pool=pool, seats=[seat], objective="returns", samples=0, seed=0
                )
            values = [[self._hands[seat].values(k) for seat in episode] for k, episode in enumerate(seats)]
            self._found[seats] = ReferenceValues(
                no_memory=np.concatenate([self._optimal(episode, pool, 1) for episode in seats]) / hands,
                best_learner=self._optimal(all_seats, pool, len(seats)) / hands,
                knows_opponent=np.array(
                    [np.mean([seat_values.known for seat_values in episode]) for episode in values]
                ),
            )
        return self._found[seats]

    def _learning_references(self, seats: Sequence[int], pool: OpponentPool, episodes: int) -> ReferenceValues:
        """Return the values against opponents that learn. They depend on the whole meta-episode."""
        hands = len(seats) // episodes
        schedule = Schedule(seats, [position // hands for position in range(len(seats))])
        no_memory = np.full(episodes, np.nan)
        if hands == 1:
            with suppress(TooManyStates):
                plan = best_plan(LearnerHands(self.game, Modes(self.game, pool)), schedule)
                no_memory = np.array(plan.per_episode)
        known = [
            weight * self._optimal(seats, as_pool(entry), episodes)
            for entry, weight in zip(pool.entries, pool.weights, strict=True)
        ]
        return ReferenceValues(
            no_memory=no_memory,
            best_learner=self._optimal(seats, pool, episodes) / hands,
            knows_opponent=np.sum(known, axis=0) / hands,
        )

    def _optimal(self, seats: Sequence[int], pool: OpponentPool, episodes: int) -> Floats:
        first_hands = self._hands.get(seats[0])
        try:
            meeting = Meeting(
                self.game,
                pool,
                seats[0],
                episodes=episodes,
                hands=len(seats) // episodes,
                alternate=len(set(seats)) > 1,
                limit=STATES,
                learner_hands=None if first_hands is None else first_hands.learner_hands,
            )
        except TooManyStates:
            return np.full(episodes, np.nan)
        return np.array(BayesSolution(meeting).value.per_episode)

    def judge(self, sitting: Sitting) -> JudgedMetaEpisode | None:
        """Return the regret of the decisions so far, or None without exact values."""
        try:
            return None if self.values is None else judge(self.values, sitting.trajectory, sitting.seen)
        except TooManyStates as error:
            self.values, self.missing = None, str(error).rstrip(".")
            return None

    def judge_rest(self, sitting: Sitting) -> JudgedMetaEpisode | None:
        """Return the regret of the decisions so far by the rest of the meta-episode, for the sum of its episodes.

        Returns None without exact values, also if there are too many states of belief.
        """
        length = sitting.episodes, sitting.hands
        if self._rest_length != length:
            self._rest_length, self._rest = length, None
            with suppress(NotExact, NotEnumerable, TooManyStates):
                remainder = Rest(
                    self.game,
                    dict(self.pool),
                    episodes=length[0],
                    hands=length[1],
                    alternate=sitting.alternates,
                    limit=STATES,
                )
                self._rest = DecisionValues(self.game, dict(self.pool), remainder)
        try:
            return None if self._rest is None else judge(self._rest, sitting.trajectory, sitting.seen)
        except TooManyStates:
            self._rest = None
            return None


class EndTable(NamedTuple):
    """The table, as cells."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    level: str
    """Level of play; empty after too few hands."""
    remarks: Sequence[str]
    """Sentences in place of the level."""
    notes: Sequence[str]

    def blocks(self) -> list[Block]:
        """Return the table and the lines below it, for a terminal or a text file."""
        verdict = [f"{LEVEL}: {self.level}"] if self.level else ["", *self.remarks, ""]
        return [TextTable(self.columns, self.rows), *verdict, *self.notes]


def end_table(setting: ExactSetting, sittings: Sequence[Sitting], player: str = "you") -> EndTable:
    """Return the table of finished meta-episodes of one setting.

    The level is that of `mage eval`: 1 less the regrets of a meta-episode by its rest, divided by the distance between
    no memory and the best learner, in the seats that were played. After fewer than `MIN_HANDS` hands there are
    sentences on single decisions in its place.

    Args:
        setting: Exact values.
        sittings: Finished meta-episodes.
        player: Name of the player.
    """
    trajectories = [sitting.trajectory for sitting in sittings]
    episodes = len(trajectories[0].episodes)
    columns = [f"{setting.game.spec.unit} per hand", *(f"episode {k}" for k in range(1, episodes + 1))]
    single = "One meta-episode has no interval." if len(sittings) == 1 else "±: half a 95% interval over meta-episodes."
    meta_episodes = [judgement for sitting in sittings if (judgement := setting.judge(sitting)) is not None]
    if not meta_episodes:
        seeds = [trajectory.task.seed for trajectory in trajectories]
        per_episode = zip(*(trajectory.episodes for trajectory in trajectories))
        earned = [estimate([result.value / result.hands for result in results], seeds) for results in per_episode]
        unknown = [[name, *[NOT_KNOWN] * episodes] for name in LINES]
        rows = [[player, *(spread(mean, False) for mean in earned)], *unknown]
        notes = [f"{NOT_KNOWN}: {setting.missing}.", single]
        return EndTable(columns, rows, level=NOT_KNOWN, remarks=[], notes=notes)
    report = report_of(player, setting.game, meta_episodes, len(sittings), False, setting.pool, None)
    exact = [setting.references(tuple(episode.seats for episode in trajectory.episodes)) for trajectory in trajectories]
    lines = ([_or_none(x) for x in np.mean(values, axis=0)] for values in zip(*exact))
    rows = [
        [player, *(spread(episode.value, False) for episode in report.episodes)],
        ["luck-adjusted", *(spread(episode.adjusted, False) for episode in report.episodes)],
        *([name, *map(number, row)] for name, row in zip(LINES, lines, strict=True)),
    ]
    hands = sum(len(meta_episode.hands) for meta_episode in meta_episodes)
    notes = ["luck-adjusted: without the luck of cards and replies.", single]
    if hands < MIN_HANDS:
        judged = meta_episodes[-1]
        if setting.learns:
            # What is best in a hand by itself can be a mistake against an opponent that remembers it.
            judged = setting.judge_rest(sittings[-1]) or judged
        texts = remarks(sittings[-1], judged, setting.pool, player)
        return EndTable(columns, rows, level="", remarks=[*texts, too_few(hands)], notes=notes)
    level = level_of(setting, sittings, exact)
    if level is None:
        notes.append(f"{NOT_KNOWN}: memory is worth nothing here, or the pool has too many states of belief.")
        return EndTable(columns, rows, level=NOT_KNOWN, remarks=[], notes=notes)
    text = share(level.mean) if level.half is None else f"{share(level.mean)} ± {share(level.half)}"
    return EndTable(columns, rows, level=text, remarks=[], notes=notes)


def level_of(setting: ExactSetting, sittings: Sequence[Sitting], exact: Sequence[ReferenceValues]) -> Estimate | None:
    """Return the level of play, or None where it does not exist.

    Args:
        setting: Exact values.
        sittings: Finished meta-episodes.
        exact: Exact values in the seats of each of them.
    """
    losses = []
    for sitting in sittings:
        meta_episode = setting.judge_rest(sitting)
        if meta_episode is None:
            return None
        losses.append(sum(sum(hand.regrets) for hand in meta_episode.hands) / sitting.hands)
    # The mean over seats, as one pair of seats can be worth less than another one.
    length = float(np.mean([np.sum(values.best_learner - values.no_memory) for values in exact]))
    if np.isnan(length) or length <= ROUNDING:
        return None
    return estimate([1 - loss / length for loss in losses], [sitting.trajectory.task.seed for sitting in sittings])


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
