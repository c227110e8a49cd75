"""Posterior, action values and parts of the regret, against a second program that knows only `State` and `Policy`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

from mage_envs.core import Game, State, Turn
from mage_envs.games.table_game import TableSeries
from mage_envs.opponents import as_pool, make_opponent
from mage_envs.opponents.exact.decomposition import OwnBelief, decompose
from mage_envs.opponents.exact.regret import DecisionValues
from mage_envs.opponents.exact.rest import OwnChoice, PlayedHand, Rest
from mage_envs.registry import make_game

CLOSE = {"abs": 1e-9, "rel": 0}


class Way(NamedTuple):
    """A position that the player cannot distinguish from others, with the opponent in it and its weight."""

    opponent: int
    weight: float
    state: State


Weights = tuple[float, ...]
Continuation = Callable[[Weights], float]


class Enumeration:
    """Expectimax over all ways that a hand may have gone. No values are shared with `mage_envs.opponents.exact`."""

    def __init__(self, game: Game, pool: Mapping[str, float], episodes: int, alternate: bool) -> None:
        self.game, self.episodes, self.alternate = game, episodes, alternate
        self.opponents = [make_opponent(name, game) for name in pool]
        self.prior = tuple(pool.values())

    def seat(self, episode: int) -> int:
        return episode % 2 if self.alternate else 0

    def start(self, weights: Weights) -> list[Way]:
        deals = self.game.initial_states()
        return [Way(i, w * chance, state) for i, w in enumerate(weights) for chance, state in deals if w > 0]

    def later(self, episode: int) -> Continuation:
        """The best value of all episodes after this one, given the weights of the opponents at its end."""
        if episode + 1 == self.episodes:
            return lambda weights: 0.0
        return lambda weights: self.value(self.start(weights), self.seat(episode + 1), self.later(episode + 1))

    def waits(self, ways: list[Way], seat: int) -> tuple[dict[str, list[Way]], dict[str, list[Way]]]:
        """Return the ways at which the player is to move, and the finished ones, by the player's information."""
        mine: dict[str, list[Way]] = {}
        over: dict[str, list[Way]] = {}
        open_ways = list(ways)
        while open_ways:
            opponent, weight, state = way = open_ways.pop()
            if state.player is None:
                over.setdefault(state.observation(seat), []).append(way)
            elif state.player == seat:
                mine.setdefault(state.information_state(seat), []).append(way)
            else:
                for action, chance in self.opponents[opponent].distribution(turn_of(state)).items():
                    if chance > 0:
                        open_ways.append(Way(opponent, weight * chance, state.after(action)))
        return mine, over

    def weights(self, ways: list[Way]) -> Weights:
        return tuple(sum(way.weight for way in ways if way.opponent == i) for i in range(len(self.opponents)))

    def value(self, ways: list[Way], seat: int, continuation: Continuation) -> float:
        mine, over = self.waits(ways, seat)
        total = sum(max(self.values(group, seat, continuation).values()) for group in mine.values())
        for finished_ways in over.values():
            total += sum(way.weight * way.state.returns[seat] for way in finished_ways) + continuation(
                self.weights(finished_ways)
            )
        return total

    def values(self, ways: list[Way], seat: int, continuation: Continuation) -> dict[str, float]:
        """The value of each action, times the weight of the ways."""
        return {
            action: self.value(self.advance(ways, action), seat, continuation) for action in ways[0].state.legal_actions
        }

    def ratios(self, ways: list[Way], seat: int, continuation: Continuation) -> dict[str, float] | None:
        """The value of each action, or None if the ways are impossible."""
        mass = sum(way.weight for way in ways)
        return {key: value / mass for key, value in self.values(ways, seat, continuation).items()} if mass > 0 else None

    def alone(self, opponent: int | None) -> Weights:
        """The belief that the opponent is this one, or no weight at all."""
        return tuple(float(i == opponent) for i in range(len(self.opponents)))

    @staticmethod
    def advance(ways: list[Way], action: str) -> list[Way]:
        return [Way(way.opponent, way.weight, way.state.after(action)) for way in ways]


def turn_of(state: State) -> Turn:
    """Return the turn of the player to move."""
    assert state.player is not None
    return Turn(
        player=state.player,
        observation=state.observation(state.player),
        legal_actions=tuple(state.legal_actions),
        information_state=state.information_state(state.player),
    )


