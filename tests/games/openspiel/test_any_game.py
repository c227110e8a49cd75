"""Games of OpenSpiel by their string: contract, seeds, random play, garbage; and the games that are rejected."""

from __future__ import annotations

import copy
import pickle
import re
from itertools import permutations

import gymnasium as gym
import numpy as np
import pytest

import mage_envs  # noqa: F401  (registers the ids)
from mage_envs import IllegalAction
from mage_envs.core import State
from mage_envs.games.openspiel.openspiel_game import OpenSpiel
from mage_envs.games.openspiel.position import positions
from mage_envs.spiel.loading import UnsuitableGame
from mage_envs.spiel.wrappers import unwrap
from mage_envs.testing import GARBAGE, check_id, transcript
from tests.opponents.dealing import dealt
from tests.packages import mark_params

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
    "goofspiel(num_cards=3)",
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


ONE_PLAYER = ("blackjack", "2048", "catch")


def play_hand(game: OpenSpiel, seed: int, max_turns: int = 150) -> list[object]:
    """Everything of one hand of random play."""
    rng, hand, facts = np.random.default_rng(seed), dealt(game, seed), game.spec
    turns: list[object] = []
    while (player := hand.state.player) is not None and len(turns) < max_turns:
        state, turn = hand.state, hand.turn(player)
        assert turn.legal_actions == state.legal_actions
        assert len(set(turn.legal_actions)) == len(turn.legal_actions) > 0
        assert bool(turn.history) <= facts.perfect_information
        assert bool(state.chance_events) <= facts.perfect_information
        assert state.returns == (0.0,) * facts.players
        other_seat = (player + 1) % facts.players
        assert other_seat == player or hand.turn(other_seat).legal_actions == ()
        views_before = (turn, state.information_state(other_seat))
        for text in ("no action", "", "\x00" * 300):
            with pytest.raises(IllegalAction):
                hand.play(text)
        action = turn.legal_actions[int(rng.integers(len(turn.legal_actions)))]
        assert state.canonical(f" {action} ") == action
        hand.play(f"{action} ")
        assert state_facts(state.after(action)) == state_facts(hand.state), (
            "a state is a value: the same move, the same chance"
        )
        if len(turns) % 5 == 0:  # a pickle plays all moves again
            assert state_facts(pickle.loads(pickle.dumps(hand.state))) == state_facts(hand.state)
        assert (state.information_state(other_seat), state.observation(player)) == (views_before[1], turn.observation)
        turns.append((turn, action))
    state = hand.state
    if state.player is None:
        assert state.legal_actions == ()
        assert all(facts.min_return <= value <= facts.max_return for value in state.returns)
        ends = [state.observation(player) for player in range(facts.players)]
        assert all("The game is over" in text for text in ends)
        turns.append((state.returns, ends))
    return turns


def state_facts(state: State) -> tuple[object, ...]:
    """Everything that a state says."""
    seats = range(len(state.returns))
    views = [(state.observation(seat), state.information_state(seat)) for seat in seats]
    return state.player, state.legal_actions, state.returns, state.chance_events, views


@pytest.mark.parametrize("text", mark_params(GAMES, step=3))
def test_random_hands_keep_the_contract_and_follow_the_seed(text: str) -> None:
    first_game, second_game = OpenSpiel(text), OpenSpiel(text)
    hands = [play_hand(first_game, seed) for seed in (1, 2)]
    assert hands == [play_hand(second_game, seed) for seed in (1, 2)]
    assert len(first_game.spec.rules) > 40
    assert not re.search(r"\b(he|she|his|her|him|himself)\b", first_game.spec.rules), "players are 'they'"


@pytest.mark.parametrize("text", ["pig", "leduc_poker", "hex(board_size=3)", "goofspiel(num_cards=3)"])
def test_hands_copy_and_pickle_in_the_middle(text: str) -> None:
    """Compare a copy with its original, future chance included."""
    hand = dealt(OpenSpiel(text), 5)
    hand.play(hand.state.legal_actions[0])
    twins = [hand, copy.deepcopy(hand), pickle.loads(pickle.dumps(hand))]
    assert twins[1].state is hand.state, "a value, shared"
    while (player := hand.state.player) is not None:
        for twin in twins:
            assert twin.turn(player) == hand.turn(player)
        action = hand.state.legal_actions[-1]
        for twin in twins:
            twin.play(action)
    assert [state_facts(twin.state) for twin in twins] == [state_facts(hand.state)] * 3


