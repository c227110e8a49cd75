"""Game trees for exact analysis: positions in order, payoffs, and policies with exact probabilities."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Literal, TypeGuard

import numpy as np

from mage_envs.core import (
    ExactPolicy,
    Game,
    NotEnumerable,
    Policy,
    RemembersMetaEpisode,
    SeesResults,
    State,
    Turn,
    is_state_policy,
)
from opponents.registry import make_opponent


class Node:
    """A state of an enumerable game with its successors; all chance is in the draw of the root."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.player = state.player
        self.legal = state.legal_actions
        self.returns = state.returns
        self.children: dict[str, Node] = {}
        """Successors by action text, in the order of `legal`."""
        self._turn: Turn | None = None
        self._information_state: str | None = None

    @property
    def information_state(self) -> str:
        """Information state of the player to move; it is cached, and does not require the texts of `turn`."""
        if self._information_state is None:
            if self.player is None:
                raise ValueError("The hand is over, so no player is to move.")
            self._information_state = self.state.information_state(self.player)
        return self._information_state

    def turn(self) -> Turn:
        """Return the turn of the player to move, without history."""
        if self.player is None:
            raise ValueError("The hand is over, so no player is to move.")
        if self._turn is None:
            seat, state = self.player, self.state
            self._turn = Turn(
                player=seat,
                observation=state.observation(seat),
                legal_actions=self.legal,
                information_state=self.information_state,
            )
        return self._turn

    def view(self, seat: int) -> str:
        """Return a player's observation. At the end of a hand, it is all the player learns beyond its own turns."""
        return self.state.observation(seat)


Roots = Sequence[tuple[float, Node]]
Objective = Literal["returns", "success"]
Payoff = Callable[[Node, int], float]
"""Function from (node at the end of a hand, seat) to the player's payoff."""


def _success(node: Node, seat: int) -> float:
    # A game without its own notion of winning counts a positive return as a success.
    won = node.state.won(seat)
    return float(node.returns[seat] > 0 if won is None else won)


PAYOFFS: Mapping[str, Payoff] = {"returns": lambda node, seat: node.returns[seat], "success": _success}
"""Payoffs by objective: the return in the game's unit, or 1 for a success (`State.won`, else a positive return)."""


class NotExact(ValueError):
    """A policy without `distribution` or with memory of earlier hands, so that exact values do not exist."""


class BySeat:
    """A policy that delegates to one policy per seat."""

    def __init__(self, policies: Sequence[ExactPolicy]) -> None:
        self.policies = policies

    def reset(self, rng: np.random.Generator) -> None:
        for policy in self.policies:
            policy.reset(rng)

    def act(self, turn: Turn) -> str:
        return self.policies[turn.player].act(turn)

    def distribution(self, turn: Turn) -> Mapping[str, float]:
        """Return the distribution of the policy in the mover's seat."""
        return self.policies[turn.player].distribution(turn)


def roots_of(game: Game) -> Roots:
    """Return the roots of the game's tree, built once; raise `NotEnumerable` if the game has no enumerable tree."""
    return _tree(tuple(game.initial_states()))


def is_enumerable(game: Game) -> bool:
    """Return True if the game's whole tree can be enumerated."""
    try:
        game.initial_states()
    except NotEnumerable:
        return False
    return True


# A suite of games computes several kinds of values for each of its games, one kind after the other.
@lru_cache(maxsize=16)
def _tree(states: tuple[tuple[float, State], ...]) -> Roots:
    # Equal states become one node, so a game of perfect information is a graph with far fewer nodes than histories.
    nodes: dict[State, Node] = {}

    def build(state: State) -> Node:
        node = nodes.get(state)
        if node is None:
            node = nodes[state] = Node(state)
            node.children = {action: build(state.after(action)) for action in node.legal}
        return node

    with uncollected():
        return tuple((chance, build(state)) for chance, state in states)


@contextmanager
def uncollected() -> Iterator[None]:
    """Disable Python's garbage collector within the context.

    While a tree is built, many objects are created and none is freed. The collector would scan all of them repeatedly,
    which takes a third of the time.
    """
    # The user may have disabled the collector; then it stays disabled.
    ran = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if ran:
            gc.enable()


