"""A generator of replies by a function of the prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mage_envs.text.generation import Completion, Prompt


@dataclass(eq=False)
class ScriptedGenerator:
    """Generator whose replies are `policy(prompt)`, for tests, oracles and scripted agents."""

    policy: Callable[[Prompt], str]
    tokens: Any = None
    """Tokenizer (`mage_envs.trainer.backends.tokens.ChatTokenizer`), with which the replies have real token ids."""

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        return [self._reply(prompt) for prompt in prompts]

    def _reply(self, prompt: Prompt) -> Completion:
        text = self.policy(prompt)
        if self.tokens is None:
            return Completion(text)
        legal = self.tokens.single_ids(prompt.legal_actions) if text in prompt.legal_actions else ()
        drawn_among = (legal,) if legal else ()
        return Completion(text, self.tokens.encode(prompt), self.tokens.encode_reply(text), legal_ids=drawn_among)
