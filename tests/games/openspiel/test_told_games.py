"""The five games with texts of their own: what they show, and that they are OpenSpiel's games."""

from __future__ import annotations

import importlib
import subprocess
import sys

import numpy as np
import pytest

from mage_envs.games.openspiel import Breakthrough, ConnectFour, LeducPoker, LiarsDice, Negotiation, OpenSpiel
from mage_envs.registry import load_game

TOLD = (LeducPoker, ConnectFour, LiarsDice, Negotiation, Breakthrough)


def play(game: OpenSpiel, seed: int, actions: str) -> None:
    game.reset(np.random.default_rng(seed))
    for action in actions.split(";"):
        game.apply(action.strip())


def seed_of(game: OpenSpiel, *starts: str) -> int:
    """The first seed with which each player sees an observation that begins so."""
    for seed in range(500):
        game.reset(np.random.default_rng(seed))
        if all(game.observe(player).startswith(start) for player, start in enumerate(starts)):
            return seed
    raise AssertionError(starts)


@pytest.mark.parametrize("kind", TOLD)
def test_the_class_says_what_the_instance_says(kind: type[OpenSpiel]) -> None:
    game = kind()
    assert load_game(kind.name) is kind
    assert game.num_players == kind.num_players == 2
    assert game.perfect_information == kind.perfect_information
    assert game.max_turns == kind.max_turns
    assert game.rules != OpenSpiel.rules
    assert len(set(game.actions() or ())) == len(game.actions() or ()) > 3


@pytest.mark.parametrize("kind", TOLD)
def test_every_action_that_comes_up_is_one_of_the_fixed_set(kind: type[OpenSpiel]) -> None:
    game, rng = kind(), np.random.default_rng(2)
    known = game.actions()
    assert known is not None
    for _ in range(40):
        game.reset(rng)
        while game.current_player() is not None:
            legal = game.legal_actions()
            assert set(legal) <= set(known)
            game.apply(legal[int(rng.integers(len(legal)))])


def test_leduc_shows_the_betting_and_the_cards_at_a_showdown_alone() -> None:
    game = LeducPoker()
    seed = seed_of(game, "Your card: K", "Your card: Q")
    play(game, seed, "check; raise")
    assert game.legal_actions() == ("fold", "call", "raise")
    assert game.observe(0) == (
        "Your card: K. The open card: not shown yet.\nRound 1: you check, the opponent raises.\n"
        "In the pot: 1 from you, 3 from the opponent.\nYou act first. Your move."
    )
    game.apply("fold")
    assert game.returns() == (-1.0, 1.0)
    assert game.observe(1).endswith("the opponent folds.\nYou act second. The game is over: you win 1 chip.")
    play(game, seed, "raise; raise; call; check; raise; call")
    text = game.observe(0)
    assert (
        "Round 1: you raise, the opponent raises, you call.\nRound 2: you check, the opponent raises, you call." in text
    )
    assert "The opponent had Q." in text
    assert abs(game.returns()[0]) == 9.0
    assert f"you {'win' if game.returns()[0] > 0 else 'lose'} 9 chips." in text


def test_leduc_raises_at_most_twice_a_round() -> None:
    game = LeducPoker()
    play(game, 0, "raise; raise")
    assert game.legal_actions() == ("fold", "call")
    game.apply("call")
    assert game.legal_actions() == ("check", "raise")


def test_connect_four_board_wins_and_keys() -> None:
    game = ConnectFour()
    play(game, 0, "4; 4; 3; 3; 2; 2")
    assert game.observe(0).splitlines()[4:] == [".ooo...", ".xxx...", "1234567", "You are x. Your move."]
    one = game.information_state(0)
    game.apply("1")
    assert game.returns() == (1.0, -1.0)
    assert game.observe(1).endswith("You are o. The game is over: you lost.")
    play(game, 0, "2; 4; 4; 3; 3; 2")
    assert game.information_state(0) != one
    play(game, 0, "2; 2; 3; 3; 4; 4")
    assert game.information_state(0) == one, "the board is all that counts"


def test_connect_four_full_columns_and_other_sizes() -> None:
    game = ConnectFour(rows=4, columns=5)
    play(game, 0, "1; 1; 1; 1")
    assert game.legal_actions() == ("2", "3", "4", "5")
    assert "4 rows and 5 columns" in game.rules


