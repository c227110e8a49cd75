"""The exact critic: the expected value of each answer against the true opponent, deals and dice integrated out.

It exists for training alone: it reads the opponent's policy, which no prompt shows. For an own decision in a hand,
Q(I, a) is the expected task reward of the hand after `a` at information state I, others playing their true policy and
the learner's own later decisions falling as often as they fell in this rollout; V(I) is Q at the frequencies of I
itself. Q - V is then the advantage of the decision without the luck of the cards (docs/method.md, section 4).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium as gym

from mage_envs.core import BY_FORFEIT, Game, HandResult, is_state_policy
from opponents.exact.tree import Node, exact_policy, positions, roots_of
from trainer.trajectory import Step, Trajectory

Payoff = Callable[[HandResult], float]
"""What a hand that ended so adds to R."""
Frequencies = Mapping[str, Mapping[str, float]]
"""Information state to how often each action was taken there, in [0, 1]."""


class OwnHand:
    """The hands of one game as one seat plays them against one known opponent in all others."""

    def __init__(self, game: Game, opponent: str, seat: int, payoff: Payoff) -> None:
        """Raises `NotExact` for an opponent without `distribution`, `NotEnumerable` for a game without a tree."""
        policy = exact_policy(opponent, game)
        if not is_state_policy(policy):
            raise ValueError(
                f"advantage='exact' needs opponents whose distribution follows the information state; {opponent!r} "
                "does not say so (follows_information_state). Use advantage='member_mean' against it."
            )
        self._seat, self._payoff = seat, payoff
        roots = roots_of(game)
        self._order = positions([node for _, node in roots])
        self._chances: dict[Node, tuple[tuple[float, Node], ...]] = {}
        """At positions of others: the children that can follow."""
        self._members: dict[str, list[tuple[float, Node]]] = defaultdict(list)
        """Own information state to its positions and how likely chance and the others lead to each."""
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
        """Q(I, a) for every own information state; states that `policy` lacks are played evenly."""
        worth: dict[Node, float] = {}
        for node in reversed(self._order):
            if node.player is None:
                ended = HandResult(node.returns[self._seat], self._seat, success=node.state.won(self._seat))
                worth[node] = self._payoff(ended)
            elif node.player == self._seat:
                row = policy.get(node.turn().information_state)
                share = 1 / len(node.legal)
                worth[node] = sum(
                    (row.get(action, 0.0) if row else share) * worth[child] for action, child in node.children.items()
                )
            else:
                worth[node] = sum(chance * worth[child] for chance, child in self._chances[node])
        found = {}
        for state, members in self._members.items():
            total = sum(weight for weight, _ in members)
            weights = [(weight / total if total else 1 / len(members), node) for weight, node in members]
            found[state] = {
                action: sum(weight * worth[node.children[action]] for weight, node in weights)
                for action in members[0][1].legal
            }
        return found


class Judged(NamedTuple):
    """What the critic says of one decision, in units of R."""

    q: float
    """Expected reward of the hand after what was played."""
    v: float
    """The same before it was chosen."""


class ExactCritic:
    """Judges the play steps of a rollout; what a pair of opponent and seat needs of the tree is built once."""

    def __init__(self, game: Game, payoff: Payoff, forfeits: bool) -> None:
        """`forfeits`: an illegal answer loses the hand; else it changes nothing but the penalty."""
        self._game, self._payoff = game, payoff
        self._forfeit = payoff(HandResult(game.facts.min_return, ended_by=BY_FORFEIT)) if forfeits else None
        self._hands: dict[tuple[str, int], OwnHand] = {}

    @classmethod
    def of(cls, env: gym.Env[Any, Any]) -> ExactCritic:
        """That of a meta-episode's game and rewards; raises `ValueError` where a hand's reward depends on others."""
        if not env.has_wrapper_attr("game"):
            raise ValueError("advantage='exact' needs a game of this suite; use advantage='member_mean'.")
        hands, reward = env.get_wrapper_attr("hands_per_episode"), env.get_wrapper_attr("episode_reward")

        def payoff(result: HandResult) -> float:
            return float(reward([result], hands))

        lost, won = HandResult(-1.0, success=False), HandResult(1.0, success=True)
        sums = (reward(both, hands) - payoff(both[0]) - payoff(both[1]) for both in ([won, won], [won, lost]))
        if hands > 1 and any(abs(gap) > 1e-9 for gap in sums):
            raise ValueError(
                "advantage='exact' judges each hand alone, but this reward of an episode is no sum over its hands; "
                "use hands_per_episode=1, or a reward that is."
            )
        return cls(env.get_wrapper_attr("game"), payoff, env.get_wrapper_attr("hand").forfeits)

    def hand(self, opponent: str, seat: int) -> OwnHand:
        """The hands against that opponent from that seat."""
        key = opponent, seat
        if key not in self._hands:
            self._hands[key] = OwnHand(self._game, opponent, seat, self._payoff)
        return self._hands[key]

    def judge(self, trajectories: Sequence[Trajectory]) -> list[list[Judged | None]]:
        """Q and V of every step, None for a reflection.

        The learner's own play is its frequencies per opponent and episode; where a state was not met there, those of
        the same episode against all opponents; then an even choice.
        """
        counts: dict[tuple[str, int], dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
        for trajectory in trajectories:
            for step in trajectory.steps:
                if step.action is not None:
                    for opponent in (trajectory.opponent, ""):
                        counts[opponent, step.episode][step.information_state][step.action] += 1
        tables: dict[tuple[str, int, int], dict[str, dict[str, float]]] = {}
        policies = {
            key: _frequencies({**counts["", key[1]], **states}) for key, states in counts.items() if key[0] != ""
        }

        def judged(trajectory: Trajectory, step: Step) -> Judged | None:
            if step.phase == "reflect":
                return None
            policy = policies.get((trajectory.opponent, step.episode), {})
            key = trajectory.opponent, step.seat, step.episode
            if key not in tables:
                tables[key] = self.hand(trajectory.opponent, step.seat).values(policy)
            worth = tables[key][step.information_state]
            row = policy.get(step.information_state) or dict.fromkeys(worth, 1 / len(worth))
            v = sum(row.get(action, 0.0) * value for action, value in worth.items())
            if step.action is None:
                return Judged(v if self._forfeit is None else self._forfeit, v)
            return Judged(worth[step.action], v)

        return [[judged(trajectory, step) for step in trajectory.steps] for trajectory in trajectories]


def _frequencies(states: Mapping[str, Counter[str]]) -> Frequencies:
    return {
        state: {action: count / counter.total() for action, count in counter.items()}
        for state, counter in states.items()
    }
