"""The options of `mage train` as its help lists them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields
from importlib.util import find_spec
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from mage_envs.cli.program import markup
from mage_envs.loading import imports
from mage_envs.trainer.config.fields import GROUPS, FixedFields, bounds_of
from mage_envs.trainer.config.hardware import hardware, hardware_names
from mage_envs.trainer.config.presets import PRESETS, listing, preset, small_models

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
    *("reward", "returns", "temperature", "max_completion_length", "eval_panel", "eval_every"),
    *("save_steps", "report_to"),
)
"""Fields that users set most often, which the help lists. All others are options, too."""


SELDOM = "Fields that no preset sets"
"""Title of the last list of fields."""
Listed = Literal["usual", "own", "all"]


def grouped_fields() -> dict[str, list[Field[Any]]]:
    """Return the listed fields of a training run by the title of their list."""
    # Files of hardware need PyYAML, which the help must do without.
    machines = [hardware(name).fields for name in hardware_names()] if find_spec("yaml") else []
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
        run: Function that runs the arguments and returns the exit status, or None for the help alone.
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
        raise typer.Exit(run(typer_context.args) if run is not None else 0)

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
