"""The exact critic: expected values of actions against the true opponent, with deals and dice integrated out.

It is used in training only, because it reads the opponent's policy, which no prompt shows. Q(I, a) is the expected task
reward of the hand after action `a` at information state I. The other players follow their true policies. The learner's
later decisions follow its action frequencies in this rollout. V(I) is the mean of Q(I, a) at the frequencies of I. So
Q - V is the advantage of the decision without the luck of the cards (docs/method.md section 4).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium as gym

from mage_envs.core import BY_FORFEIT, Game, HandResult, is_state_policy
from mage_envs.opponents.exact.tree import exact_policy
from mage_envs.tree import Node, positions, roots_of
from mage_envs.wrappers.rollout.trajectory import Step, Trajectory

Payoff = Callable[[HandResult], float]
"""Contribution of a hand with this result to the episode reward R."""
Frequencies = Mapping[str, Mapping[str, float]]
"""Frequency of each action in [0, 1], by information state."""


class OwnHand:
    """Game tree of a hand for one seat, against one known opponent in all other seats.

    Args:
        game: Game with an enumerable tree.
        payoff: Contribution of a hand's result to R.

    Raises:
        NotExact: If the opponent has no `distribution`, or remembers earlier hands.
        NotEnumerable: If the game has no tree.
        ValueError: If the opponent's distribution depends on more than the information state.
    """

    def __init__(self, game: Game, opponent: str, seat: int, payoff: Payoff) -> None:
        policy = exact_policy(opponent, game)
        if not is_state_policy(policy):
            raise ValueError(
                f"advantage='exact' needs opponents whose distribution follows the information state; {opponent!r} "
                "does not declare that (follows_information_state). Use advantage='member_mean' against it."
            )
        self._seat, self._payoff = seat, payoff
        roots = roots_of(game)
        self._order = positions([node for _, node in roots])
        self._chances: dict[Node, tuple[tuple[float, Node], ...]] = {}
        """Probability and child of each possible action, at the positions of the others."""
        self._members: dict[str, list[tuple[float, Node]]] = defaultdict(list)
        """Positions of each of the learner's information states, each with its reach probability."""
        # Counterfactual reach of a position: the product of the probabilities of chance and of the others on the way
        # to it. The learner's own actions count as 1. `positions` lists parents before children, so one pass suffices.
        reach = dict.fromkeys(self._order, 0.0)
        for chance, root in roots:
            reach[root] += chance
        for node in self._order:
            if node.player is None:
                continue
            turn = node.turn()
            if node.player == seat:
                self._members[turn.information_state].append((reach[node], node))
                for child in node.children.values():
                    reach[child] += reach[node]
                continue
            row = policy.distribution(turn)
            follows = tuple((row.get(action, 0.0), child) for action, child in node.children.items())
            self._chances[node] = tuple((chance, child) for chance, child in follows if chance)
            for chance, child in self._chances[node]:
                reach[child] += reach[node] * chance

    def values(self, policy: Frequencies) -> dict[str, dict[str, float]]:
        """Return Q(I, a) of the learner's information states; states without frequencies are played uniformly."""
        # Backward induction over the tree: worth(h) = E[contribution to R | position h], children before parents.
        worth: dict[Node, float] = {}
        for node in reversed(self._order):
            if node.player is None:
                hand_result = HandResult(node.returns[self._seat], self._seat, success=node.state.won(self._seat))
                worth[node] = self._payoff(hand_result)
            elif node.player == self._seat:
                row = policy.get(node.turn().information_state)
                share = 1 / len(node.legal)
                worth[node] = sum(
                    (row.get(action, 0.0) if row else share) * worth[child] for action, child in node.children.items()
                )
            else:
                worth[node] = sum(chance * worth[child] for chance, child in self._chances[node])
        # Q(I, a) = sum over positions h in I of P(h | I) * worth(h a). P(h | I) is the normalised counterfactual reach,
        # because with perfect recall the learner's own reach is the same at all h in I.
        action_values = {}
        for state, members in self._members.items():
            total = sum(weight for weight, _ in members)
            # A state that the opponent never leads to: its positions count equally.
            weights = [(weight / total if total else 1 / len(members), node) for weight, node in members]
            action_values[state] = {
                action: sum(weight * worth[node.children[action]] for weight, node in weights)
                for action in members[0][1].legal
            }
        return action_values


class StepValues(NamedTuple):
    """Values of one decision, in units of R."""

    q: float
    """Expected reward of the hand after the action that was played."""
    v: float
    """Expected reward of the hand before the action was chosen."""