class Expected(NamedTuple):
    """Results of the enumeration at one decision: values by the rest of the hand and of the meta-episode."""

    posterior: list[float]
    hand_values: dict[str, float]
    meta_values: dict[str, float]
    own_values: tuple[dict[str, float], dict[str, float]]
    """Values under the player's own belief; those of the posterior if it excludes the decision."""
    likely: tuple[dict[str, float], dict[str, float]]
    """Values if the opponent is the one that was most likely before the episode."""
    action: str


def random_answer(rng: np.random.Generator, count: int) -> OwnBelief:
    """An invalid answer, a name, or probabilities, some of them 0."""
    kind = int(rng.integers(5))
    if kind == 0:
        return OwnBelief()
    if kind <= 2:
        return OwnBelief(np.eye(count)[int(rng.integers(count))].tolist(), is_name=True)
    row = rng.dirichlet(np.ones(count)) * (rng.random(count) < 0.7)
    return OwnBelief((row / row.sum()).tolist()) if row.any() else OwnBelief(np.full(count, 1 / count).tolist())


def play_out(
    enumeration: Enumeration, rng: np.random.Generator
) -> tuple[list[PlayedHand], list[OwnBelief], list[list[Expected]]]:
    """Return a meta-episode of random play and random answers, with the enumeration's results at each decision."""
    count = len(enumeration.prior)
    opponent_index = int(rng.choice(count, p=enumeration.prior))
    weights, hands, answers, rows = enumeration.prior, list[PlayedHand](), list[OwnBelief](), list[list[Expected]]()
    for episode in range(enumeration.episodes):
        seat, continuation = enumeration.seat(episode), enumeration.later(episode)
        answer = random_answer(rng, count) if episode else OwnBelief(was_asked=False)
        answers.append(answer)
        own_weights = weights if answer.probabilities is None else tuple(answer.probabilities)
        beliefs = [weights, own_weights, enumeration.alone(int(np.argmax(weights)))]
        # Possible histories under the posterior, under the own belief and under the most likely opponent.
        tracks = [enumeration.start(belief) for belief in beliefs]
        choices, expected = list[OwnChoice](), list[Expected]()
        deals = enumeration.game.initial_states()
        state = deals[int(rng.choice(len(deals), p=[chance for chance, _ in deals]))][1]
        while True:
            while state.player not in (None, seat):
                row = enumeration.opponents[opponent_index].distribution(turn_of(state))
                state = state.after(list(row)[int(rng.choice(len(row), p=list(row.values())))])
            if state.player is None:
                ending = state.observation(seat)
                weights = enumeration.weights(enumeration.waits(tracks[0], seat)[1][ending])
                weights = tuple(weight / sum(weights) for weight in weights)
                hands.append(
                    PlayedHand(seat, choices, state.returns[seat], episode=episode, position=episode, ending=ending)
                )
                break
            key, action = state.information_state(seat), str(rng.choice(state.legal_actions))
            tracks = [enumeration.waits(ways, seat)[0].get(key, []) for ways in tracks]
            near = [enumeration.ratios(ways, seat, lambda weights: 0.0) for ways in tracks]
            far, mass = (
                [enumeration.ratios(ways, seat, continuation) for ways in tracks],
                np.array(enumeration.weights(tracks[0])),
            )
            assert near[0] is not None
            assert far[0] is not None
            expected.append(
                Expected(
                    posterior=(mass / mass.sum()).tolist(),
                    hand_values=near[0],
                    meta_values=far[0],
                    own_values=(near[1] or near[0], far[1] or far[0]),
                    likely=(near[2] or near[0], far[2] or far[0]),
                    action=action,
                )
            )
            choices.append(OwnChoice(key, action))
            tracks, state = [enumeration.advance(ways, action) for ways in tracks], state.after(action)
        rows.append(expected)
    return hands, answers, rows


def best_of(values: dict[str, float], action: str, price: dict[str, float]) -> str:
    """The best action; the played one wins ties, and then the one of the highest price."""
    best = [candidate for candidate, value in values.items() if value > max(values.values()) - 1e-8]
    return action if action in best else max(best, key=price.__getitem__)


