"""`mage-train` / `python -m trainer`: trains a model from a preset, a YAML file and flags."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn

import gymnasium as gym

from mage_envs import _siblings, imports, progress
from mage_envs.processes.outcomes import TRACEBACK
from mage_envs.terminal.commands import told
from trainer.metrics import RunStopped, WronglyStarted
from trainer.presets import listing, preset

USAGE = """usage: mage-train [--preset NAME] [--config FILE.yaml] [--model NAME_OR_PATH] [--import MODULE ...]
                  [--dry-run] [--resume] [--FIELD VALUE ...]

Trains a language model on meta-episodes. Fields are those of trainer.MAGEConfig and trl.ModelConfig; the file changes
the preset, and flags change both. The model 'tiny' is a byte-level model of random weights, for trying a run on a CPU;
'words' is a word-level one that learns a game with a fixed set of actions there, and sets what suits it and says so.
--import loads a module of yours, from the current folder or installed, that registers games and opponents; --env_id
takes module:id, too.

  mage-train --preset mage-kuhn --dry-run                   the resolved settings and one prompt of each kind
  mage-train --preset mage-kuhn --output_dir runs/kuhn      the paper's run, on a GPU
  mage-train --model words --env_id mage/Ultimatum-Meta-v0  learns within minutes on a CPU (--warm_start N: first
                                                            N steps of language modelling on random legal play)
  mage-train --preset mage-kuhn --model tiny --max_rollouts 2 --groups_per_rollout 2 --max_completion_length 16

presets:
  {presets}
"""


NEEDED = ("torch", "trl", "transformers", "accelerate", "datasets", "peft")
"""Packages of the extra `train`."""


TOLD = 10.0
"""Seconds in which the first of several processes tells what is wrong with all; a launcher ends the others with it."""


class UsageError(ValueError):
    """What the user typed cannot be run."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE.format(presets=listing()))
        return 0
    try:
        _siblings.check("trainer")
        with progress.shown():
            return _run(arguments)
    except KeyboardInterrupt:
        print("\nmage-train: interrupted before the training began; nothing was written.", file=sys.stderr)
        return 130
    except RunStopped as error:
        print(f"mage-train: {error}", file=sys.stderr)
        return 1
    except WronglyStarted as error:
        if os.environ.get("RANK", "0") != "0":
            time.sleep(TOLD)
            return 2
        print(f"mage-train: {error}", file=sys.stderr)
        return 2
    except (UsageError, ValueError, KeyError, TypeError, OSError, ImportError, gym.error.Error) as error:
        print(f"mage-train: {' '.join(_told(error).split())}", file=sys.stderr)
        return 2


def _told(error: Exception) -> str:
    """The error in words, for a missing package how to install it."""
    if isinstance(error, ModuleNotFoundError) and error.name in NEEDED:
        return f'{error.name} is missing. Install it with: pip install "mage-envs[train]"'
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith(TRACEBACK)]
    return " ".join([told(error), *notes])


def _run(arguments: list[str]) -> int:
    from trl.scripts.utils import TrlParser
    from trl.trainer.model_config import ModelConfig

    from trainer.config import MAGEConfig
    from trainer.inherited import unread_of_model

    arguments, flags, modules, chosen = _own_flags(arguments)

    @dataclass
    class ScriptArguments:
        """The command's own switches."""

        dry_run: bool = field(default=False)
        resume: bool = field(default=False)
        warm_start: int = field(default=0)

    class Parser(TrlParser):
        """Reports a bad value in one line."""

        def error(self, message: str) -> NoReturn:
            raise UsageError(message)

    kinds: Any = [ScriptArguments, MAGEConfig, ModelConfig]
    parser = Parser(kinds)
    given = _check_names(arguments, kinds)
    suited = _suited(arguments)
    imports.search_current_folder()
    parser.set_defaults_with_config(**{**chosen, **suited})
    script, config, model = parser.parse_args_and_config(arguments + flags)
    config.imports = list(dict.fromkeys((*config.imports, *modules)))
    imports.load_modules(config.imports)
    if not model.model_name_or_path:
        raise UsageError("no model is named; add --model NAME_OR_PATH, or --model tiny to try the run on a CPU.")
    if suited:
        _say_suited({name: value for name, value in suited.items() if name not in given}, config)
    if script.warm_start < 0 or (script.warm_start and not suited):
        raise UsageError(f"warm_start={script.warm_start} is a number of steps, for --model words alone.")
    for broken, message in unread_of_model(model):
        if broken:
            raise UsageError(message)
    if script.dry_run:
        _describe(config, model)
        return 0
    return _train(config, model, script)


