"""Games of TextArena and GEM as meta-episodes: the wrapped game is the game that their own interface plays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

# The suite's own environment has neither package; `make interop` fails if all of this module is skipped.
gem, textarena = pytest.importorskip("gem"), pytest.importorskip("textarena")

from examples.other_suites import (  # noqa: E402
    MAX_SEED,
    OPPONENTS,
    Halving,
    WinStay,
    guess_the_number,
    play,
    rock_paper_scissors,
)
from mage_envs import MetaEpisode  # noqa: E402
from mage_envs.random.streams import seed_of  # noqa: E402

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300), pytest.mark.filterwarnings("default")]
CHAT = {"memory": "history", "context": "conversation"}


def test_win_stay_wins_from_the_second_game_on() -> None:
    values = {}
    for name in OPPONENTS:
        messages, _, info = play(rock_paper_scissors(**CHAT), WinStay(), seed=3, options={"opponent": name})
        values[name] = info["episode_values"]
        assert info["private"]["opponent"] == name
        assert not any(name in message for message in messages)
    # It starts with rock: a draw and two wins, then a loss, a draw and a win, then three wins.
    assert values == {"mason": [1, 1, 1], "printer": [0, 1, 1], "tailor": [1, 1, 1]}


@pytest.mark.parametrize("name", OPPONENTS)
def test_textarena_pays_the_same_by_its_own_interface(name: str) -> None:
    _, actions, info = play(rock_paper_scissors(**CHAT), WinStay(), seed=3, options={"opponent": name})
    game, paid = textarena.make("IteratedRockPaperScissors-v0", num_rounds=3), []
    for _ in range(3):
        game.reset(num_players=2, seed=0)
        over = False
        while not over:
            player, observation = game.get_observation()
            over, _ = game.step(f"[{actions.pop(0)}]" if player == 0 else OPPONENTS[name](observation))
        paid.append(game.close()[0][0])
    assert actions == []
    assert info["episode_values"] == paid


def test_a_second_invalid_move_loses_the_game() -> None:
    env = rock_paper_scissors(num_episodes=1, **CHAT)
    env.reset(seed=0, options={"opponent": "mason"})
    message, _, over, _, _ = env.step("<action>lizard</action>")
    assert "attempted an invalid move" in message
    assert not over
    _, reward, over, _, info = env.step("<action>lizard</action>")
    assert (reward, over, info["episode_values"]) == (-1, True, [-1])


def test_an_unknown_opponent_is_named() -> None:
    with pytest.raises(ValueError, match=r"must be one of \['mason', 'printer', 'tailor'\], got 'smith'"):
        rock_paper_scissors().reset(seed=0, options={"opponent": "smith"})


def numbers(seed: int) -> int:
    """Return the number that GEM hides for a meta-episode's seed."""
    game = gem.make("game:GuessTheNumber-v0-easy")
    game.reset(seed=int(np.random.Generator(np.random.PCG64(seed)).integers(MAX_SEED)))
    hidden: int = game.game_number
    return hidden


@pytest.mark.parametrize("seed", [0, 1, seed_of(5, 7)])
def test_gem_repeats_its_task_in_each_episode(seed: int) -> None:
    env = guess_the_number(**CHAT)
    _, actions, info = play(env, Halving(), seed)
    hidden = str(numbers(seed))
    first_success = len(actions) - 2
    # Halving needs at most four guesses for ten numbers, and one once it knows the number.
    assert first_success <= 4
    assert [guess == hidden for guess in actions] == [False] * (first_success - 1) + [True] * 3
    assert info["episode_values"] == [1, 1, 1]


def test_a_near_miss_of_gem_is_paid_but_is_not_a_success() -> None:
    seed = next(seed for seed in range(100) if numbers(seed) == 9)
    env = guess_the_number(num_episodes=1, **CHAT)
    env.reset(seed=seed)
    for guess in "1238":
        _, reward, over, _, info = env.step(f"<action>{guess}</action>")
    assert over
    assert reward == pytest.approx(1 - 1 / 9)
    assert info["success"] is False


@pytest.mark.parametrize("reply", [r"<action>\boxed{5}</action>", "<action>5</action>"])
def test_the_form_of_gem_is_also_accepted(reply: str) -> None:
    env = guess_the_number(num_episodes=1, **CHAT)
    env.reset(seed=1)
    assert "you guessed 5" in env.step(reply)[0]


def test_the_same_seed_gives_the_same_messages() -> None:
    def messages(make: Any, agent: Any, options: Any) -> list[str]:
        env: MetaEpisode = make(**CHAT)
        return play(env, agent(), 11, options)[0]

    for make, agent, options in (
        (rock_paper_scissors, WinStay, {"opponent": "tailor"}),
        (guess_the_number, Halving, None),
    ):
        assert messages(make, agent, options) == messages(make, agent, options)
