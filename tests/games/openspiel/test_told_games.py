"""The five games with texts of their own: the texts, and their agreement with OpenSpiel's games."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from mage_envs import GameSettings, HandResult, aec
from mage_envs.core import State
from mage_envs.games.openspiel.openspiel_game import OpenSpiel
from mage_envs.games.openspiel.registered import Breakthrough, ConnectFour, LeducPoker, LiarsDice, Negotiation
from mage_envs.registry import load_game, settings_of
from tests.opponents.dealing import dealt

TOLD = (LeducPoker, ConnectFour, LiarsDice, Negotiation, Breakthrough)


def play(game: OpenSpiel, seed: int, actions: str) -> State:
    """The state after these actions."""
    return dealt(game, seed, *(action.strip() for action in actions.split(";"))).state


def seed_of(game: OpenSpiel, *starts: str) -> int:
    """The first seed with which each player sees an observation that begins so."""
    for seed in range(500):
        state = dealt(game, seed).state
        if all(state.observation(player).startswith(start) for player, start in enumerate(starts)):
            return seed
    raise AssertionError(starts)


@pytest.mark.parametrize("kind", TOLD)
def test_the_class_says_what_the_instance_says(kind: type[OpenSpiel]) -> None:
    of_class, facts = kind.spec, kind().spec
    assert load_game(of_class.name) is kind
    assert facts == replace(
        of_class,
        rules=facts.rules,
        general_sum=facts.general_sum,
        min_return=facts.min_return,
        max_return=facts.max_return,
        actions=facts.actions,
    )
    assert facts.players == 2
    assert facts.rules not in (of_class.rules, OpenSpiel.spec.rules)
    assert len(set(facts.actions or ())) == len(facts.actions or ()) > 3


def test_settings_are_registered_where_they_are_not_the_defaults() -> None:
    hands = [HandResult(3.0), HandResult(-1.0)]
    leduc, negotiation = settings_of("LeducPoker"), settings_of("Negotiation")
    assert {name: reward(hands, 4) for name, reward in leduc.rewards.items()} == {
        "task": 2.5,
        "released": 10.0,
        "sign": 10.0,
    }
    assert {name: reward(hands, 4) for name, reward in negotiation.rewards.items()} == {
        "task": 0.5,
        "released": 0.5,
        "sign": 10.0,
    }
    assert settings_of("ConnectFour") == GameSettings()


@pytest.mark.parametrize("kind", TOLD)
def test_every_action_that_comes_up_is_one_of_the_fixed_set(kind: type[OpenSpiel]) -> None:
    game, rng = kind(), np.random.default_rng(2)
    fixed_actions = game.spec.actions
    assert fixed_actions is not None
    for _ in range(40):
        state = game.initial_state(rng)
        while state.player is not None:
            legal = state.legal_actions
            assert set(legal) <= set(fixed_actions)
            state = state.after(legal[int(rng.integers(len(legal)))])


def test_leduc_shows_the_betting_and_the_cards_at_a_showdown_alone() -> None:
    game = LeducPoker()
    seed = seed_of(game, "Your card: K", "Your card: Q")
    state = play(game, seed, "check; raise")
    assert state.legal_actions == ("fold", "call", "raise")
    assert state.observation(0) == (
        "Your card: K. The open card: not shown yet.\nRound 1: you check, the opponent raises.\n"
        "In the pot: 1 from you, 3 from the opponent.\nYou act first. Your move."
    )
    state = state.after("fold")
    assert state.returns == (-1.0, 1.0)
    assert state.observation(1).endswith("the opponent folds.\nYou act second. The game is over: you win 1 chip.")
    state = play(game, seed, "raise; raise; call; check; raise; call")
    text = state.observation(0)
    assert (
        "Round 1: you raise, the opponent raises, you call.\nRound 2: you check, the opponent raises, you call." in text
    )
    assert "The opponent had Q." in text
    assert abs(state.returns[0]) == 9.0
    assert f"you {'win' if state.returns[0] > 0 else 'lose'} 9 chips." in text


def test_leduc_raises_at_most_twice_a_round() -> None:
    game = LeducPoker()
    state = play(game, 0, "raise; raise")
    assert state.legal_actions == ("fold", "call")
    state = state.after("call")
    assert state.legal_actions == ("check", "raise")


def test_connect_four_board_wins_and_keys() -> None:
    game = ConnectFour()
    state = play(game, 0, "4; 4; 3; 3; 2; 2")
    assert state.observation(0).splitlines()[4:] == [".ooo...", ".xxx...", "1234567", "You are x. Your move."]
    board_key = state.information_state(0)
    state = state.after("1")
    assert state.returns == (1.0, -1.0)
    assert state.observation(1).endswith("You are o. The game is over: you lost.")
    state = play(game, 0, "2; 4; 4; 3; 3; 2")
    assert state.information_state(0) != board_key
    state = play(game, 0, "2; 2; 3; 3; 4; 4")
    assert state.information_state(0) == board_key, "the board is all that counts"


def test_connect_four_full_columns_and_other_sizes() -> None:
    game = ConnectFour(rows=4, columns=5)
    state = play(game, 0, "1; 1; 1; 1")
    assert state.legal_actions == ("2", "3", "4", "5")
    assert "4 rows and 5 columns" in game.spec.rules


def test_liars_dice_bids_and_the_wild_six() -> None:
    game = LiarsDice()
    state = play(game, seed_of(game, "Your die: 6.", "Your die: 3."), "1 three; 2 threes; liar")
    assert state.observation(0) == (
        "Your die: 6.\nBids: you: 1 three, the opponent: 2 threes, you: liar.\nThe opponent had 3.\n"
        "You act first. The game is over: you lost."
    )
    state = dealt(game, 0).state
    assert "liar" not in state.legal_actions
    state = state.after("2 SIXES")
    assert state.legal_actions == ("liar",)
    assert "3" not in state.observation(1).splitlines()[1]


def test_liars_dice_with_more_dice() -> None:
    game = LiarsDice(dice=2, sides=4)
    state = dealt(game, 1).state
    assert state.legal_actions[-1] == "4 fours"
    assert len(state.observation(0).splitlines()[0].split()) == 4, "Your dice: a b."


def test_negotiation_offers_and_agreement() -> None:
    game = Negotiation()
    state = dealt(game, 5).state
    offer = state.legal_actions[1]
    assert offer.startswith("keep ")
    pool = state.observation(0).splitlines()[0]
    assert state.observation(1).startswith(pool)
    assert state.observation(0).splitlines()[1] != state.observation(1).splitlines()[1], "values are private"
    state = state.after(offer)
    assert f"Offer 1: The opponent {offer.replace('keep', 'keeps')}." in state.observation(1)
    assert state.legal_actions[-1] == "agree"
    state = state.after("agree")
    for player in (0, 1):
        assert f"there is an agreement, and you score {state.returns[player]:g}." in state.observation(player)
    values = {
        player: [int(part.split()[-1]) for part in state.observation(player).splitlines()[1].rstrip(".").split(",")]
        for player in (0, 1)
    }
    kept_items = [int(part.split()[0]) for part in offer.removeprefix("keep ").split(", ")]
    total = [int(part.split()[0]) for part in pool.removeprefix("The pool: ").rstrip(".").split(", ")]
    assert state.returns[0] == sum(n * v for n, v in zip(kept_items, values[0], strict=True))
    assert state.returns[1] == sum((t - n) * v for t, n, v in zip(total, kept_items, values[1], strict=True))


def test_negotiation_ends_without_agreement() -> None:
    game = Negotiation()
    state = dealt(game, 5).state
    while state.player is not None:
        state = state.after(state.legal_actions[0])
    assert state.returns == (0.0, 0.0)
    assert "there is no agreement, and nobody scores." in state.observation(0)


def test_breakthrough_moves_and_takes() -> None:
    game = Breakthrough(rows=6, columns=3)
    state = play(game, 0, "a5a4; b2b3; a4b3")
    board = [line[1:] for line in state.observation(1).splitlines()[:6]]
    assert board == ["bbb", ".bb", "...", ".b.", "w.w", "www"]
    assert {"a2b3", "c2b3"} <= set(state.legal_actions)
    assert state.observation(1).endswith("You are white (w). Your move.")
    assert state.information_state(0) != dealt(game).state.information_state(0)


def test_the_generic_adapter_reports_them_the_same_way() -> None:
    assert OpenSpiel("connect_four").spec.rules == ConnectFour().spec.rules
    assert "numbered from 0" in OpenSpiel("leduc_poker(players=3)").spec.rules, "three players have the generic texts"


@pytest.mark.parametrize(
    "name", ["leduc_poker", "connect_four", "liars_dice", "negotiation", "breakthrough", "open_spiel"]
)
def test_pettingzoo_modules(name: str) -> None:
    env = getattr(aec, f"{name}_v0").env()
    env.reset(seed=1)
    num_played = 0
    for agent in env.agent_iter():
        observation, _, terminated, truncated, info = env.last()
        if terminated or truncated:
            env.step(None)
            continue
        num_played += 1
        free_text = env.action_space(agent).__class__.__name__ == "FreeText"
        env.step(info["legal_actions"][0] if free_text else env.action_space(agent).sample(observation["action_mask"]))
    assert num_played > 1


def test_the_open_module_takes_a_game() -> None:
    env = aec.open_spiel_v0.raw_env(game="hex(board_size=3)")
    env.reset(seed=0)
    assert len(env.infos["player_0"]["legal_actions"]) == 9


def test_pyspiel_loads_only_when_a_game_is_made() -> None:
    code = (
        "import sys, mage_envs, opponents, mage_envs.games.openspiel\n"
        "assert not {'pyspiel', 'open_spiel'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ".", "PATH": ""})