def _suited(arguments: Sequence[str]) -> Mapping[str, Any]:
    """What `--model words` sets; nothing for another model."""
    if ("--model_name_or_path", "words") not in pairwise(arguments):
        return {}
    from trainer.words import DEFAULTS

    return DEFAULTS


def _say_suited(chosen: dict[str, Any], config: Any) -> None:
    """Tells what `--model words` has set, the advantage too, which hangs on the game and its opponents."""
    from trainer.words import prefer_exact

    if "advantage" in chosen and prefer_exact(config):
        chosen |= {name: config.__dict__[name] for name in ("advantage", "statistics", "horizon")}
    told = " ".join(f"{name}={value}" for name, value in chosen.items())
    print(f"mage-train: --model words sets {told}", file=sys.stderr)


def _own_flags(arguments: list[str]) -> tuple[list[str], list[str], list[str], dict[str, Any]]:
    """Turns --config, --model, --dry-run into what TrlParser knows; the modules of --import and the preset's fields
    come last."""
    chosen: dict[str, Any] = {}
    rest: list[str] = []
    flags: list[str] = []
    modules: list[str] = []
    values = iter(arguments)
    for argument in values:
        name, _, given = argument.partition("=")
        if name in ("--preset", "--config", "--model", imports.OPTION):
            value = given or next(values, "")
            if not value:
                raise UsageError(f"{name} needs a value.")
            if name == imports.OPTION:
                modules.append(value)
                continue
            if (name == "--preset" and chosen) or name in rest:
                raise UsageError(f"give {name} once; a --config changes what a --preset says, and flags change both.")
            if name == "--preset":
                chosen = preset(value)
            else:
                rest += ["--model_name_or_path" if name == "--model" else name, value]
        elif name in ("--dry-run", "--resume"):
            flags += [f"--{name[2:].replace('-', '_')}", "true"]
        else:
            rest.append(argument)
    return rest, flags, modules, chosen


def _check_names(arguments: Sequence[str], kinds: Sequence[Any]) -> Mapping[str, str]:
    """The fields that flags and the file set; one clear line for a misspelt one, TrlParser would print its usage."""
    import difflib

    import yaml

    known = {item.name for kind in kinds for item in fields(kind)} | {"config", "env"}
    names = {a.split("=")[0][2:].replace("-", "_"): "flag" for a in arguments if a.startswith("--")}
    if "--config" in arguments:
        path = Path(arguments[arguments.index("--config") + 1])
        if not path.exists():
            raise UsageError(f"config file {path} does not exist.")
        try:
            loaded = yaml.safe_load(path.read_text()) or {}
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise UsageError(f"config file {path} is not valid YAML: {' '.join(str(error).split())}.") from error
        if not isinstance(loaded, dict):
            raise UsageError(f"config file {path} must hold 'field: value' lines.")
        names |= dict.fromkeys(loaded, f"field in {path}")
    for name, where in names.items():
        if name not in known and name.removeprefix("no_") not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise UsageError(f"unknown {where}: {name!r}.{hint}")
    return names


def _describe(config: Any, model: Any) -> None:
    """Prints what a run would use: every setting that is not TRL's or transformers' default, and the prompts."""
    import yaml

    from trainer.config import MAGEConfig
    from trainer.setup import pool_weights, prompt_settings, sample_prompts

    inherited = {item.name for item in fields(MAGEConfig.__mro__[1])}
    own = {item.name: config.__dict__[item.name] for item in fields(config) if item.name not in inherited}
    shown = (
        "num_generations",
        "per_device_train_batch_size",
        "max_completion_length",
        "learning_rate",
        "beta",
        "epsilon",
        "entropy_coef",
        "delta",
        "loss_type",
        "temperature",
        "weight_decay",
        "max_grad_norm",
        "lr_scheduler_type",
        "max_steps",
        "bf16",
        "gradient_checkpointing",
        "save_strategy",
        "save_steps",
        "save_total_limit",
        "use_vllm",
        "vllm_mode",
        "output_dir",
        "seed",
    )
    settings = {"model_name_or_path": model.model_name_or_path, "use_peft": model.use_peft, "dtype": model.dtype}
    settings |= {name: _plain(config.__dict__[name]) for name in shown} | {k: _plain(v) for k, v in own.items()}
    told = {"settings": settings, "opponents": pool_weights(config), "environment": prompt_settings(config)}
    print(yaml.safe_dump(told, sort_keys=True))
    for kind, prompt in sample_prompts(config).items():
        print(f"--- {kind} prompt ---\n{prompt}\n")


