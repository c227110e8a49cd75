"""The command `mage-train` (`python -m trainer`), which trains a model from a preset, a YAML file and flags."""

from __future__ import annotations

import sys

if __name__ == "__main__":
    # Before the imports below, so that Ctrl-C ends the command in one line from here on. The command imports this file
    # again, as a module.
    import mage_commands

    sys.exit(mage_commands.train())

import os
import signal
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import gymnasium as gym

from mage_envs.cli import progress
from mage_envs.cli.commands import describe_error
from mage_envs.files.locking import FolderLock
from mage_envs.loading import imports, siblings
from mage_envs.processes.call_outcomes import TRACEBACK
from mage_envs.secrets import scrubbed
from mage_envs.text.visible import one_line
from trainer.config.hardware import hardware_names
from trainer.config.presets import listing
from trainer.method.metrics import RunStopped, WronglyStarted

if TYPE_CHECKING:
    from trainer.cli.arguments import ParsedArguments

USAGE = """usage: mage-train [--preset NAME] [--config FILE.yaml] [--model NAME_OR_PATH] [--import MODULE ...]
                  [--hardware NAME] [--dry-run] [--resume | --resume-if-any] [--verbose] [--FIELD VALUE ...]

Trains a language model on meta-episodes. Fields are those of trainer.MAGEConfig and trl.ModelConfig. --hardware
overrides the preset, the file overrides both, and flags override all of them. The model 'tiny' is a byte-level model
with random weights, to try a run on a CPU. The model 'words' is a word-level model that learns a game with a fixed set
of actions on a CPU; it sets fields that suit it, and prints them. --import loads a module (installed, or from the
current folder) that registers games and opponents. --env_id also accepts module:id.

  mage-train --preset mage-kuhn --dry-run                   the resolved settings and one prompt of each kind
  mage-train --preset mage-kuhn --hardware 8x80gb --dry-run the same there, the launch command, upper bounds of needs
  mage-train --preset mage-kuhn --output_dir runs/kuhn      the paper's run, on a GPU
  mage-train --model words --env_id mage/Ultimatum-Meta-v0  learns within minutes on a CPU (--warm_start N: N steps
                                                            of language modelling on random legal play first)
  mage-train --preset mage-kuhn --model tiny --max_rollouts 2 --groups_per_rollout 2 --max_completion_length 16

hardware: {hardware}
presets:
  {presets}
"""


NEEDED = ("yaml", "torch", "trl", "transformers", "accelerate", "datasets", "peft")
"""Packages of the extra `train`, by import name."""


