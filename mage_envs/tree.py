"""The tree of a game that can be enumerated, and the check of perfect recall that every such tree must pass."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import NamedTuple

from mage_envs.core import Game, NotEnumerable, State, Turn

PROBED_KEYS = 100
"""Number of information states whose observations are compared while a tree is built."""


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


class Tree(NamedTuple):
    """The tree of a game, or the graph if several orders of moves lead to one position."""

    roots: Roots
    """First positions with their probabilities."""
    order: Sequence[Node]
    """Every position once, each before its children."""
    is_shared: bool
    """True if several orders of moves lead to one position, or to one information state under perfect information."""


class ImperfectRecall(ValueError):
    """Error for a game whose information states forget what their player knew. The message is one line."""


def roots_of(game: Game) -> Roots:
    """Return the roots of `tree_of(game)`."""
    return tree_of(game).roots


def tree_of(game: Game) -> Tree:
    """Return the game's tree, which is built and checked once.

    Raises:
        NotEnumerable: If the game has no enumerable tree.
        ImperfectRecall: If an information state forgets what its player knew.
    """
    return _tree(tuple(game.initial_states()), game.spec.name, game.spec.perfect_information)


def is_enumerable(game: Game) -> bool:
    """Return True if the game's whole tree can be enumerated."""
    try:
        game.initial_states()
    except NotEnumerable:
        return False
    return True


# A suite of games computes several kinds of values for each of its games, one kind after the other.
@lru_cache(maxsize=16)
def _tree(states: tuple[tuple[float, State], ...], name: str, perfect_information: bool) -> Tree:
    # Equal states become one node, so a game of perfect information is a graph with far fewer nodes than histories.
    nodes: dict[State, Node] = {}
    order: list[Node] = []
    visits = 0

    def build(state: State) -> Node:
        nonlocal visits
        visits += 1
        node = nodes.get(state)
        if node is None:
            node = nodes[state] = Node(state)
            node.children = {action: build(state.after(action)) for action in node.legal}
            order.append(node)
        return node

    with pause_garbage_collection():
        roots = tuple((chance, build(state)) for chance, state in states)
        # Depth-first post-order, reversed, is a topological order.
        order.reverse()
        if perfect_information:
            repeats = _check_positions(name, order)
        else:
            repeats = _check_memory(name, [root for _, root in roots], order)
        check_observations(name, _probes(order, repeats))
    is_shared = visits > len(order) or (perfect_information and bool(repeats))
    return Tree(roots, tuple(order), is_shared)


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
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


def share_positions(order: Sequence[Node]) -> bool:
    """Return True if a position has several parents; `order` is the result of `positions`."""
    # In a tree every node but the roots is the child of exactly one other.
    return len({id(child) for node in order for child in node.children.values()}) < sum(len(n.children) for n in order)


def positions(roots: Sequence[Node]) -> list[Node]:
    """Return every position below the roots once, each before its children; positions may be shared."""
    # Depth-first post-order, reversed at the end, is a topological order.
    visited: set[Node] = set()
    order: list[Node] = []

    def visit(node: Node) -> None:
        if node in visited:
            return
        visited.add(node)
        for child in node.children.values():
            visit(child)
        order.append(node)

    for root in roots:
        visit(root)
    order.reverse()
    return order


# -- perfect recall --------------------------------------------------------------------------------------------
# Exact values treat equal information states as equal knowledge. If a key forgets, "best" play is worse than the play
# of an agent that remembers, and no value shows it.

_Decision = tuple[str, str] | None
"""A player's last decision (information state, action), or None before its first."""


Repeats = Mapping[tuple[int, str], Node]
"""Map from (seat, information state) to the last position with it, for those with several positions."""


