"""Exact decision regret of an agent on a panel, and its score without the luck of the cards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mage_envs.benchmarks.evaluation.run.agents import Agent, GeneratorAgent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.run.options import EvalOptions
from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate, estimate
from mage_envs.benchmarks.evaluation.suites.environments import game_of, make_envs
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.exact.judged_hands import JudgedMetaEpisode, judge
from mage_envs.benchmarks.exact.recorded_generator import SeenPrompt, WatchedGenerator
from mage_envs.benchmarks.exact.regret_parts import DecomposedMetaEpisode, RegretParts, parts_of
from mage_envs.benchmarks.records.about import setting_of
from mage_envs.benchmarks.records.record_store import Records, reading
from mage_envs.benchmarks.records.replay import execute
from mage_envs.core import Game, Task
from mage_envs.opponents.exact import GT
from mage_envs.opponents.exact.bayes import CreditName
from mage_envs.opponents.exact.regret import DecisionValues, HandRegret
from mage_envs.opponents.exact.rest import Rest
from mage_envs.text.generation import Generator
from mage_envs.tree import roots_of
from mage_envs.wrappers.rollout.trajectory import Trajectory
from mage_envs.wrappers.rollout.trajectory_json import Line


@dataclass(frozen=True, kw_only=True)
class EpisodeRegret:
    """One episode over all meta-episodes, in the game's unit per hand."""

    value: Estimate
    """Mean return of the agent."""
    regret: Estimate
    available: float | None
    """Value of the best play of each hand under the beliefs that the agent had reached. None if the rest of the
    meta-episode is the horizon, because this value then exists only for the whole meta-episode."""
    adjusted: Estimate | None
    """`available` minus `regret` per meta-episode: as unbiased as `value`, but without the luck of cards and
    replies."""

    @property
    def narrower(self) -> float | None:
        """Return the ratio of the interval widths of `value` and `adjusted`, or None if one of them has no width."""
        wide, narrow = self.value.half, None if self.adjusted is None else self.adjusted.half
        # An interval that is narrower than rounding errors is a point, and the ratio would be arbitrary.
        return wide / narrow if wide and narrow and narrow > 1e-9 * wide else None


@dataclass(frozen=True, kw_only=True)
class StateRegret:
    """One information state in one episode."""

    episode: int
    information_state: str
    visits: int
    regret: Estimate
    """Per hand of the episode, including hands that never met the state, so that the states add up to the episode's
    regret."""
    actions: Mapping[str, float]
    """Action to its share of the visits."""


@dataclass(frozen=True, kw_only=True)
class RegretReport:
    """The regret of an agent on a panel."""

    agent: str
    unit: str
    meta_episodes: int
    left_out: int
    """Number of meta-episodes that failed or were retried."""
    probabilities: bool
    """True if the agent's own action probabilities were used; False if its played actions replace them."""
    episodes: tuple[EpisodeRegret, ...]
    states: tuple[StateRegret, ...]
    """Information states in order of decreasing regret."""
    credit: str = ""
    """Label of the credit by which the rest of the meta-episode counts; empty if decisions are judged by their hand
    alone."""
    whole: EpisodeRegret | None = None
    """All episodes together, weighted as the credit weights them; None if decisions are judged by their hand alone."""
    parts: RegretParts | None = None
    """Regret by the credit `sum` in parts that add up; None for other credits and horizons."""


@dataclass(frozen=True)
class Horizon:
    """The rest of the meta-episode as the horizon of each decision."""

    credit: CreditName = "sum"
    gt: float = GT

    def rest(self, env_id: str, env_kwargs: Mapping[str, Any] | None, pool: Mapping[str, float]) -> Rest:
        """Return the values of the rest of the meta-episode in this environment."""
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


def check_deals(env_id: str, env_kwargs: Mapping[str, Any] | None) -> None:
    """Raise ValueError if deals are replayed or if a success ends a meta-episode."""
    env = make_envs(env_id, env_kwargs)[0]
    protocol, options = env.get_wrapper_attr("protocol"), dict(env_kwargs or {})
    # With a single deal a replay reveals nothing.
    replays = (options.get("deal") or protocol.deal) == "replay" and len(roots_of(env.get_wrapper_attr("game"))) > 1
    if env.get_wrapper_attr("num_episodes") > 1 and (protocol.early_stop or replays):
        raise ValueError(
            "Exact regret requires fresh deals and all episodes. Here the deals of the first episode are replayed, "
            "so an agent that saw them knows them, or a success ends the meta-episode. Use protocol=adaptive or "
            "num_episodes=1."
        )


