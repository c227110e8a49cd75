"""The arguments of `mage train`: preset, hardware, file and flags. No torch, unless an option of TRL's is set."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from importlib.util import find_spec
from itertools import pairwise, zip_longest
from math import inf
from pathlib import Path
from typing import Any, NoReturn

from trl.scripts.utils import TrlParser
from trl.trainer.model_config import ModelConfig

from mage_envs.files.bounded import read_yaml
from mage_envs.loading import imports
from mage_envs.loading.arguments import nearest_name
from mage_envs.trainer.backends.packaged import get_packaged_folder
from mage_envs.trainer.config.file_fields import check_file_fields
from mage_envs.trainer.config.hardware import Hardware, hardware
from mage_envs.trainer.config.presets import WORDS, WORDS_OF_GAMES, preset
from mage_envs.trainer.config.run_settings import RunSettings
from mage_envs.trainer.config.words_size import is_words

SWITCHES = ("--dry-run", "--resume", "--resume-if-any")
_VALUED = ("--preset", "--config", "--model", "--hardware", imports.OPTION)


class UsageError(ValueError):
    """Error in the command line or in the config file."""


@dataclass
class ScriptArguments:
    """Options of the command itself."""

    dry_run: bool = field(default=False)
    resume: bool = field(default=False)
    resume_if_any: bool = field(default=False)
    """True to resume if the output folder has checkpoints, and to start a new run if it has none."""
    imitate: list[str] = field(default_factory=list)
    """Players to imitate before the training."""
    imitate_steps: int = field(default=300)
    imitate_rows: int | None = field(default=None)
    imitate_rate: float | None = field(default=None)
    imitate_episodes: int | None = field(default=None)


class Parser(TrlParser):
    """Argument parser that reports a bad value in one line."""

    def error(self, message: str) -> NoReturn:
        # argparse would print the usage first, which lists hundreds of fields.
        raise UsageError(message)


@dataclass
class ParsedArguments:
    """Command line after the first pass."""

    words: list[str]
    """Arguments for the parser."""
    modules: list[str]
    """Modules to import."""
    preset_fields: dict[str, Any]
    """Fields that the preset and the hardware set."""
    machine: Hardware | None
    """Hardware of the run; None if the user names none."""
    explicit_fields: Mapping[str, str]
    """Fields that flags and the file set, as lower-case text."""
    config: str | None = None
    """Path of the config file; None without one."""
    file_fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the config file."""
    is_foreign: bool = False
    """True if the environment is of another project, which has none of the options of our games."""

    @property
    def model_defaults(self) -> Mapping[str, Any]:
        """Return the fields that `--model words` sets; an empty mapping for any other model."""
        if not any(name == "--model_name_or_path" and is_words(value) for name, value in pairwise(self.words)):
            return {}
        return {name: value for name, value in WORDS.items() if not (self.is_foreign and name in WORDS_OF_GAMES)}

    @property
    def needs_trl(self) -> bool:
        """Return True if an option is set that only TRL defines, or if a launcher started the processes."""
        light = {item.name for kind in (RunSettings, ModelConfig, ScriptArguments) for item in fields(kind)}
        # Under a launcher, MAGEConfig compares WORLD_SIZE with the number of processes that accelerate sees.
        return bool({name.removeprefix("no_") for name in self.explicit_fields} - light) or "WORLD_SIZE" in os.environ

    def parse(self, kind: type[RunSettings]) -> tuple[ScriptArguments, RunSettings, ModelConfig]:
        """Return the options of the command, the settings of the run, and the fields of the model.

        Precedence, lowest first: preset, hardware, `--model words`, file, flags.
        """
        kinds: Any = [ScriptArguments, kind, ModelConfig]
        parser = Parser(kinds)
        # TRL's own `--config` would read the file a second time, past the checks of ours.
        parser.set_defaults_with_config(**{**self.preset_fields, **self.model_defaults, **self.file_fields})
        script, config, model = parser.parse_args_and_config(list(self.words))
        # The file may name further modules. They must register their games before the settings refer to them.
        config.imports = list(dict.fromkeys((*config.imports, *self.modules)))
        imports.load_modules(config.imports)
        if (folder := get_packaged_folder(str(model.model_name_or_path), build=not script.dry_run)) is not None:
            model.model_name_or_path = str(folder)
        if not model.model_name_or_path:
            raise UsageError("no model is named. Add --model NAME_OR_PATH, or --model tiny to try the run on a CPU.")
        for name in ("imitate_steps", "imitate_rows", "imitate_episodes"):
            value = vars(script)[name]
            if value is not None and value < 1:
                raise UsageError(f"{name}={value} must be at least 1.")
        if script.imitate_rate is not None and not 0 < script.imitate_rate < inf:
            raise UsageError(f"imitate_rate={script.imitate_rate:g} must be a finite number above 0.")
        if (message := next(_unread_of_model(model), None)) is not None:
            raise UsageError(message)
        return script, config, model


