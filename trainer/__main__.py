"""`mage-train` / `python -m trainer`: trains a model from a preset, a YAML file and flags."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import gymnasium as gym

from mage_envs import _siblings, imports, progress
from mage_envs.locking import FolderLock
from mage_envs.processes.outcomes import TRACEBACK
from mage_envs.secrets import scrubbed
from mage_envs.terminal.commands import told
from mage_envs.text.visible import one_line
from trainer.hardware import hardware_names
from trainer.metrics import RunStopped, WronglyStarted
from trainer.presets import listing

if TYPE_CHECKING:
    from trainer.arguments import Typed

USAGE = """usage: mage-train [--preset NAME] [--config FILE.yaml] [--model NAME_OR_PATH] [--import MODULE ...]
                  [--hardware NAME] [--dry-run] [--resume | --resume-if-any] [--verbose] [--FIELD VALUE ...]

Trains a language model on meta-episodes. Fields are those of trainer.MAGEConfig and trl.ModelConfig; --hardware changes
what the preset says, the file both, and flags all. The model 'tiny' is a byte-level model of random weights, for trying
a run on a CPU; 'words' is a word-level one that learns a game with a fixed set of actions there, and sets what suits it
and says so. --import loads a module of yours, from the current folder or installed, that registers games and opponents;
--env_id takes module:id, too.

  mage-train --preset mage-kuhn --dry-run                   the resolved settings and one prompt of each kind
  mage-train --preset mage-kuhn --hardware 8x80gb --dry-run the same there, how it is started, what it needs at most
  mage-train --preset mage-kuhn --output_dir runs/kuhn      the paper's run, on a GPU
  mage-train --model words --env_id mage/Ultimatum-Meta-v0  learns within minutes on a CPU (--warm_start N: first
                                                            N steps of language modelling on random legal play)
  mage-train --preset mage-kuhn --model tiny --max_rollouts 2 --groups_per_rollout 2 --max_completion_length 16

hardware: {hardware}
presets:
  {presets}
"""


NEEDED = ("yaml", "torch", "trl", "transformers", "accelerate", "datasets", "peft")
"""Packages of the extra `train`."""


TOLD = 10.0
"""Seconds in which the first of several processes tells what is wrong with all; a launcher ends the others with it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE.format(presets=listing(), hardware=", ".join(hardware_names())))
        return 0
    try:
        _siblings.check("trainer")
        with progress.shown():
            return _run(arguments)
    except KeyboardInterrupt:
        print("\nmage-train: interrupted before the training began; nothing was written.", file=sys.stderr)
        return 130
    except RunStopped as error:
        print(f"mage-train: {one_line(error)}", file=sys.stderr)
        return 1
    except WronglyStarted as error:
        if os.environ.get("RANK", "0") != "0":
            time.sleep(TOLD)
            return 2
        print(f"mage-train: {error}", file=sys.stderr)
        return 2
    except (ValueError, KeyError, TypeError, OSError, ImportError, gym.error.Error) as error:
        print(f"mage-train: {one_line(scrubbed(_told(error)))}", file=sys.stderr)
        return 2


def _told(error: Exception) -> str:
    """The error in words, for a missing package how to install it."""
    if isinstance(error, ModuleNotFoundError) and error.name in NEEDED:
        return f'{error.name} is missing. Install it with: pip install "mage-envs[train]"'
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith(TRACEBACK)]
    return " ".join([told(error), *notes])


def _run(arguments: list[str]) -> int:
    from trainer.arguments import taken_apart

    imports.search_current_folder()
    typed = taken_apart(arguments)
    imports.load_modules(typed.modules)
    if typed.config is None:
        return _run_typed(arguments, typed)
    # A config file may come from a stranger: it may name files, but no module that the user did not import.
    with imports.names_from(typed.config, paths=True):
        return _run_typed(arguments, typed)


def _run_typed(arguments: list[str], typed: Typed) -> int:
    from trl.trainer.model_config import ModelConfig

    from trainer import preflight
    from trainer.arguments import ScriptArguments, taken_apart
    from trainer.settings import RunSettings

    if "--dry-run" not in arguments:
        preflight.check_started(typed.machine)
    if typed.needs_trl:
        from trainer.config import MAGEConfig

        kinds = (ScriptArguments, MAGEConfig, ModelConfig)
        typed = taken_apart(arguments, {item.name for kind in kinds for item in fields(kind)} | {"config"})
        script, config, model = typed.parsed(MAGEConfig)
    else:
        script, config, model = typed.parsed(RunSettings)
    if typed.suited:
        _say_suited({name: value for name, value in typed.suited.items() if name not in typed.given}, config)
    if script.resume or script.resume_if_any:
        _check_kept_imports(config.output_dir)
    if not script.dry_run:
        preflight.check_present(str(model.model_name_or_path), model.model_revision)
    found = preflight.check(config, model, typed.machine)
    if script.dry_run:
        print(preflight.describe(config, model, typed.machine, found))
        return 0
    preflight.check_disk(found, config.output_dir)
    if not typed.needs_trl:
        from trainer.config import MAGEConfig

        light = config
        script, config, model = typed.parsed(MAGEConfig)
        config.advantage, config.statistics = light.advantage, light.statistics
    from accelerate import PartialState

    with FolderLock(Path(str(config.output_dir))) if PartialState().is_main_process else nullcontext():
        status = _train(config, model, script, arguments)
    if status == 0:
        from trainer.garbage import end_group

        end_group()
    return status