class ExactCritic:
    """Critic of the play steps of a rollout. The tree is prepared once per pair of opponent and seat.

    Args:
        game: Game with an enumerable tree.
        payoff: Contribution of a hand's result to R.
        forfeits: True if an illegal answer loses the hand; otherwise it only costs its penalty.
    """

    def __init__(self, game: Game, payoff: Payoff, forfeits: bool) -> None:
        self._game, self._payoff = game, payoff
        self._forfeit = payoff(HandResult(game.spec.min_return, ended_by=BY_FORFEIT)) if forfeits else None
        self._hands: dict[tuple[str, int], OwnHand] = {}

    @classmethod
    def of(cls, env: gym.Env[Any, Any]) -> ExactCritic:
        """Return the critic of an environment. Raise ValueError if a hand's reward depends on the other hands."""
        if not env.has_wrapper_attr("game"):
            raise ValueError("advantage='exact' needs a game of this suite. Use advantage='member_mean'.")
        hands, reward = env.get_wrapper_attr("hands_per_episode"), env.get_wrapper_attr("episode_reward")

        def payoff(result: HandResult) -> float:
            return float(reward([result], hands))

        # The critic needs R(hand 1 + hand 2) = R(hand 1) + R(hand 2). Two probes find rewards that are no such sum.
        lost, won = HandResult(-1.0, success=False), HandResult(1.0, success=True)
        sums = (
            reward(results, hands) - payoff(results[0]) - payoff(results[1]) for results in ([won, won], [won, lost])
        )
        if hands > 1 and any(abs(gap) > 1e-9 for gap in sums):
            raise ValueError(
                "advantage='exact' judges each hand alone, but this episode reward is not a sum over the hands. "
                "Use hands_per_episode=1, or a reward that is such a sum."
            )
        return cls(env.get_wrapper_attr("game"), payoff, env.get_wrapper_attr("hand").forfeits)

    def hand(self, opponent: str, seat: int) -> OwnHand:
        """Return the tree against that opponent from that seat; it is built on first use."""
        key = opponent, seat
        if key not in self._hands:
            self._hands[key] = OwnHand(self._game, opponent, seat, self._payoff)
        return self._hands[key]

    def judge(self, trajectories: Sequence[Trajectory]) -> list[list[StepValues | None]]:
        """Return Q and V of every step, [trajectory][step]; None for a reflection.

        The learner's policy is estimated by its action frequencies per opponent and episode. If a state was not visited
        there, the frequencies of the same episode against all opponents are used, and else a uniform choice.
        """
        # Per episode, because the learner's policy changes within a meta-episode: it learns about the opponent. The key
        # "" counts all opponents. Illegal answers have no action and are not counted.
        counts: dict[tuple[str, int], dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
        for trajectory in trajectories:
            for step in trajectory.steps:
                if step.action is not None:
                    for opponent in (trajectory.opponent, ""):
                        counts[opponent, step.episode][step.information_state][step.action] += 1
        # One table of Q per (opponent, seat, episode): backward induction visits the whole tree.
        tables: dict[tuple[str, int, int], dict[str, dict[str, float]]] = {}
        policies = {
            key: _frequencies({**counts["", key[1]], **states}) for key, states in counts.items() if key[0] != ""
        }

        def judge_step(trajectory: Trajectory, step: Step) -> StepValues | None:
            if step.phase == "reflect":
                return None
            policy = policies.get((trajectory.opponent, step.episode), {})
            key = trajectory.opponent, step.seat, step.episode
            if key not in tables:
                tables[key] = self.hand(trajectory.opponent, step.seat).values(policy)
            worth = tables[key][step.information_state]
            row = policy.get(step.information_state) or dict.fromkeys(worth, 1 / len(worth))
            # V(I) = sum over a of pi(a | I) * Q(I, a).
            v = sum(row.get(action, 0.0) * value for action, value in worth.items())
            # An illegal answer forfeits the hand, or leaves the state as it is and thereby keeps its value V(I).
            if step.action is None:
                return StepValues(v if self._forfeit is None else self._forfeit, v)
            return StepValues(worth[step.action], v)

        return [[judge_step(trajectory, step) for step in trajectory.steps] for trajectory in trajectories]


def _frequencies(states: Mapping[str, Counter[str]]) -> Frequencies:
    """Return the relative frequency of each action, by information state."""
    return {
        state: {action: count / counter.total() for action, count in counter.items()}
        for state, counter in states.items()
    }
