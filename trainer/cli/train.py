"""`mage train`: train a language model from a preset, a YAML file and flags."""

from __future__ import annotations

import inspect
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import gymnasium as gym
import typer
from typer.core import TyperCommand

from mage_envs import progress
from mage_envs.cli.commands import report_error
from mage_envs.cli.program import markup
from mage_envs.cli.tables import print_report
from mage_envs.files.locking import FolderLock
from mage_envs.loading import imports
from mage_envs.text.visible import one_line
from mage_envs.trainer.backends.model_folder import offline
from mage_envs.trainer.config.fields import GROUPS, FixedFields, bounds_of
from mage_envs.trainer.config.hardware import hardware, hardware_names
from mage_envs.trainer.config.presets import PRESETS, listing, preset, small_models
from mage_envs.trainer.method.metrics import WronglyStarted
from mage_envs.wrappers.rollout.generation_client import RunStopped

if TYPE_CHECKING:
    from mage_envs.trainer.cli.arguments import ParsedArguments

WAIT_FOR_FIRST_RANK_S = 10.0
"""Seconds that ranks other than 0 wait, so that rank 0 prints an error of all ranks before the launcher ends them."""
OWN_OPTIONS: Mapping[str, tuple[str, str]] = {
    "preset": ("NAME", "Preset, which sets the fields of one of the paper's runs: {presets}"),
    "hardware": ("NAME", "Machine, which overrides the preset: {hardware}"),
    "config": ("SETTINGS", "YAML file with fields, which overrides both; flags override the file"),
    "model": (
        "NAME",
        "Folder or name on the hub; smollm2 is downloaded, tiny is a random byte-level model, words a small learner",
    ),
    "import": ("MODULE", imports.HELP),
    "imitate": (
        "PLAYER",
        "Players to imitate first, in the run's own prompts: policy:NAME, of which the replies are learned; "
        "scripted:random, whose chats teach the form of the texts; or @FILE of mage export --to sft",
    ),
    "imitate_steps": ("N", "Steps of imitation (default: 300)"),
    "imitate_rows": ("N", "Rows per step of imitation (default: 32 for the model words, else 16)"),
    "imitate_rate": ("RATE", "First learning rate of imitation (default: 0.003 for the model words, else 0.0003)"),
    "imitate_episodes": ("N", "Most meta-episodes that each imitated policy plays (default: 8192)"),
    "sweep": ("SETTINGS", "YAML file of several trainings, whose fields replace all flags but the next three"),
    "seeds": ("N", "With --sweep: number of seeds, one training per setting and seed (default: 3)"),
    "executor": ("NAME", "With --sweep: local (default), local:N, ray or slurm, which trains several at once"),
    "json": ("", "With --sweep: print the values as JSON, with all digits"),
    "dry_run": ("", "Print the settings, one prompt of each kind and, with --hardware, the needs; train nothing"),
    "resume": ("", "Continue from the newest intact checkpoint of --output_dir"),
    "resume_if_any": ("", "As --resume if there is a checkpoint, else start a new run"),
    "help_all": ("", "List every field of the method, TRL and transformers"),
}
"""Options of the command itself: metavar, empty for a switch, and help."""
RARE = ("imitate_rows", "imitate_rate", "imitate_episodes")
"""Those of them that the short help leaves out."""
USUAL = (
    *("env_id", "opponents", "num_episodes", "memory", "prompt_style", "env_kwargs", "output_dir", "seed"),
    *("max_rollouts", "groups_per_rollout", "num_generations", "learning_rate", "beta", "advantage", "credit"),
    *("reward", "returns", "temperature", "max_completion_length", "constrained", "eval_panel", "eval_every"),
    *("save_steps", "report_to"),
)
"""Fields that users set most often, which the help lists. All others are options, too."""


SELDOM = "Fields that no preset sets"
"""Title of the last list of fields."""
Listed = Literal["usual", "own", "all"]


def grouped_fields() -> dict[str, list[Field[Any]]]:
    """Return the listed fields of a training run by the title of their list."""
    machines = [hardware(name).fields for name in hardware_names()]
    used = {*USUAL}.union(*PRESETS.values(), *small_models().values(), *machines)
    groups = {(inspect.getdoc(group) or "").rstrip("."): fields(group) for group in GROUPS}
    listed = {title: [item for item in items if item.name in used] for title, items in groups.items()}
    return listed | {SELDOM: [item for items in groups.values() for item in items if item.name not in used]}


