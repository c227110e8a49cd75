"""Games of OpenSpiel by their string: contract, seeds, random play, garbage; and what does not suit."""

from __future__ import annotations

import copy
import pickle

import gymnasium as gym
import numpy as np
import pytest

import mage_envs  # noqa: F401  (registers the ids)
from mage_envs import IllegalAction
from mage_envs.games.openspiel import OpenSpiel, UnsuitableGame
from tests.contract import GARBAGE, check_garbage, transcript

GAMES = (
    "2048",
    "backgammon",
    "battleship(board_width=2,board_height=2,ship_sizes=[1],ship_values=[1],num_shots=2)",
    "blackjack",
    "blotto(coins=5)",
    "catch",
    "checkers",
    "chess",
    "clobber(rows=4,columns=4)",
    "coin_game",
    "colored_trails",
    "crazy_eights",
    "dark_hex(board_size=3)",
    "dots_and_boxes",
    "first_sealed_auction",
    "go(board_size=5)",
    "go_fish",
    "goofspiel(num_cards=4)",
    "hanabi",
    "hex(board_size=4)",
    "kuhn_poker(players=3)",
    "leduc_poker(players=3)",
    "lewis_signaling",
    "liars_dice(numdice=2)",
    "mancala",
    "matching_pennies_3p",
    "matrix_pd",
    "mnk(m=4,n=4,k=3)",
    "nim",
    "oshi_zumo(coins=5,size=1)",
    "othello",
    "oware",
    "pentago",
    "phantom_ttt",
    "pig",
    "sheriff",
    "tic_tac_toe",
    "tiny_hanabi",
    "trade_comm",
    "ultimate_tic_tac_toe",
    "universal_poker",
    "yacht",
)


def hand(game: OpenSpiel, seed: int, most: int = 150) -> list[object]:
    """Everything of one hand of random play."""
    rng, chance = np.random.default_rng(seed).spawn(2)
    game.reset(chance)
    seen: list[object] = []
    while (player := game.current_player()) is not None and len(seen) < most:
        turn = game.turn(player, 2)
        assert turn.legal_actions == game.legal_actions()
        assert len(set(turn.legal_actions)) == len(turn.legal_actions) > 0
        assert (turn.observation, turn.information_state) == (game.observe(player), game.information_state(player))
        assert (turn.episode, turn.history) == (2, game.history())
        assert bool(turn.history) <= game.perfect_information
        assert game.returns() == (0.0,) * game.num_players
        other = (player + 1) % game.num_players
        assert other == player or game.turn(other).legal_actions == ()
        before = (turn, game.information_state(other))
        for text in ("no action", "", "\x00" * 300):
            with pytest.raises(IllegalAction):
                game.apply(text)
        assert (game.turn(player, 2), game.information_state(other)) == before
        action = turn.legal_actions[int(rng.integers(len(turn.legal_actions)))]
        assert game.canonical(f" {action} ") == action
        game.apply(f"{action} ")
        seen.append((turn, action))
    if game.current_player() is None:
        assert game.legal_actions() == ()
        assert all(game.min_return <= value <= game.max_return for value in game.returns())
        ends = [game.observe(player) for player in range(game.num_players)]
        assert all("The game is over" in text for text in ends)
        seen.append((game.returns(), ends))
    return seen


@pytest.mark.parametrize("text", GAMES)
def test_random_hands_keep_the_contract_and_follow_the_seed(text: str) -> None:
    first, second = OpenSpiel(text), OpenSpiel(text)
    hands = [hand(first, seed) for seed in (1, 2)]
    assert hands == [hand(second, seed) for seed in (1, 2)]
    assert len(first.rules) > 40
    assert first.num_players == len(first.returns())


@pytest.mark.parametrize("text", [text for text in GAMES if text not in ("blackjack", "2048", "catch")])
def test_both_ids_play_them_and_survive_garbage(text: str) -> None:
    for kind in ("v0", "Meta-v0"):
        env = gym.make(f"mage/OpenSpiel-{kind}", game=text, max_turns=6, opponent="uniform")
        assert transcript(env, 5, 1) == transcript(env, 5, 1)
        check_garbage(env)


