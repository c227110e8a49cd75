"""Games of TextArena and GEM as meta-episodes, each through a Gymnasium environment of text.

    pip install mage-envs textarena==0.7.4 gem-llm==0.1.0
    python -m examples.other_suites

Both suites draw from Python's global generator, which a reset seeds. Play one of these environments at a time in a
process, or its chance depends on the others.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

import gem
import gymnasium as gym
import textarena
from gem.utils.constants import LanguageGameReward

from mage_envs import FreeText, MetaEpisode

LEARNER = 0
"""The learner's seat in TextArena's games."""
MAX_SEED = 2**32
"""Bound of NumPy's global seed, which GEM sets."""
RULES = """Rock-paper-scissors against one player, three rounds per game. You are Player 0. Rock beats scissors, \
scissors beats paper, and paper beats rock. The winner of most rounds wins the game.
Your action is one word: rock, paper or scissors."""
GUESS_RULES = r"""Guess a number from 1 to 10 with at most four guesses. It is the same number in every episode.
Your action is the number alone, without \boxed{}."""
OPPONENTS: Mapping[str, Callable[[str], str]] = {
    "mason": lambda observation: "[rock]",
    "printer": lambda observation: "[paper]",
    "tailor": lambda observation: "[scissors]",
}
"""Opponents of rock-paper-scissors. Each is an agent of TextArena: a function from an observation to a reply."""


class TextArenaEnv(gym.Env[str, str]):
    """A game of TextArena for two players. `reset(options={"opponent": NAME})` chooses the other player."""

    observation_space = FreeText()
    action_space = FreeText()

    def __init__(self, env_id: str, opponents: Mapping[str, Callable[[str], str]], **options: Any) -> None:
        # Without TextArena's wrappers an observation has only the new messages. `MetaEpisode` shows the earlier ones.
        self.game = textarena.make(f"{env_id}-raw", **options)
        self.opponents = opponents

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.opponent = str((options or {}).get("opponent"))
        if self.opponent not in self.opponents:
            raise ValueError(f"options['opponent'] must be one of {sorted(self.opponents)}, got {self.opponent!r}.")
        self.game.reset(num_players=2, seed=int(self.np_random.integers(MAX_SEED)))
        self._play_opponent(over=False)
        return self._new_text(), self._info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        # TextArena finds its own form in brackets, too, if the model writes them.
        over, _ = self.game.step(f"[{action}]")
        if not self._play_opponent(over):
            return self._new_text(), 0.0, False, False, self._info()
        rewards, facts = self.game.close()
        text = f"{self._new_text()}\n{facts[LEARNER]['reason']}".strip()
        return text, float(rewards[LEARNER]), True, False, self._info()

    def _play_opponent(self, over: bool) -> bool:
        """Step the game until the learner's turn. Return True if the game is over."""
        while not over and self.game.state.current_player_id != LEARNER:
            _, messages = self.game.get_observation()
            over, _ = self.game.step(self.opponents[self.opponent]("\n".join(text for _, text, _ in messages)))
        return over

    def _new_text(self) -> str:
        """Return the messages that the learner has not seen, without its own actions."""
        observations = self.game.state.observations[LEARNER]
        self.game.state.observations[LEARNER] = []
        own_action = (LEARNER, textarena.ObservationType.PLAYER_ACTION)
        return "\n".join(text.strip() for sender, text, kind in observations if (sender, kind) != own_action)

    def _info(self) -> dict[str, Any]:
        # `MetaEpisode` names the opponent only in the last `info`, and never in a prompt.
        return {"private": {"opponent": self.opponent}}


class GemEnv(gym.Env[str, str]):
    r"""A game of GEM. The action is the text inside `\boxed{}`."""

    observation_space = FreeText()
    action_space = FreeText()

    def __init__(self, env_id: str, **options: Any) -> None:
        self.game = gem.make(env_id, **options)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        # GEM's `info` has only a suffix for its own prompts.
        observation, _ = self.game.reset(seed=int(self.np_random.integers(MAX_SEED)))
        return observation, {}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, _ = self.game.step(f"\\boxed{{{action}}}")
        # GEM pays part of the reward for a near miss, so the sign of the return does not show a success.
        success = {"success": reward == LanguageGameReward.success_reward} if terminated or truncated else {}
        return observation, float(reward), terminated, truncated, success


def rock_paper_scissors(**options: Any) -> MetaEpisode:
    """Return TextArena's rock-paper-scissors as a meta-episode against one hidden opponent."""
    env = TextArenaEnv("IteratedRockPaperScissors-v0", OPPONENTS, num_rounds=3)
    # TextArena repeats an invalid move once, so a round has at most two answers.
    return MetaEpisode(env, rules=RULES, max_turns=6, **options)


def guess_the_number(**options: Any) -> MetaEpisode:
    """Return GEM's number game as a meta-episode of one repeated task."""
    env = GemEnv("game:GuessTheNumber-v0-easy")
    return MetaEpisode(env, rules=GUESS_RULES, deal="replay", max_turns=4, **options)


class WinStay:
    """Agent for rock-paper-scissors. It changes its move after each round that it did not win."""

    moves = ("rock", "paper", "scissors")
    index = 0

    def __call__(self, message: str) -> str:
        if any(text in message for text in ("Round result: Draw", "Round result: Player 1 wins!")):
            self.index = (self.index + 1) % len(self.moves)
        return self.moves[self.index]


class Halving:
    """Agent for the number game. It keeps the bounds that it has learned."""

    low, high = 1, 10

    def __call__(self, message: str) -> str:
        for side, number in re.findall(r"the target number is (higher|lower) than (\d+)", message):
            if side == "higher":
                self.low = max(self.low, int(number) + 1)
            else:
                self.high = min(self.high, int(number) - 1)
        for number in re.findall(r"You guessed the correct number (\d+)", message):
            self.low = self.high = int(number)
        return str((self.low + self.high) // 2)


def play(
    env: MetaEpisode, agent: Callable[[str], str], seed: int, options: dict[str, Any] | None = None
) -> tuple[list[str], list[str], dict[str, Any]]:
    """Play a meta-episode.

    Args:
        env: Meta-episode with a memory that sends no requests, and a growing chat.
        agent: Function from the newest message to an action.
        seed: Seed of the meta-episode.
        options: Options of `reset`.

    Returns:
        The messages, the actions, and the last `info`.
    """
    message, info = env.reset(seed=seed, options=options)
    messages, actions, over = [message], [], False
    while not over:
        actions.append(agent(message))
        message, _, over, _, info = env.step(f"<action>{actions[-1]}</action>")
        messages.append(message)
    return messages, actions, info


def main() -> None:
    chat = {"memory": "history", "context": "conversation"}
    for env, agent, options in (
        (rock_paper_scissors(**chat), WinStay(), {"opponent": "printer"}),
        (guess_the_number(**chat), Halving(), None),
    ):
        messages, actions, info = play(env, agent, seed=1, options=options)
        for message, action in zip(messages, [*actions, None], strict=True):
            sys.stdout.write(f"{message}\n" + (f"--> {action}\n\n" if action else ""))
        sys.stdout.write(f"values of the episodes: {info['episode_values']}\n\n{'=' * 80}\n")


if __name__ == "__main__":
    main()
