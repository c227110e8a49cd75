"""`mage train`: train a language model from a preset, a YAML file and flags."""

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

from mage_envs import progress
from mage_envs.cli.commands import report_error
from mage_envs.cli.tables import print_report
from mage_envs.files.locking import FolderLock
from mage_envs.loading import imports
from mage_envs.text.visible import one_line
from mage_envs.trainer.backends.model_folder import offline
from mage_envs.trainer.method.metrics import WronglyStarted
from mage_envs.wrappers.rollout.generation_client import RunStopped

if TYPE_CHECKING:
    from mage_envs.trainer.cli.arguments import ParsedArguments

WAIT_FOR_FIRST_RANK_S = 10.0
"""Seconds that ranks other than 0 wait, so that rank 0 prints an error of all ranks before the launcher ends them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        with progress.show_lines():
            return _run(arguments)
    except KeyboardInterrupt:
        print("\nmage: interrupted before the training began; nothing was written.", file=sys.stderr)
        return 130
    except RunStopped as error:
        print(f"mage: {one_line(error)}", file=sys.stderr)
        return 1
    except WronglyStarted as error:
        # Every rank detects this error. A launcher kills all ranks at the first exit, so rank 0 must print and exit
        # first.
        if os.environ.get("RANK", "0") != "0":
            time.sleep(WAIT_FOR_FIRST_RANK_S)
            return 2
        print(f"mage: {error}", file=sys.stderr)
        return 2
    except (ValueError, KeyError, TypeError, OSError, ImportError, gym.error.Error) as error:
        report_error(error)
        return 2


def _run(arguments: list[str]) -> int:
    from mage_envs.trainer.cli.arguments import parse_args

    typed = parse_args(arguments)
    names_model = any(word.partition("=")[0] in ("--model", "--model_name_or_path") for word in arguments)
    # In a sweep, the flags come from its file.
    typed_model = names_model and imports.naming_file() is None
    # The config file may come from an untrusted source. It may name files, but no module that the user did not import.
    names = nullcontext() if typed.config is None else imports.names_from(typed.config, paths=True)
    with names, nullcontext() if typed_model or imports.naming_file() is None else offline():
        return _run_typed(arguments, typed)


def _run_typed(arguments: list[str], typed: ParsedArguments) -> int:
    from trl.trainer.model_config import ModelConfig

    from mage_envs.trainer.cli import preflight
    from mage_envs.trainer.cli.arguments import ScriptArguments, parse_args
    from mage_envs.trainer.config.run_settings import RunSettings
    from mage_envs.trainer.config.words_size import words_size
    from mage_envs.trainer.trl.setup import exact_critic_settings, is_own, words_limit

    if "--dry-run" not in arguments:
        preflight.check_started(typed.machine)
    # RunSettings checks its fields without torch, so that a mistake is reported before the slow imports. Options that
    # only TRL knows need MAGEConfig, which imports torch.
    if typed.needs_trl:
        from mage_envs.trainer.config.mage_config import MAGEConfig

        kinds = (ScriptArguments, MAGEConfig, ModelConfig)
        typed = parse_args(arguments, {item.name for kind in kinds for item in fields(kind)})
        script, config, model = typed.parse(MAGEConfig)
    else:
        script, config, model = typed.parse(RunSettings)
    if typed.model_defaults and not is_own(config.env_id):
        typed.is_foreign = True
        script, config, model = typed.parse(type(config))
    by_game: dict[str, Any] = {}
    if typed.model_defaults:
        chosen = {name: value for name, value in typed.model_defaults.items() if name not in typed.explicit_fields}
        by_game.update(exact_critic_settings(config) if "advantage" in chosen else {})
        by_game.update(words_limit(config) if "max_completion_length" in chosen else {})
        words_size(str(model.model_name_or_path))
        fields_text = " ".join(f"{name}={value}" for name, value in {**chosen, **by_game}.items())
        print(f"mage: --model words sets {fields_text}", file=sys.stderr)
        vars(config).update(by_game)
    if script.resume or script.resume_if_any:
        _check_kept_imports(config.output_dir)
    if not script.dry_run:
        preflight.check_present(str(model.model_name_or_path), model.model_revision)
    requirements = preflight.check(config, model, typed.machine)
    preflight.check_loggers(config.report_to)
    if script.dry_run:
        print(preflight.describe(config, model, typed.machine, requirements))
        return 0
    preflight.check_disk(requirements, config.output_dir)
    if not typed.needs_trl:
        from mage_envs.trainer.config.mage_config import MAGEConfig

        script, config, model = typed.parse(MAGEConfig)
        vars(config).update(by_game)
    preflight.check_hub(config)
    from accelerate import PartialState

    # One lock per run: the ranks of a run share its folder, so only the main process acquires it.
    with FolderLock(Path(str(config.output_dir))) if PartialState().is_main_process else nullcontext():
        status = _train(config, model, script, arguments)
    if status == 0:
        from mage_envs.trainer.runs.garbage import end_group

        # Here and not in `_train`, because the trainer must be unreachable by now to be collected first.
        end_group()
    return status


def _check_kept_imports(folder: str | None) -> None:
    """Raise UntrustedName if the resumed run needs a module that the user did not import."""
    from mage_envs.trainer.backends.play_settings import PlaySettings
    from mage_envs.trainer.runs.run_folder import checkpoints
    from mage_envs.wrappers.rollout.training_log import SETTINGS

    folders = [checkpoint for checkpoint in checkpoints(Path(folder or ".")) if (checkpoint / SETTINGS).exists()]
    if folders:
        PlaySettings.load(folders[0])


def _train(config: Any, model: Any, script: Any, arguments: Sequence[str]) -> int:
    from trl.trainer.utils import get_peft_config, get_quantization_config

    from mage_envs.trainer.backends.model_folder import quieten
    from mage_envs.trainer.backends.tiny import general_tiny
    from mage_envs.trainer.backends.weights import base_of, load_adapter, load_tokenizer
    from mage_envs.trainer.cli.imitation import Imitation, imitating_copy
    from mage_envs.trainer.cli.words_model import IMITATION, words_model
    from mage_envs.trainer.config.model_shapes import folder_of
    from mage_envs.trainer.config.words_size import is_words
    from mage_envs.trainer.trl.checkpoints import on_first_rank
    from mage_envs.trainer.trl.mage_trainer import MAGETrainer

    quieten()
    out = Path(config.output_dir)
    checkpoint = on_first_rank(lambda: _checkpoint(out, script.resume, script.resume_if_any))
    name = model.model_name_or_path
    if name == "tiny":
        name = on_first_rank(lambda: general_tiny(out / "tiny", config.seed))
    typed = {"rows": script.imitate_rows, "learning_rate": script.imitate_rate, "episodes": script.imitate_episodes}
    settings: Any = {key: value for key, value in typed.items() if value is not None}
    resumes = checkpoint is not None
    if is_words(name):
        imitation = Imitation(script.imitate, script.imitate_steps, **{**IMITATION, **settings})
        name = on_first_rank(lambda: words_model(out / "words", config, imitation, model.model_name_or_path, resumes))
    elif script.imitate:
        imitation = Imitation(script.imitate, script.imitate_steps, **settings)
        name = on_first_rank(lambda: imitating_copy(name, out / "warm", config, imitation, resumes))
    # Other weights than safetensors are pickles.
    config.model_init_kwargs = {"use_safetensors": True, **(config.model_init_kwargs or _init_kwargs(model))}
    adapters: dict[str, Any] = {
        "peft_config": get_peft_config(model),
        "quantization_config": get_quantization_config(model),
    }
    trained, folder = name, folder_of(name)
    if folder is not None and base_of(folder) is not None:
        # TRL loads whole models only. The adapter in the folder is trained further, and no other is added.
        trained = load_adapter(folder, **config.model_init_kwargs)
        adapters = {"processing_class": load_tokenizer(folder)}
        config.model_init_kwargs = None
    try:
        with offline() if Path(str(name)).is_dir() else nullcontext():
            trainer = MAGETrainer(trained, config, **adapters)
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
    previous_handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        return _finish(trainer, str(out), None if checkpoint is None else str(checkpoint), arguments)
    finally:
        for number, handler in previous_handlers.items():
            signal.signal(number, handler)


def _checkpoint(out: Path, resume: bool, if_any: bool) -> Path | None:
    """Return the checkpoint to resume from, or None for a new run. Print a line for each skipped checkpoint."""
    from mage_envs.trainer.runs.run_folder import check_new, checkpoints, newest_checkpoint

    if if_any and not checkpoints(out):
        return None
    if not (resume or if_any):
        check_new(out, "add --resume")
        return None
    checkpoint, passed = newest_checkpoint(out)
    for line in passed:
        print(f"mage: {line}", file=sys.stderr)
    if checkpoint is None:
        problem = "no sound checkpoint" if passed else "no checkpoint"
        raise ValueError(f"--resume finds {problem} in {out}. Set save_steps, or remove --resume.")
    return checkpoint


def _finish(trainer: Any, out: str, start: str | None, arguments: Sequence[str]) -> int:
    """Train until the end of the run or a signal, save the model, and return the exit status.

    SIGTERM writes a checkpoint, discards the rollout under way, and returns 143. Ctrl-C stops at once, saves the
    current model, and returns 130. A second Ctrl-C exits without saving.
    """
    from mage_envs.trainer.runs import summary

    signal.signal(signal.SIGTERM, trainer.preemption.ask)
    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        # Replaces the handler of `mage_envs.interrupts`, which exits at once if the signal arrives during an import.
        # A late import must not cost the model.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    folder, interrupted = os.getcwd(), False
    try:
        trainer.train(resume_from_checkpoint=start)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, _leave)
        interrupted = True
    # `out` may be relative to the folder that the user started in, and an environment may have changed the folder.
    os.chdir(folder)
    outcome = "Interrupted" if interrupted else "Finished"
    is_main, steps = trainer.accelerator.is_main_process, trainer.state.global_step
    if trainer.preemption.stopped:
        if is_main:
            print(f"Stopped by SIGTERM after {steps} updates, with a checkpoint in {out}. Add --resume to continue.")
        return 143
    # Saving shards is collective, and after Ctrl-C the ranks are at different points of the run.
    if interrupted and trainer.is_sharded:
        if is_main:
            print(f"Interrupted after {steps} updates. A sharded model is saved only in checkpoints.")
        return 130
    if is_main or not interrupted:
        trainer.write_model(out, together=not interrupted)
    if is_main:
        print(f"{outcome} after {steps} updates; the model is in {out}.")
    if is_main and (failures := trainer.failure_log.summary()):
        print(failures)
    if is_main:
        others = trainer.population is not None
        print_report(summary.summarise_run(out))
        # Not part of the report, which would wrap a long command.
        planned = trainer.args.max_rollouts
        complete = planned is not None and trainer.progress.rollouts >= planned
        length = summary.RunLength(planned if complete else None, steps, interrupted)
        print(summary.commands(out, trainer.play, arguments, length, others), end="")
    return 130 if interrupted else 0


def _leave(*signal: object) -> NoReturn:
    """Exit at once, on the second Ctrl-C."""
    print("\nmage: interrupted while the model was saved. An older model may be lost.", file=sys.stderr)
    sys.stderr.flush()
    # `sys.exit` would wait for threads and exit handlers, which may hang after an interruption.
    os._exit(130)


def _init_kwargs(model: Any) -> dict[str, Any]:
    options = {
        "revision": model.model_revision,
        "attn_implementation": model.attn_implementation,
        "dtype": None if model.dtype == "auto" else model.dtype,
    }
    return {key: value for key, value in options.items() if value is not None}
