"""The prompt styles by name, and `Neutral`: `plain` with neutral words, against knowledge of famous games.

`GameSpec.neutral` maps the words of a game. The whole prompt is renamed when it is sent, so no part of it is forgotten,
and actions are read back from their neutral words.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

from mage_envs.core import GameSpec
from mage_envs.loading.defaults import fill_in
from mage_envs.loading.imports import load_class
from mage_envs.text.plain import Paper, Plain, nearest_action
from mage_envs.text.prompts import BeliefView, PromptStyle, Renaming, TurnRecord


class NeutralWords(Renaming):
    """The neutral words of a game."""

    def __init__(self, spec: GameSpec) -> None:
        """Prepare the words. Raises ValueError if the game has none."""
        if not spec.neutral:
            raise ValueError(
                f"style='neutral': {spec.name} has no neutral words (GameSpec.neutral); use style='plain'."
            )
        self._words: Mapping[str, str] = spec.neutral
        # The longest phrase first: the name of a game may contain the words of its actions.
        phrases = sorted(self._words, key=len, reverse=True)
        self._pattern = re.compile("|".join(rf"\b{_pattern(phrase)}\b" for phrase in phrases))
        self._actions = {self.rename(action): action for action in spec.actions or ()}

    def rename(self, text: str) -> str:
        return _rename(self, text)

    def read(self, answer: str) -> str:
        return self._actions.get(" ".join(answer.lower().split()), answer)

    def replace(self, text: str) -> str:
        """Return the text in neutral words."""
        return self._pattern.sub(self._word, text)

    def _word(self, match: re.Match[str]) -> str:
        phrase = match[0]
        if phrase in self._words:
            return self._words[phrase]
        word = self._words[phrase[0].lower() + phrase[1:]]
        return word[0].upper() + word[1:]


# A prompt repeats the texts of the prompt before it, and members of a group get equal prompts.
@lru_cache(maxsize=512)
def _rename(words: NeutralWords, text: str) -> str:
    return words.replace(text)


def _pattern(phrase: str) -> str:
    """Return a pattern of a phrase, with a capital at its start if the phrase has none."""
    initial, remainder = re.escape(phrase[0]), re.escape(phrase[1:])
    return f"[{initial}{initial.upper()}]{remainder}" if phrase[0].islower() else initial + remainder


class Neutral(Plain):
    """Style `plain` in neutral words."""

    def __init__(self, spec: GameSpec) -> None:
        """Create the style for a game. Raises ValueError if the game has no neutral words."""
        super().__init__()
        self.renaming = NeutralWords(spec)

    def ask_belief(self, view: BeliefView) -> str:
        # Registered names, such as that of tit-for-tat, are what this style hides. Only the rules may describe them.
        names = view.names if view.frame.spec.series else [f"type {k}" for k in range(1, len(view.names) + 1)]
        return super().ask_belief(view._replace(names=names))

    def _nearest(self, spec: GameSpec, record: TurnRecord) -> str:
        read = self.renaming.rename(record.action or "")
        legal = [self.renaming.rename(action) for action in record.turn.legal_actions]
        is_known = read.strip().lower() in {self.renaming.rename(action) for action in spec.actions or ()}
        return nearest_action(read, legal) if read and legal and not is_known else ""


DEFAULT_STYLE = "plain"
"""Style of prompts unless another one is chosen."""


def _words(spec: GameSpec) -> PromptStyle:
    # Imported here, because the other styles need no vocabulary.
    from mage_envs.text.words.style import Words

    return Words(spec)


STYLES: dict[str, Callable[[GameSpec], PromptStyle]] = {
    "plain": lambda spec: Plain(),
    "paper": lambda spec: Paper(),
    "neutral": Neutral,
    "words": _words,
}
"""Functions that create a style for a game with this specification."""


def load_style(spec: str) -> PromptStyle:
    """Return a new style of the class that `"module:Class"` refers to; raises like `load_class`."""
    style: PromptStyle = fill_in(load_class(spec, "a prompt style", ("play", "reflect"))(), PromptStyle)
    return style


def as_style(style: str | PromptStyle, spec: GameSpec) -> PromptStyle:
    """Return the style of this name for a game, the class behind `"module:Class"`, or a given style."""
    if not isinstance(style, str):
        given: PromptStyle = fill_in(style, PromptStyle)
        return given
    if ":" in style:
        return load_style(style)
    if style not in STYLES:
        raise ValueError(f"style={style!r} is unknown; choose one of: {', '.join(STYLES)}, or give a PromptStyle.")
    return STYLES[style](spec)