def losses(row: Expected, values: tuple[dict[str, float], dict[str, float]]) -> tuple[float, float, float]:
    """Inference, exploration, and the loss under the belief itself, for the values under a belief."""
    near, far = values
    planned = best_of(far, row.action, row.meta_values)
    enough = {a: near[a] for a in near if far[a] - near[a] > far[row.action] - near[row.action] - 1e-8}
    prudent = row.action if planned == row.action else best_of(enough, row.action, row.meta_values)
    price = row.meta_values
    return max(price.values()) - price[planned], price[planned] - price[prudent], far[planned] - far[row.action]


CASES = [
    pytest.param("KuhnPoker", {}, "kuhn/demo", 2, True, id="kuhn"),
    pytest.param("PrisonersDilemma", {"rounds": 2, "noise": 0.1}, "pd/classic", 2, False, id="dilemma"),
    pytest.param("Ultimatum", {}, "ultimatum/reserves", 2, False, id="ultimatum"),
]


@pytest.mark.parametrize(("name", "options", "pool_name", "episodes", "alternate"), CASES)
def test_the_exact_parts_are_those_of_an_independent_enumeration(name, options, pool_name, episodes, alternate):
    game, mixture = make_game(name, **options), as_pool(f"pool:{pool_name}")
    pool = {str(entry): weight for entry, weight in zip(mixture.entries, mixture.weights, strict=True)}
    enumeration = Enumeration(game, pool, episodes, alternate)
    hand_values = DecisionValues(game, pool)
    meta_values = DecisionValues(game, pool, rest=Rest(game, pool, episodes=episodes, alternate=alternate))
    rng = np.random.default_rng(3)
    counts = dict.fromkeys(("split", "wrong", "explored", "decided", "names"), 0)
    for _ in range(20):
        hands, answers, rows = play_out(enumeration, rng)
        judgements = zip(
            hand_values.judge(hands),
            meta_values.judge(hands),
            decompose(hand_values, meta_values, hands, answers),
            strict=True,
        )
        for (near, far, hand), answer, expected in zip(judgements, answers, rows, strict=True):
            assert len(hand.decisions) == len(expected)
            for index, (part, row) in enumerate(zip(hand.decisions, expected, strict=True)):
                assert near.beliefs[index] == pytest.approx(row.posterior, **CLOSE)
                assert near.values[index] == pytest.approx(row.hand_values, **CLOSE)
                assert far.values[index] == pytest.approx(row.meta_values, **CLOSE)
                assert part.regret == pytest.approx(
                    max(row.meta_values.values()) - row.meta_values[row.action], **CLOSE
                )
                posterior = row.hand_values, row.meta_values
                if answer.was_asked and answer.probabilities is None:
                    assert part.inference is part.decision is part.gap is None
                    assert part.exploration == pytest.approx(losses(row, posterior)[1], **CLOSE)
                    continue
                own_values, naming_loss = row.own_values, 0.0
                if answer.is_name:
                    assert answer.probabilities is not None
                    chance = hand.posterior[answer.probabilities.index(1.0)]
                    if chance > max(hand.posterior) - 1e-9:
                        own_values = posterior
                    else:
                        naming_loss, counts["names"] = losses(row, row.likely)[0], counts["names"] + 1
                inference, exploration, gap = losses(row, own_values if answer.was_asked else posterior)
                assert part.inference == pytest.approx(inference - naming_loss, **CLOSE)
                assert part.exploration == pytest.approx(exploration, **CLOSE)
                assert part.gap == pytest.approx(gap, **CLOSE)
                assert part.inference + part.decision + part.exploration == pytest.approx(part.regret, **CLOSE)
                counts["split"] += 1
                counts["wrong"] += inference > 1e-6
                counts["explored"] += abs(part.exploration) > 1e-6
                counts["decided"] += abs(part.decision) > 1e-6
    # In poker with two hands, the rest of the hand alone decides almost everything.
    rare = {"explored"} if name == "KuhnPoker" else set[str]()
    assert min(count for key, count in counts.items() if key not in rare) > 0, f"a kind is missing: {counts}"


