"""Tournaments: exact values, pairing of deals, rankings, reports."""

from __future__ import annotations

import csv
import json
import sys

import numpy as np
import pytest

from mage_envs.benchmarks.tournaments import report
from mage_envs.benchmarks.tournaments.pairing import Pairing, PairingFailure, PairingRun
from mage_envs.benchmarks.tournaments.results import interval, score
from mage_envs.benchmarks.tournaments.schedule import play_all
from mage_envs.benchmarks.tournaments.tournament_settings import Settings
from mage_envs.cli.program import main
from mage_envs.core import Turn
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.opponents import make_opponent
from tests.benchmarks.tournament_policies import HERE, KUHN, Witness, outcome_of


def value_by_hand(first_name, second_name):
    """The first seat's mean return over the six deals, of two deterministic policies."""
    policies = [make_opponent(name, KuhnPoker()) for name in (first_name, second_name)]
    total = 0.0
    for probability, state in KuhnPoker().initial_states():
        for policy in policies:
            policy.reset(np.random.default_rng(0))
        while (player := state.player) is not None:
            turn_values = (player, state.observation(player), state.legal_actions, state.information_state(player))
            state = state.after(policies[player].act(Turn(*turn_values)))
        total += probability * state.returns[0]
    return total


# -- values ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kuhn():
    settings = Settings("KuhnPoker", KUHN, games=1000)
    return score(settings, play_all(settings))


def test_exact_values_are_known_and_recovered_by_play(kuhn):
    assert kuhn.cells["kuhn/nash", "kuhn/nash", "first"].exact == pytest.approx(-1 / 18, abs=1e-12)
    assert kuhn.cells["kuhn/nash", "kuhn/nash", "both"].exact == pytest.approx(0, abs=1e-12)
    pair = ("kuhn/conservative", "kuhn/aggressive")
    first_value, second_value = value_by_hand(*pair), -value_by_hand(*reversed(pair))
    assert kuhn.cells[*pair, "first"].exact == pytest.approx(first_value, abs=1e-12)
    assert kuhn.cells[*pair, "second"].exact == pytest.approx(second_value, abs=1e-12)
    assert kuhn.cells[*pair, "both"].exact == pytest.approx((first_value + second_value) / 2, abs=1e-12)
    for names in (("kuhn/nash", "kuhn/nash", "first"), (*pair, "first"), (*pair, "both")):
        assert kuhn.cells[names].agrees, names
    inside, num_known = kuhn.agreement()
    assert num_known == 6 * 2 + 4
    assert inside >= num_known - 2


def test_the_matrix_mirrors_itself_in_a_zero_sum_game(kuhn):
    for row in KUHN:
        for column in KUHN:
            forward, backward = kuhn.cells[row, column, "first"], kuhn.cells[column, row, "second"]
            assert forward.played.mean == pytest.approx(-backward.played.mean)
            assert forward.exact == pytest.approx(-backward.exact)
        own_cell = kuhn.cells[row, row, "both"].played
        assert (own_cell.mean, own_cell.low, own_cell.high) == (0, 0, 0)


def test_swapping_the_seats_of_the_same_deals_narrows_the_interval(kuhn):
    cells = [kuhn.cells["kuhn/conservative", "kuhn/aggressive", seat].played for seat in ("both", "first", "second")]
    both_width, first_width, second_width = (cell.high - cell.low for cell in cells)
    assert both_width < 0.8 * np.hypot(first_width, second_width) / 2


def test_the_ranking_is_of_exact_values(kuhn):
    assert [standing.policy for standing in kuhn.standings][-1] == "uniform"
    best = kuhn.standings[0]
    others = [kuhn.cells[best.policy, name, "both"].exact for name in KUHN if name != best.policy]
    assert best.exact
    assert best.payoff.mean == pytest.approx(np.mean(others))
    assert best.wins + best.draws + best.losses == pytest.approx(1)


def test_search_has_no_exact_value_and_beats_uniform():
    results = outcome_of(Settings("TicTacToe", ("mcts:50", "uniform"), games=40))
    cell = results.cells["mcts:50", "uniform", "both"]
    assert cell.exact is None
    assert cell.played.low > 0.5
    assert results.cells["uniform", "uniform", "first"].exact is not None
    assert results.standings[0].policy == "mcts:50"
    assert not results.standings[0].exact
    assert results.standings[0].payoff == cell.played
    always = outcome_of(Settings("TicTacToe", ("mcts:200", "first"), games=4)).standings[0].payoff
    assert (always.mean, always.high) == (1, 1)
    assert always.low < 0


def test_exact_values_can_be_left_out():
    results = outcome_of(Settings("KuhnPoker", ("kuhn/nash", "uniform"), games=4, exact=False))
    assert {cell.exact for cell in results.cells.values()} == {None}


def test_any_game_of_openspiel():
    options = {"game": "nim(pile_sizes=1;2;3)"}
    results = outcome_of(Settings("OpenSpiel", ("first", "mcts:20", "uniform"), games=20, game_kwargs=options))
    assert results.standings[0].policy == "mcts:20"


