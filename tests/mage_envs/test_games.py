import copy
import pickle
from itertools import product

import numpy as np
import pytest

from mage_envs import IllegalAction, make_game, play_match
from mage_envs.games.kuhn_poker import DEALS, KuhnPoker
from mage_envs.games.tictactoe import ACTIONS, LINES, TicTacToe, board

RNG = np.random.default_rng(0)
EMPTY = "." * 9


def children(state):
    return [state.after(action) for action in state.legal_actions]


def states(start):
    reached, todo = {start}, [start]
    while todo:
        for child in children(todo.pop()):
            if child not in reached:
                reached.add(child)
                todo.append(child)
    return list(reached)


def after(state, *actions):
    for action in actions:
        state = state.after(action)
    return state


def test_tictactoe_has_the_known_positions_and_results():
    all_states = states(board(EMPTY))
    assert len(all_states) == 5478
    ends = [node for node in all_states if node.player is None]
    counts = {r: sum(n.returns == r for n in ends) for r in ((1.0, -1.0), (0.0, 0.0), (-1.0, 1.0))}
    assert counts == {(1.0, -1.0): 626, (0.0, 0.0): 16, (-1.0, 1.0): 316}


def test_tictactoe_has_the_known_number_of_games():
    totals = {}

    def games(node):
        if id(node) not in totals:
            totals[id(node)] = sum(map(games, children(node))) if node.legal_actions else 1
        return totals[id(node)]

    assert games(board(EMPTY)) == 255168


def test_tictactoe_actions_are_rows_and_columns_from_one():
    start = TicTacToe().initial_state(RNG)
    state = start.after("(1, 3)")
    assert state.observation(0) == "..X\n...\n...\nYou are X. The opponent is to move."
    assert state.after("3 1").observation(0).startswith("..X\n...\nO..\n")
    assert state.canonical("3 1") == "(3, 1)"
    assert start.observation(0).startswith("...\n")


@pytest.mark.parametrize("text", ["", "(0, 1)", "(1, 3)", "(4, 1)", "1", "(1, 1, 1)", "centre", "(1; 2)"])
def test_tictactoe_illegal_actions_are_refused(text):
    state = TicTacToe().initial_state(RNG).after("(1, 3)")
    with pytest.raises(IllegalAction, match=r"is not legal; choose one of: \(1, 1\), \(1, 2\), \(2, 1\)"):
        state.after(text)


@pytest.mark.parametrize("line", LINES)
def test_tictactoe_every_line_wins(line):
    state = TicTacToe().initial_state(RNG)
    others = [cell for cell in range(9) if cell not in line]
    while any(set(other_line) <= set(others[:2]) for other_line in LINES):
        others = others[1:]
    for mine, theirs in zip(line, others, strict=False):
        state = state.after(ACTIONS[mine])
        if state.player is not None:
            state = state.after(ACTIONS[theirs])
    assert state.returns == (1.0, -1.0)
    assert "you won" in state.observation(0)
    assert "you lost" in state.observation(1)


KUHN = {"cc": 1, "cbf": None, "cbk": 2, "bf": None, "bk": 2}


WORDS = {"c": "check", "b": "bet", "f": "fold", "k": "call"}


@pytest.mark.parametrize(("deal", "line"), list(product(range(6), KUHN)))
def test_kuhn_pays_by_the_rules(deal, line):
    state = after(KuhnPoker().initial_states()[deal][1], *(WORDS[letter] for letter in line))
    assert state.player is None
    folder = None if not line.endswith("f") else (len(line) - 1) % 2
    if folder is not None:
        expected = (1.0, -1.0) if folder == 1 else (-1.0, 1.0)
    else:
        won = DEALS[deal][0] > DEALS[deal][1]
        expected = (KUHN[line], -KUHN[line]) if won else (-KUHN[line], KUHN[line])
    assert state.returns == expected
    opponent_shown = ["The opponent had" in state.observation(seat) for seat in (0, 1)]
    assert opponent_shown == ["|" in state.information_state(seat) for seat in (0, 1)] == [folder is None] * 2


def test_kuhn_reveals_a_folded_card_on_request_only():
    for reveal, card_shown in (("showdown", False), ("always", True)):
        state = after(KuhnPoker(reveal=reveal).initial_states()[0][1], "bet", "fold")
        assert ("The opponent had Q" in state.observation(0)) is card_shown
        assert state.information_state(0) == ("Jbp|Q" if card_shown else "Jbp")
    with pytest.raises(ValueError, match="choose one of: 'showdown', 'always'"):
        KuhnPoker(reveal="never")


@pytest.mark.parametrize("text", ["PASS", "pass", " Pass\n", "check", "CHECK"])
def test_kuhn_accepts_the_old_words(text):
    state = KuhnPoker().initial_state(RNG).after(text)
    assert state.observation(0).endswith("You check.")
    assert after(state, "BET", "BET").returns in {(2.0, -2.0), (-2.0, 2.0)}


def test_kuhn_players_see_their_own_card_alone():
    for _, state in KuhnPoker().initial_states():
        cards = [state.information_state(seat)[0] for seat in (0, 1)]
        assert state.observation(0) == f"Your card: {cards[0]}. You act first. No action yet."
        assert state.observation(1) == f"Your card: {cards[1]}. You act second. No action yet."


def test_kuhn_deals_are_uniform():
    game = KuhnPoker()
    rng = np.random.default_rng(1)
    counts = np.zeros(6)
    for _ in range(6000):
        counts[DEALS.index(game.initial_state(rng).deal)] += 1
    assert abs(counts - 1000).max() < 130  # 4 standard deviations


def test_information_states_tell_apart_exactly_what_a_player_knows():
    all_states = [s for _, start in KuhnPoker().initial_states() for s in states(start) if s.player is not None]
    assert len({state.information_state(state.player) for state in all_states}) == 12
    for first_state, second_state in product(all_states, all_states):
        same = first_state.observation(first_state.player) == second_state.observation(second_state.player)
        keys = [state.information_state(state.player) for state in (first_state, second_state)]
        assert same == (keys[0] == keys[1] and first_state.player == second_state.player)


@pytest.mark.parametrize("game", [TicTacToe(), KuhnPoker(), KuhnPoker(reveal="always")])
def test_shared_states_stay_shared_through_copies_and_pickles(game):
    for _, start in game.initial_states():
        for state in states(start)[:200]:
            assert copy.copy(state) is copy.deepcopy(state) is pickle.loads(pickle.dumps(state)) is state


def test_play_match_counts_returns_per_seat():
    from mage_envs.opponents import make_opponent

    game = make_game("KuhnPoker")
    nash, uniform = make_opponent("kuhn/nash", game), make_opponent("uniform", game)
    result = play_match(game, [nash, uniform], np.random.default_rng(0), hands=4000)
    assert result.returns.shape == (4000, 2)
    assert np.all(result.returns.sum(axis=1) == 0)
    assert result.mean[0] > 2 * result.standard_error[0]
    second_result = play_match(game, [nash, uniform], np.random.default_rng(0), hands=4000)
    assert np.array_equal(result.returns, second_result.returns)
    with pytest.raises(ValueError, match="2 seats, got 1 policies"):
        play_match(game, [nash], np.random.default_rng(0))
