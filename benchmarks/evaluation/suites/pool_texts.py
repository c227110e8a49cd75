"""Descriptions of pools for prompts: complete rules of play and probabilities, from which the exact prior follows."""

from __future__ import annotations

from collections.abc import Mapping

from mage_envs.games.encounters import CHARACTERS

_PRICE = (
    "The other player has a price of 1, 2, 3, 4, 5, 6, 7 or 8 slices, each equally likely, the same in all episodes."
)
_STRENGTH = (
    "Before the public card a king is strong, a queen is middling and a jack is weak. After it a pair is strong, a "
    "king without a pair is middling and all else is weak."
)


_THROWS: Mapping[str, str] = {
    "kind": "in rock, paper, scissors it repeats your last choice",
    "fair": "in rock, paper, scissors it repeats its own last choice",
    "greedy": "in rock, paper, scissors it plays what beats your last choice",
    "proud": "in rock, paper, scissors it plays what beats its own last choice",
}


def _kinds(count: str, kinds: tuple[str, ...], likely: str = "each equally likely") -> str:
    listed = " ".join(f"({number}) {kind}." for number, kind in enumerate(kinds, start=1))
    return f"The other player is one of {count} kinds, {likely}, and the same in all episodes. {listed}"


_REMEMBERS = "It remembers all episodes."
_ONE_IN_TEN = "It makes one choice in ten at random."


