"""Oracles for the rules of worded games with cards, dice, bids or payoffs, and for the words of wrappers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from itertools import product

import numpy as np
import pytest

from mage_envs.games.openspiel.catalogue import WORDED, catalogue
from mage_envs.games.openspiel.openspiel_game import OpenSpiel
from mage_envs.games.openspiel.position import positions
from tests.games.openspiel.random_hands import Hand, Returns, check_returns, compare_numbers, numbers, play
from tests.packages import mark_params


def kuhn(hand: Hand) -> Returns:
    cards = [numbers(view)[0] for view in hand.first_views]
    paid, folded, bet = [1.0] * len(cards), set(), False
    for player, action in hand.moves:
        if action == "Bet":
            paid[player], bet = 2.0, True
        elif bet:
            folded.add(player)
    winner = max((card, player) for player, card in enumerate(cards) if player not in folded)[1]
    return tuple(sum(paid) - paid[player] if player == winner else -paid[player] for player in range(len(cards)))


def goofspiel(hand: Hand) -> Returns:
    view = hand.views[0]
    cards = numbers(view.splitlines()[0])
    bids = [[int(action.split()[1]) for player, action in hand.moves if player == seat] for seat in (0, 1)]
    # The last cards are played by themselves.
    bids = [[*bid_row, 15 - sum(bid_row)] for bid_row in bids]
    points = [0, 0]
    for card, first_bid, second_bid in zip(cards, *bids, strict=True):
        if first_bid != second_bid:
            points[int(second_bid > first_bid)] += card
    assert points == numbers(re.search(r"Points: .*", view).group())  # type: ignore[union-attr]
    return compare_numbers(*points)


def oshi_zumo(hand: Hand) -> Returns:
    field = re.search(r"[#.W]{5,}", hand.views[0]).group()  # type: ignore[union-attr]
    return compare_numbers(field.index("W"), len(field) // 2)


def blotto(hand: Hand) -> Returns:
    first_fields, second_fields = (numbers(action) for _, action in hand.moves)
    assert sum(first_fields) == sum(second_fields) == 10
    fields = [np.sign(a - b) for a, b in zip(first_fields, second_fields, strict=True)]
    return compare_numbers(sum(fields), 0)


def auction(hand: Hand) -> Returns:
    values = [numbers(view)[0] for view in hand.first_views]
    bids = [numbers(action)[0] for _, action in hand.moves]
    winners = [player for player in (0, 1) if bids[player] == max(bids)]
    options = [tuple(float(values[p] - bids[p]) if p == winner else 0.0 for p in (0, 1)) for winner in winners]
    assert hand.state.returns in options
    return hand.state.returns


def lewis(hand: Hand) -> Returns:
    state, guess = numbers(hand.first_views[0])[0], numbers(hand.moves[1][1])[0]
    return (1.0, 1.0) if state == guess else (0.0, 0.0)


def trade(hand: Hand) -> Returns:
    items = [numbers(view)[0] for view in hand.first_views]
    trades = [tuple(numbers(action)) for _, action in hand.moves[2:]]
    return (1.0, 1.0) if trades == [tuple(items), tuple(items[::-1])] else (0.0, 0.0)


def sheriff(hand: Hand) -> Returns:
    items, bribe = numbers(hand.moves[0][1])[0], numbers(hand.moves[-2][1])[0]
    if hand.moves[-1][1] == "do not inspect":
        return (float(items - bribe), float(bribe))
    return (-2.0 * items, 2.0 * items) if items else (3.0, -3.0)


def battleship(hand: Hand) -> Returns:
    sunk = []
    for view in hand.views:
        own_ships = Counter(view.partition("Your shots")[0].partition("Your ships:")[2])
        # The ships a and b have 1 and 2 cells and are worth 1 and 2 points.
        sunk.append((1 if own_ships["A"] == 1 else 0) + (2 if own_ships["B"] == 2 else 0))
    return (float(sunk[1] - sunk[0]), float(sunk[0] - sunk[1]))


def total(cards: list[str]) -> int:
    ranks = [card[1] for card in cards]
    points = sum(1 if rank == "A" else 10 if rank in "TJQK" else int(rank) for rank in ranks)
    return points + 10 if "A" in ranks and points + 10 <= 21 else points


def blackjack(hand: Hand) -> Returns:
    own_total, dealer = (total(row.partition(": ")[2].split()) for row in hand.views[0].splitlines()[:2])
    if own_total > 21:
        return (-1.0,)
    if dealer > 21:
        return (1.0,)
    assert dealer >= 17
    return (float(np.sign(own_total - dealer)),)


def yacht(hand: Hand) -> Returns:
    scores = [numbers(" ".join(re.findall(r": \d+", part)[-12:])) for part in hand.views[0].split("\n\n")[1:]]
    assert [len(player_scores) for player_scores in scores] == [12, 12]
    return compare_numbers(sum(scores[0]), sum(scores[1]))


def coin_game(hand: Hand) -> Returns:
    colors = [view.splitlines()[0][-1] for view in hand.views]
    table = [numbers(row.partition(" ")[2]) for row in hand.views[0].splitlines()[2:4]]
    counts = dict(zip("abc", (sum(column) for column in zip(*table, strict=True)), strict=True))
    [other_color] = {*"abc"} - {*colors}
    mine, theirs, bad = counts[colors[0]], counts[colors[1]], counts[other_color]
    return (float(mine**2 + theirs**2 - bad**2),) * 2


def hearts(hand: Hand) -> Returns:
    tricks = hand.views[0].partition("Tricks:\n")[2].partition("\n\n")[0].splitlines()[1:]
    penalties, seats = [0] * 4, [seat % 4 for seat in range(7)]
    for row in tricks:
        cards = [(seats[at // 3], row[at : at + 2]) for at in range(0, len(row) - 1, 3) if row[at : at + 2].strip()]
        suit = cards[0][1][1]
        taker = max((pair for pair in cards if pair[1][1] == suit), key=lambda pair: "23456789TJQKA".index(pair[1][0]))[
            0
        ]
        penalties[taker] += sum(1 if card[1] == "H" else 13 if card == "QS" else 0 for _, card in cards)
    assert sum(penalties) == 26
    if max(penalties) == 26:
        penalties = [26 - player_penalty for player_penalty in penalties]
    return tuple(26.0 - player_penalty for player_penalty in penalties)


def catch(hand: Hand) -> Returns:
    bottom = hand.views[0].splitlines()[9]
    # One mark covers the other if both are in the same column.
    return (-1.0 if {"o", "x"} <= {*bottom} else 1.0,)


def cliff(hand: Hand) -> Returns:
    steps = len(hand.moves)
    row = hand.views[0].splitlines()[3]
    fell = "P" in row[1:7]
    return (-100.0 - (steps - 1),) if fell else (-float(steps),)


ORACLES: Mapping[str, Callable[[Hand], Returns]] = {
    "kuhn_poker": kuhn,
    "kuhn_poker(players=3)": kuhn,
    "goofspiel(num_cards=5)": goofspiel,
    "oshi_zumo(coins=12)": oshi_zumo,
    "blotto": blotto,
    "first_sealed_auction": auction,
    "lewis_signaling": lewis,
    "trade_comm(num_items=2)": trade,
    "sheriff": sheriff,
    "battleship(board_width=3,board_height=3,ship_sizes=[1;2],ship_values=[1;2],num_shots=6)": battleship,
    "blackjack": blackjack,
    "yacht": yacht,
    "coin_game": coin_game,
    "hearts": hearts,
    "catch": catch,
    "cliff_walking": cliff,
}
"""Game string to the function that computes the returns by the rules of the text."""


@pytest.mark.parametrize("game", mark_params(ORACLES, step=2))
def test_the_rules_pay_what_openspiel_pays(game: str) -> None:
    check_returns(game, ORACLES[game])


ONE_SHOT = [
    name for name, (kind, _) in catalogue().items() if kind == WORDED and name.startswith(("matrix_", "matching_"))
]


@pytest.mark.parametrize("name", ONE_SHOT)
def test_the_listed_payoffs_are_those_of_every_hand(name: str) -> None:
    game = OpenSpiel(name)
    rows = re.findall(r"^(.+): (-?[\d.]+(?:, -?[\d.]+)+)$", game.spec.rules, re.MULTILINE)
    table = {tuple(choices.split(", ")): tuple(map(float, points.split(", "))) for choices, points in rows}
    start = game.initial_state(np.random.default_rng(0))
    hands = [(start, ())]
    while hands:
        state, choices = hands.pop()
        if state.player is not None:
            hands += [(state.after(action), (*choices, action)) for action in state.legal_actions]
            continue
        assert table.pop(choices) == state.returns
        for seat in range(game.spec.players):
            assert f"You chose {choices[seat]}" in state.observation(seat)
            for other_choice in {*choices[:seat], *choices[seat + 1 :]}:
                assert f" chose {other_choice}" in state.observation(seat)
    assert table == {}


@pytest.mark.parametrize("seed", range(8))
def test_wrappers_change_the_returns_as_their_words_say(seed: int) -> None:
    plain = play("matrix_pd", seed)
    same = play("misere(game=matrix_pd())", seed)
    assert same.moves == plain.moves
    assert same.state.returns == tuple(-value for value in plain.state.returns)
    shifted = play("zerosum(game=matrix_pd())", seed).state.returns
    mean = sum(plain.state.returns) / 2
    assert shifted == tuple(value - mean for value in plain.state.returns)
    assert play("turn_based_simultaneous_game(game=matrix_pd())", seed).state.returns == plain.state.returns
    assert play("cached_tree(game=kuhn_poker())", seed).state.returns == play("kuhn_poker", seed).state.returns
    rounds = play("repeated_game(stage_game=matrix_pd(),num_repetitions=3)", seed)
    stage = {("C", "C"): (5, 5), ("C", "D"): (0, 10), ("D", "C"): (10, 0), ("D", "D"): (1, 1)}
    letters = [action[0] for _, action in rounds.moves]
    results = [
        stage[first_letter, second_letter]
        for first_letter, second_letter in zip(letters[::2], letters[1::2], strict=True)
    ]
    assert rounds.state.returns == tuple(map(sum, zip(*results, strict=True)))


def test_a_started_game_names_its_first_moves() -> None:
    rules = OpenSpiel("start_at(game=tic_tac_toe(),history=0;4)").spec.rules
    assert "These moves have already been made: x(0,0), o(1,1). Tic Tac Toe." in rules
    hidden = OpenSpiel("start_at(game=kuhn_poker(),history=0;1;0)").spec.rules
    assert "3 actions and chance events have already happened. Kuhn Poker." in hidden


def test_the_points_of_tiny_hanabi_are_those_of_its_rules() -> None:
    rules, root = OpenSpiel("tiny_hanabi").spec.rules, positions("tiny_hanabi").root
    for cards in product((0, 1), repeat=2):
        rows = []
        for first_action in range(3):
            points = []
            for second_action in range(3):
                state = root.state.clone()
                for action in (*cards, first_action, second_action):
                    state.apply_action(action)
                points.append(f"{state.returns()[0]:g}")
            rows.append(f"a{first_action}: {', '.join(points)}")
        assert f"ith the cards {cards[0]} and {cards[1]}, {'; '.join(rows)}." in rules


def test_hanabi_counts_the_cards_on_the_fireworks() -> None:
    """Random play loses all lives, so each player plays what fits and discards otherwise."""
    state = OpenSpiel("hanabi").initial_state(np.random.default_rng(0))
    while state.player is not None:
        partner_view = state.observation(1 - state.player)
        heights = dict(re.findall(r"([RYGWB])(\d)", partner_view.partition("Fireworks:")[2].splitlines()[0]))
        cards = re.findall(r"^([RYGWB])(\d) ", partner_view.partition("-----")[2], re.MULTILINE)
        fits = [i for i, (color, rank) in enumerate(cards) if int(rank) == int(heights[color]) + 1]
        wishes = [f"(Play {i})" for i in fits] + ["(Discard 0)"]
        state = state.after(next((wish for wish in wishes if wish in state.legal_actions), state.legal_actions[-1]))
    fireworks = numbers(state.observation(0).partition("Fireworks:")[2].splitlines()[0])
    assert state.returns == (float(sum(fireworks)),) * 2
    assert sum(fireworks) >= 10
