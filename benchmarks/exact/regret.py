"""Exact decision regret of an agent on a panel, from fresh play, and its score without the luck of the cards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from benchmarks.evaluation.agents import Agent, GeneratorAgent
from benchmarks.evaluation.environments import game_of, make_envs
from benchmarks.evaluation.estimates import Estimate, estimate
from benchmarks.evaluation.evaluate import evaluate
from benchmarks.exact.watched import SeenPrompt, WatchedGenerator
from benchmarks.records.about import setting_of
from benchmarks.records.replay import executed
from benchmarks.records.store import Records, reading
from mage_envs.core import BY_THE_RULES, Game, Task
from mage_envs.text.generation import Generator
from opponents.exact import GT
from opponents.exact.bayes import CreditName
from opponents.exact.regret import DecisionValues, HandRegret, OwnChoice, PlayedHand, Rest
from opponents.exact.tree import roots_of
from trainer.trajectory import Step, Trajectory


@dataclass(frozen=True, kw_only=True)
class EpisodeRegret:
    """One episode over all meta-episodes, in the game's unit per hand."""

    value: Estimate
    """What was earned."""
    regret: Estimate
    available: float | None
    """What the best play of each hand would have been worth under the beliefs that the agent had come to; None where
    decisions are judged by the rest of the meta-episode, which has such a value as a whole alone."""
    adjusted: Estimate | None
    """`available` - regret, per meta-episode: as unbiased as `value`, without the luck of cards and replies."""

    @property
    def narrower(self) -> float | None:
        """By what factor the interval of `adjusted` is shorter than that of `value`; None where it is a point."""
        wide, narrow = (None if one is None else _width(one) for one in (self.value, self.adjusted))
        return wide / narrow if wide and narrow and narrow > 1e-9 * wide else None


@dataclass(frozen=True, kw_only=True)
class StateRegret:
    """One information state in one episode."""

    episode: int
    information_state: str
    visits: int
    regret: Estimate
    """Per hand of the episode, met or not: these add up to the episode's."""
    actions: Mapping[str, float]
    """How often each action was chosen."""


@dataclass(frozen=True, kw_only=True)
class RegretReport:
    """The regret of an agent on a panel."""

    agent: str
    unit: str
    meta_episodes: int
    left_out: int
    """Meta-episodes that broke, or were played again."""
    probabilities: bool
    """Whether the agent told its probabilities; else what it played stands for them."""
    episodes: tuple[EpisodeRegret, ...]
    states: tuple[StateRegret, ...]
    """The costliest first."""
    credit: str = ""
    """By what decisions were judged: empty for the rest of their own hand, else what the rest of the meta-episode earns
    as this credit counts it."""
    whole: EpisodeRegret | None = None
    """All episodes together, each weighed as the credit weighs it."""


class _Judged(NamedTuple):
    trajectory: Trajectory
    choices: list[list[OwnChoice]]
    hands: list[HandRegret]
    episode_of: list[int]


@dataclass(frozen=True)
class Horizon:
    """The rest of the meta-episode, by which decisions are judged."""

    credit: CreditName = "sum"
    gt: float = GT

    def rest(self, env_id: str, env_kwargs: Mapping[str, Any] | None, pool: Mapping[str, float]) -> Rest:
        """Its values in that environment."""
        env = make_envs(env_id, env_kwargs)[0]
        options, protocol = dict(env_kwargs or {}), env.get_wrapper_attr("protocol")
        return Rest(
            env.get_wrapper_attr("game"),
            dict(pool),
            episodes=env.get_wrapper_attr("num_episodes"),
            hands=env.get_wrapper_attr("hands_per_episode"),
            credit=self.credit,
            gt=self.gt,
            alternate=(options.get("seat") or env.get_wrapper_attr("settings").seat or protocol.seat) == "alternate",
        )


def _check_deals(env_id: str, env_kwargs: Mapping[str, Any] | None) -> None:
    """Raises ValueError where a deal comes again, which a player knows who has seen it, or episodes may be left out."""
    env = make_envs(env_id, env_kwargs)[0]
    protocol, given = env.get_wrapper_attr("protocol"), dict(env_kwargs or {})
    replays = (given.get("deal") or protocol.deal) == "replay" and len(roots_of(env.get_wrapper_attr("game"))) > 1
    if env.get_wrapper_attr("num_episodes") > 1 and (protocol.early_stop or replays):
        raise ValueError(
            "Exact regret takes deals for fresh and all episodes for played; here the deals of the first come again, "
            "so that who saw them knows them, or a success ends it all. Take protocol adaptive, or num_episodes 1."
        )


