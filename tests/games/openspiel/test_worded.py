"""Worded games: the text describes the actions, both ids play, and parameters that no sentence mentions are refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import gymnasium as gym
import numpy as np
import pyspiel
import pytest

import mage_envs  # noqa: F401  (registers the ids)
from mage_envs.games.openspiel.catalogue import CLASSES, NAME_ONLY, UNSUITABLE, WORDED, catalogue
from mage_envs.games.openspiel.openspiel_game import OpenSpiel
from mage_envs.games.openspiel.position import positions
from mage_envs.games.openspiel.worded import game_wordings
from mage_envs.spiel.loading import UnsuitableGame, load
from mage_envs.spiel.wrappers import EXAMPLES

FILES = ("efg_game", "nfg_game")
"""Games that a file defines."""
GAMES = [EXAMPLES.get(name, name) for name, (kind, _) in catalogue().items() if kind == WORDED and name not in FILES]
NFG = """NFG 1 R "Hawk and Dove" { "Ann" "Bob" } { 2 2 }

-1 -1 4 0 0 4 2 2
"""
"""A game in Gambit's payoff format, in which the first player's choice varies first."""


def shapes(text: str) -> set[str]:
    """Return the forms of the words of an action, such as `~/0` for `Bar/8` and `a0` for `b3`."""
    text = re.sub(r"[^\W\d_]{2,}|[^\W\d_]", _letters, text.replace("*", ""))
    text = re.sub(r"\d+", "0", text)
    return set(re.sub(r"(/0)+", "/0", re.sub(r"0(,0)+", "0,0", text)).split())


def _letters(match: re.Match[str]) -> str:
    letters = match.group()
    if len(letters) > 1:
        return "~"
    return "A" if letters.isupper() else "a"


def play_turns(game: str, seed: int, max_turns: int = 40) -> list[tuple[str, tuple[str, ...]]]:
    """Return the observation and the legal actions of every decision of one random hand."""
    rng = np.random.default_rng(seed)
    state, turns = OpenSpiel(game).initial_state(rng), []
    while state.player is not None and len(turns) < max_turns:
        turns.append((state.observation(state.player), state.legal_actions))
        state = state.after(state.legal_actions[int(rng.integers(len(state.legal_actions)))])
    return turns


def test_the_number_of_worded_games() -> None:
    assert len(GAMES) >= 60
    assert set(game_wordings()) <= set(pyspiel.registered_names())


@pytest.mark.parametrize("game", GAMES)
def test_the_rules_describe_the_actions_and_the_units(game: str) -> None:
    texts, rules = positions(game).texts, OpenSpiel(game).spec.rules
    assert texts.worded
    assert "Settings:" not in rules
    assert "{" not in rules
    assert re.search(r"\b(points?|chips|wins|draw)\b", rules)
    known_shapes = set()
    if texts.wording is not None:
        known_shapes = {
            form for example in re.findall(r"(?<!\w)'([^']+)'(?!\w)", texts.wording.action) for form in shapes(example)
        }
        assert known_shapes, "an example of an action"
    for seed in (1, 2, 3):
        for observation, legal in play_turns(game, seed):
            assert "\x1b" not in observation
            for action in legal:
                assert action.isprintable()
                assert len(action) <= 60
                assert texts.wording is None or shapes(action) <= known_shapes or action in rules, action


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("kind", ["v0", "Meta-v0"])
def test_both_ids_play_with_random_legal_actions(game: str, kind: str) -> None:
    options = {"opponent": "uniform"} if load(game).num_players() > 1 else {}
    if kind == "Meta-v0":
        options |= {"num_episodes": 2}
    env = gym.make(f"mage/OpenSpiel-{kind}", game=game, max_turns=6, disable_env_checker=True, **options)
    rng = np.random.default_rng(0)
    text, info = env.reset(seed=0)
    assert info["legal_actions"]
    over = False
    while not over:
        answer = "<remark>ok</remark>"
        if info.get("phase") != "reflect":
            action = info["legal_actions"][int(rng.integers(len(info["legal_actions"])))]
            answer = action if kind == "v0" else f"<action>{action}</action>"
        text, _, over, _, info = env.step(answer)
        assert info["invalid_reason"] is None
        assert "\x1b" not in text


@pytest.mark.parametrize(
    ("game", "words"),
    [
        ("hex(board_size=4)", "4 rows and 4 columns"),
        ("hex(num_cols=3,num_rows=5)", "5 rows and 3 columns"),
        ("mnk(m=4,n=5,k=3)", "5 rows and 4 columns"),
        ("nim(pile_sizes=2;3,is_misere=False)", "takes the last match wins"),
        ("gomoku(size=6,connect=4,anti=True)", "4 or more stones of a player in a row, a column or a diagonal loses"),
        ("pig(winscore=20)", "20 points or more"),
        ("go(board_size=5,komi=2.5)", "White gets 2.5 points more"),
        ("sheriff(item_penalty=1.5)", "costs the smuggler 1.5 per item"),
        ("kuhn_poker(players=3)", "the cards 0 to 3"),
        ("dots_and_boxes(utility_margin=True)", "your boxes minus the opponent's boxes"),
        ("goofspiel(num_cards=4,points_order=descending)", "from the highest to the lowest"),
        ("phantom_ttt(gameversion=abrupt)", "your turn ends"),
        ("battleship(allow_repeated_shots=False)", "cannot be shot at again"),
    ],
)
def test_the_rules_state_the_parameters(game: str, words: str) -> None:
    assert positions(game).texts.worded
    assert words in OpenSpiel(game).spec.rules


@pytest.mark.parametrize(
    "game",
    [
        "hex(board_size=4,swap=True)",
        "go(handicap=2)",
        "chess(chess960=True)",
        "leduc_poker(players=3)",
        "leduc_poker(starting_player=1)",
        "blotto(players=3,coins=4)",
        "goofspiel(imp_info=True,num_cards=4)",
        "backgammon(hyper_backgammon=True)",
        "yacht(players=3)",
    ],
)
def test_a_parameter_that_no_sentence_mentions_leaves_the_name_alone(game: str) -> None:
    assert not positions(game).texts.worded
    assert "An action is written exactly as it is listed." in OpenSpiel(game).spec.rules


def test_the_catalogue_has_the_class_that_making_the_game_has() -> None:
    classes = catalogue()
    assert set(classes) == set(pyspiel.registered_names())
    for name, (kind, reason) in classes.items():
        assert kind in CLASSES
        assert bool(reason) == (kind == UNSUITABLE)
        if name in FILES:
            continue
        if kind == UNSUITABLE:
            with pytest.raises(UnsuitableGame, match=f"cannot be played as text: {re.escape(reason)}.$"):
                OpenSpiel(EXAMPLES.get(name, name))
        else:
            assert kind == (WORDED if positions(EXAMPLES.get(name, name)).texts.worded else NAME_ONLY)


@pytest.mark.parametrize(
    ("game", "reason"),
    [
        ("coop_to_1p(game=tiny_hanabi())", "its actions are plans"),
        ("add_noise(game=kuhn_poker(),epsilon=0.1,seed=1)", "adds noise to the returns"),
        ("normal_form_extensive_game(game=kuhn_poker())", "a plan for a whole game"),
        ("restricted_nash_response(game=kuhn_poker())", "a construction for solvers"),
        ("misere(game=normal_form_extensive_game(game=kuhn_poker()))", "a plan for a whole game"),
        ("misere(game=negotiation())", "draws its chance by itself"),
    ],
)
def test_a_wrapper_that_does_not_suit_is_refused_in_one_line(game: str, reason: str) -> None:
    with pytest.raises(UnsuitableGame, match=reason) as caught:
        OpenSpiel(game)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["misere", "nfg_game", "repeated_game", "start_at"])
def test_a_wrapper_without_its_game_names_a_complete_string(name: str) -> None:
    with pytest.raises(ValueError, match=f"^OpenSpiel cannot make '{name}'") as caught:
        OpenSpiel(name)
    assert str(caught.value).endswith(f"Write parameters as in '{EXAMPLES[name]}'.")
    assert "\n" not in str(caught.value)


def test_a_game_of_a_file_has_its_payoffs_in_the_rules(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))
    with open("doves.nfg", "w", encoding="utf-8") as file:
        file.write(NFG)
    rules = OpenSpiel("nfg_game(filename=doves.nfg)").spec.rules
    assert "\n0, 0: -1, -1\n0, 1: 0, 4\n1, 0: 4, 0\n1, 1: 2, 2\n" in rules


def test_a_missing_file_is_one_line() -> None:
    with pytest.raises(ValueError, match=r"^OpenSpiel cannot make 'efg_game.*': the file 'none.efg' does not exist"):
        OpenSpiel("efg_game(filename=none.efg)")


def test_texts_have_no_escape_sequences() -> None:
    """TwixT colors its board by default."""
    state = OpenSpiel("twixt").initial_state(np.random.default_rng(0)).after("c3")
    for text in (state.observation(0), state.observation(1), state.information_state(0), *state.legal_actions):
        assert "\x1b" not in text
    assert str(state.position.state).count("\x1b") > 0
    assert [line.split() for line in state.observation(0).splitlines() if "x" in line.split()] == [["3", *"..x....."]]


def test_choices_of_a_round_stay_hidden_until_it_is_complete() -> None:
    game = OpenSpiel("repeated_game(stage_game=matrix_pd(),num_repetitions=2)")
    state = game.initial_state(np.random.default_rng(0))
    middle = state.after("Defect")
    assert middle.observation(1) == "No choice has been made yet.\nYou are the column player. Your move."
    cooperated, defected = (start.after("Cooperate") for start in (middle, state.after("Cooperate")))
    assert cooperated.observation(1).startswith("Round 1: you chose Cooperate, the opponent chose Defect.\n")
    assert cooperated.information_state(1) != defected.information_state(1)
    # With OpenSpiel's own text the first round would be forgotten.
    ends = [start.after("Defect").after("Defect") for start in (cooperated, defected)]
    assert ends[0].information_state(0) != ends[1].information_state(0)
    assert ends[0].returns == (11.0, 1.0)
    assert ends[0].observation(0).endswith("The game is over: your result is 11 points, the opponent's 1.")


def test_the_tables_are_read_with_the_first_game() -> None:
    code = (
        "import sys, json, tomllib, mage_envs, opponents, mage_envs.games.openspiel\n"
        "from mage_envs.games.openspiel.worded import game_wordings\n"
        "print(json.dumps(['pyspiel' in sys.modules, game_wordings.cache_info().currsize]))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, env={"PYTHONPATH": ".", "PATH": ""}
    )
    assert json.loads(process.stdout) == [False, 0]