def _check_kept_imports(folder: str | None) -> None:
    """Raise `UntrustedName` if the resumed run needs a module that the user did not import."""
    from trainer.run_folder import checkpoints
    from trainer.saved import FILE, PlaySettings

    kept = [place for place in checkpoints(Path(folder or ".")) if (place / FILE).exists()]
    if kept:
        PlaySettings.load(kept[0])


def _say_suited(chosen: dict[str, Any], config: Any) -> None:
    """Tells what `--model words` has set, the advantage too, which hangs on the game and its opponents."""
    from trainer.setup import prefer_exact

    if "advantage" in chosen and prefer_exact(config):
        chosen |= {name: config.__dict__[name] for name in ("advantage", "statistics")}
    told = " ".join(f"{name}={value}" for name, value in chosen.items())
    print(f"mage-train: --model words sets {told}", file=sys.stderr)


def _train(config: Any, model: Any, script: Any, arguments: Sequence[str]) -> int:
    from trl.trainer.utils import get_peft_config, get_quantization_config

    from trainer.mage_trainer import MAGETrainer
    from trainer.persistence import on_first_rank
    from trainer.quiet import quieten
    from trainer.tiny import general_tiny
    from trainer.words import words_model

    quieten()
    out = Path(config.output_dir)
    last = on_first_rank(lambda: _checkpoint(out, script.resume, script.resume_if_any))
    name = model.model_name_or_path
    if name == "tiny":
        name = on_first_rank(lambda: general_tiny(out / "tiny", config.seed))
    elif name == "words":
        name = on_first_rank(lambda: words_model(out / "words", config, script.warm_start))
    config.model_init_kwargs = config.model_init_kwargs or _init_kwargs(model)
    try:
        trainer = MAGETrainer(
            name,
            config,
            peft_config=get_peft_config(model),
            quantization_config=get_quantization_config(model),
        )
    except (OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        if config.use_vllm and config.vllm_mode == "server":  # whose server is not up, or not as TRL needs it
            raise ValueError(reason) from error
        if isinstance(error, RuntimeError):
            raise
        raise ValueError(
            f"model {name!r} could not be loaded; give a saved model's folder, or a name that the hub has. ({reason})"
        ) from error
    trainer.command = list(arguments)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        return _finish(trainer, str(out), None if last is None else str(last), arguments)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _checkpoint(out: Path, resume: bool, if_any: bool) -> Path | None:
    """Where the run goes on; a line on each checkpoint that is passed over."""
    from trainer.run_folder import check_new, checkpoints, newest_checkpoint

    if if_any and not checkpoints(out):
        return None
    if not (resume or if_any):
        check_new(out, "add --resume")
        return None
    last, passed = newest_checkpoint(out)
    for line in passed:
        print(f"mage-train: {line}", file=sys.stderr)
    if last is None:
        found = "no sound checkpoint" if passed else "no checkpoint"
        raise ValueError(f"--resume finds {found} in {out}; set save_steps, or leave --resume out.")
    return last


def _finish(trainer: Any, out: str, start: str | None, arguments: Sequence[str]) -> int:
    """Trains to the end, or as far as signals let it, and writes the model; returns the exit status.

    SIGTERM ends the run with a checkpoint (143), the rollout that is being played thrown away; Ctrl-C at once, with the
    model as it then is (130); a second Ctrl-C without it.
    """
    from trainer import summary

    signal.signal(signal.SIGTERM, trainer.preemption.ask)
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # also while something is imported late
    folder, interrupted = os.getcwd(), False
    try:
        trainer.train(resume_from_checkpoint=start)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, _leave)
        interrupted = True
    os.chdir(folder)  # `out` is as the user typed it, and an environment may have changed the current folder
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
    if first:
        others = trainer.population is not None
        print(summary.told(out, trainer.play, arguments, trainer.args.max_rollouts, others), end="")
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