def parse_args(arguments: Sequence[str], field_names: set[str] | None = None) -> ParsedArguments:
    """Split the command line, and translate --config, --model and the switches into arguments of the parser.

    Args:
        arguments: Arguments of the command, without its name.
        field_names: Names of all fields. If it is None, names are not checked, because those of TRL are not loaded yet.

    Raises:
        UsageError: If an option has no value, is repeated, or is unknown, or if the config file cannot be read.
    """
    words: list[str] = []
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
            # --model is a shorthand for a field, and a repeated field is valid: the last value wins.
            elif name in once and name != "--model":
                raise UsageError(
                    f"{name} is repeated. Pass it once; --hardware overrides --preset, --config overrides both, and "
                    f"flags override all."
                )
            else:
                once[name] = value
        elif name in SWITCHES:
            flags += [f"--{name[2:].replace('-', '_')}", "true"]
        else:
            words.append(argument)
    # They may register the game of the preset.
    imports.load_modules(modules)
    preset_fields = preset(once["--preset"]) if "--preset" in once else {}
    machine = hardware(once["--hardware"]) if "--hardware" in once else None
    if "--model" in once:
        words += ["--model_name_or_path", once["--model"]]
    path = Path(once["--config"]) if "--config" in once else None
    loaded = {} if path is None else _file(path)
    explicit_fields = _explicit_fields(words, field_names, loaded, path)
    # The hardware's default is an adapter; a user who trains the whole model must not get the adapter's settings.
    if machine:
        preset_fields |= (
            machine.fields if explicit_fields.get("use_peft") == "false" else {**machine.fields, **machine.adapter}
        )
    return ParsedArguments(
        words=[*words, *flags],
        modules=modules,
        preset_fields=preset_fields,
        machine=machine,
        explicit_fields=explicit_fields,
        config=once.get("--config"),
        file_fields=loaded,
    )


def _explicit_fields(
    words: Sequence[str], field_names: set[str] | None, loaded: Mapping[str, Any], path: Path | None
) -> Mapping[str, str]:
    """Return the fields that flags and the file set, as lower-case text. Raise UsageError for an unknown name."""
    names = {name: str(value).lower() for name, value in loaded.items()}
    where = dict.fromkeys(names, f"field in {path}")
    for word, following in zip_longest(words, words[1:], fillvalue=""):
        if word.startswith("--"):
            # Lower case, so that `--use_peft False` equals `use_peft: false` of the file.
            name, _, value = word.partition("=")
            names[name[2:].replace("-", "_")] = (value or following).lower()
    # The parser adds --no_NAME for a boolean field whose default is True.
    for name in names:
        if field_names is not None and name not in field_names and name.removeprefix("no_") not in field_names:
            raise UsageError(f"unknown {where.get(name, 'flag')}: {name!r}.{nearest_name(name, field_names)}")
    return names


def _file(path: Path) -> Mapping[str, Any]:
    if not path.exists():
        raise UsageError(f"config file {path} does not exist.")
    try:
        loaded = read_yaml(path) or {}
    except ValueError as error:
        raise UsageError(f"config file {error}") from error
    if not isinstance(loaded, dict):
        raise UsageError(f"config file {path} must contain 'field: value' lines.")
    check_file_fields(loaded, path)
    return loaded


def _unread_of_model(model: ModelConfig) -> Iterator[str]:
    """Yield a message for each option of an adapter or of quantised weights that is set without these."""
    quantised = model.load_in_4bit or model.load_in_8bit
    which = "load_in_4bit" if model.load_in_4bit else "load_in_8bit"
    if model.load_in_4bit and model.load_in_8bit:
        yield "load_in_4bit and load_in_8bit exclude each other; choose one."
    if quantised and not model.use_peft:
        yield f"{which} freezes the weights, so only an adapter can be trained; add --use_peft true."
    if quantised and find_spec("bitsandbytes") is None:
        yield f"{which} needs bitsandbytes. Install it with: pip install bitsandbytes"
    for item in fields(ModelConfig):
        if item.default is MISSING or vars(model)[item.name] == item.default:
            continue
        if (item.name.startswith("lora_") or item.name in ("use_rslora", "use_dora")) and not model.use_peft:
            yield f"{item.name} requires --use_peft true."
        if item.name.startswith(("bnb_4bit", "use_bnb")) and not model.load_in_4bit:
            yield f"{item.name} requires --load_in_4bit true."
