from itertools import product

import numpy as np
import pytest

from mage_envs import IllegalAction, make_game, play_match
from mage_envs.games.kuhn_poker import DEALS, KuhnPoker
from mage_envs.games.tictactoe import ACTIONS, LINES, TicTacToe, root

RNG = np.random.default_rng(0)


def nodes(start):
    seen, todo = {id(start): start}, [start]
    while todo:
        for child in todo.pop().children.values():
            if id(child) not in seen:
                seen[id(child)] = child
                todo.append(child)
    return list(seen.values())


def test_tictactoe_has_the_known_positions_and_results():
    every = nodes(root())
    assert len(every) == 5478
    ends = [node for node in every if node.player is None]
    counts = {r: sum(n.returns == r for n in ends) for r in ((1.0, -1.0), (0.0, 0.0), (-1.0, 1.0))}
    assert counts == {(1.0, -1.0): 626, (0.0, 0.0): 16, (-1.0, 1.0): 316}


def test_tictactoe_has_the_known_number_of_games():
    totals = {}

    def games(node):
        if id(node) not in totals:
            totals[id(node)] = sum(map(games, node.children.values())) if node.children else 1
        return totals[id(node)]

    assert games(root()) == 255168


def test_tictactoe_actions_are_rows_and_columns_from_one():
    game = TicTacToe()
    game.reset(RNG)
    game.apply("(1, 3)")
    assert game.observe(0) == "..X\n...\n...\nYou are X. The opponent is to move."
    game.apply("3 1")
    assert game.observe(0).startswith("..X\n...\nO..\n")
    assert game.history() == ("(1, 3)", "(3, 1)")


@pytest.mark.parametrize("text", ["", "(0, 1)", "(1, 3)", "(4, 1)", "1", "(1, 1, 1)", "centre", "(1; 2)"])
def test_tictactoe_illegal_actions_leave_the_state(text):
    game = TicTacToe()
    game.reset(RNG)
    game.apply("(1, 3)")
    before = (game.node, game.history())
    with pytest.raises(IllegalAction, match=r"is not legal; choose one of: \(1, 1\), \(1, 2\), \(2, 1\)"):
        game.apply(text)
    assert (game.node, game.history()) == before


@pytest.mark.parametrize("line", LINES)
def test_tictactoe_every_line_wins(line):
    game = TicTacToe()
    game.reset(RNG)
    others = [cell for cell in range(9) if cell not in line]
    while any(set(other) <= set(others[:2]) for other in LINES):
        others = others[1:]
    for mine, theirs in zip(line, others, strict=False):
        game.apply(ACTIONS[mine])
        if game.current_player() is not None:
            game.apply(ACTIONS[theirs])
    assert game.returns() == (1.0, -1.0)
    assert "you won" in game.observe(0)
    assert "you lost" in game.observe(1)


KUHN = {"cc": 1, "cbf": None, "cbk": 2, "bf": None, "bk": 2}


@pytest.mark.parametrize(("deal", "line"), list(product(range(6), KUHN)))
def test_kuhn_pays_by_the_rules(deal, line):
    game = KuhnPoker()
    game.start(game.roots()[deal][1])
    words = {"c": "check", "b": "bet", "f": "fold", "k": "call"}
    for letter in line:
        game.apply(words[letter])
    assert game.current_player() is None
    folder = None if not line.endswith("f") else (len(line) - 1) % 2
    if folder is not None:
        expected = (1.0, -1.0) if folder == 1 else (-1.0, 1.0)
    else:
        won = DEALS[deal][0] > DEALS[deal][1]
        expected = (KUHN[line], -KUHN[line]) if won else (-KUHN[line], KUHN[line])
    assert game.returns() == expected
    shown = ["The opponent had" in game.observe(player) for player in (0, 1)]
    assert shown == [folder is None] * 2


def test_kuhn_reveals_a_folded_card_on_request_only():
    for reveal, shown in (("showdown", False), ("always", True)):
        game = KuhnPoker(reveal=reveal)
        game.start(game.roots()[0][1])
        game.apply("bet")
        game.apply("fold")
        assert ("The opponent had Q" in game.observe(0)) is shown
    with pytest.raises(ValueError, match="choose 'showdown' or 'always'"):
        KuhnPoker(reveal="never")


@pytest.mark.parametrize("text", ["PASS", "pass", " Pass\n", "check", "CHECK"])
def test_kuhn_accepts_the_old_words(text):
    game = KuhnPoker()
    game.reset(RNG)
    game.apply(text)
    assert game.observe(0).endswith("You check.")
    game.apply("BET")
    game.apply("BET")
    assert game.returns() in {(2.0, -2.0), (-2.0, 2.0)}


def test_kuhn_players_see_their_own_card_alone():
    game = KuhnPoker()
    for _, node in game.roots():
        game.start(node)
        texts = [game.observe(player) for player in (0, 1)]
        assert texts[0].startswith(f"Your card: {node.keys[0][0]}. You act first.")
        assert texts[1].startswith(f"Your card: {node.keys[1][0]}. You act second.")
        assert node.keys[1][0] not in texts[0].split("Your card: ")[1][:1]


def test_kuhn_deals_are_uniform():
    game = KuhnPoker()
    rng = np.random.default_rng(1)
    counts = np.zeros(6)
    for _ in range(6000):
        game.reset(rng)
        counts[[node for _, node in game.roots()].index(game.node)] += 1
    assert abs(counts - 1000).max() < 130  # 4 standard deviations


def test_information_states_tell_apart_exactly_what_a_player_knows():
    game = KuhnPoker()
    every = [node for _, start in game.roots() for node in nodes(start) if node.player is not None]
    assert len({node.keys[node.player] for node in every}) == 12
    for first, second in product(every, every):
        same = first.observations[first.player] == second.observations[second.player]
        assert same == (first.keys[first.player] == second.keys[second.player] and first.player == second.player)


def test_play_match_counts_returns_per_seat():
    from opponents import make_opponent

    game = make_game("KuhnPoker")
    nash, uniform = make_opponent("kuhn/nash", game), make_opponent("uniform", game)
    result = play_match(game, [nash, uniform], np.random.default_rng(0), hands=4000)
    assert result.returns.shape == (4000, 2)
    assert np.all(result.returns.sum(axis=1) == 0)
    assert result.mean[0] > 2 * result.standard_error[0]
    again = play_match(game, [nash, uniform], np.random.default_rng(0), hands=4000)
    assert np.array_equal(result.returns, again.returns)
    with pytest.raises(ValueError, match="2 seats, but 1 policies"):
        play_match(game, [nash], np.random.default_rng(0))
