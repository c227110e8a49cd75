"""The default style: units in words, feedback on invalid answers, the end of an episode, and the style `paper`."""

from __future__ import annotations

import gymnasium as gym
import pytest

import mage_envs  # noqa: F401  (registers the ids)
from mage_envs.core import BY_FORFEIT, BY_TIMEOUT, DRAW, FAILURE, HandResult
from mage_envs.text.parser import Reply
from mage_envs.text.plain import Plain, amount, last_state, nearest_action
from mage_envs.text.prompts import EpisodeRecord, PromptStyle


def make(game, **options):
    return gym.make(f"mage/{game}-Meta-v0", disable_env_checker=True, **options)


def after(game, *replies, **options):
    """Return the prompt after these replies."""
    env = make(game, **options)
    text, _ = env.reset(seed=3)
    for reply in replies:
        text, *_ = env.step(reply if isinstance(reply, Reply) else f"<action>{reply}</action>")
    return text


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (-1.0, "chips", "-1 chips"),
        (1.0, "chips", "1 chip"),
        (0.0, "tasks", "0 tasks"),
        (-1e-12, "points", "0 points"),
        (1 / 12, "score", "a score of 0.0833"),
        (1.0, "points per round", "1 point per round"),
        (1.0, "catches per round", "1 catch per round"),
        (0.5, "pies", "0.5 pies"),
        (12345.0, "points", "12345 points"),
    ],
)
def test_units_are_words(value, unit, words):
    assert amount(value, unit) == words


@pytest.mark.parametrize(
    ("answer", "legal", "nearest"),
    [
        ("(0,0)", ("(1, 1)", "(2, 2)", "(3, 3)"), "(1, 1)"),
        ("4 4", ("(1, 1)", "(2, 2)", "(3, 3)"), "(3, 3)"),
        ("2-2", ("(1, 1)", "(2, 2)"), "(2, 2)"),
        ("offer 0", ("offer 1", "offer 2", "offer 10"), "offer 1"),
        ("go to the fridge 1", ("go to drawer 1", "go to fridge 2", "look"), "go to fridge 2"),
        ("", ("check", "bet"), "check"),
        ("x" * 10_000, ("check",), "check"),
        ("call", (), ""),
    ],
)
def test_the_nearest_action_by_words_then_by_numbers(answer, legal, nearest):
    assert nearest_action(answer, legal) == nearest


@pytest.mark.parametrize(
    ("game", "answer", "nearest"),
    [
        ("Sokoban", "up up left", "up, up, left"),
        ("Sokoban", "Up/Down then left, left", "up, down, left"),
        ("Sokoban", "wait", "right"),
        ("TicTacToe", "(0,0)", "(1, 1)"),
        ("WebShop", "search shoes", "search[shoes]"),
        ("WebShop", "Search: red shoes!", "search[red shoes]"),
        ("WebShop", "look at it", "search[<your query>]"),
    ],
)
def test_feedback_quotes_the_answer_and_names_the_nearest_form(game, answer, nearest):
    options = {"size": "tiny"} if game == "WebShop" else {}
    text = after(game, answer, **options)
    assert f'Your last answer was "{answer}", which is not a legal action here.' in text
    assert f"The nearest legal action is: {nearest}. Nothing happened, but the answer counts." in text


def test_an_action_of_the_game_has_the_right_form():
    text = after("KuhnPoker", "check", opponent="kuhn/aggressive")
    assert 'was "check", which is not a legal action here. Nothing happened, but' in text


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Reply("I would bet."), "held no action inside the tags."),
        (Reply("I would", truncated=True), "was cut at its limit, before an action inside the tags."),
        (Reply("", no_text="empty"), "held no text."),
        (Reply("<action>a\nb\x1b" + "c" * 80 + "</action>"), f'answer was "a b[U+001B]{"c" * 46}...", which'),
    ],
)
def test_feedback_on_a_reply_without_a_readable_action(reply, says):
    assert says in after("KuhnPoker", reply, opponent="kuhn/nash")


def test_hidden_actions_are_not_named():
    pytest.importorskip("textworld")
    assert "nearest" in after("ALFWorld", "go to it", size="tiny")
    assert "nearest" not in after("ALFWorld", "go to it", size="tiny", show_commands=False)


def test_the_list_of_sokoban_agrees_with_its_rules():
    assert "Legal actions (one to three of these moves, separated by commas): up | down | left | right" in after(
        "Sokoban"
    )


