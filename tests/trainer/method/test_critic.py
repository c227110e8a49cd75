"""The exact critic: its values are those of the exact theory, its gradient is the policy gradient without the luck."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from mage_envs.core import NotEnumerable, Task
from mage_envs.opponents.exact.tree import NotExact
from mage_envs.opponents.exact.values import policy_value
from mage_envs.opponents.tabular import TabularPolicy
from mage_envs.random.streams import Stream, fold
from mage_envs.registry import make_game
from mage_envs.text.generation import Completion, Prompt
from mage_envs.trainer.method.advantages import CreditConfig, compute_advantages
from mage_envs.trainer.method.critic import ExactCritic, OwnHand
from mage_envs.trainer.method.returns import hand_shares, scheme_of, step_returns
from mage_envs.trainer.trl.setup import critic_of
from mage_envs.wrappers.make import make_meta_env
from mage_envs.wrappers.rollout.loop import RolloutSpec, collect
from mage_envs.wrappers.rollout.trajectory import Trajectory
from tests.trainer.tiny_runs import make_config, make_trainer, save_model

ID, TICTACTOE = "mage/KuhnPoker-Meta-v0", "mage/TicTacToe-Meta-v0"
KUHN = make_game("KuhnPoker")
POOL = ("kuhn/soft-aggressive", "kuhn/soft-station", "kuhn/conservative")
EXACT = CreditConfig(advantage="exact", credit="reward")


def test_positions_that_the_opponent_never_leads_to_count_equally() -> None:
    """The opponent never bets, so the first player never meets a bet, with a queen from a jack as from a king."""
    never = TabularPolicy(
        {f"{card}{betting}": {move: 1.0} for card in "JQK" for betting, move in (("p", "check"), ("b", "fold"))}
    )
    hand = OwnHand(KUHN, never, 0, lambda result: result.value)
    rows = {state: row for state, row in hand.values({}).items() if "call" in row}
    assert len(rows) == 3
    assert sorted(row["call"] for row in rows.values()) == [-2.0, 0.0, 2.0]
    assert {row["fold"] for row in rows.values()} == {-1.0}


def softmax(logits: Mapping[str, float]) -> dict[str, float]:
    total = sum(math.exp(value) for value in logits.values())
    return {action: math.exp(value) / total for action, value in logits.items()}


def random_policy(seed: int, seats: Sequence[int] = (0, 1)) -> dict[str, dict[str, float]]:
    """Logits for every information state of Kuhn Poker."""
    rng = np.random.default_rng(seed)
    states = {
        state: legal
        for seat in seats
        for state, legal in {
            s: tuple(row) for s, row in OwnHand(KUHN, "uniform", seat, lambda r: r.value).values({}).items()
        }.items()
    }
    return {state: {action: float(rng.normal()) for action in legal} for state, legal in states.items()}


@pytest.mark.parametrize("seat", [0, 1])
@pytest.mark.parametrize("opponent", POOL)
def test_its_gradient_is_the_derivative_of_the_exact_value(opponent: str, seat: int) -> None:
    """sum over I, a of P(I) pi(a) dlog pi(a) (Q - V) is the derivative of the hand's value, by finite differences."""
    logits = random_policy(1)
    probabilities = {state: softmax(row) for state, row in logits.items()}
    hand = OwnHand(KUHN, opponent, seat, lambda result: result.value)
    worth = hand.values(probabilities)

    def value(changed: Mapping[str, Mapping[str, float]]) -> float:
        policy = TabularPolicy({state: softmax(row) for state, row in changed.items()})
        table: list[object] = [policy, policy]
        table[1 - seat] = opponent
        return policy_value(KUHN, table)[seat]  # type: ignore[arg-type]

    reach = own_reach(hand, probabilities)
    for state, row in worth.items():
        v = sum(probabilities[state][action] * q for action, q in row.items())
        for action, q in row.items():
            step = 1e-6
            up = {**logits, state: {**logits[state], action: logits[state][action] + step}}
            down = {**logits, state: {**logits[state], action: logits[state][action] - step}}
            derivative = (value(up) - value(down)) / (2 * step)
            assert reach[state] * probabilities[state][action] * (q - v) == pytest.approx(derivative, abs=1e-8)


