"""`mage-envs`: play a game in a terminal, list games with their opponents, and say what is installed."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np

import mage_envs  # noqa: F401  (it registers the ids)
from mage_envs.core import TextGame
from mage_envs.env import TextGameEnv
from mage_envs.games.webshop import command as webshop
from mage_envs.games.webshop.site import command as site
from mage_envs.registry import list_games, load_game
from mage_envs.terminal.doctor import report
from mage_envs.terminal.json_options import game_with, read_object
from mage_envs.terminal.keyboard import ask, spelt_out, takes_arrows
from opponents import list_forms, list_opponents, list_pools, make_opponent

QUIT = ("q", "quit", "exit")
BACK = {"undo": -1, "restart": 0}
"""Commands to how many of the answers so far stay, as the end of a slice."""
PATIENCE = 100_000
"""Answers that a person has in a game without opponents: no limit."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a subcommand; returns 0, 2 after an error (one line on stderr), 130 after Ctrl-C."""
    given = _parser().parse_args(arguments)
    try:
        if given.command == "play":
            play(given)
        elif given.command == "webshop" and given.webshop_command == "serve":
            site.serve(given, lambda name, game: make_opponent(f"webshop/{name}", game))
        elif given.command == "webshop":
            webshop.run(given)
        elif given.command == "doctor":
            print("\n".join(report()))
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
    one.add_argument("--options", metavar="JSON", help="""the game's own, as in '{"game": "hex(board_size=4)"}'""")
    one.add_argument("--seed", type=int, metavar="N", help="makes the hands come again")
    one.add_argument("--hands", type=int, metavar="N", help="stop after so many (default: go on until you quit)")
    one.add_argument("--max-turns", type=int, metavar="N", help="answers in a hand (default: the game's; alone: any)")
    about = "list the games, their ids and the opponents that fit"
    listed = commands.add_parser("list", help=about, description=about)
    listed.add_argument("game", nargs="?", metavar="GAME", help="as in KuhnPoker; all games by default")
    about = "WebShop: convert the original's data files, check them, serve its site to a browser"
    tools = webshop.add_commands(commands.add_parser("webshop", help=about, description=about))
    about = "serve the site to this machine's browsers"
    site.add_options(tools.add_parser("serve", help=about, description=about), ("rule", "oracle"))
    about = "say which engines, data and caches the games find here"
    commands.add_parser("doctor", help=about, description=about)
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


class _Leaves(Exception):
    """The person quits."""


class _Table:
    """One person at a game: the hands played and their total. Each hand has a seed of its own, so it can come again."""

    def __init__(self, env: gym.Env[Any, Any], game: TextGame, seed: int, limited: bool) -> None:
        self.env = env
        self.rules = game.rules
        self.unit = game.unit
        self.players = game.num_players
        self.noun = "hand" if self.players > 1 else "episode"
        self.limited = limited
        """Whether answers are few, so that an illegal one costs something."""
        self.hands = 0
        self.total = 0.0
        self.seed = seed
        self.options: dict[str, int] = {}
        self.given: list[str] = []
        """The answers in the running hand."""

    def score(self) -> str:
        """What was won so far."""
        return f"{self.total:+g} {self.unit} after {self.hands} {self.noun}{'s' * (self.hands != 1)}"

    def deal(self, again: Sequence[str] = ()) -> tuple[str, dict[str, Any]]:
        """Starts the hand of the current seed and gives the answers `again`, none of which ended it."""
        shown, info = self.env.reset(seed=self.seed, options=self.options)
        for answer in again:
            shown, _, _, _, info = self.env.step(answer)
        self.given = list(again)
        return shown, info