class TrainCommand(TyperCommand):
    """A command whose options are listed by typer and parsed by TRL's parser, which knows the inherited fields."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Keep the arguments as they are, or print the help."""
        words = {word.replace("_", "-") for word in args}
        # A shell that completes the command line parses what there is of it, and wants no help.
        if ctx.resilient_parsing or (args and not words & {"--help", "-h", "--help-all"}):
            ctx.args = args
            return args
        listed = typer.main.get_command(
            build_app(_find_remarks(args), listed="all" if "--help-all" in words else "usual")
        )
        typer.echo(listed.get_help(ctx))
        raise typer.Exit

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the plain help in the same groups as the help on a terminal."""
        panels = {getattr(option, "rich_help_panel", None): [] for option in self.params}  # type: ignore[var-annotated]
        for option in self.params:
            panels[getattr(option, "rich_help_panel", None)].append(option.get_help_record(ctx))
        for title, records in panels.items():
            with formatter.section(title or "Options"):
                formatter.write_dl([record for record in records if record])


def _find_remarks(args: Sequence[str]) -> Mapping[str, str]:
    """Return the values of the preset and the hardware that `args` name, each as a remark in the help of its field."""
    remarks: dict[str, str] = {}
    for kind, name in re.findall(r"--(preset|hardware)[= ](\S+)", " ".join(args)):
        values = preset(name) if kind == "preset" else hardware(name).fields
        remarks |= {field: f" {name}: {value}." for field, value in values.items()}
    return remarks


def build_app(
    remarks: Mapping[str, str], listed: Listed = "own", run: Callable[[Sequence[str]], int] | None = None
) -> typer.Typer:
    """Return the application of `mage train`.

    Args:
        remarks: Remarks at the end of the help of a field, by its name.
        listed: `usual` for the fields of `USUAL` and of `remarks`, `own` for those of the method, `all` for those of
            TRL and transformers, too.
        run: Function that runs the arguments and returns the exit status (default: `main`).
    """
    groups = grouped_fields()
    if listed == "all":
        from trl.trainer.model_config import ModelConfig

        from mage_envs.trainer.config.mage_config import MAGEConfig

        fixed = {item.name for item in fields(FixedFields)}
        inherited = [item for item in fields(MAGEConfig) if item.name not in fixed]
        groups |= {"Fields of trl.ModelConfig": list(fields(ModelConfig)), "Fields of trl.GRPOConfig": inherited}
    usual = {*USUAL, *remarks} if listed == "usual" else None
    placeholders = {"presets": listing(), "hardware": ", ".join(hardware_names())}
    options: dict[str, Any] = {
        # The trailing underscore keeps keywords and fields of the same name apart.
        f"{name}_": _option(f"--{name.replace('_', '-')}", metavar, text.format_map(placeholders), None)
        for name, (metavar, text) in OWN_OPTIONS.items()
        if listed != "usual" or name not in RARE
    }
    for title, items in groups.items():
        for item in items:
            if usual is not None and item.name not in usual:
                continue
            text = " ".join(str(item.metadata.get("help", "")).split()) + remarks.get(item.name, "")
            options.setdefault(item.name, _option(f"--{item.name}", field_type(item), text, title))

    def train(typer_context: typer.Context, **_: Any) -> None:
        raise typer.Exit((run or main)(typer_context.args))

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter("typer_context", keyword, annotation=typer.Context),
        *(
            inspect.Parameter(name, keyword, default=None, annotation=annotation)
            for name, annotation in options.items()
        ),
    ]
    annotations = {parameter.name: parameter.annotation for parameter in parameters}
    vars(train).update(__signature__=inspect.Signature(parameters), __annotations__=annotations)
    about = (
        "Train a language model on meta-episodes. The lowest in precedence comes first: preset, hardware, file, flags."
    )
    app = typer.Typer(add_completion=False, rich_markup_mode=markup())
    app.command("train", cls=TrainCommand, help=about, epilog="Example: mage train --preset mage-kuhn --dry-run")(train)
    return app


def _option(flag: str, metavar: str, text: str, title: str | None) -> Any:
    option = typer.Option(flag, metavar=metavar or None, help=text, rich_help_panel=title, show_default=False)
    return Annotated[str if metavar else bool, option]


def field_type(item: Field[Any]) -> str:
    """Return the type of a field as the help names it: `INT`, `FLOAT >= 0 and <= 1`, `STR`, `JSON`, `STR ...`."""
    kind = item.type if isinstance(item.type, str) else getattr(item.type, "__name__", str(item.type))
    kind = re.sub(r"\s*\|\s*None", "", kind)
    if "dict" in kind:
        return "JSON"
    repeated = re.fullmatch(r"list\[(.*)\]", kind)
    return f"{repeated[1].upper()} ..." if repeated else f"{kind.upper()} {bounds_of(item) or ''}".rstrip()


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
