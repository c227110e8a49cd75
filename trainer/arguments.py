"""The arguments of `mage-train`: preset, hardware, file and flags. No torch, unless an option of TRL's is given."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any, NoReturn

import yaml
from trl.scripts.utils import TrlParser
from trl.trainer.model_config import ModelConfig

from mage_envs import imports
from mage_envs.arguments import nearest_name
from trainer.hardware import Hardware, hardware
from trainer.model_options import unread_of_model
from trainer.presets import WORDS, preset
from trainer.settings import RunSettings

SWITCHES = ("--dry-run", "--resume", "--resume-if-any")
_VALUED = ("--preset", "--config", "--model", "--hardware", imports.OPTION)


class UsageError(ValueError):
    """What the user typed cannot be run."""


@dataclass
class ScriptArguments:
    """The command's own switches."""

    dry_run: bool = field(default=False)
    resume: bool = field(default=False)
    resume_if_any: bool = field(default=False)
    """Like `resume` where there are checkpoints, and from the beginning where there are none."""
    warm_start: int = field(default=0)


class Parser(TrlParser):
    """Reports a bad value in one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message)


@dataclass
class Typed:
    """What was typed, taken apart."""

    words: list[str]
    """For the parser."""
    modules: list[str]
    chosen: dict[str, Any]
    """Fields of the preset and of the hardware."""
    machine: Hardware | None
    given: Mapping[str, str]
    """Fields that flags and the file set, with their text."""
    config: str | None = None
    """Path of the config file."""

    @property
    def suited(self) -> Mapping[str, Any]:
        """What `--model words` sets; nothing for another model."""
        return WORDS if ("--model_name_or_path", "words") in pairwise(self.words) else {}

    @property
    def needs_trl(self) -> bool:
        """Whether an option is set that TRL alone knows, or processes were started that it has to see."""
        light = {item.name for kind in (RunSettings, ModelConfig, ScriptArguments) for item in fields(kind)}
        return (
            bool({name.removeprefix("no_") for name in self.given} - light - {"config"}) or "WORLD_SIZE" in os.environ
        )

    def parsed(self, kind: type[RunSettings]) -> tuple[ScriptArguments, RunSettings, ModelConfig]:
        """The settings, those of the preset changed by the hardware, the file and the flags, in this order."""
        kinds: Any = [ScriptArguments, kind, ModelConfig]
        parser = Parser(kinds)
        parser.set_defaults_with_config(**{**self.chosen, **self.suited})
        script, config, model = parser.parse_args_and_config(list(self.words))
        config.imports = list(dict.fromkeys((*config.imports, *self.modules)))
        imports.load_modules(config.imports)
        if not model.model_name_or_path:
            raise UsageError("no model is named; add --model NAME_OR_PATH, or --model tiny to try the run on a CPU.")
        if script.warm_start < 0 or (script.warm_start and not self.suited):
            raise UsageError(f"warm_start={script.warm_start} is a number of steps, for --model words alone.")
        if (message := next(unread_of_model(model), None)) is not None:
            raise UsageError(message)
        return script, config, model


def taken_apart(arguments: Sequence[str], known: set[str] | None = None) -> Typed:
    """Turns --config, --model, --dry-run into what the parser knows. Raises UsageError for what cannot be meant.

    `known`: fields that there are; None: those without TRL's, whose names then are checked when they are needed.
    """
    rest: list[str] = []
    flags: list[str] = []
    modules: list[str] = []
    once: dict[str, str] = {}
    values = iter(arguments)
    for argument in values:
        name, _, value = argument.partition("=")
        if name in _VALUED:
            value = value or next(values, "")
            if not value:
                raise UsageError(f"{name} needs a value.")
            if name == imports.OPTION:
                modules.append(value)
            elif name in once and name != "--model":
                raise UsageError(
                    f"give {name} once; --hardware changes what a --preset says, a --config both, and flags all."
                )
            else:
                once[name] = value
        elif name in SWITCHES:
            flags += [f"--{name[2:].replace('-', '_')}", "true"]
        else:
            rest.append(argument)
    chosen = preset(once["--preset"]) if "--preset" in once else {}
    machine = hardware(once["--hardware"]) if "--hardware" in once else None
    for flag, argument in (("--config", "--config"), ("--model", "--model_name_or_path")):
        if flag in once:
            rest += [argument, once[flag]]
    given = _given(rest, known)
    if machine:
        chosen |= machine.fields if given.get("use_peft") == "false" else {**machine.fields, **machine.adapter}
    return Typed(
        words=[*rest, *flags],
        modules=modules,
        chosen=chosen,
        machine=machine,
        given=given,
        config=once.get("--config"),
    )


def _given(words: Sequence[str], known: set[str] | None) -> Mapping[str, str]:
    """The fields that flags and the file set, as text; one clear line for a misspelt one."""
    names: dict[str, str] = {}
    where: dict[str, str] = {}
    if "--config" in words:
        path = Path(words[words.index("--config") + 1])
        names = {name: str(value).lower() for name, value in _file(path).items()}
        where = dict.fromkeys(names, f"field in {path}")
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        if word.startswith("--"):
            name, _, value = word.partition("=")
            names[name[2:].replace("-", "_")] = (value or following).lower()
    for name in names:
        if known is not None and name not in known and name.removeprefix("no_") not in known:
            raise UsageError(f"unknown {where.get(name, 'flag')}: {name!r}.{nearest_name(name, known)}")
    return names


def _file(path: Path) -> Mapping[str, Any]:
    if not path.exists():
        raise UsageError(f"config file {path} does not exist.")
    try:
        loaded = yaml.safe_load(path.read_text()) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"config file {path} is not valid YAML: {' '.join(str(error).split())}.") from error
    if not isinstance(loaded, dict):
        raise UsageError(f"config file {path} must hold 'field: value' lines.")
    return loaded
