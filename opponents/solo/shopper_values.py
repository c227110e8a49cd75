"""Exact values of WebShopCustomer: the success of optimal learners, by dynamic programming over possible customers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

from mage_envs.games.webshop_customer.errands import errand_at
from mage_envs.games.webshop_customer.shopping import WebShopCustomer
from mage_envs.games.webshop_customer.tastes import KINDS, customers
from mage_envs.opponents.exact.learner_hands import Floats
from mage_envs.opponents.exact.tree import Objective
from mage_envs.opponents.pools import OpponentPool
from mage_envs.opponents.solo.shoppers import Customer, page_feedback

Payoffs = tuple[float, ...]
"""Expected successes in each episode from the present one on."""
_SAME = 12
"""Decimals to which equally good choices agree."""


class _Learner:
    """The optimal learner for one credit."""

    def __init__(self, game: WebShopCustomer, chances: dict[tuple[int, ...], float], weights: Floats) -> None:
        """Prepare the values.

        Args:
            chances: Probability of each set of tastes that count on an errand.
            weights: Weights of the objective and its tie-breakers, (3, K, K), as in `credit_weights`.
        """
        self._game, self._chances, self._weights = game, chances, weights
        self.known: dict[tuple[int, frozenset[Customer]], Payoffs] = {}
        """Payoffs by episode and possible customers."""

    def start_payoffs(self, episode: int, possible: frozenset[Customer]) -> Payoffs:
        """Return the payoffs from the start of an episode."""
        if episode == self._weights.shape[1]:
            return ()
        key = episode, possible
        if key not in self.known:
            parts = [(chance, self._errand(*key, tastes)) for tastes, chance in self._chances.items()]
            columns = zip(*(payoffs for _, payoffs in parts), strict=True)
            self.known[key] = tuple(
                sum(chance * payoff for (chance, _), payoff in zip(parts, column, strict=True)) for column in columns
            )
        return self.known[key]

    def _errand(self, episode: int, possible: frozenset[Customer], tastes: tuple[int, ...]) -> Payoffs:
        tiers = [tier[episode, episode:].tolist() for tier in self._weights]
        characters = [range(len(KINDS[self._game.kind][taste].characters)) for taste in tastes]
        best: tuple[tuple[float, ...], Payoffs] = ((), ())
        for choice in product(*characters):
            payoffs = self._choice_payoffs(episode, possible, tastes, choice)
            score = tuple(round(sum(map(float.__mul__, tier, payoffs)), _SAME) for tier in tiers)
            best = max(best, (score, payoffs))
        return best[1]

    def _choice_payoffs(
        self, episode: int, possible: frozenset[Customer], tastes: tuple[int, ...], choice: Customer
    ) -> Payoffs:
        """Return the payoffs of a choice."""
        groups: dict[object, list[Customer]] = {}
        for customer in possible:
            groups.setdefault(page_feedback(self._game, tastes, choice, customer), []).append(customer)
        successes = sum(tuple(customer[taste] for taste in tastes) == choice for customer in possible)
        later_payoffs = [(len(group), self.start_payoffs(episode + 1, frozenset(group))) for group in groups.values()]
        remaining_episodes = self._weights.shape[1] - episode - 1
        return (
            successes / len(possible),
            *(
                sum(size * payoffs[index] for size, payoffs in later_payoffs) / len(possible)
                for index in range(remaining_episodes)
            ),
        )


class CustomerSolution:
    """Exact success in WebShopCustomer for a learner that meets every instruction.

    Each errand is drawn independently, by the shares of the split.
    """

    known = 1.0

    def __init__(self, game: WebShopCustomer) -> None:
        numbers = game.shop.numbers(game.split).tolist()
        errands = [errand for number in numbers if (errand := errand_at(game.shop, number, game.kind, game.easy))]
        count = Counter(
            tuple(wish.taste for wish in errand.wishes) for errand in errands if len(errand.wishes) >= game.wishes
        )
        total = sum(count.values())
        self._game = game
        self.chances = {tastes: number / total for tastes, number in sorted(count.items())}
        self._everybody = frozenset(customers(game.kind).values())
        self.blind = sum(
            chance / len({tuple(customer[taste] for taste in tastes) for customer in self._everybody})
            for tastes, chance in self.chances.items()
        )
        self.states = 0
        self.note = f"exact for learners that meet every instruction, and for {total} errands, drawn independently."

    def per_episode(self, weights: Floats, myopic: bool) -> Iterator[float]:
        """Return the success in each episode of the optimal learner for these weights."""
        learner = _Learner(self._game, self.chances, weights)
        payoffs = learner.start_payoffs(0, self._everybody)
        self.states += len(learner.known)
        return iter(payoffs)


def solve_customer(game: WebShopCustomer, pool: OpponentPool, episodes: int, objective: Objective) -> CustomerSolution:
    """Return the exact values of the game.

    Raises ValueError unless the pool has all customers of the game's kind equally often and success counts.
    """
    names = {str(entry).partition(":")[2] for entry in pool.entries}
    if names != set(game.kinds_of_fact) or len(set(pool.weights)) > 1 or objective != "success":
        raise ValueError(
            f"WebShopCustomer with kind={game.kind!r} is solved for success against all of its customers, equally "
            f"often. Use the pool customer/{'all' if game.kind == 'taste' else game.kind}."
        )
    return CustomerSolution(game)