_TEXTS: Mapping[str, str] = {
    "pd/classic": _kinds(
        "five",
        (
            "Always cooperates",
            "Always defects",
            "Cooperates in the first round of an episode, then repeats what you chose in the round before",
            "Cooperates until you have defected in the episode, then defects until its end",
            "Cooperates in the first round of an episode, and later exactly if both players' choices were the same in "
            "the round before",
        ),
    ),
    "pd/tit-for-tat": (
        "In all episodes the other player cooperates in the first round, then repeats what you chose in the round "
        "before."
    ),
    "ultimatum/reserves": f"{_PRICE} It accepts an offer of its price or more, and refuses less.",
    "ultimatum/soft-reserves": (
        f"{_PRICE} It accepts an offer of its price or more. It accepts less with a probability of 10%."
    ),
    "controls/all": "Each of the 24 ways in which four keys can move in four directions is equally likely.",
    "inspect/habits": _kinds(
        "seven",
        (
            "Always breaks into the vault",
            "Always breaks into the gallery",
            "Always breaks into the archive",
            "Always breaks into the garage",
            "Always breaks into the garden",
            "Avoids the place that was inspected in the round before, and chooses each other place equally often; in "
            "the first round of an episode it chooses each place equally often",
            "Chooses each place equally often",
        ),
    ),
    "rps/soft-reactive": (
        _kinds(
            "four",
            (
                "Repeats your last choice",
                "Plays what beats your last choice",
                "Plays what beats its own last choice",
                "Repeats its own last choice",
            ),
        )
        + " It does so with a probability of 85%, and makes each of the other two choices with 7.5%. Its first choice "
        "of an episode is random."
    ),
    "bargain/mixed": (
        _kinds(
            "four",
            (
                "Wants 5 points throughout",
                "Wants 10 - 3 t / n points",
                "Wants 10 - 8 (t / n)^(1/3) points",
                "Wants 7 points throughout",
            ),
        )
        + " Here n is the maximum number of offers, t is the number of offers that both players have made so far, and "
        "points are the values of items without any loss by time. It accepts if your last offer gives it what it "
        "wants. Otherwise it refuses the last offer, or makes the offer that gives it what it wants by the smallest "
        "margin."
    ),
    "kuhn/paper": _kinds(
        "three",
        (
            "With 30%: bets and calls with K alone",
            "With 30%: always bets if it can, and calls with Q and K",
            "With 40%: bets with Q and K, and calls with K alone",
        ),
        "with these probabilities",
    ),
    "leduc/four": (
        _kinds(
            "four",
            (
                "Raises with a strong hand, and folds any other to a raise",
                "Raises with a strong or a middling hand if there is no raise to answer; facing a raise, it raises "
                "again with a strong hand, calls with a middling one and folds a weak one",
                "Raises whenever it may, and else calls",
                "Never raises and never folds",
            ),
        )
        + f" It calls if it may not raise. {_STRENGTH}"
    ),
    "encounters/all": _kinds(
        "four",
        tuple(f"It {habits}; {_THROWS[name]}" for name, habits in CHARACTERS.items()),
    )
    + " In rock, paper, scissors its first choice is random.",
    "pennies/learners": _kinds(
        "four",
        (
            f"Expects you to go on as often with each side as so far, and plays the best answer. {_ONE_IN_TEN}",
            "Repeats its last side if it won the round, and else changes it",
            "Gives each side a value, 0 at first, which moves half of the way to each payoff (1 won, -1 lost); shows "
            f"the side with the higher value. {_ONE_IN_TEN}",
            "Expects you to play the best answer to how often it showed each side so far, and plays the best answer "
            f"to that. {_ONE_IN_TEN}",
        ),
    )
    + f" {_REMEMBERS} Without experience, and between equally good sides, it chooses at random.",
    "rps/learners": _kinds(
        "three",
        (
            "Expects you to go on as often with each choice as so far, and plays the best answer; it makes 15 choices "
            "in 100 at random",
            "Repeats its last choice if it won the round, and else takes the next one of rock, paper, scissors, rock",
            "Plays rock with a probability of 70%, paper with 15%, scissors with 15%",
        ),
    )
    + f" {_REMEMBERS} Without experience, and between equally good choices, it chooses at random.",
    "pd/changing": _kinds(
        "four",
        (
            "Cooperates in the first round of an episode, then repeats what you chose in the round before",
            "Cooperates until you have defected once, then defects for the rest of all episodes",
            "Cooperates until you have defected in the episode, then defects until its end",
            "Always defects",
        ),
    ),
    "pd/forgiving": _kinds(
        "two",
        (
            "Cooperates until you have defected in the episode, then defects until its end",
            "Cooperates until you have defected once, then defects for the rest of all episodes",
        ),
    ),
    "pd/turning": _kinds(
        "three",
        (
            "In the first episode always cooperates or always defects, each equally likely; after each episode, with "
            "a probability of 40%, this is drawn anew",
            "Cooperates until you have defected once, then defects for the rest of all episodes",
            "Cooperates in the first round of an episode, then repeats what you chose in the round before",
        ),
    ),
    "ultimatum/moods": _kinds(
        "four",
        (
            "Has a price of 3 slices, and of 2 more after each refusal",
            "Has a price of 7 slices, and of 2 fewer after each refusal",
            "Has a price of 2 slices, and of 2 more after each acceptance",
            "Has a price of 3 slices",
        ),
    )
    + " It accepts an offer of its price or more, and refuses less. Prices stay between 1 and 8 slices, and changes "
    "carry over to later episodes.",
    "kuhn/learners": _kinds(
        "three",
        (
            "Bets and calls with K alone",
            "Bets and calls with K alone in the first two episodes; from then on it never bets and calls with every "
            "card",
            "Bets and calls with K alone until you have bet or called in one episode; then bets with K, and calls "
            "with Q and K; after a second such episode it never bets and calls with every card",
        ),
    ),
}
"""Pool, or single opponent, to its description."""


def has_description(pool: str) -> bool:
    """Return True if there is a description of the pool."""
    return pool in _TEXTS


def description_of(pool: str) -> str:
    """Return the description of a pool by its name without `pool:`. Raise ValueError if there is none."""
    if pool not in _TEXTS:
        raise ValueError(f"Pool {pool!r} has no description. Those of {', '.join(_TEXTS)} have one.")
    return _TEXTS[pool]
