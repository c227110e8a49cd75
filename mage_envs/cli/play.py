"""`mage play`: a user in the learner's seat of a game, in a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import gymnasium as gym
import numpy as np
import typer

from mage_envs.cli.json_options import game_with, read_object
from mage_envs.cli.keyboard import ask, screen_width, spelt_out, takes_arrows
from mage_envs.core import GameSpec
from mage_envs.registry import ENV, META_ENV

QUIT = ("q", "quit", "exit")
HELP = ("?", "help")
BACK = {"undo": -1, "restart": 0}
"""Answers to keep after each command, as the end of a slice."""
PATIENCE = 100_000
"""Limit of answers in a game without opponents, so high that a user never reaches it."""


class _Leaves(Exception):
    """Signal that the user quits."""


class _Table:
    """One user at a game, with the hands played and their total. Each hand has its own seed, so it can be repeated."""

    def __init__(self, env: gym.Env[Any, Any], game_spec: GameSpec, seed: int, limited: bool) -> None:
        self.env = env
        self.rules = game_spec.rules
        self.unit = game_spec.unit
        self.players = game_spec.players
        self.seats: Sequence[int] = env.get_wrapper_attr("seats")
        self.noun = "hand" if game_spec.players > 1 else "episode"
        self.limited = limited
        """True if answers are limited, so that an illegal answer has a cost."""
        self.hands = 0
        self.total = 0.0
        self.seed = seed
        self.options: dict[str, int] = {}
        self.given: list[str] = []
        """Answers in the current hand."""

    def score(self) -> str:
        """Return the result so far: the sum of amounts, or the mean of rates."""
        won = self.total / max(self.hands, 1) if " per " in self.unit else self.total
        return f"{won:+.4g} {self.unit} after {self.hands} {self.noun}{'s' * (self.hands != 1)}"

    def deal(self, again: Sequence[str] = ()) -> tuple[str, dict[str, Any]]:
        """Start the hand of the current seed and play the answers `again`, none of which ended it."""
        # An environment cannot step backwards, so `undo` replays the hand from its seed.
        shown, info = self.env.reset(seed=self.seed, options=self.options)
        for answer in again:
            shown, _, _, _, info = self.env.step(answer)
        self.given = list(again)
        return shown, info


def command(
    env_id: Annotated[
        str, typer.Argument(metavar="ID", help="Environment id, as in mage/KuhnPoker-v0, my_games:mage/MyGame-v0")
    ],
    opponent: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Opponent, as in kuhn/aggressive, checkpoint:runs/demo, my_games:Mine (default: the game's)",
        ),
    ] = None,
    seat: Annotated[
        Literal["first", "second", "alternate"] | None,
        typer.Option(help="Your seat (default: the game's, else alternate)"),
    ] = None,
    options: Annotated[
        str | None, typer.Option(metavar="JSON", help="""Options of the game, as in '{"game": "hex(board_size=4)"}'""")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Seed of the first hand, to repeat it (default: random)")
    ] = None,
    hands: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Number of hands to play (default: until you quit)")
    ] = None,
    max_turns: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Answers per hand (default: the game's limit; no limit alone)"),
    ] = None,
) -> None:
    """Play a game in the terminal.

    The environment prints what the learner would read. Answer with an action or its number.

    Example: mage play mage/KuhnPoker-v0 --opponent kuhn/aggressive
    """
    game_options = read_object("--options", options, '{"boxes": 1}')
    table = _sit_down(env_id, game_options, opponent=opponent, seat=seat, seed=seed, max_turns=max_turns)
    print(textwrap.fill(table.rules, screen_width()))
    how = f"{env_id}: answer with an action or its number; 'quit' leaves."
    print("\n" + textwrap.fill(how, screen_width(), break_long_words=False))
    if table.players == 1:
        how = "'undo' reverts the last answer, 'restart' starts again, 'new' leaves this one for another."
        print(textwrap.fill(how, screen_width()))
    try:
        while hands is None or table.hands < hands:
            if table.players > 1:
                table.options = {"seat": table.seats[table.hands % len(table.seats)]}
            _play_hand(table)
            table.seed += 1
    except (EOFError, _Leaves):
        print("\nBye.", end=" ")
    except KeyboardInterrupt:
        print(f"\nBye. You are at {table.score()}.")
        raise SystemExit(130) from None
    print(f"You are at {table.score()}.")


def _sit_down(
    env_id: str,
    game_options: dict[str, Any],
    *,
    opponent: str | None,
    seat: str | None,
    seed: int | None,
    max_turns: int | None,
) -> _Table:
    spec = gym.spec(env_id)
    if spec.entry_point == META_ENV:
        base = env_id.replace("-Meta-", "-")
        raise ValueError(f"{env_id} is a meta-episode for models. Play {base} instead.")
    if spec.entry_point != ENV:
        raise ValueError(f"{env_id} is not a text game of this package. mage list prints all of them.")
    game_spec = game_with(spec.kwargs["game_name"], game_options).spec
    max_turns = max_turns or (PATIENCE if game_spec.players == 1 else None)
    env: gym.Env[Any, Any] = gym.make(
        env_id, opponent=opponent, seat=seat, max_turns=max_turns, disable_env_checker=True, **game_options
    )
    seed = int(np.random.default_rng().integers(2**31)) if seed is None else seed
    return _Table(env, game_spec, seed, limited=max_turns != PATIENCE)


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
    name = info["private"]["opponent"]
    opponent = f"Opponent: {name}. " if name else ""
    print(f"\n{_as_lines(observation)}\n{opponent}Total: {table.score()}.")


def _listen(observation: str, legal: tuple[str, ...], commands: Sequence[str]) -> str:
    """Return the user's action or one of `commands`. Raises _Leaves or EOFError if the user leaves."""
    choices = "  ".join(f"{number}) {action}" for number, action in enumerate(legal, start=1))
    screen = "\n".join(("", _as_lines(observation), *([choices] if choices else ())))
    print(f"{screen}  (arrow keys, too)" if takes_arrows(legal) else screen)
    while True:
        answer = ask("> ", legal)
        text = answer.text.strip()
        if answer.by_key:
            # Move up and clear, so that the next board replaces this one.
            print(f"\x1b[{len(screen.splitlines()) + 1}A\x1b[J", end="")
        if text.lower() in commands:
            return text.lower()
        if text.lower() in QUIT and text not in legal:
            raise _Leaves
        if text.lower() in HELP and text not in legal:
            named = ", ".join(("quit", *commands))
            print(f"Answer with one of the actions above or its number. Commands: {named}. Help costs no turn.")
            continue
        # `isdigit` accepts superscripts, which `int` rejects. `int` also rejects thousands of digits, hence the slice.
        if text.isascii() and text.isdigit() and text not in legal and 1 <= int(text[:9]) <= len(legal):
            return legal[int(text[:9]) - 1]
        if text:
            return spelt_out(text, legal)


def _as_lines(observation: str) -> str:
    """Return an observation with one line for each part of a page, which WebShop separates by a mark for models."""
    return observation.replace(" [SEP] ", "\n")