def test_liars_dice_bids_and_the_wild_six() -> None:
    game = LiarsDice()
    play(game, seed_of(game, "Your die: 6.", "Your die: 3."), "1 three; 2 threes; liar")
    assert game.observe(0) == (
        "Your die: 6.\nBids: you: 1 three, the opponent: 2 threes, you: liar.\nThe opponent had 3.\n"
        "You act first. The game is over: you lost."
    )
    game.reset(np.random.default_rng(0))
    assert "liar" not in game.legal_actions()
    game.apply("2 SIXES")
    assert game.legal_actions() == ("liar",)
    assert "3" not in game.observe(1).splitlines()[1]


def test_liars_dice_with_more_dice() -> None:
    game = LiarsDice(dice=2, sides=4)
    game.reset(np.random.default_rng(1))
    assert game.legal_actions()[-1] == "4 fours"
    assert len(game.observe(0).splitlines()[0].split()) == 4, "Your dice: a b."


def test_negotiation_offers_and_agreement() -> None:
    game = Negotiation()
    game.reset(np.random.default_rng(5))
    offer = game.legal_actions()[1]
    assert offer.startswith("keep ")
    pool = game.observe(0).splitlines()[0]
    assert game.observe(1).startswith(pool)
    assert game.observe(0).splitlines()[1] != game.observe(1).splitlines()[1], "values are private"
    game.apply(offer)
    assert f"Offer 1: The opponent {offer.replace('keep', 'keeps')}." in game.observe(1)
    assert game.legal_actions()[-1] == "agree"
    game.apply("agree")
    for player in (0, 1):
        assert f"there is an agreement, and you score {game.returns()[player]:g}." in game.observe(player)
    values = {
        player: [int(part.split()[-1]) for part in game.observe(player).splitlines()[1].rstrip(".").split(",")]
        for player in (0, 1)
    }
    kept = [int(part.split()[0]) for part in offer.removeprefix("keep ").split(", ")]
    total = [int(part.split()[0]) for part in pool.removeprefix("The pool: ").rstrip(".").split(", ")]
    assert game.returns()[0] == sum(n * v for n, v in zip(kept, values[0], strict=True))
    assert game.returns()[1] == sum((t - n) * v for t, n, v in zip(total, kept, values[1], strict=True))


def test_negotiation_ends_without_agreement() -> None:
    game = Negotiation()
    game.reset(np.random.default_rng(5))
    while game.current_player() is not None:
        game.apply(game.legal_actions()[0])
    assert game.returns() == (0.0, 0.0)
    assert "there is no agreement, and nobody scores." in game.observe(0)


def test_breakthrough_moves_and_takes() -> None:
    game = Breakthrough(rows=6, columns=3)
    play(game, 0, "a5a4; b2b3; a4b3")
    board = [line[1:] for line in game.observe(1).splitlines()[:6]]
    assert board == ["bbb", ".bb", "...", ".b.", "w.w", "www"]
    assert {"a2b3", "c2b3"} <= set(game.legal_actions())
    assert game.observe(1).endswith("You are white (w). Your move.")
    assert game.information_state(0) != Breakthrough(rows=6, columns=3).information_state(0)


def test_the_generic_adapter_tells_them_the_same_way() -> None:
    assert OpenSpiel("connect_four").rules == ConnectFour().rules
    assert "numbered from 0" in OpenSpiel("leduc_poker(players=3)").rules, "three players have the generic texts"


@pytest.mark.parametrize(
    "name", ["leduc_poker", "connect_four", "liars_dice", "negotiation", "breakthrough", "openspiel"]
)
def test_pettingzoo_modules(name: str) -> None:
    module = importlib.import_module(f"mage_envs.zoo.{name}_v0")
    env = module.env()
    env.reset(seed=1)
    played = 0
    for agent in env.agent_iter():
        observation, _, terminated, truncated, info = env.last()
        if terminated or truncated:
            env.step(None)
            continue
        played += 1
        free_text = env.action_space(agent).__class__.__name__ == "FreeText"
        env.step(info["legal_actions"][0] if free_text else env.action_space(agent).sample(observation["action_mask"]))
    assert played > 1


def test_the_open_module_takes_a_game() -> None:
    from mage_envs.zoo import openspiel_v0

    env = openspiel_v0.raw_env(game="hex(board_size=3)")
    env.reset(seed=0)
    assert len(env.infos["player_0"]["legal_actions"]) == 9


def test_pyspiel_loads_only_when_a_game_is_made() -> None:
    code = (
        "import sys, mage_envs, opponents, mage_envs.games.openspiel\n"
        "assert not {'pyspiel', 'open_spiel'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ".", "PATH": ""})