def own_reach(hand: OwnHand, probabilities: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """How often each own information state comes up."""
    reach = dict.fromkeys(hand._order, 1.0)
    for node in hand._order:
        for action, child in node.children.items():
            mine = node.player == hand._seat
            reach[child] = reach[node] * (probabilities[node.turn().information_state][action] if mine else 1.0)
    return {state: sum(weight * reach[node] for weight, node in members) for state, members in hand._members.items()}


class Player:
    """Draws from a table, keyed by the call."""

    def __init__(self, logits: Mapping[str, Mapping[str, float]]) -> None:
        self.table = {state: softmax(row) for state, row in logits.items()}

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        return [Completion(self.answer(prompt)) for prompt in prompts]

    def answer(self, prompt: Prompt) -> str:
        if prompt.phase == "reflect":
            return "<remark>so</remark>"
        row = self.table[prompt.info["information_state"]]
        above = np.cumsum(list(row.values())) > Stream(fold(*prompt.seed)).random()
        action = list(row)[int(np.argmax(above))]
        return f"<action>{action}</action>"


def rollout(player: Player, groups: int, members: int = 4, **options: object) -> tuple[list[Trajectory], ExactCritic]:
    envs = [
        make_meta_env("KuhnPoker", opponent="kuhn/nash", num_episodes=2, memory="history", **options) for _ in range(64)
    ]  # type: ignore[arg-type]
    specs = [
        RolloutSpec(Task(ID, POOL[g % len(POOL)], None, 1000 + g), group=g, member=m)
        for g in range(groups)
        for m in range(members)
    ]
    return collect(envs, player, specs), ExactCritic.of(envs[0])


def gradients(
    trajectories: Sequence[Trajectory], weights: Sequence[Sequence[float]], player: Player
) -> dict[tuple[str, str], list[float]]:
    """By information state and action: what each meta-episode adds to the gradient of the logits."""
    gradients_by_key: dict[tuple[str, str], list[float]] = defaultdict(list)
    keys = [(state, action) for state, row in player.table.items() for action in row]
    for trajectory, member in zip(trajectories, weights, strict=True):
        sums = dict.fromkeys(keys, 0.0)
        for step, weight in zip(trajectory.steps, member, strict=True):
            if step.action is not None:
                for action, chance in player.table[step.information_state].items():
                    sums[step.information_state, action] += weight * ((action == step.action) - chance)
        for key in keys:
            gradients_by_key[key].append(sums[key])
    return gradients_by_key


def test_the_mean_gradient_is_that_of_reinforce_with_less_noise() -> None:
    """For one hand an episode, where the horizon `hand` is the objective: each episode's own reward."""
    player = Player(random_policy(3))
    trajectories, critic = rollout(player, 600)
    exact, _ = compute_advantages(trajectories, EXACT, critic)
    sampled = [
        [trajectory.episodes[step.episode].reward if step.phase == "play" else 0.0 for step in trajectory.steps]
        for trajectory in trajectories
    ]
    ours, theirs = gradients(trajectories, exact, player), gradients(trajectories, sampled, player)
    noise = [0.0, 0.0]
    for key in ours:
        gap = np.array(ours[key]) - np.array(theirs[key])
        assert abs(gap.mean()) <= 4.5 * gap.std(ddof=1) / math.sqrt(len(gap)) + 1e-12, key
        noise = [noise[0] + float(np.var(ours[key])), noise[1] + float(np.var(theirs[key]))]
    assert noise[0] < noise[1] / 3


def test_own_later_decisions_fall_as_often_as_in_the_rollout() -> None:
    """Only check and then fold was ever played, so that checking is worth what folding to a bet costs."""
    always = {
        state: {a: 50.0 if a in ("check", "fold") else 0.0 for a in row} for state, row in random_policy(0).items()
    }
    trajectories, critic = rollout(Player(always), 30)
    judged_group = critic.judge(trajectories)
    q_values = {
        (t.opponent, s.information_state): j.q
        for t, member in zip(trajectories, judged_group, strict=True)
        for s, j in zip(t.steps, member, strict=True)
        if j is not None and s.turn == 0 and s.seat == 0
    }
    policy = {state: {"check": 1.0} if "check" in row else {"fold": 1.0} for state, row in always.items()}
    for (opponent, state), q in q_values.items():
        assert q == pytest.approx(5 * OwnHand(KUHN, opponent, 0, lambda r: r.value).values(policy)[state]["check"])


def test_an_invalid_answer_is_worth_nothing_more_or_the_forfeit() -> None:
    class Silent(Player):
        def answer(self, prompt: Prompt) -> str:
            return "no" if prompt.seed[2] == 0 else super().answer(prompt)

    player = Silent(random_policy(5))
    trajectories, critic = rollout(player, 3)
    weights, _ = compute_advantages(trajectories, EXACT, critic)
    assert {member[0] for member in weights} == {-0.5}
    trajectories, critic = rollout(player, 3, on_invalid="forfeit", hands_per_episode=2)
    first_judgement = critic.judge(trajectories)[0][0]
    assert first_judgement is not None
    assert first_judgement.q == -2 * 5 / 2  # the worst return, in the units of an episode of two hands


def test_the_rest_of_the_meta_episode_holds_no_reward_of_the_own_hand() -> None:
    """Numerically: raising one hand's reward by 1 raises G by c, for every scheme."""
    trajectories, _ = rollout(Player(random_policy(7)), 2, hands_per_episode=2)
    trajectory = trajectories[0]
    for name, scheme in ((name, scheme_of(name)) for name in ("differential", "cumulative", "single_episode", "final")):
        shares = hand_shares(trajectory, scheme, 0.95, 0.6)
        returns_before = step_returns(trajectory, name, "reward", penalised=False)
        for end, step in enumerate(trajectory.steps):
            if not step.hand_end:
                continue
            steps, episodes = list(trajectory.steps), list(trajectory.episodes)
            steps[end] = step._replace(reward=step.reward + 1)
            episodes[step.episode] = episodes[step.episode]._replace(reward=episodes[step.episode].reward + 1)
            returns_after = step_returns(
                replace(trajectory, steps=tuple(steps), episodes=tuple(episodes)), name, "reward", penalised=False
            )
            for index, other_step in enumerate(trajectory.steps):
                if other_step.phase == "play" and (other_step.episode, other_step.hand) == (step.episode, step.hand):
                    share, reward = shares[index]
                    assert reward == step.reward
                    assert returns_after[index] - returns_before[index] == pytest.approx(share, abs=1e-9)


def test_the_horizon_meta_pays_exploration() -> None:
    trajectories, critic = rollout(Player(random_policy(9)), 4, hands_per_episode=2)
    hand, _ = compute_advantages(trajectories, EXACT, critic)
    meta, _ = compute_advantages(trajectories, replace(EXACT, horizon="meta"), critic)
    assert meta != hand
    single, _ = compute_advantages(
        trajectories, replace(EXACT, horizon="meta", returns="single_episode", gamma_step=1.0), critic
    )
    last_hand_steps = [[i for i, s in enumerate(t.steps) if (s.episode, s.hand) == (1, 1)] for t in trajectories]
    for t, indices in enumerate(last_hand_steps):
        for index in indices:  # nothing comes after the last hand
            assert single[t][index] == pytest.approx(hand[t][index], abs=1e-9)


def test_what_it_cannot_judge_is_refused() -> None:
    with pytest.raises(ValueError, match="not a sum over the hands"):
        ExactCritic.of(make_meta_env("KuhnPoker", hands_per_episode=2, reward="sign"))
    with pytest.raises(ValueError, match=r"Use credit=\"reward\""):
        CreditConfig(advantage="exact")
    with pytest.raises(ValueError, match="needs the critic"):
        compute_advantages([], EXACT)
    with pytest.raises(NotEnumerable, match="cannot be enumerated"):
        ExactCritic.of(make_meta_env("Sokoban")).hand("uniform", 0)


def test_a_run_trains_on_it_and_refuses_what_has_no_exact_probabilities(tmp_path: Path) -> None:
    model = save_model(tmp_path / "model")
    trainer = make_trainer(model, tmp_path, advantage="exact", advantage_norm="mean_std", statistics="pooled")
    weights_before = {name: p.detach().clone() for name, p in trainer.model.named_parameters()}
    trainer.train()
    assert any(not torch.equal(p, weights_before[name]) for name, p in trainer.model.named_parameters())
    assert trainer.credit.credit == "reward"
    with pytest.raises(NotExact, match="mcts:5"):
        critic_of(make_meta_env("TicTacToe"), make_config(tmp_path, advantage="exact", env_id=TICTACTOE), ["mcts:5"])
    with pytest.raises(ValueError, match="population=fixed or prioritised"):
        make_config(tmp_path, advantage="exact", population="league")


def test_a_position_without_a_legal_answer_is_worth_the_mean_of_its_actions() -> None:
    """No rollout says how often its actions are played, so all of them count equally."""

    class Mute(Player):
        def answer(self, prompt: Prompt) -> str:
            return "no"

    trajectories, critic = rollout(Mute(random_policy(5)), 3, on_invalid="forfeit")
    for trajectory, member in zip(trajectories, critic.judge(trajectories), strict=True):
        for step, judged_step in zip(trajectory.steps, member, strict=True):
            if step.phase == "play":
                assert judged_step is not None
                hand = OwnHand(KUHN, trajectory.opponent, step.seat, lambda result: result.value)
                row = hand.values({})[step.information_state]
                assert judged_step.v == pytest.approx(5 * sum(row.values()) / len(row))
