"""`mage-envs`: play a game in a terminal, and list games with their opponents."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

import gymnasium as gym

import mage_envs  # noqa: F401  (it registers the ids)
from mage_envs.env import TextGameEnv
from mage_envs.registry import list_games, load_game
from opponents import list_forms, list_opponents, list_pools

QUIT = ("q", "quit", "exit")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a subcommand; returns 0, 2 after an error (one line on stderr), 130 after Ctrl-C."""
    given = _parser().parse_args(arguments)
    try:
        if given.command == "play":
            play(given)
        else:
            show_list(given.game)
    except KeyboardInterrupt:
        print()
        return 130
    except (ValueError, LookupError, OSError, ImportError, RuntimeError, gym.error.Error) as error:
        print(f"mage-envs: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mage-envs", description="Text games against registered opponents.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    about = "play a game in the terminal"
    one = commands.add_parser("play", help=about, description=about)
    one.add_argument("env_id", metavar="ID", help="as in mage/KuhnPoker-v0")
    one.add_argument("--opponent", metavar="NAME", help="as in kuhn/aggressive or checkpoint:runs/demo")
    one.add_argument("--seat", choices=("first", "second", "alternate"), default="alternate", help="default: alternate")
    one.add_argument("--seed", type=int, metavar="N", help="makes the hands come again")
    one.add_argument("--hands", type=int, metavar="N", help="stop after so many (default: go on until you quit)")
    about = "list the games, their ids and the opponents that fit"
    listed = commands.add_parser("list", help=about, description=about)
    listed.add_argument("game", nargs="?", metavar="GAME", help="as in KuhnPoker; all games by default")
    return parser


# -- list ------------------------------------------------------------------------------------------------------


def show_list(game: str | None) -> None:
    """Prints ids and opponents of one game, or of all."""
    for name in (game,) if game is not None else list_games():
        players = load_game(name).num_players
        print(f"{name}\n  ids        mage/{name}-v0  mage/{name}-Meta-v0")
        if players > 1:
            _show_wrapped("opponents", (*list_opponents(name), *list_forms(name)))
    if game is None:
        _show_wrapped("pools", [f"pool:{name}" for name in list_pools()])


def _show_wrapped(title: str, names: Sequence[str]) -> None:
    line, label = "", title
    for name in names:
        if line and len(line) + len(name) > 100:
            print(f"  {label:<10}{line}")
            line, label = "", ""
        line += f" {name} "
    print(f"  {label:<10}{line}".rstrip())


# -- play ------------------------------------------------------------------------------------------------------


class _Table:
    """One person at a game: the hands played and their total."""

    def __init__(self, env: gym.Env[Any, Any], game_env: TextGameEnv) -> None:
        self.env = env
        self.rules = game_env.game.rules
        self.unit = game_env.game.unit
        self.players = game_env.game.num_players
        self.max_turns = game_env.max_turns
        self.hands = 0
        self.total = 0.0

    def score(self) -> str:
        """What was won so far."""
        hands = "1 hand" if self.hands == 1 else f"{self.hands} hands"
        return f"{self.total:+g} {self.unit} after {hands}"


def play(arguments: argparse.Namespace) -> None:
    """Plays hands until the wished number, `quit`, or the end of the input."""
    if arguments.hands is not None and arguments.hands < 1:
        raise ValueError(f"--hands must be at least 1, got {arguments.hands}.")
    table = _sit_down(arguments)
    print(textwrap.fill(table.rules, 100))
    print(f"\n{arguments.env_id}: answer with an action or its number; 'quit' leaves.")
    seed = arguments.seed
    try:
        while arguments.hands is None or table.hands < arguments.hands:
            seat = table.hands % table.players if arguments.seat == "alternate" else None
            _play_hand(table, seed, seat)
            seed = None
    except EOFError:
        print("\nBye.", end=" ")
    except KeyboardInterrupt:
        print(f"\nBye. You are at {table.score()}.", end="")
        raise
    print(f"You are at {table.score()}.")


def _sit_down(arguments: argparse.Namespace) -> _Table:
    spec = gym.spec(arguments.env_id)
    if spec.entry_point == "mage_envs.make:make_meta_env":
        base = arguments.env_id.replace("-Meta-", "-")
        raise ValueError(f"{arguments.env_id} is a meta-episode, made for models; play {base}.")
    if spec.entry_point != "mage_envs.make:make_env":
        raise ValueError(f"{arguments.env_id} is no text game of this package; mage-envs list names them all.")
    env = gym.make(arguments.env_id, opponent=arguments.opponent, seat=arguments.seat, disable_env_checker=True)
    game_env = env.unwrapped
    assert isinstance(game_env, TextGameEnv)
    return _Table(env, game_env)


def _play_hand(table: _Table, seed: int | None, seat: int | None) -> None:
    observation, info = table.env.reset(seed=seed, options={} if seat is None else {"seat": seat})
    print(f"\n--- Hand {table.hands + 1} " + "-" * 40)
    done, paid = False, 0.0
    while not done:
        answer = _ask(observation, info["legal_actions"])
        observation, reward, terminated, truncated, info = table.env.step(answer)
        paid += float(reward)
        done = terminated or truncated
        if info["invalid_reason"] is not None:
            print(f"That is not a legal action; it spent one of your {table.max_turns} turns.")
    table.hands += 1
    table.total += paid
    print(f"\n{observation}\nOpponent: {info['opponent']}. Total: {table.score()}.")


def _ask(observation: str, legal: tuple[str, ...]) -> str:
    """The person's action; raises EOFError when they leave."""
    choices = "  ".join(f"{number}) {action}" for number, action in enumerate(legal, start=1))
    print(f"\n{observation}\n{choices}" if choices else f"\n{observation}")
    while True:
        answer = input("> ").strip()
        if answer.lower() in QUIT and answer not in legal:
            raise EOFError
        if answer.isascii() and answer.isdigit() and answer not in legal and 1 <= int(answer[:9]) <= len(legal):
            return legal[int(answer[:9]) - 1]
        if answer:
            return answer


if __name__ == "__main__":
    sys.exit(main())