def _plain(value: Any) -> Any:
    """A value as YAML can show it."""
    if isinstance(value, Enum):
        return value.value
    return value if isinstance(value, bool | int | float | str | list | dict | None) else str(value)


def _train(config: Any, model: Any, script: Any) -> int:
    from trl.trainer.utils import get_peft_config, get_quantization_config

    from trainer.mage_trainer import MAGETrainer
    from trainer.persistence import on_first_rank
    from trainer.saved import FILE, PlaySettings
    from trainer.tiny import general_tiny
    from trainer.words import words_model

    out = Path(config.output_dir)
    last = on_first_rank(lambda: _checkpoint(out, script.resume))
    name = model.model_name_or_path
    if name == "tiny":
        name = on_first_rank(lambda: general_tiny(out / "tiny", config.seed))
    elif name == "words":
        name = on_first_rank(lambda: words_model(out / "words", config, script.warm_start))
    if last is not None and (last / FILE).exists():
        config.imports = list(dict.fromkeys((*PlaySettings.load(last).imports, *config.imports)))
    config.model_init_kwargs = config.model_init_kwargs or _init_kwargs(model)
    try:
        trainer = MAGETrainer(
            name,
            config,
            peft_config=get_peft_config(model),
            quantization_config=get_quantization_config(model),
        )
    except OSError as error:
        reason = " ".join(str(error).split())
        raise UsageError(
            f"model {name!r} could not be loaded; give a saved model's folder, or a name that the hub has. ({reason})"
        ) from error
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        return _finish(trainer, None if last is None else str(last))
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _checkpoint(out: Path, resume: bool) -> Path | None:
    """Where the run goes on; a line on each checkpoint that is passed over."""
    from trainer.run_folder import checkpoints, newest_checkpoint

    if not resume:
        if checkpoints(out):
            raise UsageError(f"{out} holds checkpoints; add --resume to go on, or choose another output_dir.")
        return None
    last, passed = newest_checkpoint(out)
    for line in passed:
        print(f"mage-train: {line}", file=sys.stderr)
    if last is None:
        found = "no sound checkpoint" if passed else "no checkpoint"
        raise UsageError(f"--resume finds {found} in {out}; set save_steps, or leave --resume out.")
    return last


def _finish(trainer: Any, start: str | None) -> int:
    """Trains to the end, or as far as signals let it, and writes the model; returns the exit status.

    SIGTERM ends the run with a checkpoint (143), the rollout that is being played thrown away; Ctrl-C at once, with the
    model as it then is (130); a second Ctrl-C without it.
    """
    signal.signal(signal.SIGTERM, trainer.preemption.ask)
    out, interrupted = trainer.args.output_dir, False
    try:
        trainer.train(resume_from_checkpoint=start)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, _leave)
        interrupted = True
    said = "Interrupted" if interrupted else "Finished"
    first, steps = trainer.accelerator.is_main_process, trainer.state.global_step
    if trainer.preemption.stopped:
        if first:
            print(f"Stopped by SIGTERM after {steps} updates, with a checkpoint in {out}; add --resume to go on.")
        return 143
    if interrupted and trainer.is_sharded:
        if first:
            print(f"Interrupted after {steps} updates; a model in shards is written at checkpoints alone.")
        return 130
    if first or not interrupted:
        trainer.write_model(out, together=not interrupted)
    if first:
        print(f"{said} after {steps} updates; the model is in {out}.")
    if first and (failures := trainer.ledger.told()):
        print(failures)
    return 130 if interrupted else 0


def _leave(*signal: object) -> NoReturn:
    """The second Ctrl-C."""
    print("\nmage-train: interrupted while the model was written; an older one may be gone.", file=sys.stderr)
    sys.stderr.flush()
    os._exit(130)


def _init_kwargs(model: Any) -> dict[str, Any]:
    chosen = {
        "revision": model.model_revision,
        "attn_implementation": model.attn_implementation,
        "dtype": None if model.dtype == "auto" else model.dtype,
    }
    return {key: value for key, value in chosen.items() if value is not None}


if __name__ == "__main__":
    import mage_commands

    sys.exit(mage_commands.train())