def test_the_issue_s_example_plays() -> None:
    env = gym.make("mage/OpenSpiel-Meta-v0", game="hex(board_size=4)", opponent="mcts:200")
    observation, _ = env.reset(seed=0)
    assert "Hex." in observation
    assert "a1 | b1" in observation
    seen = transcript(env, 3, 1)
    assert seen[-1][2], "the meta-episode ends"
    rebuilt = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))  # type: ignore[union-attr]
    assert transcript(rebuilt, 3, 1) == seen


@pytest.mark.parametrize("text", GARBAGE)
def test_no_text_but_a_listed_one_is_an_action(text: str) -> None:
    game = OpenSpiel("tic_tac_toe")
    game.reset(np.random.default_rng(0))
    with pytest.raises(IllegalAction):
        game.apply(text)
    assert game.history() == ()


def test_chance_follows_the_draws_in_order() -> None:
    class Draws:
        def __init__(self, *values: float) -> None:
            self.values = iter(values)

        def random(self) -> float:
            return next(self.values)

    game = OpenSpiel("kuhn_poker")
    for draws, card in (((0.0, 0.0), 0), ((0.34, 0.0), 1), ((0.999, 0.49), 2)):
        game.reset(Draws(*draws))  # type: ignore[arg-type]
        assert game.observe(0).startswith(f"{card}\n")


def test_chance_events_are_part_of_the_history_where_nothing_is_hidden() -> None:
    game = OpenSpiel("pig")
    game.reset(np.random.default_rng(4))
    game.apply("roll")
    assert game.history()[0] == "roll"
    assert game.history()[1].startswith("Roll ")


def test_moves_made_at_once_are_hidden_from_each_other() -> None:
    game = OpenSpiel("matrix_pd")
    game.reset(np.random.default_rng(0))
    before = game.information_state(1), game.observe(1)
    game.apply("Cooperate")
    after = game.information_state(1).replace("player: 1", "player: 0"), game.observe(1)
    game.reset(np.random.default_rng(0))
    game.apply("Defect")
    assert after[0] == game.information_state(1).replace("player: 1", "player: 0")
    assert after[1] == game.observe(1)
    assert before[1] != after[1], "it is his move now"
    game.apply("cooperate")
    assert game.returns() == (10.0, 0.0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mfg_garnet", "a mean-field game has no players"),
        ("negotiation", "draws its chance by itself"),
        ("crossword", "LegalActions unimplemented"),
        ("blotto(coins=80,fields=3)", "3321 legal actions at one decision"),
    ],
)
def test_what_does_not_suit_says_why(text: str, reason: str) -> None:
    with pytest.raises(UnsuitableGame, match=reason) as caught:
        OpenSpiel(text)
    assert "\n" not in str(caught.value)


def test_unknown_games_and_parameters() -> None:
    with pytest.raises(ValueError, match=r"^OpenSpiel has no game 'hexx'\. Did you mean 'hex'\?"):
        OpenSpiel("hexx(board_size=3)")
    with pytest.raises(ValueError, match=r"^OpenSpiel cannot make 'hex\(side=3\)'"):
        OpenSpiel("hex(side=3)")
    with pytest.raises(TypeError, match="OpenSpiel does not take these options"):
        gym.make("mage/OpenSpiel-v0", game="nim", board=3)


def test_games_copy_and_pickle() -> None:
    game = OpenSpiel("leduc_poker")
    game.reset(np.random.default_rng(3))
    game.apply("raise")
    for twin in (copy.deepcopy(game), pickle.loads(pickle.dumps(game))):
        assert twin.turn(1) == game.turn(1)


def test_equal_texts_are_told_apart() -> None:
    from mage_envs.games.openspiel.texts import Texts

    class Mute(Texts):
        def action(self, state: object, player: int, action: int) -> str:
            return "" if action == 2 else "go"

    import pyspiel

    texts = Mute(pyspiel.load_game("tic_tac_toe"))
    assert texts.unique(None, 0, (0, 1, 2)) == ("go [0]", "go [1]", "[2]")