def check_seat(game: Game, seat: int) -> None:
    """Raise `ValueError` unless the game has the seat."""
    if seat not in range(game.spec.players):
        raise ValueError(f"{game.title} has the seats 0 to {game.spec.players - 1}, got seat={seat!r}.")


def payoff_of(objective: Objective) -> Payoff:
    """Return the payoff function of an objective."""
    if objective not in PAYOFFS:
        raise ValueError(f"objective={objective!r} is unknown; choose 'returns' or 'success'.")
    return PAYOFFS[objective]


def remembers(policy: object) -> bool:
    """Return True if the policy may remember earlier hands, so that its play does not follow from a turn."""
    return isinstance(policy, RemembersMetaEpisode | SeesResults)


def is_exact(policy: object) -> TypeGuard[ExactPolicy]:
    """Return True if exact values against the policy can be computed."""
    return isinstance(policy, ExactPolicy) and not remembers(policy)


def exact_policy(spec: str | Policy, game: Game) -> ExactPolicy:
    """Return the policy of a specification, or `spec` itself if it is a policy.

    Raises:
        NotExact: If the policy has no `distribution`, or remembers earlier hands.
    """
    policy = without_memory(spec, game)
    if not is_exact(policy):
        raise NotExact(no_distribution(spec))
    return policy


def without_memory(spec: str | Policy, game: Game) -> Policy:
    """Return the policy of a specification, or `spec` itself; raise `NotExact` if it remembers earlier hands."""
    policy = make_opponent(spec, game)
    if remembers(policy):
        raise NotExact(
            f"Opponent {_label(spec)!r} remembers earlier hands (on_meta_episode_start or on_hand_end): there are no "
            "exact values against it, and no estimates from sampled moves. Remove it from the pool."
        )
    return policy


def no_distribution(spec: str | Policy) -> str:
    """Return the message that exact values do not exist against a policy without `distribution`."""
    return f"Opponent {_label(spec)!r} has no distribution(turn): exact values against it are not available."


def _label(spec: str | Policy) -> str:
    return spec if isinstance(spec, str) else type(spec).__name__


class AtEpisode:
    """An exact policy with the episode fixed."""

    def __init__(self, policy: ExactPolicy, episode: int) -> None:
        self._policy = policy
        self._episode = episode

    def reset(self, rng: np.random.Generator) -> None:
        self._policy.reset(rng)

    def act(self, turn: Turn) -> str:
        return self._policy.act(turn._replace(episode=self._episode))

    def distribution(self, turn: Turn) -> Mapping[str, float]:
        """Return the policy's distribution in the fixed episode, regardless of `turn.episode`."""
        return self._policy.distribution(turn._replace(episode=self._episode))


def in_episode(policy: ExactPolicy, episode: int) -> ExactPolicy:
    """Return the policy with the episode fixed, or itself if it depends on the information state alone."""
    return policy if is_state_policy(policy) else AtEpisode(policy, episode)


def share_positions(order: Sequence[Node]) -> bool:
    """Return True if a position has several parents; `order` is the result of `positions`."""
    # In a tree every node but the roots is the child of exactly one other.
    return len({id(child) for node in order for child in node.children.values()}) < sum(len(n.children) for n in order)


def positions(roots: Sequence[Node]) -> list[Node]:
    """Return every position below the roots once, each before its children; positions may be shared."""
    # Depth-first post-order, reversed at the end, is a topological order.
    seen: set[Node] = set()
    order: list[Node] = []

    def visit(node: Node) -> None:
        if node in seen:
            return
        seen.add(node)
        for child in node.children.values():
            visit(child)
        order.append(node)

    for root in roots:
        visit(root)
    order.reverse()
    return order


@lru_cache(maxsize=16)
def order_of(roots: Roots) -> tuple[Sequence[Node], bool]:
    """Return the positions below the roots of `roots_of`, and whether some are shared; found once per tree."""
    order = positions([node for _, node in roots])
    return tuple(order), share_positions(order)