def regret(
    agent: Agent,
    tasks: Sequence[Task],
    weights: Mapping[str, float],
    env_kwargs: Mapping[str, Any] | None = None,
    *,
    scored: bool = True,
    horizon: Horizon | None = None,
    batch: int = EvalOptions.batch,
    on_step: Callable[[int, int], None] | None = None,
) -> RegretReport:
    """Play the panel and judge each decision against the best play under the exact posterior over the pool.

    Args:
        weights: Weights of the panel's opponents by name, which form the pool.
        scored: True to query a model for the probabilities of the legal actions, if it can return them.
        horizon: Rest of the meta-episode as the horizon, or None to judge each decision by its hand alone.
        batch: Number of meta-episodes played concurrently.
        on_step: Callback with the numbers of finished and of all meta-episodes.

    Raises:
        NotExact: If the probabilities of an opponent are unknown.
        NotEnumerable: If the tree of the game cannot be enumerated.
        TooManyStates: If the horizon has too many belief states.
        ValueError: If deals are replayed or a success ends a meta-episode. This is checked before anything is played.
    """
    env_id = tasks[0].env_id
    game = game_of(env_id, env_kwargs)
    check_deals(env_id, env_kwargs)
    remainder = None if horizon is None else horizon.rest(env_id, env_kwargs, weights)
    values = DecisionValues(game, dict(weights), rest=remainder)
    # A model would be scored on the game's own words, which the style `neutral` hides.
    watched = WatchedGenerator.of(agent, game, scored and dict(env_kwargs or {}).get("style") != "neutral")
    meta_episodes: list[JudgedMetaEpisode] = []
    for at in range(0, len(tasks), batch):
        part = tasks[at : at + batch]
        # With one slot per task, the slot of a prompt is the place of its task in `part`. `watched` stores prompts by
        # slot.
        trajectories = evaluate(GeneratorAgent(watched, agent.name), part, env_kwargs, batch=len(part))
        for slot, trajectory in enumerate(trajectories):
            # A retry starts in any free slot, so its prompts cannot be assigned to a task.
            if trajectory.failure is None and trajectory.retries == 0:
                meta_episodes.append(judge(values, trajectory, watched.seen[slot, 0]))
        if on_step is not None:
            on_step(at + len(part), len(tasks))
    return report_of(agent.name, game, meta_episodes, len(tasks), watched.knows_probabilities, weights, remainder)


def regret_of_run(
    records: Records,
    weights: Mapping[str, float] | None = None,
    *,
    horizon: Horizon | None = None,
    batch: int = EvalOptions.batch,
    on_step: Callable[[int, int], None] | None = None,
) -> RegretReport:
    """Judge the decisions of a stored run. Its recorded replies are executed again, so no agent is queried.

    Args:
        weights: Weights of the pool's opponents by name (default: the pool of the run's panel).
        horizon: Rest of the meta-episode as the horizon, or None to judge each decision by its hand alone.
        batch: Number of meta-episodes executed concurrently.
        on_step: Callback with the numbers of finished and of all meta-episodes.

    Raises:
        ValueError: As in `regret`; also if the run has no opponents, met an opponent outside the pool, or has another
            outcome in this version.
        NotExact: If the probabilities of an opponent are unknown.
        TooManyStates: If the horizon has too many belief states.
    """
    with reading(records.folder):
        setting = setting_of(records.about)
        game = game_of(setting.panel.env_id, setting.options)
        pool = pool_of_run(records, setting, game, weights)
        remainder = None if horizon is None else horizon.rest(setting.panel.env_id, setting.options, pool)
        values = DecisionValues(game, dict(pool), rest=remainder)
        replayed = execute_run(records, setting, batch=batch, on_step=on_step)
        meta_episodes = [judge(values, trajectory, prompts) for trajectory, prompts in replayed]
        return report_of(records.about["agent"]["name"], game, meta_episodes, records.planned, False, pool, remainder)


