"""OpenSpiel's own names of games: wherever a game or an environment is named."""

from __future__ import annotations

import json

import gymnasium as gym
import pytest

from mage_envs.cli.program import main
from mage_envs.registry import DEFAULTS, UnknownGame, find_env, find_game, headline, list_games, make_game, settings_of
from mage_envs.settings import mean_reward
from mage_envs.trainer.config.run_settings import RunSettings
from mage_envs.tree import is_enumerable, roots_of


@pytest.mark.parametrize("name", ["kuhn_poker", "matrix_pd", "hex(board_size=4)"])
def test_a_name_of_openspiel_is_a_game(name: str) -> None:
    assert find_game(name) == ("OpenSpiel", {"game": name})
    assert make_game(name).title == name
    assert name not in list_games()


@pytest.mark.parametrize("name", ["kuhn_pokr", "Kuhn_Poker", "kuhn poker", ""])
def test_any_other_name_is_unknown(name: str) -> None:
    with pytest.raises(UnknownGame, match=r"^Unknown game "):
        find_game(name)


@pytest.mark.parametrize(
    ("game_name", "env_id", "options"),
    [
        ("mage/KuhnPoker-v0", "mage/KuhnPoker-v0", {}),
        ("KuhnPoker", "mage/KuhnPoker-Meta-v0", {}),
        ("kuhn_poker", "mage/OpenSpiel-Meta-v0", {"game": "kuhn_poker"}),
        ("mage/kuhn_poker-v0", "mage/OpenSpiel-v0", {"game": "kuhn_poker"}),
        ("mage/hex(board_size=4)-Meta-v0", "mage/OpenSpiel-Meta-v0", {"game": "hex(board_size=4)"}),
        ("CartPole-v1", "CartPole-v1", {}),
        ("kuhn_pokr", "kuhn_pokr", {}),
    ],
)
def test_a_game_stands_for_its_environment(game_name: str, env_id: str, options: dict[str, str]) -> None:
    assert find_env(game_name) == (env_id, options)


def test_a_training_takes_the_name_of_a_game() -> None:
    run = RunSettings(env_id="matrix_pd", env_kwargs='{"hands_per_episode": 2}')
    assert (run.env_id, run.env_kwargs) == ("mage/OpenSpiel-Meta-v0", {"game": "matrix_pd", "hands_per_episode": 2})
    # The settings are computed again after the environment is set.
    run.settle()
    assert run.env_kwargs["game"] == "matrix_pd"


@pytest.mark.parametrize(
    "words",
    [
        "eval policy:uniform --env matrix_pd --rows 1 --no-baselines",
        "tournament kuhn_poker --opponents uniform,first --games 2",
        "headroom tiny_hanabi --episodes 2",
        "list matrix_pd",
    ],
)
def test_commands_name_the_game_in_their_heading(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 0
    name = next(part for part in ("matrix_pd", "kuhn_poker", "tiny_hanabi") if part in words)
    out = capsys.readouterr().out
    assert name in "".join(out.splitlines()[:5])


@pytest.mark.parametrize("name", ["kuhn_poker", "matrix_rps", "matrix_pd", "tiny_hanabi", "goofspiel(num_cards=3)"])
def test_the_ceilings_of_a_game_that_can_be_enumerated(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["headroom", "--ceilings", name, "--episodes", "1", "--json"]) == 0
    [opponents] = json.loads(capsys.readouterr().out)
    assert opponents["title"].startswith(f"{name}: ")
    assert {"uniform", "first", "last", "cfr"} <= {row["opponent"] for row in opponents["rows"]}
    assert any("mcts" in note for note in opponents["notes"]), "a search that cannot play is a note"
    general = make_game(name).spec.general_sum
    assert ("wins first" in opponents["rows"][0]) is not general


def test_a_solver_that_would_take_hours_is_a_note(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "policy:cfr", "--env", "tic_tac_toe", "--opponents", "cfr", "--rows", "1"]) != 0
    assert "takes too long. Name the iterations, as in 'cfr:181'" in capsys.readouterr().err


def test_a_general_sum_game_counts_its_payoff() -> None:
    dilemma, zero_sum = make_game("matrix_pd"), make_game("matrix_rps")
    assert (headline(dilemma), headline(zero_sum)) == ("returns", "success")
    assert settings_of("OpenSpiel", dilemma.spec).rewards["task"] is mean_reward
    assert settings_of("OpenSpiel", zero_sum.spec) is DEFAULTS
    env = gym.make("mage/OpenSpiel-Meta-v0", game="matrix_pd", opponent="first", num_episodes=1, seat="first")
    env.reset(seed=0)
    _, reward, *_ = env.step("<action>Cooperate</action>")
    assert reward == 5 * 5.0, "five times the five points of mutual cooperation"


SMALL = ("Bargaining", "Inspection", "KuhnPoker", "LeducPoker", "PrisonersDilemma", "RockPaperScissors", "Ultimatum")


@pytest.mark.parametrize("name", [*SMALL, "matrix_pd", "matrix_rps", "tiny_hanabi"])
def test_the_returns_of_a_game_sum_to_a_constant_unless_it_is_general_sum(name: str) -> None:
    game = make_game(name)
    assert is_enumerable(game)
    sums, nodes = set(), [node for _, node in roots_of(game)]
    while nodes:
        node = nodes.pop()
        nodes.extend(node.children.values())
        if node.player is None:
            sums.add(round(sum(node.returns), 9))
    assert (len(sums) > 1) is game.spec.general_sum
