"""`Neutral`: the style `plain` with neutral words for the game and its actions, against knowledge of famous games.

`GameSpec.neutral` maps the words of a game. The whole prompt is renamed when it is sent, so no part of it is forgotten,
and actions are read back from their neutral words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from mage_envs.core import GameSpec
from mage_envs.text.plain import Plain, nearest_action
from mage_envs.text.prompts import BeliefView, Renaming, TurnRecord


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