def pool_of_run(
    records: Records, setting: Setting, game: Game, weights: Mapping[str, float] | None = None
) -> Mapping[str, float]:
    """Return the pool under which the decisions of a run are judged.

    Args:
        weights: Weights of the pool's opponents by name (default: the pool of the run's panel).

    Raises:
        ValueError: If the run has no exact regret, or met an opponent outside the pool.
    """
    where, pool = records.folder, setting.panel.weights() if weights is None else weights
    if not pool or game.spec.players == 1:
        raise ValueError(f"{where} is a run of {game.title} without opponents, so it has no exact regret.")
    check_deals(setting.panel.env_id, setting.options)
    strangers = sorted({line["opponent"] for line in records.lines.values() if line["failure"] is None} - pool.keys())
    if strangers:
        raise ValueError(f"{where} met {strangers[0]!r}, which is not in this pool. Use the run's own pool.")
    return pool


def execute_run(
    records: Records,
    setting: Setting,
    *,
    batch: int = EvalOptions.batch,
    on_step: Callable[[int, int], None] | None = None,
) -> Iterator[tuple[Trajectory, Sequence[SeenPrompt]]]:
    """Execute the recorded replies of a run again, and yield its meta-episodes without those that failed.

    Args:
        batch: Number of meta-episodes executed concurrently.
        on_step: Callback with the numbers of finished and of all meta-episodes.

    Raises:
        ValueError: If the run has another outcome in this version.
    """
    lines = [line for _, line in sorted(records.lines.items()) if line["failure"] is None]
    return execute_lines(lines, setting, str(records.folder), batch=batch, on_step=on_step)


def execute_lines(
    lines: Sequence[Line],
    setting: Setting,
    where: str,
    *,
    batch: int = EvalOptions.batch,
    on_step: Callable[[int, int], None] | None = None,
) -> Iterator[tuple[Trajectory, Sequence[SeenPrompt]]]:
    """Execute recorded meta-episodes again, and yield them. Further arguments and errors as in `execute_run`.

    Args:
        lines: Finished meta-episodes.
        where: Their folder, for messages.
        batch: Number of meta-episodes executed concurrently.
        on_step: Callback with the numbers of finished and of all meta-episodes.
    """
    for at in range(0, len(lines), batch):
        part, watched = lines[at : at + batch], list[WatchedGenerator]()

        # The default argument binds this iteration's list; a closure would see the list of the last iteration.
        def watch(recorded: Generator, generators: list[WatchedGenerator] = watched) -> Generator:
            generators.append(WatchedGenerator(recorded))
            return generators[0]

        trajectories, different = execute(part, setting, len(part), watch)
        if different:
            raise ValueError(f"{where} has another outcome with this version. See mage verify {where} --replay.")
        for slot, trajectory in enumerate(trajectories):
            yield trajectory, watched[0].seen[slot, 0]
        if on_step is not None:
            on_step(at + len(part), len(lines))


def report_of(
    agent: str,
    game: Game,
    meta_episodes: Sequence[JudgedMetaEpisode],
    planned: int,
    probabilities: bool,
    weights: Mapping[str, float],
    remainder: Rest | None,
) -> RegretReport:
    """Return the report of the judged meta-episodes.

    Args:
        game: Game that was played.
        meta_episodes: Meta-episodes with the regret of their hands.
        planned: Number of meta-episodes with those that failed.
        probabilities: True if the agent's own action probabilities were used.
        weights: Weights of the pool's opponents by name.
        remainder: Rest of the meta-episode if it was the horizon.

    Raises:
        RuntimeError: If no meta-episode could be judged.
    """
    if not meta_episodes:
        raise RuntimeError("No meta-episode could be judged: all of them failed or were retried.")
    return RegretReport(
        agent=agent,
        unit=game.spec.unit,
        meta_episodes=len(meta_episodes),
        left_out=planned - len(meta_episodes),
        probabilities=probabilities,
        episodes=tuple(
            _episode(meta_episodes, k, weights, remainder) for k in range(meta_episodes[0].trajectory.num_episodes)
        ),
        states=_states(meta_episodes, weights),
        credit="" if remainder is None else remainder.label,
        whole=None if remainder is None else _whole(meta_episodes, weights, remainder),
        parts=None if remainder is None or remainder.label != "sum" else _parts(meta_episodes, weights, remainder),
    )


def _parts(
    meta_episodes: Sequence[JudgedMetaEpisode], weights: Mapping[str, float], remainder: Rest
) -> RegretParts | None:
    """Return the regret by the credit `sum` in parts."""
    hand_values, remainder_values = (
        DecisionValues(remainder.game, remainder.pool, rest=horizon) for horizon in (None, remainder)
    )
    rows = [
        DecomposedMetaEpisode.of(
            meta_episode.trajectory, meta_episode.played_hands, tuple(weights), hand_values, remainder_values
        )
        for meta_episode in meta_episodes
    ]
    return parts_of(rows, list(weights.values()))