def play(arguments: argparse.Namespace) -> None:
    """Plays hands until the wished number, `quit`, or the end of the input."""
    for option, value in (("--hands", arguments.hands), ("--max-turns", arguments.max_turns)):
        if value is not None and value < 1:
            raise ValueError(f"{option} must be at least 1, got {value}.")
    table = _sit_down(arguments)
    print(textwrap.fill(table.rules, 100))
    print(f"\n{arguments.env_id}: answer with an action or its number; 'quit' leaves.")
    if table.players == 1:
        print("'undo' takes the last answer back, 'restart' begins again, 'new' leaves this one for another.")
    try:
        while arguments.hands is None or table.hands < arguments.hands:
            if arguments.seat == "alternate" and table.players > 1:
                table.options = {"seat": table.hands % table.players}
            _play_hand(table)
            table.seed += 1
    except (EOFError, _Leaves):
        print("\nBye.", end=" ")
    except KeyboardInterrupt:
        print(f"\nBye. You are at {table.score()}.", end="")
        raise
    print(f"You are at {table.score()}.")


def _sit_down(arguments: argparse.Namespace) -> _Table:
    spec = gym.spec(arguments.env_id)
    if spec.entry_point == "wrappers.make:make_meta_env":
        base = arguments.env_id.replace("-Meta-", "-")
        raise ValueError(f"{arguments.env_id} is a meta-episode, made for models; play {base}.")
    if spec.entry_point != "wrappers.make:make_env":
        raise ValueError(f"{arguments.env_id} is no text game of this package; mage-envs list names them all.")
    options = read_object("--options", arguments.options, '{"boxes": 1}')
    alone = game_with(spec.kwargs["game_name"], options).num_players == 1
    max_turns = arguments.max_turns or (PATIENCE if alone else None)
    env = gym.make(
        arguments.env_id,
        opponent=arguments.opponent,
        seat=arguments.seat,
        max_turns=max_turns,
        disable_env_checker=True,
        **options,
    )
    game_env = env.unwrapped
    assert isinstance(game_env, TextGameEnv)
    seed = int(np.random.default_rng().integers(2**31)) if arguments.seed is None else arguments.seed
    return _Table(env, game_env.game, seed, limited=max_turns != PATIENCE)


def _play_hand(table: _Table) -> None:
    print(f"\n--- {table.noun.capitalize()} {table.hands + 1} " + "-" * 40)
    observation, info = table.deal()
    done, value, commands = False, 0.0, (*BACK, "new") if table.players == 1 else ()
    while not done:
        answer = _listen(observation, info["legal_actions"], commands)
        if answer == "new":
            return
        if answer in BACK and answer in commands:
            observation, info = table.deal(table.given[: BACK[answer]])
            continue
        observation, reward, terminated, truncated, info = table.env.step(answer)
        table.given.append(answer)
        done, value = terminated or truncated, float(reward)
        if info["invalid_reason"] is not None:
            cost = f"; it spent one of your {table.env.get_wrapper_attr('max_turns')} turns" if table.limited else ""
            print(f"That is not a legal action{cost}.")
    table.hands += 1
    table.total += value
    opponent = f"Opponent: {info['opponent']}. " if info["opponent"] else ""
    print(f"\n{observation}\n{opponent}Total: {table.score()}.")


def _listen(observation: str, legal: tuple[str, ...], commands: Sequence[str]) -> str:
    """The person's action or one of `commands`; raises _Leaves or EOFError when they leave."""
    choices = "  ".join(f"{number}) {action}" for number, action in enumerate(legal, start=1))
    screen = "\n".join(("", observation, *([choices] if choices else ())))
    print(f"{screen}  (arrow keys, too)" if takes_arrows(legal) else screen)
    while True:
        answer = ask("> ", legal)
        text = answer.text.strip()
        if answer.by_key:
            print(f"\x1b[{len(screen.splitlines()) + 1}A\x1b[J", end="")  # the next board takes this one's place
        if text.lower() in commands:
            return text.lower()
        if text.lower() in QUIT and text not in legal:
            raise _Leaves
        if text.isascii() and text.isdigit() and text not in legal and 1 <= int(text[:9]) <= len(legal):
            return legal[int(text[:9]) - 1]
        if text:
            return spelt_out(text, legal)


if __name__ == "__main__":
    sys.exit(main())
