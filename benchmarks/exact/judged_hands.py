"""The hands of a meta-episode, reconstructed from its steps and prompts, with the regret of their decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from mage_envs.benchmarks.exact.recorded_generator import SeenPrompt
from mage_envs.core import BY_THE_RULES
from mage_envs.opponents.exact.regret import HandRegret
from mage_envs.opponents.exact.rest import OwnChoice, PlayedHand
from mage_envs.wrappers.rollout.trajectory import Step, Trajectory


class JudgedMetaEpisode(NamedTuple):
    """A meta-episode with the regret of its hands."""

    trajectory: Trajectory
    choices: list[list[OwnChoice]]
    hands: list[HandRegret]
    episode_of: list[int]
    played_hands: Sequence[PlayedHand] = ()


class DecisionPrices(Protocol):
    """The exact prices of decisions, such as `DecisionValues`."""

    def judge(self, hands: Sequence[PlayedHand], opponent: str | None = None) -> list[HandRegret]:
        """Return the regrets of each hand of a meta-episode, in the order of play.

        They are judged under the posterior over the pool, or by the best play against `opponent` if it is set.
        """
        ...


def judge(
    values: DecisionPrices, trajectory: Trajectory, prompts: Sequence[SeenPrompt], opponent: str | None = None
) -> JudgedMetaEpisode:
    """Return the judged hands of a meta-episode. Arguments as in `reconstruct_hands` and `DecisionPrices.judge`."""
    hands = reconstruct_hands(trajectory, prompts)
    return JudgedMetaEpisode(
        trajectory=trajectory,
        choices=[list(hand.choices) for hand in hands],
        hands=values.judge(hands, opponent),
        episode_of=[hand.episode for hand in hands],
        played_hands=hands,
    )


def reconstruct_hands(trajectory: Trajectory, prompts: Sequence[SeenPrompt]) -> list[PlayedHand]:
    """Return the hands of a meta-episode, reconstructed from its steps and the results in its prompts.

    The meta-episode may be running: then its last hand is without a value yet, and `prompts` may include the open
    prompt.
    """
    results = [result for prompt in prompts for result in prompt.results]
    starts: list[tuple[int, int]] = []
    steps: dict[tuple[int, int], list[tuple[Step, SeenPrompt]]] = {}
    for step, prompt in zip(trajectory.steps, prompts):
        if step.phase == "play":
            key = (step.episode, step.hand)
            if key not in steps:
                starts.append(key)
            steps.setdefault(key, []).append((step, prompt))
    hands: list[PlayedHand] = []
    # Only the rest of the meta-episode as the horizon uses the indices, and it judges finished meta-episodes.
    planned = trajectory.episodes[0].hands if trajectory.episodes else 1
    indices = [episode * planned + hand for episode, hand in starts]
    # If an episode ends early, its last hand is followed by hands that are never played. `skipped` counts them.
    following = [*indices[1:], trajectory.num_episodes * planned]
    next_result = 0
    for number, key in enumerate(starts):
        mine = [
            OwnChoice(step.information_state, step.action, prompt.probabilities)
            for step, prompt in steps[key]
            if step.action is not None
        ]
        last_step = steps[key][-1][0]
        index, skipped = indices[number], following[number] - indices[number] - 1
        # If time runs out, the hands of the episode that are never played have results of their own.
        hand_results = results[next_result : next_result + 1 + skipped]
        # The result of a hand reaches the agent with its next prompt, so the last hand has none. Its value is the rest
        # of its episode's value, and its ending is not needed because no decision follows.
        if hand_results:
            by_rules, ending = hand_results[0].ended_by == BY_THE_RULES, hand_results[0].observation
            value = sum(result.value for result in hand_results)
        elif key[0] >= len(trajectory.episodes):
            by_rules, value, ending = True, 0.0, None
        else:
            episode = trajectory.episodes[key[0]]
            by_rules, ending = last_step.invalid_reason is None and not episode.timeout, None
            value = episode.value - sum(hand.value for hand in hands if hand.episode == key[0])
        next_result += len(hand_results)
        hands.append(
            PlayedHand(
                seat=last_step.seat,
                choices=mine,
                value=value,
                ending=ending if by_rules else None,
                by_rules=by_rules,
                episode=key[0],
                position=index,
                skipped=skipped,
            )
        )
    return hands