def _episode(
    meta_episodes: Sequence[JudgedMetaEpisode], k: int, weights: Mapping[str, float], remainder: Rest | None
) -> EpisodeRegret:
    """Return the regret of episode `k`. Each meta-episode contributes the mean over its planned hands.

    If time runs out, the last hand that was played has the value of those that are never played.
    """
    planned = meta_episodes[0].trajectory.episodes[0].hands
    hands = [
        [hand for hand, e in zip(meta_episode.hands, meta_episode.episode_of, strict=True) if e == k]
        for meta_episode in meta_episodes
    ]

    def mean(of: Callable[[HandRegret], float]) -> Estimate:
        return _estimate(meta_episodes, [sum(of(hand) for hand in mine) / planned for mine in hands], weights)

    return EpisodeRegret(
        value=mean(lambda hand: hand.value),
        regret=mean(lambda hand: sum(hand.regrets)),
        available=None if remainder else mean(lambda hand: hand.available).mean,
        adjusted=None if remainder else mean(lambda hand: hand.adjusted),
    )


def _whole(meta_episodes: Sequence[JudgedMetaEpisode], weights: Mapping[str, float], remainder: Rest) -> EpisodeRegret:
    """Return the regret of the whole meta-episode as the credit counts it, per hand of an episode."""
    hands = meta_episodes[0].trajectory.episodes[0].hands

    def mean(of: Callable[[JudgedMetaEpisode], float]) -> Estimate:
        return _estimate(meta_episodes, [of(meta_episode) / hands for meta_episode in meta_episodes], weights)

    def total_regret(meta_episode: JudgedMetaEpisode) -> float:
        return sum(sum(hand.regrets) for hand in meta_episode.hands)

    return EpisodeRegret(
        value=mean(lambda m: float(remainder.weights @ [episode.value for episode in m.trajectory.episodes])),
        regret=mean(total_regret),
        # Before the first hand, the belief is the prior, and the value available there covers the whole meta-episode.
        available=mean(lambda m: m.hands[0].available).mean,
        adjusted=mean(lambda m: m.hands[0].available - total_regret(m)),
    )


def _states(meta_episodes: Sequence[JudgedMetaEpisode], weights: Mapping[str, float]) -> tuple[StateRegret, ...]:
    """Return the regret of each information state, in order of decreasing regret."""
    costs: dict[tuple[int, str], dict[int, float]] = {}
    counts: dict[tuple[int, str], dict[str, float]] = {}
    for index, meta_episode in enumerate(meta_episodes):
        for choices, hand, episode in zip(
            meta_episode.choices, meta_episode.hands, meta_episode.episode_of, strict=True
        ):
            share = 1 / meta_episode.episode_of.count(episode)
            # `regrets` has one more entry than `choices` if the hand ended outside of the rules.
            for choice, cost in zip(choices, hand.regrets, strict=False):
                key = (episode, choice.information_state)
                mine = costs.setdefault(key, {})
                mine[index] = mine.get(index, 0.0) + share * cost
                row = counts.setdefault(key, {})
                for action, chance in (choice.probabilities or {choice.action: 1.0}).items():
                    row[action] = row.get(action, 0.0) + chance
    states = []
    for (episode, state), mine in costs.items():
        row = counts[episode, state]
        visits = sum(row.values())
        states.append(
            StateRegret(
                episode=episode,
                information_state=state,
                visits=round(visits),
                # A meta-episode that never met the state counts as 0, so that the states add up to the episode's
                # regret.
                regret=_estimate(meta_episodes, [mine.get(index, 0.0) for index in range(len(meta_episodes))], weights),
                actions={action: count / visits for action, count in sorted(row.items())},
            )
        )
    return tuple(sorted(states, key=lambda row: (-row.regret.mean, row.episode, row.information_state)))


def _estimate(
    meta_episodes: Sequence[JudgedMetaEpisode], values: Sequence[float], weights: Mapping[str, float]
) -> Estimate:
    """Return the mean of one value per meta-episode, clustered by seed and weighted by opponent."""
    trajectories = [meta_episode.trajectory for meta_episode in meta_episodes]
    return estimate(values, [t.task.seed for t in trajectories], [t.opponent for t in trajectories], weights)