def test_an_ending_outside_of_the_rules_is_not_an_error_of_inference():
    pool = dict(zip(as_pool("pool:kuhn/demo").entries, as_pool("pool:kuhn/demo").weights, strict=True))
    game = make_game("KuhnPoker")
    hand_values, meta_values = DecisionValues(game, pool), DecisionValues(game, pool, rest=Rest(game, pool, episodes=1))
    forfeited = PlayedHand(0, [OwnChoice("J", "check")], -2.0, None, by_rules=False)
    [hand] = decompose(hand_values, meta_values, [forfeited], [OwnBelief([1.0, *[0.0] * (len(pool) - 1)])])
    decision, ending = hand.decisions
    assert decision.inference is not None
    assert decision.decision == decision.regret - decision.inference - decision.exploration
    assert ending.inference == ending.exploration == ending.gap == 0.0
    assert ending.decision == ending.regret


GAMES = ["chicken", "inspect", "bargain", "throw"]


def series_values(pool: Mapping[str, float]) -> tuple[DecisionValues, DecisionValues]:
    """Values by the rest of the hand and of the series, whose tasks come once each in an unknown order."""
    game = make_game("Encounters", games=GAMES)
    remainder = Rest(game, pool, episodes=3, alternate=False)
    return DecisionValues(remainder.game, remainder.pool), DecisionValues(game, pool, rest=remainder)


@pytest.mark.more
def test_a_belief_in_a_series_keeps_the_known_order_of_tasks() -> None:
    """A stated belief b equals the posterior of a pool with the prior weights b_i / L_i, L_i the likelihood so far."""
    mixture = as_pool("pool:encounters/all")
    pool = {str(entry): weight for entry, weight in zip(mixture.entries, mixture.weights, strict=True)}
    game = make_game("Encounters", games=GAMES)
    assert isinstance(game, TableSeries)
    opponents = [make_opponent(name, game) for name in pool]
    hand_values, meta_values = series_values(pool)
    rng, checked, wrong = np.random.default_rng(5), 0, 0
    for _ in range(3):
        opponent, order = opponents[int(rng.integers(len(pool)))], rng.permutation(len(GAMES))[:3]
        hands = list[PlayedHand]()
        for episode, task in enumerate(order):
            deals, choices = game.tasks[task], list[OwnChoice]()
            state = deals[int(rng.choice(len(deals), p=[chance for chance, _ in deals]))][1]
            while state.player is not None:
                if state.player == 0:
                    choices.append(OwnChoice(state.information_state(0), str(rng.choice(state.legal_actions))))
                    state = state.after(choices[-1].action)
                else:
                    row = opponent.distribution(turn_of(state)._replace(episode=episode))
                    state = state.after(list(row)[int(rng.choice(len(row), p=list(row.values())))])
            ending = state.observation(0)
            hands.append(PlayedHand(0, choices, state.returns[0], episode=episode, position=episode, ending=ending))
        prior_beliefs = np.array(
            [np.reshape(hand.prior, (len(pool), -1)).sum(axis=1) for hand in meta_values.judge(hands)]
        )
        stated = [rng.dirichlet(np.ones(len(pool))) * (row > 0) for row in prior_beliefs]
        answers = [OwnBelief((row / row.sum()).tolist()) for row in stated]
        judgements = zip(
            hands, meta_values.judge(hands), decompose(hand_values, meta_values, hands, answers), strict=True
        )
        for episode, (hand, exact, parts) in enumerate(judgements):
            weights = {
                name: float(stated_probability / (row / prior)) if row > 0 else 0.0
                for (name, prior), stated_probability, row in zip(
                    pool.items(), stated[episode], prior_beliefs[episode], strict=True
                )
            }
            total = sum(weights.values())
            own_weights = {name: weight / total for name, weight in weights.items() if weight > 0}
            near, far = (values.judge(hands)[episode].values for values in series_values(own_weights))
            assert parts.posterior == pytest.approx(prior_beliefs[episode].tolist(), **CLOSE)
            for index, (choice, part) in enumerate(zip(hand.choices, parts.decisions, strict=True)):
                row = SimpleNamespace(action=choice.action, meta_values=exact.values[index])
                inference, exploration, gap = losses(row, (dict(near[index]), dict(far[index])))
                assert (part.inference, part.exploration) == pytest.approx((inference, exploration), **CLOSE)
                assert part.gap == pytest.approx(gap, **CLOSE)
                checked, wrong = checked + 1, wrong + (inference > 1e-6)
    assert checked >= 9
    assert wrong > 0