def test_intervals_where_all_deals_paid_the_same():
    values = np.ones(100)
    win_interval = interval(values, (-1, 1))
    assert win_interval.high == 1
    assert win_interval.low == pytest.approx(1 - 2 * 3.8415 / 103.8415, abs=1e-4)
    draw_interval = interval(0 * values, (-1, 1))
    assert draw_interval.high == -draw_interval.low == pytest.approx(3.8415 / 103.8415, abs=1e-4)
    assert interval(values[:1], (-1, 1)).low is None
    mixed = interval(np.array([1.0, 0.0, 1.0, 0.0]), (-1, 1))
    assert mixed.mean == 0.5
    assert mixed.high - mixed.mean == pytest.approx(3.182446 * np.std([1, 0, 1, 0], ddof=1) / 2)


# -- rankings --------------------------------------------------------------------------------------------------


def score_payoffs(names, payoffs, deals=50):
    """Outcomes in which the row always earns `payoffs[i][j]` against the column."""
    settings = Settings("TicTacToe", names, games=2 * deals)
    outcomes = {}
    for a, b in settings.pairings():
        value = payoffs[names.index(a)][names.index(b)]
        outcomes[a, b] = Pairing((a, b), np.tile([value, -value], (deals, 2, 1)).astype(float))
    return score(settings, outcomes)


def test_alpha_rank_of_a_cycle_and_of_dominance():
    pytest.importorskip("networkx")
    names = ("first", "last", "uniform")
    cycle = score_payoffs(names, [[0, 1, -1], [-1, 0, 1], [1, -1, 0]])
    assert [s.alpha_rank for s in cycle.standings] == pytest.approx([1 / 3] * 3)
    dominance = score_payoffs(names, [[0, 1, 1], [-1, 0, 1], [-1, -1, 0]])
    assert [s.policy for s in dominance.standings] == list(names)
    assert dominance.standings[0].alpha_rank > 0.99
    draws = score_payoffs(names, np.zeros((3, 3)).tolist())
    assert [s.alpha_rank for s in draws.standings] == pytest.approx([1 / 3] * 3)


def test_alpha_rank_counts_an_insignificant_difference_as_a_tie():
    pytest.importorskip("networkx")
    settings = Settings("TicTacToe", ("first", "last"), games=20)
    even = Pairing(("first", "first"), np.zeros((10, 2, 2)))
    returns = np.zeros((10, 2, 2))
    returns[0, 0] = 1, -1
    outcomes = {
        ("first", "first"): even,
        ("first", "last"): Pairing(("first", "last"), returns),
        ("last", "last"): even,
    }
    assert [s.alpha_rank for s in score(settings, outcomes).standings] == pytest.approx([0.5, 0.5])


def test_ratings_are_elo():
    pytest.importorskip("choix")
    settings = Settings("TicTacToe", ("first", "last"), games=200)
    returns = np.zeros((100, 2, 2))
    returns[:75, :] = 1, -1
    returns[75:, :] = -1, 1
    outcomes = {names: Pairing(names, returns) for names in settings.pairings()}
    best, worst = score(settings, outcomes).standings
    assert (best.wins, best.losses) == (0.75, 0.25)
    assert best.rating + worst.rating == pytest.approx(3000)
    assert best.rating - worst.rating == pytest.approx(400 * np.log10(150.5 / 50.5), abs=0.1)


def test_missing_libraries_are_noted_and_nothing_else_is_lost(monkeypatch):
    monkeypatch.setitem(sys.modules, "choix", None)
    results = outcome_of(Settings("KuhnPoker", ("kuhn/nash", "uniform"), games=4))
    assert [s.rating for s in results.standings] == [None, None]
    assert "Ratings need choix" in report.text(results)
    assert 'pip install "mage-envs[tournament]"' in report.text(results)


# -- play ------------------------------------------------------------------------------------------------------


def play_pairing(settings: Settings, names: tuple[str, str]) -> Pairing | PairingFailure:
    """Play one pairing to its end."""
    run = PairingRun(settings, names)
    while (outcome := run.go_on()) is None:
        pass
    return outcome


def test_deals_are_the_same_from_both_seats_and_in_all_pairings():
    names = tuple(sorted((f"{HERE}:Witness", f"{HERE}:OtherWitness")))
    cards = []
    for pair in (names, (names[0], names[0])):
        Witness.LOG.clear()
        play_pairing(Settings("KuhnPoker", names, games=20), pair)
        hands = " ".join(f"{e[1]}{e[3][0]}" if e[0] == "act" else "|" for e in Witness.LOG if e[0] in ("act", "begin"))
        cards.append([tuple(dict.fromkeys(hand.split())) for hand in hands.split("| |") if hand.strip()])
    assert len(cards[0]) == 20
    assert cards[0][0::2] == cards[0][1::2]
    assert cards[0] == cards[1]
    assert len(set(cards[0])) > 2
    draws = [entry[1] for entry in Witness.LOG if entry[0] == "reset"]
    assert len(set(draws)) == len(draws)