def regret(
    agent: Agent,
    tasks: Sequence[Task],
    weights: Mapping[str, float],
    env_kwargs: Mapping[str, Any] | None = None,
    *,
    scored: bool = True,
    horizon: Horizon | None = None,
    batch: int = 256,
    on_step: Callable[[int, int], None] | None = None,
) -> RegretReport:
    """Plays the panel and judges each decision against the pool `weights` of the panel's opponents.

    `scored`: asks a model that can tell for the probabilities of the legal answers. `horizon`: judges by the rest of
    the meta-episode, not of the hand alone.
    Raises `NotExact`, `NotEnumerable`, `TooManyStates` where there are no exact values, and ValueError where deals are
    replayed or a success ends a meta-episode, before anything is played.
    """
    env_id = tasks[0].env_id
    game = game_of(env_id, env_kwargs)
    _check_deals(env_id, env_kwargs)
    rest = None if horizon is None else horizon.rest(env_id, env_kwargs, weights)
    values = DecisionValues(game, dict(weights), rest=rest)
    watched = WatchedGenerator.of(agent, game, scored)
    judged: list[_Judged] = []
    for at in range(0, len(tasks), batch):
        part = tasks[at : at + batch]
        played = evaluate(GeneratorAgent(watched, agent.name), part, env_kwargs, batch=len(part))
        for slot, trajectory in enumerate(played):
            if trajectory.failure is None and trajectory.retries == 0:
                judged.append(_judge(values, trajectory, watched.seen[slot, 0]))
        if on_step is not None:
            on_step(at + len(part), len(tasks))
    return _report(agent.name, game, judged, len(tasks), watched.knows_probabilities, weights, rest)


def regret_of_run(
    records: Records,
    weights: Mapping[str, float] | None = None,
    *,
    horizon: Horizon | None = None,
    batch: int = 256,
    on_step: Callable[[int, int], None] | None = None,
) -> RegretReport:
    """Judges the decisions of a kept run against `weights`, the pool of its panel by default.

    The recorded replies are executed again; no agent is asked. Raises like `regret`, and ValueError for a run without
    opponents, against opponents outside of the pool, or with another outcome now.
    """
    with reading(records.folder):
        setting = setting_of(records.about)
        where, game = records.folder, game_of(setting.panel.env_id, setting.options)
        pool = setting.panel.weights() if weights is None else weights
        if not pool or game.facts.players == 1:
            raise ValueError(f"{where} is a run of {game.facts.name} without opponents: it has no exact regret.")
        _check_deals(setting.panel.env_id, setting.options)
        lines = [line for _, line in sorted(records.lines.items()) if line["failure"] is None]
        strangers = sorted({line["opponent"] for line in lines} - pool.keys())
        if strangers:
            raise ValueError(f"{where} met {strangers[0]!r}, which is not of this pool; name the run's own.")
        rest = None if horizon is None else horizon.rest(setting.panel.env_id, setting.options, pool)
        values = DecisionValues(game, dict(pool), rest=rest)
        judged: list[_Judged] = []
        for at in range(0, len(lines), batch):
            part, watched = lines[at : at + batch], list[WatchedGenerator]()

            def watch(recorded: Generator, kept: list[WatchedGenerator] = watched) -> Generator:
                kept.append(WatchedGenerator(recorded))
                return kept[0]

            played, different = executed(part, setting, len(part), watch)
            if different:
                raise ValueError(f"{where} comes out otherwise with this version, see mage-bench replay {where}.")
            judged += [_judge(values, one, watched[0].seen[slot, 0]) for slot, one in enumerate(played)]
            if on_step is not None:
                on_step(at + len(part), len(lines))
        return _report(records.about["agent"]["name"], game, judged, records.planned, False, pool, rest)


def _report(
    agent: str,
    game: Game,
    judged: Sequence[_Judged],
    planned: int,
    probabilities: bool,
    weights: Mapping[str, float],
    rest: Rest | None,
) -> RegretReport:
    if not judged:
        raise RuntimeError("No meta-episode could be judged: all of them broke, or were played again.")
    return RegretReport(
        agent=agent,
        unit=game.facts.unit,
        meta_episodes=len(judged),
        left_out=planned - len(judged),
        probabilities=probabilities,
        episodes=tuple(_episode(judged, k, weights, rest) for k in range(judged[0].trajectory.num_episodes)),
        states=_states(judged, weights),
        credit="" if rest is None else rest.label,
        whole=None if rest is None else _whole(judged, weights, rest),
    )