def record(**changes):
    values = {
        "index": 0,
        "first_observation": "Start.",
        "turns": (),
        "outcome": "The end.",
        "reward": 0.0,
        "value": 0.0,
        "success": False,
        "timeout": False,
        "unit": "chips",
    }
    return EpisodeRecord(**{**values, **changes})


def test_a_draw_is_a_draw():
    assert Plain().ended(record(ended_as=DRAW)) == "The end.\nResult: a draw; in total 0 chips."
    assert Plain().ended(record(ended_as=FAILURE, shows_score=False)) == "The end.\nResult: a failure."


@pytest.mark.parametrize(
    ("by", "end"), [(BY_TIMEOUT, "Earlier.\n\nA board."), (BY_FORFEIT, "Earlier.\n\nA board.\nA notice.")]
)
def test_the_last_state_replaces_the_notice_of_a_stopped_hand(by, end):
    hand = HandResult(-1.0, 0, by, observation="A notice.", last_state="A board.")
    assert last_state(record(outcome="Earlier.\n\nA notice.", hands=(hand,))) == end


def test_a_forfeit_quotes_the_answer_before_the_next_hand():
    options = {"opponent": "kuhn/aggressive", "hands_per_episode": 2, "on_invalid": "forfeit"}
    text = after("KuhnPoker", "raise", **options)
    assert 'Your last answer was "raise", which is not a legal action here. The nearest legal action is: call.' in text
    assert "you forfeit the hand." in text
    assert "Nothing happened" not in text.partition("# Now")[2]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "Chance, if the game has any, is drawn anew in each episode, and your seat changes from hand to hand."),
        ({"protocol": "paper"}, "repeats in each episode, and your seat stays the same. Your first success ends"),
        ({"num_episodes": 1}, "Win as many chips as you can. You may give at most 6 answers per episode"),
        ({"hands_per_episode": 2}, "An episode has 2 hands. You may give at most 6 answers per hand"),
    ],
)
def test_the_frame_follows_the_options(options, says):
    assert says in after("KuhnPoker", **options)


@pytest.mark.parametrize("game", ["TicTacToe", "KuhnPoker", "Sokoban", "WebShop"])
def test_the_style_paper_differs_by_the_list_alone(game):
    options = {"size": "tiny"} if game == "WebShop" else {}
    plain, paper = (after(game, style=style, **options) for style in ("plain", "paper"))
    if game == "WebShop":
        assert plain == paper
        return
    assert "\nLegal actions" in plain
    other_lines = [line for line in plain.splitlines() if not line.startswith("Legal actions")]
    vocabulary = " An action is one of: check, bet, call, fold."
    assert paper.replace(vocabulary, "").splitlines() == other_lines
    assert (vocabulary in paper) == (game == "KuhnPoker")
    assert "nearest" not in after(game, "no such thing", style="paper")


class Terse:
    """A style without a base class: what a whole prompt and a conversation need, and nothing else."""

    action_tag, remark_tag = "a", "r"

    def play(self, view):
        return f"play {view.turn.observation}"

    continue_play = play

    def reflect(self, view):
        return f"reflect {view.record.index}"

    continue_reflect = reflect

    def remember_reflection(self, episode, text):
        return f"{episode}: {text}"

    def remember_episode(self, record, shown):
        return f"{record.index}: {len(shown)}"


@pytest.mark.parametrize("style", [Terse(), f"{__name__}:Terse"])
@pytest.mark.parametrize("memory", ["reflection", "reflexion:reflect_on=always", "history"])
@pytest.mark.parametrize("context", ["rebuilt", "conversation"])
def test_a_style_without_the_base_class_plays_with_every_kind_of_memory(style, memory, context):
    env = gym.make("mage/KuhnPoker-Meta-v0", style=style, memory=memory, context=context, num_episodes=2)
    text, info = env.reset(seed=1)
    assert text.startswith("play ")
    done, kinds = False, set()
    while not done:
        kinds.add(info["kind"])
        reply = f"<a>{info['legal_actions'][0]}</a>" if info["phase"] == "play" else "<r>ok</r>"
        text, _, done, _, info = env.step(reply)
    assert kinds == ({"play"} if memory == "history" else {"play", "reflect"})
    with pytest.raises(ValueError, match="Terse has no words for the question of elicit"):
        gym.make("mage/KuhnPoker-Meta-v0", style=style, elicit=["kuhn/rock", "kuhn/maniac"])


def test_a_style_must_have_what_a_prompt_needs():
    class Half(PromptStyle):
        def play(self, view):
            return ""

    with pytest.raises(TypeError, match="abstract"):
        Half()