def test_a_match_is_a_meta_episode():
    Witness.LOG.clear()
    name = f"{HERE}:Witness"
    play_pairing(Settings("KuhnPoker", (name, "uniform"), games=2, episodes=3), (name, "uniform"))
    kinds = [entry[0] for entry in Witness.LOG]
    assert [kinds.count(kind) for kind in ("begin", "reset", "result")] == [2, 6, 6]
    assert [entry[1:] for entry in Witness.LOG if entry[0] == "result"] == [(s, e) for s in (0, 1) for e in (0, 1, 2)]


def test_what_changes_with_the_episode_has_its_mean_as_exact_value():
    switch = "switch:kuhn/conservative,kuhn/aggressive,1"
    outcome = outcome_of(Settings("KuhnPoker", (switch, "uniform"), games=2, episodes=2))
    plain = outcome_of(Settings("KuhnPoker", ("kuhn/conservative", "kuhn/aggressive", "uniform"), games=2))
    parts = [plain.cells[name, "uniform", "first"].exact for name in ("kuhn/conservative", "kuhn/aggressive")]
    assert outcome.cells[switch, "uniform", "first"].exact == pytest.approx(np.mean(parts))


def test_a_policy_that_learns_has_no_exact_value_and_profits_from_longer_matches():
    names = ("counting", "kuhn/maniac")
    short, long = (outcome_of(Settings("KuhnPoker", names, games=60, episodes=k)) for k in (1, 12))
    assert short.cells[*names, "both"].exact is None
    assert long.cells[*names, "both"].played.mean > short.cells[*names, "both"].played.mean


# -- reports and the command ---------------------------------------------------------------------------------------


def test_files(tmp_path, kuhn):
    paths = report.save(tmp_path, kuhn)
    assert [path.name for path in paths] == ["tournament.json", "payoffs.csv", "ranking.csv", "payoffs.png"]
    assert (tmp_path / "payoffs.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    with (tmp_path / "payoffs.csv").open() as file:
        rows = {(row["row"], row["column"], row["seat"]): row for row in csv.DictReader(file)}
    assert len(rows) == 4 * 4 * 3
    assert float(rows["kuhn/nash", "kuhn/nash", "first"]["exact"]) == pytest.approx(-1 / 18)
    data = json.loads((tmp_path / "tournament.json").read_text())
    assert data["settings"]["policies"] == list(KUHN)
    assert [entry["policy"] for entry in data["ranking"]] == [s.policy for s in kuhn.standings]
    with (tmp_path / "ranking.csv").open() as file:
        assert [row["policy"] for row in csv.DictReader(file)] == [s.policy for s in kuhn.standings]
    assert not list(tmp_path.glob("*.partial"))


def test_the_text(kuhn):
    lines = report.text(kuhn).splitlines()
    assert lines[0] == "KuhnPoker: 4 policies, 1000 matches per pairing, each deal from both seats, seed 0"
    assert max(map(len, lines)) <= 110
    assert any(line.startswith("1 kuhn/aggressive") and "0.458*" in line for line in lines)


def test_an_unknown_policy_runs_nothing(tmp_path, capfd):
    assert main(["tournament", "KuhnPoker", "--opponents", "uniform,kuhn/nsh", "--out", str(tmp_path / "x")]) == 2
    assert "Did you mean 'kuhn/nash'?" in capfd.readouterr().err
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Kuhnpoker", "--opponents", "uniform,cfr"], "Unknown game 'Kuhnpoker'. Did you mean 'KuhnPoker'?"),
        (["Sokoban", "--opponents", "uniform,first"], "requires a two-player game, and Sokoban has one player"),
        (
            ["OpenSpiel", "--opponents", "uniform,first", "--game-option", "game=kuhn_poker(players=3)"],
            "kuhn_poker(players=3) has 3 players",
        ),
        (["KuhnPoker", "--opponents", "uniform,minimax"], "'minimax' plays TicTacToe, not KuhnPoker"),
        (["KuhnPoker", "--opponents", "uniform,uniform"], "'uniform' is named twice"),
        (["KuhnPoker", "--opponents", "uniform"], "at least two policies, got uniform"),
        (["KuhnPoker", "--opponents", "uniform,cfr", "--games", "3"], "games=3 must be even"),
        (["KuhnPoker", "--opponents", "uniform,cfr", "--episodes", "0"], "episodes=0 must be at least 1"),
        (
            ["KuhnPoker", "--opponents", "uniform,cfr", "--executor", "processes:0"],
            "processes=0 must be a whole number of at least 1",
        ),
        (["KuhnPoker", "--opponents", "uniform,cfr", "--seed", "-1"], "seed=-1 must not be negative"),
        (["KuhnPoker", "--opponents", "uniform,cfr", "--game-option", "{"], "must have the form NAME=VALUE"),
        (["KuhnPoker", "--opponents", "uniform,cfr", "--game-option", "1=2"], "must have the form NAME=VALUE"),
        (["KuhnPoker", "--opponents", "uniform,cfr", "--game-option", "cards=5"], "does not take these options"),
    ],
)
def test_what_does_not_fit_is_one_line(arguments, message, capfd):
    assert main(["tournament", *arguments]) == 2
    out, error = capfd.readouterr()
    assert out == ""
    assert message in error
    assert len(error.splitlines()) == 1