def _judge(values: DecisionValues, trajectory: Trajectory, seen: Sequence[SeenPrompt]) -> _Judged:
    """The hands of a meta-episode, put together from its steps and from what each prompt told of those that ended."""
    results = [result for one in seen for result in one.results]
    starts: list[tuple[int, int]] = []
    steps: dict[tuple[int, int], list[tuple[Step, SeenPrompt]]] = {}
    for step, one in zip(trajectory.steps, seen, strict=True):
        if step.phase == "play":
            key = (step.episode, step.hand)
            if key not in steps:
                starts.append(key)
            steps.setdefault(key, []).append((step, one))
    hands, choices = [], []
    planned = trajectory.episodes[0].hands
    places = [episode * planned + hand for episode, hand in starts]
    following = [*places[1:], trajectory.num_episodes * planned]
    for number, key in enumerate(starts):
        mine = [
            OwnChoice(step.information_state, step.action, one.probabilities)
            for step, one in steps[key]
            if step.action is not None
        ]
        choices.append(mine)
        last, episode = steps[key][-1][0], trajectory.episodes[key[0]]
        if number < len(results):
            told = results[number]
            by_rules, value, ending = told.ended_by == BY_THE_RULES, told.value, told.observation
        else:
            by_rules, ending = last.invalid_reason is None and not episode.timeout, None
            before = [r.value for r, (k, _) in zip(results, starts, strict=False) if k == key[0]]
            value = episode.value - sum(before)
        place, skipped = places[number], following[number] - places[number] - 1
        hands.append(
            PlayedHand(
                seat=last.seat,
                choices=mine,
                value=value,
                ending=ending if by_rules else None,
                by_rules=by_rules,
                episode=key[0],
                place=place,
                skipped=skipped,
            )
        )
    return _Judged(trajectory, choices, values.judge(hands), [episode for episode, _ in starts])


def _episode(judged: Sequence[_Judged], k: int, weights: Mapping[str, float], rest: Rest | None) -> EpisodeRegret:
    hands = [[hand for hand, e in zip(one.hands, one.episode_of, strict=True) if e == k] for one in judged]

    def mean(of: Callable[[HandRegret], float]) -> Estimate:
        return _estimate(judged, [float(np.mean([of(hand) for hand in mine])) for mine in hands], weights)

    return EpisodeRegret(
        value=mean(lambda hand: hand.value),
        regret=mean(lambda hand: sum(hand.regrets)),
        available=None if rest else mean(lambda hand: hand.available).mean,
        adjusted=None if rest else mean(lambda hand: hand.adjusted),
    )


def _whole(judged: Sequence[_Judged], weights: Mapping[str, float], rest: Rest) -> EpisodeRegret:
    """The meta-episode as the credit counts it, per hand of an episode."""
    hands = judged[0].trajectory.episodes[0].hands

    def mean(of: Callable[[_Judged], float]) -> Estimate:
        return _estimate(judged, [of(one) / hands for one in judged], weights)

    def lost(one: _Judged) -> float:
        return sum(sum(hand.regrets) for hand in one.hands)

    return EpisodeRegret(
        value=mean(lambda one: float(rest.weights @ [episode.value for episode in one.trajectory.episodes])),
        regret=mean(lost),
        available=mean(lambda one: one.hands[0].available).mean,
        adjusted=mean(lambda one: one.hands[0].available - lost(one)),
    )


def _states(judged: Sequence[_Judged], weights: Mapping[str, float]) -> tuple[StateRegret, ...]:
    costs: dict[tuple[int, str], dict[int, float]] = {}
    counts: dict[tuple[int, str], dict[str, float]] = {}
    for place, one in enumerate(judged):
        for made, hand, episode in zip(one.choices, one.hands, one.episode_of, strict=True):
            share = 1 / one.episode_of.count(episode)
            for choice, cost in zip(made, hand.regrets, strict=False):
                key = (episode, choice.information_state)
                mine = costs.setdefault(key, {})
                mine[place] = mine.get(place, 0.0) + share * cost
                row = counts.setdefault(key, {})
                for action, chance in (choice.probabilities or {choice.action: 1.0}).items():
                    row[action] = row.get(action, 0.0) + chance
    found = []
    for (episode, state), mine in costs.items():
        row = counts[episode, state]
        visits = sum(row.values())
        found.append(
            StateRegret(
                episode=episode,
                information_state=state,
                visits=round(visits),
                regret=_estimate(judged, [mine.get(place, 0.0) for place in range(len(judged))], weights),
                actions={action: count / visits for action, count in sorted(row.items())},
            )
        )
    return tuple(sorted(found, key=lambda one: (-one.regret.mean, one.episode, one.information_state)))


def _estimate(judged: Sequence[_Judged], values: Sequence[float], weights: Mapping[str, float]) -> Estimate:
    met = [one.trajectory for one in judged]
    return estimate(values, [t.task.seed for t in met], [t.opponent for t in met], weights)


def _width(one: Estimate) -> float | None:
    return None if one.low is None or one.high is None else one.high - one.low
