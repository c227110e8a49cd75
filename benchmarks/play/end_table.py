"""The table at the end of a meta-episode: a player's value per episode beside blind, Bayes-optimal and known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from benchmarks.evaluation.scoring.estimates import estimate, way
from benchmarks.evaluation.scoring.exact_values import STATES
from benchmarks.evaluation.tables.layout import spread
from benchmarks.evaluation.tables.summary_table import NOT_KNOWN, number, way_text
from benchmarks.exact.judged_hands import JudgedMetaEpisode, judge
from benchmarks.exact.regret import report_of
from benchmarks.play.remarks import MIN_HANDS, remarks, too_few
from benchmarks.play.sitting import Sitting
from mage_envs.cli.tables import Block, TextTable
from mage_envs.core import Game, NotEnumerable
from opponents import OpponentPool, as_pool
from opponents.exact import BayesSolution, Meeting, NotExact, TooManyStates
from opponents.exact.learner_hands import Floats
from opponents.exact.regret import DecisionValues, Rest
from opponents.exact.single_hands import SingleHands

Seats = tuple[tuple[int, ...], ...]
"""Learner's seat in each hand of each episode."""


class ReferenceValues(NamedTuple):
    """Exact values per hand of each episode in the learner's seats, (K,)."""

    blind: Floats
    optimal: Floats
    """Values of the Bayes-optimal learner for the sum of the episodes; NaN if there are too many states of belief."""
    known: Floats


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

    def references(self, seats: Seats) -> ReferenceValues:
        """Return the values in these seats. Call it only if `missing` is empty."""
        if seats not in self._found:
            pool, hands = as_pool(dict(self.pool)), len(seats[0])
            every = [seat for episode in seats for seat in episode]
            for seat in set(every) - self._hands.keys():
                self._hands[seat] = SingleHands(
                    game=self.game, pool=pool, seats=[seat], objective="returns", samples=0, seed=0
                )
            values = [[self._hands[seat].values(k) for seat in episode] for k, episode in enumerate(seats)]
            self._found[seats] = ReferenceValues(
                blind=np.array([np.mean([one.blind for one in episode]) for episode in values]),
                optimal=self._optimal(every, pool, len(seats)) / hands,
                known=np.array([np.mean([one.known for one in episode]) for episode in values]),
            )
        return self._found[seats]

    def _optimal(self, seats: Sequence[int], pool: OpponentPool, episodes: int) -> Floats:
        try:
            meeting = Meeting(
                self.game,
                pool,
                seats[0],
                episodes=episodes,
                hands=len(seats) // episodes,
                alternate=len(set(seats)) > 1,
                limit=STATES,
                lived=self._hands[seats[0]].lived,
            )
        except TooManyStates:
            return np.full(episodes, np.nan)
        return np.array(BayesSolution(meeting).value.per_episode)

    def judge(self, played: Sitting) -> JudgedMetaEpisode | None:
        """Return the regret of the decisions so far, or None without exact values."""
        try:
            return None if self.values is None else judge(self.values, played.trajectory, played.seen)
        except TooManyStates as error:
            self.values, self.missing = None, str(error).rstrip(".")
            return None

    def judge_rest(self, played: Sitting) -> JudgedMetaEpisode | None:
        """Return the regret of the decisions so far by the rest of the meta-episode, for the sum of its episodes.

        Returns None without exact values, also if there are too many states of belief.
        """
        length = played.episodes, played.hands
        if self._rest_length != length:
            self._rest_length, self._rest = length, None
            with suppress(NotExact, NotEnumerable, TooManyStates):
                rest = Rest(
                    self.game,
                    dict(self.pool),
                    episodes=length[0],
                    hands=length[1],
                    alternate=played.alternates,
                    limit=STATES,
                )
                self._rest = DecisionValues(self.game, dict(self.pool), rest)
        try:
            return None if self._rest is None else judge(self._rest, played.trajectory, played.seen)
        except TooManyStates:
            self._rest = None
            return None


class EndTable(NamedTuple):
    """The table, as cells."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    share: str
    """Share of the way from blind to Bayes-optimal; empty after too few hands."""
    remarks: Sequence[str]
    """Sentences in place of the share."""
    notes: Sequence[str]

    @property
    def share_name(self) -> str:
        """Name of the share."""
        return f"Share of the way from blind to Bayes-optimal in {self.columns[-1]}"

    def blocks(self) -> list[Block]:
        """Return the table and the lines below it, for a terminal or a text file."""
        verdict = [f"{self.share_name}: {self.share}"] if self.share else ["", *self.remarks, ""]
        return [TextTable(self.columns, self.rows), *verdict, *self.notes]


def end_table(setting: ExactSetting, played: Sequence[Sitting], player: str = "you") -> EndTable:
    """Return the table of finished meta-episodes of one setting.

    The share is that of the studies of trained models: the luck-adjusted value of the last episode, between the exact
    values of blind and of Bayes-optimal play. Here these are the values in the seats that were played. After fewer than
    `MIN_HANDS` hands there are sentences on single decisions in its place.

    Args:
        setting: Exact values.
        played: Finished meta-episodes.
        player: Name of the player.
    """
    trajectories = [one.trajectory for one in played]
    episodes = len(trajectories[0].episodes)
    columns = [f"{setting.game.spec.unit} per hand", *(f"episode {k}" for k in range(1, episodes + 1))]
    single = "One meta-episode has no interval." if len(played) == 1 else "±: half a 95% interval over meta-episodes."
    judged = [found for one in played if (found := setting.judge(one)) is not None]
    if not judged:
        seeds = [one.task.seed for one in trajectories]
        per_episode = zip(*(one.episodes for one in trajectories))
        earned = [estimate([one.value / one.hands for one in results], seeds) for results in per_episode]
        unknown = [[name, *[NOT_KNOWN] * episodes] for name in ("blind", "Bayes-optimal", "known")]
        rows = [[player, *(spread(one, False) for one in earned)], *unknown]
        return EndTable(columns, rows, NOT_KNOWN, [], [f"{NOT_KNOWN}: {setting.missing}.", single])
    report = report_of(player, setting.game, judged, len(played), False, setting.pool, None)
    exact = [setting.references(tuple(episode.seats for episode in one.episodes)) for one in trajectories]
    blind, optimal, known = ([_or_none(x) for x in np.mean(values, axis=0)] for values in zip(*exact))
    adjusted = [one.adjusted for one in report.episodes]
    share = None if adjusted[-1] is None else way(adjusted[-1], blind[-1], optimal[-1])
    rows = [
        [player, *(spread(one.value, False) for one in report.episodes)],
        ["luck-adjusted", *(spread(one, False) for one in adjusted)],
        *([name, *map(number, row)] for name, row in (("blind", blind), ("Bayes-optimal", optimal), ("known", known))),
    ]
    hands = sum(len(one.hands) for one in judged)
    few = hands < MIN_HANDS
    counts = "" if few else " The share counts this value."
    notes = [f"luck-adjusted: without the luck of cards and replies.{counts}", single]
    if optimal[-1] is None:
        notes.append(f"{NOT_KNOWN}: the pool has too many states of belief.")
    if few:
        texts = remarks(played[-1], judged[-1], setting.pool, player)
        return EndTable(columns, rows, "", [*texts, too_few(hands)], notes)
    if optimal[-1] is not None and share is None:
        notes.append(f"{NOT_KNOWN}: blind and Bayes-optimal play earn the same in the last episode.")
    return EndTable(columns, rows, way_text(share), [], notes)


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
