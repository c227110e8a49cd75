"""`hf:MODEL`: any chat model in a Hugging Face folder or on the hub as an agent, and the loader of local models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mage_envs.core import Game
from mage_envs.loading.arguments import Spec, call
from mage_envs.loading.extras import requires

if TYPE_CHECKING:
    from mage_envs.text.generation import Generator
    from mage_envs.trainer.backends.local_model import HFGenerator
    from mage_envs.trainer.backends.play_settings import PlaySettings
    from mage_envs.trainer.backends.reply_format import ReplyFormat
    from mage_envs.trainer.backends.tokens import PromptFormat


@dataclass(frozen=True)
class HuggingFaceOptions:
    """Options of `hf:MODEL,KEY=VALUE,...`."""

    model: str
    """Folder, or name on the hub, without commas."""
    max_tokens: int | None = None
    """Reply limit in tokens; None is that of the model's generation_config.json, else that of the game's presets."""
    thinking: bool | None = None
    """Value of the template's variable `enable_thinking`; None is the template's default."""
    date: str | None = None
    """Day (YYYY-MM-DD) in prompts whose template writes one; None is the same day in every run."""
    stop: bool = False
    """True to end a reply when its answer tag is closed, as small models seldom end a reply by themselves."""


class LocalAgent:
    """An agent whose model is loaded in this process."""

    name: str
    folder: Path
    replies: str = ""
    """How replies are played, by the probe of batches and caches; empty before the model is loaded."""


class HuggingFaceAgent(LocalAgent):
    """A chat model in a folder or on the hub, queried with the sampling and limits of the game's presets."""

    def __init__(self, name: str, spec: Spec, sampling: Mapping[str, float] | None) -> None:
        """Find the model, and download it if it is on the hub. The weights are loaded by `generator`.

        Args:
            name: Name of the agent in records and tables.
            spec: Specification with the arguments `MODEL[,KEY=VALUE]...`.
            sampling: Fields of the trainer's `Sampling` to replace.

        Raises:
            ValueError: If an option is unknown or out of range, or if there is no such model.
        """
        self.name = name
        self.sampling = sampling
        self.options = call(f"Agent {name!r}", spec, HuggingFaceOptions)
        if self.options.max_tokens is not None and self.options.max_tokens < 1:
            raise ValueError(f"Agent {name!r}: max_tokens={self.options.max_tokens} must be at least 1.")
        with requires(f"Agent {name!r}", "train"):
            from mage_envs.trainer.backends.weights import base_of, local_folder

        # The model is loaded later, when other code may have changed the current directory.
        self.folder = local_folder(self.options.model).absolute()
        if not (self.folder / "config.json").is_file() and base_of(self.folder) is None:
            raise ValueError(f"Agent {name!r}: {self.folder} has no config.json. Use the folder of a saved model.")
        self._prompt_format()

    def request(self, game_name: str) -> dict[str, Any]:
        """Return its sampling and limits in that game, for the records."""
        settings = self._settings(game_name)
        sampling: dict[str, Any] = {
            "max_tokens": settings.max_new_tokens,
            "max_prompt_tokens": settings.prompt_format.max_prompt_length,
            "temperature": settings.temperature,
        }
        if settings.prompt_format.chat_template_kwargs:
            sampling["chat_template_kwargs"] = dict(settings.prompt_format.chat_template_kwargs)
        # As JSON, because the identity of a recorded agent is compared with this one.
        sampling["reply_format"] = asdict(self._facts) | {"end_ids": list(self._facts.end_ids)}
        if self._facts.shows_date:
            sampling["date"] = settings.prompt_format.date
        if self.options.stop:
            sampling["stop"] = True
        return sampling | dict(self.sampling or {})

    @cached_property
    def _facts(self) -> ReplyFormat:
        """Facts about the model's replies, which its template, tokenizer and generation config show."""
        from mage_envs.trainer.backends.play_settings import with_ends
        from mage_envs.trainer.backends.tokens import ChatTokenizer
        from mage_envs.trainer.backends.weights import generation_config, load_tokenizer

        prompt_format = with_ends(self._prompt_format(), generation_config(self.folder))
        return ChatTokenizer(load_tokenizer(self.folder), prompt_format).reply_format

    def _prompt_format(self, max_prompt_length: int | None = None) -> PromptFormat:
        from mage_envs.trainer.backends.tokens import DATE, PromptFormat

        options = self.options
        template = {} if options.thinking is None else {"enable_thinking": options.thinking}
        return PromptFormat(template, max_prompt_length=max_prompt_length, date=options.date or DATE)

    def generator(self, game: Game) -> Generator:
        changes: dict[str, Any] = {**(self.sampling or {}), "stops_at_answer": self.options.stop}
        return local_generator(self, self._settings(game.spec.name), changes)

    def _settings(self, game_name: str) -> PlaySettings:
        from mage_envs.trainer.backends.play_settings import PlaySettings
        from mage_envs.trainer.backends.weights import positions_of
        from mage_envs.trainer.config.presets import COMMON, prompt_limit, reply_limit

        options = self.options
        reply = options.max_tokens or self._own_limit() or reply_limit(game_name)
        # Small models have fewer positions than the two limits together. A prompt is shortened, a reply is not.
        positions = positions_of(self.folder)
        prompt = prompt_limit(game_name) if positions is None else min(prompt_limit(game_name), positions - reply)
        if positions is not None and prompt < 1:
            raise ValueError(
                f"Agent {self.name!r}: replies of {reply} tokens leave no room for a prompt in the model's {positions} "
                f"positions. Set a lower limit, as in hf:{options.model},max_tokens={positions // 2}."
            )
        return PlaySettings(
            "",
            max_new_tokens=reply,
            temperature=COMMON["temperature"],
            prompt_format=self._prompt_format(prompt),
        )

    def _own_limit(self) -> int | None:
        """Return the reply limit that the model's folder states, or None."""
        from mage_envs.trainer.backends.weights import generation_config

        limit = getattr(generation_config(self.folder), "max_new_tokens", None)
        return limit if isinstance(limit, int) and limit > 0 else None


def local_generator(
    agent: LocalAgent,
    settings: PlaySettings,
    sampling: Mapping[str, Any] | None,
    converses: bool = False,
) -> HFGenerator:
    """Load the model of an agent, on a GPU if there is one.

    Args:
        agent: Agent. Its `replies` are set.
        settings: Limits, sampling and prompt format.
        sampling: Fields of the trainer's `Sampling` to replace.
        converses: True to keep the key-value cache between the calls of a conversation.
    """
    with requires(f"Agent {agent.name!r}", "train"):
        from mage_envs.trainer.backends.model_folder import quieten
        from mage_envs.trainer.backends.play_settings import make_generator

        quieten()
        generator = make_generator(agent.folder, settings, converses, device="auto", **(sampling or {}))
    agent.replies = str(generator.batching)
    return generator
