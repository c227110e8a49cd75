"""A meta-episode of a person: in a pseudo-terminal, and its table beside the numbers that agents get."""

from __future__ import annotations

import re

import gymnasium as gym
import numpy as np
import pytest

from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.suites.panels import weights_of
from mage_envs.benchmarks.exact.regret import Horizon, regret
from mage_envs.benchmarks.play.end_table import ExactSetting, end_table
from mage_envs.benchmarks.play.sitting import HANDS, Sitting
from mage_envs.benchmarks.play.view import PersonView
from mage_envs.cli.keyboard import wrap_lines
from mage_envs.cli.tables import as_text
from mage_envs.core import Task
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.games.tictactoe import TicTacToe
from mage_envs.opponents.exact import headroom

META = "mage/KuhnPoker-Meta-v0"
POOL = "pool:kuhn/demo"


def play_sitting(seed: int, env_id: str = META, **options) -> Sitting:
    """A meta-episode in which the first legal action is always played."""
    env = gym.make(env_id, disable_env_checker=True, **options)
    sitting = Sitting(env, Task(env_id, seed=seed))
    while not sitting.over:
        sitting.play("" if sitting.reflects else sitting.prompt.legal_actions[0])
    return sitting


def test_notes_the_hidden_opponent_and_the_table(open_terminal) -> None:
    person = open_terminal("play", META, "--seed", "3", "--opponents", POOL, "--hands", "1")
    start = person.until("> ")
    assert "--- Episode 1 of 3 -" in start
    assert "kuhn/" not in start.replace("kuhn/demo", "")
    person.type("?\n")
    assert "you may write a note" in " ".join(person.until("Help costs no turn.\n> ").split())
    # `pass` checks or folds.
    person.type("pass\n")
    person.until(r"Episode 1 is over: -\d chips?\.")
    person.until("Enter leaves none.: ")
    person.type("help\n")
    person.until("Enter leaves none.: ")
    person.type("it bets with everything\n")
    assert "Your note after episode 1: it bets with everything" in person.until("Episode 2 of 3(.*\n)*> ")
    person.type("raise\n")
    assert "not a legal action; it spent one of your 6 turns" in person.until("\n> ")
    person.type("quit\n")
    person.until("Bye.")
    assert person.exit_code() == 0


def test_a_whole_meta_episode_ends_with_the_table(open_terminal) -> None:
    person = open_terminal("play", META, "--seed", "3", "--opponents", POOL, "--episodes", "1")
    expected = play_sitting(3, opponent=POOL, num_episodes=1, hands_per_episode=HANDS)
    while not re.search("The opponent was", screen := person.until("> |Enter plays another")):
        person.type("1\n")
    assert f"The opponent was {expected.trajectory.opponent}.\n" in screen
    table = end_table(ExactSetting(KuhnPoker(), weights_of(POOL)), [expected])
    # Without escapes and line breaks: rich draws titles in bold, and the width of the terminal decides about lines.
    words = " ".join(re.sub(r"\x1b\[[\d;]*[A-Za-z]", "", screen).split())
    for line in [*(" ".join(row) for row in (table.columns, *table.rows)), *table.remarks, *table.notes]:
        assert " ".join(line.split()) in words
    person.until("'quit' leaves: ")
    person.type("\n")
    person.until("Episode 1 of 1, hand 1 of 3 -(.*\n)*> ")
    assert person.press("\x03", "Bye.").count("Traceback") == 0
    assert person.exit_code() == 130


def test_the_numbers_are_those_of_agents() -> None:
    """The same actions as an agent's give its trajectory, its regret and its luck-adjusted values."""
    weights = weights_of(POOL)
    sittings = [play_sitting(seed, opponent=POOL) for seed in range(7)]
    tasks = [Task(META, opponent=episode.trajectory.opponent, seed=seed) for seed, episode in enumerate(sittings)]
    agent = make_agent("scripted:first")
    theirs = evaluate(agent, tasks, {"opponent": POOL})
    for mine, their_trajectory in zip(sittings, theirs):
        assert mine.trajectory.episodes == their_trajectory.episodes
        assert [step.action for step in mine.trajectory.steps] == [step.action for step in their_trajectory.steps]
    report = regret(agent, tasks, weights, {"opponent": POOL}, scored=False)
    table = end_table(ExactSetting(KuhnPoker(), weights), sittings)
    cells = {name: row for name, *row in table.rows}
    assert [cell.partition("±")[0] for cell in cells["luck-adjusted"]] == [
        f"{episode.adjusted.mean:.3f}" for episode in report.episodes
    ]
    assert all("±" in cell for cell in cells["you"] + cells["luck-adjusted"])
    # The level is 1 less the regrets by the rest of the meta-episode, over the distance of the lines.
    report_hands = [
        regret(agent, [task], weights, {"opponent": POOL}, scored=False, horizon=Horizon("sum")).episodes
        for task in tasks
    ]
    lost = np.mean([sum(episode.regret.mean for episode in episodes) for episodes in report_hands])
    lines = {name: [float(cell) for cell in cells[name]] for name in ("no memory", "best learner")}
    length = sum(lines["best learner"]) - sum(lines["no memory"])
    assert float(table.level.partition(" ")[0]) == pytest.approx(1 - lost / length, rel=0.02)  # lines of 3 digits


