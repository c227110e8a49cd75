"""A person in the learner's seat of a game or of a meta-episode, in a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from mage_envs.benchmarks.evaluation.suites.panels import weights_of
from mage_envs.benchmarks.play.end_table import ExactSetting, end_table
from mage_envs.benchmarks.play.sitting import HANDS, Sitting
from mage_envs.benchmarks.play.view import PersonView
from mage_envs.cli.game_options import game_with
from mage_envs.cli.keyboard import ask, takes_arrows, wrap_lines
from mage_envs.cli.tables import print_report
from mage_envs.core import GameSpec, Task
from mage_envs.progress import ProgressLine
from mage_envs.random.streams import SEED_BITS
from mage_envs.registry import ENV, META_ENV, settings_of

QUIT = ("q", "quit", "exit")
HELP = ("?", "help")
BACK = {"undo": -1, "restart": 0}
"""Answers to keep after each command, as the end of a slice."""
PATIENCE = 100_000
"""Limit of answers in a game without opponents, so high that a user never reaches it."""
RULE = "-" * 40
META_HELP = (
    "You play several episodes against one opponent, which stays the same. After each episode you may write a note, "
    "which you see again in the next one. At the end the opponent is named, and your value per episode stands beside "
    "the exact values of blind play (without memory), of the optimal learner, and of play that knows the opponent."
)


class _Leaves(Exception):
    """Signal that the user quits."""


class _Table:
    """One user at a game, with the hands played and their total. Each hand has its own seed, so it can be repeated."""

    def __init__(self, env: gym.Env[Any, Any], game_spec: GameSpec, seed: int, limited: bool) -> None:
        self.env = env
        self.spec = game_spec
        self.view = PersonView(game_spec)
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
        unit = self.spec.unit
        won = self.total / max(self.hands, 1) if " per " in unit else self.total
        return f"{won:+.4g} {unit} after {self.hands} {self.noun}{'s' * (self.hands != 1)}"

    def deal(self, answers: Sequence[str] = ()) -> tuple[str, dict[str, Any]]:
        """Start the hand of the current seed and play `answers`, none of which ended it."""
        # An environment cannot step backwards, so `undo` replays the hand from its seed.
        self.view = PersonView(self.spec)
        observation, info = self.env.reset(seed=self.seed, options=self.options)
        for answer in answers:
            self.view.now(info, observation)
            observation, _, _, _, info = self.env.step(answer)
        self.given = list(answers)
        return observation, info


@dataclass(frozen=True, kw_only=True)
class TerminalPlay:
    """What a person plays in a terminal."""

    opponents: str | None = None
    """Opponent or pool, or None for those of the game."""
    seat: str | None = None
    game_options: Mapping[str, Any] = field(default_factory=dict)
    seed: int
    """Seed of the first hand."""
    hands: int | None = None
    """Number of hands, per episode in a meta-episode; None for the default."""
    episodes: int | None = None
    """Episodes of a meta-episode; None for the default."""
    max_turns: int | None = None
    """Answers per hand; None for the default."""


def play(env_id: str, options: TerminalPlay) -> None:
    """Play a game, or meta-episodes, in the terminal until the user leaves.

    Raises:
        ValueError: If the id is of another package, or if an option does not fit it.
    """
    spec = gym.spec(env_id)
    if spec.entry_point not in (ENV, META_ENV):
        raise ValueError(f"{env_id} is not a text game of this package. mage list prints all of them.")
    if spec.entry_point == ENV and options.episodes is not None:
        raise ValueError(f"--episodes applies to meta-episodes. Play {env_id.replace('-v', '-Meta-v')}.")
    # Made once for the error about a wrong option, before anything is printed.
    game_spec = game_with(spec.kwargs["game_name"], options.game_options).spec
    if spec.entry_point == META_ENV:
        _play_meta_episodes(env_id, spec.kwargs["game_name"], options)
    else:
        _play_hands(env_id, game_spec, options)


# -- meta-episodes ---------------------------------------------------------------------------------------------


def _play_meta_episodes(env_id: str, game_name: str, options: TerminalPlay) -> None:
    """Play meta-episodes until the user leaves, and print the table of all of them after each."""
    env_options: dict[str, Any] = {"seat": options.seat, "max_turns": options.max_turns, "opponent": options.opponents}
    players = game_with(game_name, options.game_options).spec.players
    env_options |= {
        "num_episodes": options.episodes,
        "hands_per_episode": options.hands or (HANDS if players > 1 else 1),
    }
    kwargs = {name: value for name, value in env_options.items() if value is not None}
    env = gym.make(env_id, disable_env_checker=True, **kwargs, **options.game_options)
    game = env.get_wrapper_attr("game")
    pool = weights_of(options.opponents or settings_of(game_name).opponent) if game.spec.players > 1 else {}
    setting, seed = ExactSetting(game, pool), options.seed
    sittings: list[Sitting] = []
    print(wrap_lines(game.spec.rules))
    print("\n" + wrap_lines(f"{env_id}: answer with an action or its number; 'help' explains, 'quit' leaves."))
    try:
        while True:
            sitting = Sitting(env, Task(env_id, seed=seed))
            _play_sitting(sitting)
            sittings.append(sitting)
            if game.spec.players > 1:
                print(f"The opponent was {sitting.trajectory.opponent}.")
            # A large game takes minutes.
            line = ProgressLine()
            line.draw("Solving the game exactly ...")
            table = end_table(setting, sittings)
            line.erase()
            print_report(["", *table.blocks()])
            seed = (seed + 1) % 2**SEED_BITS
            if ask("\nEnter plays another meta-episode, 'quit' leaves: ", ()).text.strip().lower() in QUIT:
                raise _Leaves
    except (EOFError, _Leaves):
        print("\nBye.")
    except KeyboardInterrupt:
        print("\nBye.")
        raise SystemExit(130) from None


def _play_sitting(sitting: Sitting) -> None:
    """Play a meta-episode to its end."""
    heading = ""
    while not sitting.over:
        if sitting.reflects:
            note = ask(f"\nYour note on {sitting.heading.lower()} (Enter leaves none): ", ()).text
            if note.strip().lower() in HELP:
                print(wrap_lines(META_HELP))
                continue
            if note.strip().lower() in QUIT:
                raise _Leaves
            sitting.play(note)
            continue
        if sitting.heading != heading:
            heading = sitting.heading
            print(f"\n--- {heading} {RULE}")
            for episode, note in sitting.notes.items():
                print(wrap_lines(f"Your note after episode {episode}: {note}"))
        text = f"{sitting.spec.rules}\n{META_HELP}"
        sitting.play(_listen(sitting.shown, sitting.prompt.legal_actions, sitting.view, explain=text))
        for text in sitting.happened:
            print("\n" + wrap_lines(text))


# -- single hands ----------------------------------------------------------------------------------------------


def _play_hands(env_id: str, game_spec: GameSpec, options: TerminalPlay) -> None:
    """Play hands of a base id until the user leaves."""
    max_turns = options.max_turns or (PATIENCE if game_spec.players == 1 else None)
    env: gym.Env[Any, Any] = gym.make(
        env_id,
        opponent=options.opponents,
        seat=options.seat,
        max_turns=max_turns,
        disable_env_checker=True,
        **options.game_options,
    )
    table = _Table(env, game_spec, options.seed, limited=max_turns != PATIENCE)
    print(wrap_lines(game_spec.rules))
    print("\n" + wrap_lines(f"{env_id}: answer with an action or its number; 'help' explains, 'quit' leaves."))
    if game_spec.players == 1:
        print(wrap_lines("'undo' reverts the last answer, 'restart' starts again, 'new' leaves this one for another."))
    try:
        while options.hands is None or table.hands < options.hands:
            if game_spec.players > 1:
                table.options = {"seat": table.seats[table.hands % len(table.seats)]}
            _play_hand(table)
            table.seed += 1
    except (EOFError, _Leaves):
        print("\nBye.", end=" ")
    except KeyboardInterrupt:
        print(f"\nBye. You are at {table.score()}.")
        raise SystemExit(130) from None
    print(f"You are at {table.score()}.")


def _play_hand(table: _Table) -> None:
    print(f"\n--- {table.noun.capitalize()} {table.hands + 1} {RULE}")
    observation, info = table.deal()
    is_over, value, commands = False, 0.0, (*BACK, "new") if table.spec.players == 1 else ()
    while not is_over:
        text = table.view.now(info, observation)
        answer = _listen(text, info["legal_actions"], table.view, commands, explain=table.spec.rules)
        if answer == "new":
            return
        if answer in BACK and answer in commands:
            observation, info = table.deal(table.given[: BACK[answer]])
            continue
        observation, reward, terminated, truncated, info = table.env.step(answer)
        table.given.append(answer)
        is_over, value = terminated or truncated, float(reward)
        if info["invalid_reason"] is not None:
            cost = f"; it spent one of your {table.env.get_wrapper_attr('max_turns')} turns" if table.limited else ""
            print(f"That is not a legal action{cost}.")
    table.hands += 1
    table.total += value
    name = info["private"]["opponent"]
    opponent = f"Opponent: {name}. " if name else ""
    print(f"\n{wrap_lines(table.view.end(info['action'], observation))}\n{opponent}Total: {table.score()}.")


def _listen(text: str, legal: tuple[str, ...], view: PersonView, commands: Sequence[str] = (), *, explain: str) -> str:
    """Return the user's action or one of `commands`.

    Args:
        view: PersonView of the user, which numbers the actions.
        explain: Text of `help`.

    Raises:
        _Leaves: If the user leaves.
        EOFError: At the end of the input.
    """
    # A blank inside a choice must not become a line break.
    choices = "  ".join(f"{number}) {action}".replace(" ", "\xa0") for number, action in view.numbers(legal).items())
    if takes_arrows(legal):
        choices += "  (arrow keys, too)"
    screen = "\n" + wrap_lines("\n".join((text, choices)) if choices else text).replace("\xa0", " ")
    print(screen)
    while True:
        answer = ask("> ", legal)
        typed = answer.text.strip()
        if answer.by_key:
            # Move up and clear, so that the next board replaces this one.
            print(f"\x1b[{len(screen.splitlines()) + 1}A\x1b[J", end="")
        if typed.lower() in commands:
            return typed.lower()
        if typed.lower() in QUIT and typed not in legal:
            raise _Leaves
        if typed.lower() in HELP and typed not in legal:
            command_names = ", ".join(("quit", *commands))
            print(wrap_lines(explain))
            print(f"Answer with one of the actions above or its number. Commands: {command_names}. Help costs no turn.")
            continue
        if typed:
            return view.action(typed, legal)