TOLD = 10.0
"""Seconds that ranks other than 0 wait, so that rank 0 prints an error of all ranks before the launcher ends them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE.format(presets=listing(), hardware=", ".join(hardware_names())))
        return 0
    try:
        siblings.check("trainer")
        with progress.shown():
            return _run(arguments)
    except KeyboardInterrupt:
        print("\nmage-train: interrupted before the training began; nothing was written.", file=sys.stderr)
        return 130
    except RunStopped as error:
        print(f"mage-train: {one_line(error)}", file=sys.stderr)
        return 1
    except WronglyStarted as error:
        # Every rank detects this error. A launcher kills all ranks at the first exit, so rank 0 must print and exit
        # first.
        if os.environ.get("RANK", "0") != "0":
            time.sleep(TOLD)
            return 2
        print(f"mage-train: {error}", file=sys.stderr)
        return 2
    except (ValueError, KeyError, TypeError, OSError, ImportError, gym.error.Error) as error:
        print(f"mage-train: {one_line(scrubbed(_told(error)))}", file=sys.stderr)
        return 2


def _told(error: Exception) -> str:
    """Return the message of the error; for a missing package, the command that installs it."""
    if isinstance(error, ModuleNotFoundError) and error.name in NEEDED:
        return f'{error.name} is missing. Install it with: pip install "mage-envs[train]"'
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith(TRACEBACK)]
    return " ".join([describe_error(error), *notes])


def _run(arguments: list[str]) -> int:
    from trainer.cli.arguments import parse_args

    imports.search_current_folder()
    typed = parse_args(arguments)
    imports.load_modules(typed.modules)
    if typed.config is None:
        return _run_typed(arguments, typed)
    # The config file may come from an untrusted source. It may name files, but no module that the user did not import.
    with imports.names_from(typed.config, paths=True):
        return _run_typed(arguments, typed)


def _run_typed(arguments: list[str], typed: ParsedArguments) -> int:
    from trl.trainer.model_config import ModelConfig

    from trainer.cli import preflight
    from trainer.cli.arguments import ScriptArguments, parse_args
    from trainer.config.run_settings import RunSettings

    if "--dry-run" not in arguments:
        preflight.check_started(typed.machine)
    # RunSettings checks its fields without torch, so that a mistake is reported before the slow imports. Options that
    # only TRL knows need MAGEConfig, which imports torch.
    if typed.needs_trl:
        from trainer.config.mage_config import MAGEConfig

        kinds = (ScriptArguments, MAGEConfig, ModelConfig)
        typed = parse_args(arguments, {item.name for kind in kinds for item in fields(kind)} | {"config"})
        script, config, model = typed.parsed(MAGEConfig)
    else:
        script, config, model = typed.parsed(RunSettings)
    if typed.model_defaults:
        _say_suited(
            {name: value for name, value in typed.model_defaults.items() if name not in typed.explicit_fields}, config
        )
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
        from trainer.config.mage_config import MAGEConfig

        # `_say_suited` may have changed these two fields of the first config; parsing again would lose them.
        light = config
        script, config, model = typed.parsed(MAGEConfig)
        config.advantage, config.statistics = light.advantage, light.statistics
    from accelerate import PartialState

    # One lock per run: the ranks of a run share its folder, so only the main process acquires it.
    with FolderLock(Path(str(config.output_dir))) if PartialState().is_main_process else nullcontext():
        status = _train(config, model, script, arguments)
    if status == 0:
        from trainer.runs.garbage import end_group

        # Here and not in `_train`, because the trainer must be unreachable by now to be collected first.
        end_group()
    return status


def _check_kept_imports(folder: str | None) -> None:
    """Raise UntrustedName if the resumed run needs a module that the user did not import."""
    from trainer.backends.play_settings import FILE, PlaySettings
    from trainer.runs.run_folder import checkpoints

    kept = [place for place in checkpoints(Path(folder or ".")) if (place / FILE).exists()]
    if kept:
        PlaySettings.load(kept[0])


def _say_suited(chosen: dict[str, Any], config: Any) -> None:
    """Print the fields that `--model words` sets, and select the advantage by the game and its opponents."""
    from trainer.trl.setup import prefer_exact

    if "advantage" in chosen and prefer_exact(config):
        chosen |= {name: config.__dict__[name] for name in ("advantage", "statistics")}
    told = " ".join(f"{name}={value}" for name, value in chosen.items())
    print(f"mage-train: --model words sets {told}", file=sys.stderr)


def _train(config: Any, model: Any, script: Any, arguments: Sequence[str]) -> int:
    from trl.trainer.utils import get_peft_config, get_quantization_config

    from trainer.backends.tiny import general_tiny
    from trainer.cli.words_model import words_model
    from trainer.runs.quiet import quieten
    from trainer.trl.checkpoints import on_first_rank
    from trainer.trl.mage_trainer import MAGETrainer

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
        # The vLLM server does not run, or not in the way that TRL expects: a mistake of the user's, on one line.
        if config.use_vllm and config.vllm_mode == "server":
            raise ValueError(reason) from error
        if isinstance(error, RuntimeError):
            raise
        raise ValueError(
            f"model {name!r} could not be loaded. Pass the folder of a saved model, or a name on the hub. ({reason})"
        ) from error
    trainer.checkpoints.command = list(arguments)
    # A caller in the same process (a sweep, a test) gets its own signal handlers back.
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        return _finish(trainer, str(out), None if last is None else str(last), arguments)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _checkpoint(out: Path, resume: bool, if_any: bool) -> Path | None:
    """Return the checkpoint to resume from, or None for a new run. Print a line for each skipped checkpoint."""
    from trainer.runs.run_folder import check_new, checkpoints, newest_checkpoint

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
        raise ValueError(f"--resume finds {found} in {out}. Set save_steps, or remove --resume.")
    return last


def _finish(trainer: Any, out: str, start: str | None, arguments: Sequence[str]) -> int:
    """Train until the end of the run or a signal, save the model, and return the exit status.

    SIGTERM writes a checkpoint, discards the rollout under way, and returns 143. Ctrl-C stops at once, saves the
    current model, and returns 130. A second Ctrl-C exits without saving.
    """
    from trainer.runs import summary

    signal.signal(signal.SIGTERM, trainer.preemption.ask)
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        # Replaces the handler of `mage_commands`, which exits at once if the signal arrives during an import. A late
        # import must not cost the model.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    folder, interrupted = os.getcwd(), False
    try:
        trainer.train(resume_from_checkpoint=start)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, _leave)
        interrupted = True
    # `out` may be relative to the folder that the user started in, and an environment may have changed the folder.
    os.chdir(folder)
    said = "Interrupted" if interrupted else "Finished"
    first, steps = trainer.accelerator.is_main_process, trainer.state.global_step
    if trainer.preemption.stopped:
        if first:
            print(f"Stopped by SIGTERM after {steps} updates, with a checkpoint in {out}. Add --resume to continue.")
        return 143
    # Saving shards is collective, and after Ctrl-C the ranks are at different points of the run.
    if interrupted and trainer.is_sharded:
        if first:
            print(f"Interrupted after {steps} updates. A sharded model is saved only in checkpoints.")
        return 130
    if first or not interrupted:
        trainer.write_model(out, together=not interrupted)
    if first:
        print(f"{said} after {steps} updates; the model is in {out}.")
    if first and (failures := trainer.failure_log.summary()):
        print(failures)
    if first:
        others = trainer.population is not None
        print(summary.summarise_run(out, trainer.play, arguments, trainer.args.max_rollouts, others), end="")
    return 130 if interrupted else 0


def _leave(*signal: object) -> NoReturn:
    """Exit at once, on the second Ctrl-C."""
    print("\nmage-train: interrupted while the model was saved. An older model may be lost.", file=sys.stderr)
    sys.stderr.flush()
    # `sys.exit` would wait for threads and exit handlers, which may hang after an interruption.
    os._exit(130)


def _init_kwargs(model: Any) -> dict[str, Any]:
    chosen = {
        "revision": model.model_revision,
        "attn_implementation": model.attn_implementation,
        "dtype": None if model.dtype == "auto" else model.dtype,
    }
    return {key: value for key, value in chosen.items() if value is not None}