def test_a_few_hands_get_sentences_and_no_percentage() -> None:
    """Folding a king to the bet of a maniac costs 2 + 1 chips less the pot, which is lost anyway for any bettor."""
    env = gym.make(META, disable_env_checker=True, opponent="kuhn/maniac", seat="second", num_episodes=1)
    pool = {"kuhn/maniac": 0.5, "kuhn/rock": 0.5}
    for seed in range(20):
        sitting = Sitting(env, Task(META, seed=seed))
        if sitting.prompt.info["information_state"][0] == "K":
            break
    while not sitting.over:
        sitting.play("" if sitting.reflects else "fold")
    table = end_table(ExactSetting(KuhnPoker(), pool), [sitting])
    [remark, remark_on_hands] = table.remarks
    # A call of the bet with the king wins 2 chips, and a fold loses 1. Both opponents bet, the rock with a king alone.
    assert remark.startswith("Episode 1 of 1: You played fold (Your card: K. ")
    assert remark.endswith("That cost 3.00 chips here; the opponent was probably kuhn/maniac, 100%.")
    assert remark_on_hands == "Too few hands for a level of play: 1. It is printed from 20 on."
    assert table.level == ""
    lines = as_text(table.blocks())
    assert remark in lines
    assert "Level" not in lines


def test_a_level_is_printed_from_twenty_hands_on() -> None:
    setting = ExactSetting(KuhnPoker(), weights_of(POOL))
    sittings = [play_sitting(seed, opponent=POOL, num_episodes=2) for seed in range(10)]
    assert end_table(setting, sittings[:9]).level == ""
    assert re.fullmatch(r"-?\d*\.\d\d ± \d*\.\d\d", end_table(setting, sittings).level)


def test_the_exact_values_average_to_the_headroom() -> None:
    setting = ExactSetting(KuhnPoker(), weights_of("pool:kuhn/paper"))
    references = [setting.references(seats) for seats in (((0,), (1,), (0,)), ((1,), (0,), (1,)))]
    exact = headroom(KuhnPoker(), "pool:kuhn/paper")
    for attribute, expected in (
        ("best_learner", exact.per_episode["sum"]),
        ("no_memory", exact.no_memory_per_episode),
        ("knows_opponent", exact.known_per_episode),
    ):
        assert np.mean([getattr(reference, attribute) for reference in references], axis=0) == pytest.approx(
            expected, abs=1e-12
        )


def test_the_posterior_of_a_running_meta_episode_follows_bayes_rule() -> None:
    pool = {"kuhn/maniac": 0.5, "kuhn/rock": 0.5}
    env = gym.make(META, disable_env_checker=True, opponent="kuhn/maniac", seat="second")
    sitting = Sitting(env, Task(META, seed=1))
    # The maniac always bets first; the rock does so with a king alone.
    own_card = sitting.prompt.info["information_state"][0]
    sitting.play("call")
    judgement = ExactSetting(KuhnPoker(), pool).judge(sitting)
    assert judgement is not None
    [[posterior]] = [hand.beliefs for hand in judgement.hands]
    bets = 0.0 if own_card == "K" else 0.5
    assert posterior == pytest.approx((1 / (1 + bets), bets / (1 + bets)))


def test_without_exact_values_the_table_has_none() -> None:
    sitting = play_sitting(5, "mage/TicTacToe-Meta-v0", num_episodes=2, seat="first")
    setting = ExactSetting(TicTacToe(), weights_of("pool:tictactoe/balanced"))
    table = end_table(setting, [sitting])
    assert [row[1:] for row in table.rows[1:]] == [["n/a", "n/a"]] * 3
    assert table.level == "n/a"
    assert "'mcts:100' has no distribution(turn)" in str(table.blocks()[-2])


def test_a_board_has_coordinates_and_fixed_numbers() -> None:
    env = gym.make("mage/TicTacToe-v0", disable_env_checker=True, opponent="first", seat="second")
    observation, info = env.reset(seed=0)
    view = PersonView(TicTacToe.spec)
    assert view.now(info, observation).split("\n")[:3] == ["The opponent played (1, 1).", "  1 2 3", "1 X . ."]
    assert list(view.numbers(info["legal_actions"]))[:2] == ["2", "3"]
    assert view.action("9", info["legal_actions"]) == "(3, 3)"
    for action in ("(3, 3)", "(3, 2)"):
        observation, _, over, _, info = env.step(action)
        if not over:
            assert view.now(info, observation).startswith("The opponent played (1, 2).\n")
    assert over
    # The last move of the opponent, which ends the hand, is read off the board.
    assert view.end("(3, 2)", observation).startswith("The opponent played (1, 3).\n  1 2 3\n1 X X X\n")


def test_lines_wrap_at_words() -> None:
    text = "a" * 60 + " " + "b" * 60 + "\n. X\n\n  indented"
    assert wrap_lines(text) == "a" * 60 + "\n" + "b" * 60 + "\n. X\n\n  indented"
