"""Posterior, action values and parts of the regret, against a second program that knows only `State` and `Policy`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import pytest

from mage_envs.core import ExactPolicy, Game, State, Turn
from mage_envs.registry import make_game
from opponents import as_pool, make_opponent
from opponents.exact.decomposition import OwnBelief, decompose
from opponents.exact.regret import DecisionValues, OwnChoice, PlayedHand, Rest

CLOSE = {"abs": 1e-9, "rel": 0}


class Way(NamedTuple):
    """A position that the player cannot tell from others, with the opponent in it and its weight."""

    opponent: int
    weight: float
    state: State


Weights = tuple[float, ...]
Later = Callable[[Weights], float]


class Enumeration:
    """Expectimax over all ways that a hand may have gone. No values are shared with `opponents.exact`."""

    def __init__(self, game: Game, pool: Mapping[str, float], episodes: int, alternate: bool) -> None:
        self.game, self.episodes, self.alternate = game, episodes, alternate
        made = [make_opponent(name, game) for name in pool]
        self.opponents = [one for one in made if isinstance(one, ExactPolicy)]
        assert len(self.opponents) == len(pool)
        self.prior = tuple(pool.values())

    def seat(self, episode: int) -> int:
        return episode % 2 if self.alternate else 0

    def start(self, weights: Weights) -> list[Way]:
        deals = self.game.initial_states()
        return [Way(i, w * chance, state) for i, w in enumerate(weights) for chance, state in deals if w > 0]

    def later(self, episode: int) -> Later:
        """The best value of all episodes after this one, given the weights of the opponents at its end."""
        if episode + 1 == self.episodes:
            return lambda weights: 0.0
        return lambda weights: self.value(self.start(weights), self.seat(episode + 1), self.later(episode + 1))

    def waits(self, ways: list[Way], seat: int) -> tuple[dict[str, list[Way]], dict[str, list[Way]]]:
        """The ways at which the player is to move, and those that are over, by what the player knows."""
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

    def value(self, ways: list[Way], seat: int, later: Later) -> float:
        mine, over = self.waits(ways, seat)
        total = sum(max(self.values(one, seat, later).values()) for one in mine.values())
        for ended in over.values():
            total += sum(way.weight * way.state.returns[seat] for way in ended) + later(self.weights(ended))
        return total

    def values(self, ways: list[Way], seat: int, later: Later) -> dict[str, float]:
        """The value of each action, times the weight of the ways."""
        return {action: self.value(self.moved(ways, action), seat, later) for action in ways[0].state.legal_actions}

    def ratios(self, ways: list[Way], seat: int, later: Later) -> dict[str, float] | None:
        """The value of each action, or None if the ways are impossible."""
        mass = sum(way.weight for way in ways)
        return {key: value / mass for key, value in self.values(ways, seat, later).items()} if mass > 0 else None

    def alone(self, opponent: int | None) -> Weights:
        """The belief that the opponent is this one, or no weight at all."""
        return tuple(float(i == opponent) for i in range(len(self.opponents)))

    @staticmethod
    def moved(ways: list[Way], action: str) -> list[Way]:
        return [Way(way.opponent, way.weight, way.state.after(action)) for way in ways]


def turn_of(state: State) -> Turn:
    """What the player to move sees."""
    assert state.player is not None
    return Turn(
        player=state.player,
        observation=state.observation(state.player),
        legal_actions=tuple(state.legal_actions),
        information_state=state.information_state(state.player),
    )


class Expected(NamedTuple):
    """What the enumeration finds at one decision."""

    posterior: list[float]
    alone: dict[str, float]
    whole: dict[str, float]
    own: dict[str, float] | None
    likely: dict[str, float] | None
    action: str


def played_out(
    found: Enumeration, rng: np.random.Generator
) -> tuple[list[PlayedHand], list[OwnBelief], list[list[Expected]]]:
    """A meta-episode of random play and random answers, with what the enumeration finds at each decision."""
    count = len(found.prior)
    met = int(rng.choice(count, p=found.prior))
    weights, hands, named, told = found.prior, list[PlayedHand](), list[OwnBelief](), list[list[Expected]]()
    for episode in range(found.episodes):
        seat, later = found.seat(episode), found.later(episode)
        answer = [None, *range(count)][int(rng.integers(count + 1))] if episode else None
        named.append(OwnBelief(answer, asked=episode > 0))
        beliefs = [weights, found.alone(answer), found.alone(int(np.argmax(weights)))]
        # What may have happened under the posterior, under the own belief and under the most likely opponent.
        tracks = [found.start(belief) for belief in beliefs]
        choices, expected = list[OwnChoice](), list[Expected]()
        deals = found.game.initial_states()
        state = deals[int(rng.choice(len(deals), p=[chance for chance, _ in deals]))][1]
        while True:
            while state.player not in (None, seat):
                row = found.opponents[met].distribution(turn_of(state))
                state = state.after(list(row)[int(rng.choice(len(row), p=list(row.values())))])
            if state.player is None:
                ending = state.observation(seat)
                weights = found.weights(found.waits(tracks[0], seat)[1][ending])
                hands.append(
                    PlayedHand(seat, choices, state.returns[seat], episode=episode, place=episode, ending=ending)
                )
                break
            key, action = state.information_state(seat), str(rng.choice(state.legal_actions))
            tracks = [found.waits(ways, seat)[0].get(key, []) for ways in tracks]
            alone, own, likely = (found.ratios(ways, seat, lambda weights: 0.0) for ways in tracks)
            whole, mass = found.ratios(tracks[0], seat, later), np.array(found.weights(tracks[0]))
            assert alone is not None
            assert whole is not None
            posterior = (mass / mass.sum()).tolist()
            expected.append(
                Expected(posterior=posterior, alone=alone, whole=whole, own=own, likely=likely, action=action)
            )
            choices.append(OwnChoice(key, action))
            tracks, state = [found.moved(ways, action) for ways in tracks], state.after(action)
        told.append(expected)
    return hands, named, told


def lost(one: Expected, own: dict[str, float] | None) -> float:
    """The value that is lost by the best action under a belief; the played action wins ties."""
    if own is None:
        return 0.0
    best = [action for action, value in own.items() if value > max(own.values()) - 1e-9]
    taken = one.action if one.action in best else max(best, key=one.alone.__getitem__)
    return max(one.alone.values()) - one.alone[taken]


CASES = [
    pytest.param("KuhnPoker", {}, "kuhn/demo", 2, True, id="kuhn"),
    pytest.param("PrisonersDilemma", {"rounds": 2, "noise": 0.1}, "pd/classic", 2, False, id="dilemma"),
    pytest.param("Ultimatum", {}, "ultimatum/reserves", 2, False, id="ultimatum"),
]


@pytest.mark.parametrize(("name", "options", "pool_name", "episodes", "alternate"), CASES)
def test_the_exact_parts_are_those_of_an_independent_enumeration(name, options, pool_name, episodes, alternate):
    game, mixture = make_game(name, **options), as_pool(f"pool:{pool_name}")
    pool = {str(entry): weight for entry, weight in zip(mixture.entries, mixture.weights, strict=True)}
    found = Enumeration(game, pool, episodes, alternate)
    alone = DecisionValues(game, pool)
    whole = DecisionValues(game, pool, rest=Rest(game, pool, episodes=episodes, alternate=alternate))
    rng = np.random.default_rng(3)
    split = wrong = explored = 0
    for _ in range(12):
        hands, named, told = played_out(found, rng)
        judged = zip(alone.judge(hands), whole.judge(hands), decompose(alone, whole, hands, named), strict=True)
        for (near, far, parts), belief, expected in zip(judged, named, told, strict=True):
            assert len(parts) == len(expected)
            for place, (part, one) in enumerate(zip(parts, expected, strict=True)):
                assert near.beliefs[place] == pytest.approx(one.posterior, **CLOSE)
                assert near.values[place] == pytest.approx(one.alone, **CLOSE)
                assert far.values[place] == pytest.approx(one.whole, **CLOSE)
                regret = max(one.whole.values()) - one.whole[one.action]
                hand_regret = max(one.alone.values()) - one.alone[one.action]
                assert part.regret == pytest.approx(regret, **CLOSE)
                assert part.exploration == pytest.approx(regret - hand_regret, **CLOSE)
                explored += abs(part.exploration) > 1e-6
                if belief.asked and belief.opponent is None:
                    assert part.inference is part.decision is part.least is None
                    continue
                inference = lost(one, one.own) if belief.asked else 0.0
                assert part.inference == pytest.approx(inference, **CLOSE)
                assert part.least == pytest.approx(lost(one, one.likely) if belief.asked else 0.0, **CLOSE)
                assert part.inference + part.decision + part.exploration == pytest.approx(part.regret, **CLOSE)
                split, wrong = split + 1, wrong + (inference > 1e-6)
    assert min(split, wrong, explored) > 0, "the sample must contain every kind of decision"


def test_an_ending_outside_of_the_rules_is_no_error_of_inference():
    pool = dict(zip(as_pool("pool:kuhn/demo").entries, as_pool("pool:kuhn/demo").weights, strict=True))
    game = make_game("KuhnPoker")
    alone, whole = DecisionValues(game, pool), DecisionValues(game, pool, rest=Rest(game, pool, episodes=1))
    forfeited = PlayedHand(0, [OwnChoice("J", "check")], -2.0, None, by_rules=False)
    [[made, ending]] = decompose(alone, whole, [forfeited], [OwnBelief(0)])
    assert made.inference is not None
    assert made.inference + made.decision == made.regret - made.exploration
    assert ending.inference == 0.0
    assert ending.decision == ending.regret