def _check_memory(name: str, roots: Sequence[Node], order: Sequence[Node]) -> Repeats:
    """Raise ImperfectRecall unless each information state implies all earlier decisions of its player.

    It is enough to compare the last decision: its information state implies those before, by induction.
    """
    # A game may give its chance events to a player without a return.
    seats = max([len(roots[0].returns), *(node.player + 1 for node in order if node.player is not None)])
    lasts: dict[Node, tuple[_Decision, ...]] = dict.fromkeys(roots, (None,) * seats)
    """Map from a position to each seat's last decision on the way to it."""
    clashes: dict[Node, dict[int, _Decision]] = {}
    """Map from a shared position to the other last decision of each seat that has two."""
    firsts: dict[tuple[int, str], Node] = {}
    repeats: dict[tuple[int, str], Node] = {}
    for node in order:
        seat = node.player
        if seat is None:
            continue
        decisions, key, clash = lasts[node], node.information_state, clashes.get(node)
        if clash and seat in clash:
            raise _forgets(name, seat, key, (decisions[seat], clash[seat]))
        first_node = firsts.setdefault((seat, key), node)
        if first_node is not node:
            repeats[seat, key] = node
            if lasts[first_node][seat] != decisions[seat]:
                raise _forgets(name, seat, key, (lasts[first_node][seat], decisions[seat]))
            if first_node.legal != node.legal:
                raise ImperfectRecall(
                    f"{name}: the information state {_short(key)} of seat {seat} has two sets of legal actions, "
                    f"{_short(', '.join(first_node.legal))} and {_short(', '.join(node.legal))}. {_REPAIR}"
                )
        lower_seats, higher_seats = decisions[:seat], decisions[seat + 1 :]
        for action, child in node.children.items():
            if child.player is None:
                continue
            child_decisions = (*lower_seats, (key, action), *higher_seats)
            stored_decisions = lasts.setdefault(child, child_decisions)
            if stored_decisions is not child_decisions or clash:
                others = {
                    other_seat: decision
                    for other_seat, decision in enumerate(child_decisions)
                    if decision != stored_decisions[other_seat]
                }
                clashes.setdefault(child, {}).update({**(clash or {}), **others})
    return repeats


def _check_positions(name: str, order: Sequence[Node]) -> Repeats:
    """Raise ImperfectRecall unless positions with one information state have the same future.

    Under perfect information only the position matters, so a key may forget the moves that led to it.
    """
    futures: dict[tuple[object, ...], int] = {}
    numbers: dict[Node, int] = {}
    # Children come after their parents in `order`.
    for node in reversed(order):
        future = node.returns if node.player is None else tuple(numbers[child] for child in node.children.values())
        numbers[node] = futures.setdefault((node.player, node.legal, future), len(futures))
    firsts: dict[tuple[int, str], Node] = {}
    repeats: dict[tuple[int, str], Node] = {}
    for node in order:
        if node.player is None:
            continue
        key = node.player, node.information_state
        first_node = firsts.setdefault(key, node)
        if first_node is not node:
            repeats[key] = node
            if numbers[first_node] != numbers[node]:
                raise ImperfectRecall(
                    f"{name}: the information state {_short(key[1])} of seat {key[0]} stands for positions with "
                    "different futures, although GameSpec.perfect_information is True. Set it to False, or return the "
                    "whole position from State.information_state()."
                )
    return repeats


def check_observations(name: str, order: Sequence[Node]) -> None:
    """Raise ImperfectRecall if a player reads different observations at positions with one information state.

    Args:
        name: Name of the game, for the error.
    """
    firsts: dict[tuple[int, str], Node] = {}
    for node in order:
        # A state that does not define a key of its own uses its observation.
        if node.player is None or type(node.state).information_state is State.information_state:
            continue
        seat, key = node.player, node.information_state
        first_node = firsts.setdefault((seat, key), node)
        if first_node is not node and (text := node.view(seat)) != (first_view := first_node.view(seat)):
            raise ImperfectRecall(
                f"{name}: seat {seat} reads {_short(first_view)} and {_short(text)} at the same information state "
                f"{_short(key)}. {_REPAIR}"
            )


def _probes(order: Sequence[Node], repeats: Repeats) -> list[Node]:
    """Return the first and the last position of `PROBED_KEYS` information states, evenly over the tree."""
    keys = set(list(repeats)[:: len(repeats) // PROBED_KEYS + 1])
    firsts: dict[tuple[int, str], Node] = {}
    for node in order:
        if len(firsts) == len(keys):
            break
        if node.player is not None and (key := (node.player, node.information_state)) in keys:
            firsts.setdefault(key, node)
    return [*firsts.values(), *(repeats[key] for key in firsts)]


def _forgets(name: str, seat: int, key: str, lasts: tuple[_Decision, _Decision]) -> ImperfectRecall:
    first_context, second_context = (
        "as its first decision" if decision is None else f"after {_short(decision[1])} at {_short(decision[0])}"
        for decision in lasts
    )
    return ImperfectRecall(
        f"{name}: the information state {_short(key)} of seat {seat} forgets what the seat knew: it occurs "
        f"{first_context} and {second_context}. {_REPAIR}"
    )


_REPAIR = "Return all that the player has seen and done from State.information_state()."


def _short(text: str) -> str:
    line = repr(text)
    return line if len(line) <= 80 else f"{line[:50]}...{line[-27:]}"
