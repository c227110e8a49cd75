"""Games of OpenSpiel that wrap another game: the wrapped game, and the sentences that change its rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

EXAMPLES: Mapping[str, str] = {
    "cached_tree": "cached_tree(game=kuhn_poker())",
    "efg_game": "efg_game(filename=my.efg)",
    "misere": "misere(game=tic_tac_toe())",
    "mnk": "mnk(m=4,n=4,k=3)",
    "nfg_game": "nfg_game(filename=my.nfg)",
    "repeated_game": "repeated_game(stage_game=matrix_pd(),num_repetitions=3)",
    "repeated_poker": "repeated_poker(max_num_hands=3,reset_stacks=True,rotate_dealer=True,"
    "universal_poker_game_string=universal_poker())",
    "start_at": "start_at(game=tic_tac_toe(),history=0;4)",
    "turn_based_simultaneous_game": "turn_based_simultaneous_game(game=matrix_rps())",
    "zerosum": "zerosum(game=leduc_poker())",
}
"""Short name to a complete game string, for games that need parameters."""
REFUSED: Mapping[str, str] = {
    "add_noise": "it adds noise to the returns, which no rule can state",
    "coop_to_1p": "its actions are plans for all hidden cards of a player at once",
    "normal_form_extensive_game": "each of its actions is a plan for a whole game, a line per information state",
    "restricted_nash_response": "it is a construction for solvers, whose opponent is fixed with some probability",
}
"""Short name to the reason, for wrappers that no sentence makes playable."""


def _misere(game: Any, inner: Any) -> str:
    return (
        "This is the misère form of the following game: all points are multiplied by -1. A player who wins by the "
        "following rules loses, and a player who loses by them wins."
    )


def _zero_sum(game: Any, inner: Any) -> str:
    return (
        "This is the zero-sum form of the following game: each player's result is their points by the following rules "
        "minus the mean points of all players."
    )


def _introduce_repetition(game: Any, inner: Any) -> str:
    rounds = game.get_parameters()["num_repetitions"]
    return (
        f"This is a repeated game: the following game is played for {rounds} rounds, and your result is the sum of "
        "your points in all rounds. After each round all choices of that round are shown."
    )


def _introduce_nothing(game: Any, inner: Any) -> str:
    return ""


def _introduce_start(game: Any, inner: Any) -> str:
    import pyspiel

    steps = [int(action) for action in str(game.get_parameters()["history"]).split(";") if action.strip()]
    opening = "The hand does not start at the beginning of the following game."
    if inner.get_type().information != pyspiel.GameType.Information.PERFECT_INFORMATION:
        # The names of the steps could reveal a hidden card.
        return f"{opening} {len(steps)} actions and chance events have already happened."
    state, names = inner.new_initial_state(), []
    for action in steps:
        names.append(str(state.action_to_string(state.current_player(), action)))
        state.apply_action(action)
    return f"{opening} These moves have already been made: {', '.join(names)}."


_WRAPPERS: Mapping[str, tuple[str, Callable[[Any, Any], str]]] = {
    "cached_tree": ("game", _introduce_nothing),
    "misere": ("game", _misere),
    "repeated_game": ("stage_game", _introduce_repetition),
    "start_at": ("game", _introduce_start),
    "turn_based_simultaneous_game": ("game", _introduce_nothing),
    "zerosum": ("game", _zero_sum),
}
"""Short name to the parameter that holds the wrapped game, and the function that returns the sentences."""


class Unwrapped(NamedTuple):
    """A game without its wrappers."""

    inner: Any
    """The wrapped `pyspiel.Game`, or the game itself if nothing wraps it."""
    sentences: tuple[str, ...]
    """Sentences of the wrappers on the rules, the outermost first."""
    repeats: bool
    """True if one of the wrappers repeats the game."""


def unwrap(game: Any) -> Unwrapped:
    """Return the game inside all wrappers, with the sentences of the wrappers."""
    import pyspiel

    sentences: list[str] = []
    repeats = False
    while (name := str(game.get_type().short_name)) in _WRAPPERS:
        key, sentence = _WRAPPERS[name]
        parameters = dict(game.get_parameters()[key])
        try:
            inner = pyspiel.load_game(parameters.pop("name"), parameters)
        except pyspiel.SpielError:
            # OpenSpiel cannot name some games, such as one of a file. Their wrapper has no words.
            break
        if text := sentence(game, inner):
            sentences.append(text)
        repeats = repeats or name == "repeated_game"
        game = inner
    return Unwrapped(game, tuple(sentences), repeats)


def is_wrapper(short_name: str) -> bool:
    """Return True if the game wraps another one, whose rules it takes over."""
    return short_name in _WRAPPERS
