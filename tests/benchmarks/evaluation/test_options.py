"""`EvalOptions`: equal defaults of flags and fields, and no parser behind the commands."""

from __future__ import annotations

import argparse
import ast
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

import benchmarks
from benchmarks.evaluation.run import eval_command, fill
from benchmarks.evaluation.run.options import EvalOptions
from benchmarks.evaluation.suites import suite_command
from benchmarks.exact import regret_command


def parsed(command, *words):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return EvalOptions.from_arguments(parser.parse_args(words))


def test_the_flags_have_the_defaults_of_the_fields():
    assert parsed(eval_command, "scripted:first") == EvalOptions(agents=("scripted:first",))
    assert parsed(suite_command, "demo", "--columns", "c.yaml", "--out", "s") == EvalOptions(out=Path("s").absolute())
    # `mage regret` sets its own rows and seed, and names one agent.
    assert parsed(regret_command, "scripted:first") == EvalOptions(rows=64, seed=0)
    needed = ("scripted:first", "--panel", "p", "--memory", "m", "--out", "b.json")
    assert parsed(fill, *needed) == EvalOptions(panel="p", memory="m", out=Path("b.json").absolute())


def test_every_flag_becomes_its_field():
    words = (
        *(
            "scripted:first",
            "scripted:last+none",
            "--env",
            "mage/KuhnPoker-Meta-v0",
            "--env-kwargs",
            '{"reveal": "no"}',
        ),
        *("--protocol", "paper", "--num-episodes", "4", "--memory", "both", "--context", "chat", "--style", "prose"),
        *("--opponents", "pool:kuhn/paper", "--rows", "3", "--seed", "9", "--control", "other", "--from", "runs/a"),
        *("--sampling", "temperature=0.5,top_k=4", "--batch", "8", "--env-workers", "2", "--env-memory-gb", "1.5"),
        *("--env-timeout", "7", "--executor", "processes:2", "--max-calls", "11", "--max-tokens", "12"),
        *("--max-minutes", "0.5", "--no-baselines", "--out", "runs/b", "--resume", "--wide", "--tsv"),
    )
    assert parsed(eval_command, *words) == EvalOptions(
        agents=("scripted:first", "scripted:last+none"),
        env="mage/KuhnPoker-Meta-v0",
        env_kwargs={"reveal": "no"},
        protocol="paper",
        num_episodes=4,
        memory="both",
        context="chat",
        style="prose",
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
        max_calls=11,
        max_tokens=12,
        max_minutes=0.5,
        baselines=False,
        out=Path("runs/b").absolute(),
        resume=True,
    )
    assert parsed(eval_command, "scripted:first", "--panel", "kuhn-paper-16").panel == "kuhn-paper-16"


@pytest.mark.parametrize(
    ("words", "text"),
    [(("--env-kwargs", "[1]"), "--env-kwargs must be a JSON object"), (("--sampling", "top_q=1"), "Did you mean")],
)
def test_malformed_values_are_refused_where_the_command_line_is_read(words, text):
    with pytest.raises(ValueError, match=text):
        parsed(eval_command, "scripted:first", *words)


def test_options_are_a_value():
    options = EvalOptions(agents=("scripted:first",), rows=2)
    with pytest.raises(FrozenInstanceError):
        options.rows = 3
    assert replace(options, rows=3) == EvalOptions(agents=("scripted:first",), rows=3)
    assert options.rows == 2


def test_only_the_edge_of_a_command_knows_the_namespace():
    found = {
        node.name
        for path in Path(benchmarks.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and "Namespace" in ast.unparse(node)
    }
    assert found == {"run", "from_arguments"}