@pytest.mark.parametrize("text", mark_params((text for text in GAMES if text not in ONE_PLAYER), step=4))
@pytest.mark.parametrize("kind", ["v0", "Meta-v0"])
def test_both_ids_keep_the_contract(text: str, kind: str) -> None:
    check_id(f"mage/OpenSpiel-{kind}", game=text, max_turns=4, opponent="uniform")


def test_the_issue_s_example_plays() -> None:
    env = gym.make("mage/OpenSpiel-Meta-v0", game="hex(board_size=4)", opponent="mcts:200")
    observation, _ = env.reset(seed=0)
    assert "Hex." in observation
    assert "a1 | b1" in observation
    expected = transcript(env, 3, 1)
    rebuilt = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))  # type: ignore[union-attr]
    assert transcript(rebuilt, 3, 1) == expected


def test_a_hand_without_a_decision_of_the_learner_is_dealt_again() -> None:
    """In Euchre the partner may play alone. With these seeds the first deal ended before the learner's turn."""
    env = gym.make("mage/OpenSpiel-v0", game="euchre", opponent="uniform")
    texts = {}
    for seed in (0, 20, *range(100, 130)):
        text, info = env.reset(seed=seed)
        assert info["legal_actions"]
        assert info["hand"] == 0
        texts[seed] = text
    assert [env.reset(seed=seed)[0] for seed in texts] == list(texts.values())


@pytest.mark.parametrize("text", GARBAGE)
def test_no_text_but_a_listed_one_is_an_action(text: str) -> None:
    hand = dealt(OpenSpiel("tic_tac_toe"))
    with pytest.raises(IllegalAction):
        hand.play(text)
    assert hand.moves == []


def test_each_chance_event_has_a_number_of_its_own() -> None:
    root = positions("kuhn_poker").root
    assert [root.sample_outcome(draw) for draw in (0.0, 0.34, 0.999)] == [0, 1, 2], "each its share, in order"
    states = [dealt(OpenSpiel("kuhn_poker"), seed).state for seed in range(600)]
    # A hand starts with "Your card: 1."
    deals = [(state.observation(0)[11], state.observation(1)[11]) for state in states]
    assert {deal: deals.count(deal) / 600 for deal in set(deals)} == {
        deal: pytest.approx(1 / 6, abs=0.06) for deal in permutations("012", 2)
    }


def test_chance_events_are_part_of_the_history_where_nothing_is_hidden() -> None:
    hand = dealt(OpenSpiel("pig"), 4, "roll")
    assert hand.moves[0] == "roll"
    assert hand.moves[1].startswith("Roll ")
    assert [*hand.state.chance_events] == hand.moves[1:]


def test_moves_made_at_once_are_hidden_from_each_other() -> None:
    start = dealt(OpenSpiel("matrix_pd")).state
    views_before = start.information_state(1), start.observation(1)
    cooperated, defected = start.after("Cooperate"), start.after("Defect")
    assert cooperated.information_state(1) == defected.information_state(1)
    assert cooperated.observation(1) == defected.observation(1)
    assert views_before[1] != defected.observation(1), "it is their move now"
    assert defected.after("cooperate").returns == (10.0, 0.0)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("mfg_garnet", "a mean-field game has no players"),
        ("negotiation", "draws its chance by itself"),
        ("crossword", "it does not list its legal actions"),
        ("blotto(coins=80,fields=3)", "one decision has 3321 legal actions"),
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
    for twin in (copy.deepcopy(game), pickle.loads(pickle.dumps(game))):
        assert twin.spec == game.spec
        assert dealt(twin, 3, "raise").turn(1) == dealt(game, 3, "raise").turn(1)


def test_equal_texts_are_distinguished() -> None:
    from mage_envs.games.openspiel.generic_texts import Texts

    class Mute(Texts):
        def action(self, state: object, player: int, action: int) -> str:
            return "" if action == 2 else "go"

    import pyspiel

    game = pyspiel.load_game("tic_tac_toe")
    texts = Mute(game, unwrap(game))
    assert texts.unique(None, 0, (0, 1, 2)) == ("go [0]", "go [1]", "[2]")
