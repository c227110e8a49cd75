"""A saved model and its play settings: `mage.json` beside the weights."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from mage_envs.files.atomic import write_json
from mage_envs.files.bounded import parse_json, read_inside
from mage_envs.loading.arguments import nearest_name
from mage_envs.loading.imports import check_path, load_modules, names_from
from mage_envs.text.styles import load_style
from mage_envs.trainer.backends.reply_format import ReplyFormat
from mage_envs.trainer.backends.tokens import ChatTokenizer, PromptFormat
from mage_envs.wrappers.controls import parse_control
from mage_envs.wrappers.memories import as_memory
from mage_envs.wrappers.rollout.training_log import SETTINGS

if TYPE_CHECKING:
    from mage_envs.text.generation import Generator
    from mage_envs.trainer.backends.local_model import HFGenerator, Sampling

PATH_OPTIONS = ("data", "levels", "goals")
"""Options of environments that may be paths."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class PlaySettings:
    """Settings with which a model plays as it was trained."""

    env_id: str
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    """Keyword arguments of the Meta id, opponents left out (JSON values)."""
    max_new_tokens: int = 1024
    temperature: float = 1.0
    constrained: bool = False
    """True if replies are sampled among the legal actions."""
    imports: tuple[str, ...] = ()
    """Modules that register the environment, if it is not part of this suite."""
    prompt_format: PromptFormat = field(default_factory=PromptFormat)
    """Rules that turn chats into ids. `env_kwargs` holds the rest of a prompt: its style, context and memory."""
    reply_format: ReplyFormat | None = None
    """Facts about the replies that the probe of the training found, or None if there was none."""

    def save(self, folder: str | Path) -> None:
        """Write `mage.json` atomically."""
        path = Path(folder) / SETTINGS
        write_json(path, asdict(self), sort_keys=True)

    @classmethod
    def load(cls, folder: str | Path) -> PlaySettings:
        """Read `mage.json`, which may come from a stranger.

        Raises:
            FileNotFoundError: If the folder holds no mage.json.
            ValueError: If the file is not one that `save` wrote.
            UntrustedName: If it needs a module that the user did not import.
        """
        path = Path(folder) / SETTINGS
        if not path.exists():
            raise FileNotFoundError(
                f"{folder} holds no {SETTINGS}; pass a folder that mage train or the demo saved, or evaluate "
                f"any other model as hf:{folder}."
            )
        content = read_inside(Path(folder), SETTINGS)
        try:
            stored = parse_json(content)
            _check_keys(cls, stored)
            # pydantic ignores unknown keys of a dataclass, so `_check_keys` looks for them before and after.
            settings = TypeAdapter(cls).validate_json(content, strict=True)
            _check_keys(PromptFormat, stored.get("prompt_format", {}))
            _check_keys(ReplyFormat, stored.get("reply_format") or {})
        except (ValueError, TypeError) as error:
            reason = " ".join(str(error).split())
            raise ValueError(f"{path} is not readable as play settings: {reason} Save the model again.") from error
        with names_from(path):
            settings._check_names(path)
        return settings

    def _check_names(self, path: Path) -> None:
        """Resolve every name in the settings once, so that only registered names and imported modules remain."""
        load_modules(self.imports, str(path))
        # gym.make would import the part before the colon.
        if ":" in self.env_id:
            raise ValueError(f"{path}: env_id={self.env_id!r} must be a registered id, without a module.")
        if "opponent" in self.env_kwargs:
            raise ValueError(f"{path}: env_kwargs may not name an opponent.")
        style, memory = self.env_kwargs.get("style", ""), self.env_kwargs.get("memory")
        if ":" in style:
            load_style(style)
        if memory is not None:
            as_memory(parse_control(memory)[1])
        for name in PATH_OPTIONS:
            value = self.env_kwargs.get(name)
            # Other values are names of data, such as `official`.
            if isinstance(value, str) and (os.sep in value or Path(value).exists()):
                check_path(value, name)
        for part in str(self.env_kwargs.get("game", "")).split("filename=")[1:]:
            check_path(part.partition(",")[0].rstrip(") "), "game")


def _check_keys(kind: type[Any], stored: Mapping[str, Any]) -> None:
    """Raise ValueError if a key is not the name of a field of the dataclass."""
    names = [dataclass_field.name for dataclass_field in fields(kind)]
    if unknown := next((name for name in stored if name not in names), None):
        raise ValueError(f"unknown key {unknown!r}.{nearest_name(unknown, names)}")


def load_generator(folder: str | Path, cached: bool = False, **changes: Any) -> tuple[Generator, PlaySettings]:
    """Return a local generator for the model in a folder with a `mage.json`, and the model's play settings.

    Args:
        folder: Folder of a saved model.
        cached: True to keep the key-value cache between the calls of a conversation.
        changes: Fields of `Sampling` to replace.

    Raises:
        FileNotFoundError, UntrustedName: As `PlaySettings.load`.
        ValueError: As `PlaySettings.load` and `load_model`.
    """
    settings = PlaySettings.load(folder)
    return make_generator(folder, settings, cached, **changes), settings


def with_ends(prompt_format: PromptFormat, generation_config: Any) -> PromptFormat:
    """Return a prompt format with the end ids of a model's generation config, if it has one."""
    ends = getattr(generation_config, "eos_token_id", None)
    listed = ends if isinstance(ends, list | tuple) else [ends]
    end_ids = {*prompt_format.end_ids, *(i for i in listed if i is not None)}
    return replace(prompt_format, end_ids=tuple(sorted(end_ids)))


def make_generator(
    folder: str | Path, settings: PlaySettings, cached: bool = False, device: str = "cpu", **changes: Any
) -> HFGenerator:
    """Return a local generator for any model in a folder, with these settings.

    Args:
        folder: Folder of the model, with or without a `mage.json`, which is not read.
        settings: Limits, sampling and prompt format.
        cached: True to keep the key-value cache between the calls of a conversation.
        device: Device of the model, or `auto` for a GPU if there is one.
        changes: Fields of `Sampling` to replace.

    Raises:
        ValueError: As `load_model`.
    """
    import torch

    # Imported here, because reading play settings needs neither torch nor transformers.
    from mage_envs.trainer.backends.cached import CachedGenerator
    from mage_envs.trainer.backends.local_model import HFGenerator, Sampling
    from mage_envs.trainer.backends.weights import check_vocabulary, load_model, load_tokenizer

    tokenizer = load_tokenizer(Path(folder))
    model = load_model(Path(folder))
    check_vocabulary(model, tokenizer)
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    # torch declares `to` with overloads that mypy does not resolve for this class.
    placed: Any = model
    placed.to(device)
    sampling: Sampling = replace(
        Sampling(settings.max_new_tokens, settings.temperature, constrained=settings.constrained), **changes
    )
    tokens = ChatTokenizer(tokenizer, with_ends(settings.prompt_format, model.generation_config))
    if settings.reply_format and (change := tokens.reply_format.difference(settings.reply_format)):
        _LOG.warning("The chat template or tokenizer in %s is not that of the training: %s.", folder, change)
    kind = CachedGenerator if cached else HFGenerator
    return kind(model, tokens, sampling, settings.prompt_format.max_prompt_length)
