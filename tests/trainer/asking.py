"""Prompts of a few words, and a tokenizer that knows them, for tests of backends."""

from mage_envs.text.generation import Message, Prompt
from mage_envs.trainer.backends.tiny import tiny_tokenizer
from mage_envs.trainer.backends.tokens import ChatTokenizer

WORDS = ("bet", "check", "call", "fold", *(f"w{index}" for index in range(20)))
LEGAL = ("bet", "check")


def word_tokens() -> ChatTokenizer:
    """A token for each of `WORDS`."""
    return ChatTokenizer(tiny_tokenizer(WORDS))


def ask(text: str, slot: int = 0, key: int = 0, legal: tuple[str, ...] = LEGAL) -> Prompt:
    """A prompt of these words."""
    return Prompt((Message("user", text),), slot, (5, slot, key, 0), legal)
