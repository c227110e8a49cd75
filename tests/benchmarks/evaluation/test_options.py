"""`EvalOptions`: equal defaults of flags and fields."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from functools import wraps
from pathlib import Path
from typing import get_args

import pytest
import typer

from mage_envs.benchmarks.commands import eval as eval_command
from mage_envs.benchmarks.evaluation.run.options import ControlName, EvalOptions
from mage_envs.cli.commands import add_command
from mage_envs.wrappers.controls import CONTROLS


def as_program(function):
    app = typer.Typer(add_completion=False)
    add_command(app, "command", function)
    return typer.main.get_command(app)


def parse_command(module, *words):
    """The values that a command receives for a command line."""
    parsed_values = {}

    @wraps(module.command)
    def keep(**values):
        parsed_values.update(values)

    as_program(keep).main(list(words), standalone_mode=False)
    return parsed_values


def eval_options(*words):
    parsed_values = parse_command(eval_command, *words)
    return replace(parsed_values["options"], agents=tuple(parsed_values["agents"]))


def test_the_flags_have_the_defaults_of_the_fields():
    assert eval_options("scripted:first") == EvalOptions(agents=("scripted:first",))


def test_the_names_of_the_controls_are_those_that_there_are():
    assert get_args(ControlName) == tuple(CONTROLS)


def test_every_flag_becomes_its_field():
    words = (
        *(
            "scripted:first",
            "scripted:last+none",
            "--env",
            "mage/KuhnPoker-Meta-v0",
            "--game-option",
            "reveal=no",
            "--game-option",
            "protocol=paper",
        ),
        *("--episodes", "4", "--memory", "both"),
        *("--opponents", "pool:kuhn/paper", "--rows", "3", "--seed", "9", "--control", "other", "--from", "runs/a"),
        *("--sampling", "temperature=0.5,top_k=4", "--batch", "8", "--env-workers", "2", "--env-memory-gb", "1.5"),
        *("--timeout", "7", "--executor", "processes:2", "--budget", "calls=11,tokens=12,minutes=0.5"),
        *("--no-baselines", "--out", "runs/b", "--resume", "--wide", "--format", "tsv"),
    )
    assert eval_options(*words) == EvalOptions(
        agents=("scripted:first", "scripted:last+none"),
        env="mage/KuhnPoker-Meta-v0",
        game_options={"reveal": "no", "protocol": "paper"},
        episodes=4,
        memory="both",
        opponents="pool:kuhn/paper",
        rows=3,
        seed=9,
        control="other",
        source="runs/a",
        sampling={"temperature": 0.5, "top_k": 4},
        batch=8,
        env_workers=2,
        env_memory_gb=1.5,
        env_timeout=7.0,
        executor="processes:2",
        budget={"max_calls": 11, "max_tokens": 12, "max_minutes": 0.5},
        baselines=False,
        out=Path("runs/b").absolute(),
        resume=True,
    )
    assert eval_options("scripted:first", "--panel", "kuhn-paper-16").panel == "kuhn-paper-16"
    # Both spellings of a flag are valid.
    underscored = [word.replace("-", "_").replace("__", "--", 1) if word.startswith("--") else word for word in words]
    assert "--env_memory_gb" in underscored
    assert eval_options(*underscored) == eval_options(*words)


def test_every_field_of_an_evaluation_has_a_flag():
    flags = {flag for option in as_program(eval_command.command).params for flag in option.opts}
    flag_names = {"source": "--from", "game_options": "--game-option", "env_timeout": "--timeout"}
    expected = {flag_names.get(option.name, f"--{option.name.replace('_', '-')}") for option in fields(EvalOptions)}
    assert expected - flags == {"--agents"}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--budget", "steps=1"), "must have the form calls=N,tokens=N,minutes=M"),
        (("--budget", "calls=1,calls=2"), "each at most once"),
        (("--budget", "calls=no"), "--budget calls must be a number, got 'no'"),
        (("--sampling", "top_q=1"), "Did you mean"),
    ],
)
def test_malformed_values_are_refused_where_the_command_line_is_read(words, text):
    with pytest.raises(typer.BadParameter, match=text):
        eval_options("scripted:first", *words)


def test_options_are_a_value():
    options = EvalOptions(agents=("scripted:first",), rows=2)
    with pytest.raises(FrozenInstanceError):
        options.rows = 3
    assert replace(options, rows=3) == EvalOptions(agents=("scripted:first",), rows=3)
    assert options.rows == 2
