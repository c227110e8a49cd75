"""Checks of README.md and docs/*.md: Python blocks run, and shell blocks name commands that exist.

A page's Python blocks run in order in one namespace, as a reader would type them, in an empty folder. `<!-- not run:
reason -->` right before a block leaves it out; `<!-- file: NAME -->` saves it as that file instead.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from mage_envs.cli import program
from mage_envs.interrupts import PROGRAMS
from tests.processes import ROOT, run_python

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
SHELL = ("sh", "bash", "shell", "console")
ELSEWHERE = ("pip", "git", "cd", "export", "source", "python", "python3", "mkdir", "cat", "ls", "apt-get", "sudo")
"""Commands that are not ours to check."""


class Block(NamedTuple):
    """A fenced block: its language, text, first line's number, and the comment right before it."""

    language: str
    text: str
    line: int
    comment: str


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page; a fence that is never closed is an error."""
    blocks_found, lines = [], page.read_text().splitlines()
    number = 0
    while number < len(lines):
        opened = re.fullmatch(r"(\s*)```+\s*([\w-]*).*", lines[number])
        if opened:
            indent, line_before = opened[1], next((line for line in reversed(lines[:number]) if line.strip()), "")
            end = next(index for index in range(number + 1, len(lines)) if re.fullmatch(r"\s*```+\s*", lines[index]))
            text = "\n".join(line.removeprefix(indent) for line in lines[number + 1 : end])
            blocks_found.append(Block(opened[2], text, number + 2, line_before.strip()))
            number = end
        number += 1
    return blocks_found


def mark_value(block: Block, mark: str) -> str | None:
    """Return the text after `mark` in the comment before a block, or None if there is no such comment."""
    comment = re.fullmatch(rf"<!-- {mark}: (\S.*) -->", block.comment)
    return comment[1] if comment else None


def commands(page: Path) -> list[tuple[int, list[str]]]:
    """(line, words) of every command in the page's shell blocks."""
    commands_found = []
    for block in blocks(page):
        if block.language not in SHELL or mark_value(block, "not run"):
            continue
        prompted = any(line.startswith("$ ") for line in block.text.splitlines())
        line_number, pending = block.line, ""
        for offset, line in enumerate(block.text.splitlines()):
            if prompted and not pending and not line.startswith("$ "):
                continue  # output of the command
            pending += line.removeprefix("$ ")
            if pending.endswith("\\"):
                pending = pending[:-1]
                continue
            commands_found += [(line_number + offset, words) for words in split_commands(pending)]
            pending = ""
    return commands_found


def split_commands(line: str) -> list[list[str]]:
    """The commands of a line, each as its words, without comments and without the variables set before it."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split = True
    parts: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set(";&|"):
            parts.append([])
        elif parts[-1] or not re.fullmatch(r"\w+=.*", word):
            parts[-1].append(word)
    return [words for words in parts if words]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_python_blocks_run(page: Path, tmp_path: Path) -> None:
    script = []
    for block in blocks(page):
        if block.language != "python" or mark_value(block, "not run"):
            continue
        saved_as = mark_value(block, "file")
        if saved_as:
            (tmp_path / saved_as).write_text(block.text + "\n")
        else:
            padded = "\n" * (block.line - 1) + block.text
            script.append(f"exec(compile({padded!r}, {name_of(page)!r}, 'exec'), names)")
    if not script:
        return
    (tmp_path / "page.py").write_text("names = {'__name__': 'page'}\n" + "\n".join(script) + "\n")
    process = run_python("page.py", folder=tmp_path)
    assert process.returncode == 0, process.stderr


def make_targets() -> set[str]:
    """The targets that a person types."""
    phony = re.findall(r"^\.PHONY:(.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return {target for line in phony for target in line.split()}


def check_command(words: list[str]) -> str | None:
    """Why a command of a page cannot be right, None if nothing is found."""
    name, *arguments = words
    name = Path(name).name
    if name == "make":
        targets = [word for word in arguments if not word.startswith("-") and "=" not in word]
        unknown = [target for target in targets if target not in make_targets()]
        return f"make has no target {unknown}" if unknown else None
    if name.startswith("python") and arguments[:1] == ["-m"]:
        if arguments[1] in ("venv", "pip", "pytest"):
            return None
        if importlib.util.find_spec(arguments[1]) is None:
            return f"there is no module {arguments[1]}"
        return check_program(arguments[2:]) if arguments[1] == "mage_envs" else None
    if name in PROGRAMS:
        return check_program(arguments)
    return None if name in ELSEWHERE else f"{name} is not a command of this project"


def check_program(arguments: list[str]) -> str | None:
    """Why arguments of `mage` cannot be right, None if nothing is found."""
    subcommand, *subarguments = arguments
    if subcommand.startswith("-"):
        return None
    if subcommand == "train":
        return check_training(subarguments)
    if subcommand not in program.COMMANDS:
        return f"mage has no subcommand {subcommand!r}"
    command = program.load_command(subcommand)
    if hasattr(command, "commands"):
        if subarguments[:1] and subarguments[0] not in command.commands:
            return f"mage {subcommand} has no subcommand {subarguments[0]!r}"
        command = command.commands[subarguments[0]] if subarguments else command
    known_flags = {
        "--help",
        *(flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)),
    }
    unknown = [flag for flag in flags(subarguments) if flag.replace("_", "-") not in known_flags]
    return f"mage {subcommand} has no {unknown}" if unknown else None


def check_training(arguments: list[str]) -> str | None:
    from dataclasses import fields

    from trl.trainer.model_config import ModelConfig

    from mage_envs.trainer import MAGEConfig
    from mage_envs.trainer.config.presets import PRESETS, small_models

    known_fields = {item.name for kind in (MAGEConfig, ModelConfig) for item in fields(kind)}
    known_fields |= {
        "preset",
        "model",
        "config",
        "import",
        "dry_run",
        "resume",
        "resume_if_any",
        "imitate",
        "imitate_steps",
        "help",
        "hardware",
        "verbose",
        "help_all",
        "sweep",
        "seeds",
        "executor",
        "json",
    }
    unknown = [flag for flag in flags(arguments) if flag[2:].replace("-", "_") not in known_fields]
    if unknown:
        return f"mage train has no {unknown}"
    preset_names = [value for flag, value in pairwise(arguments) if flag == "--preset"]
    missing = [value for value in preset_names if value not in {*PRESETS, *small_models()} and not value.isupper()]
    return f"there is no preset {missing}" if missing else None


def flags(arguments: list[str]) -> list[str]:
    return [word.partition("=")[0] for word in arguments if word.startswith("--")]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_shell_blocks_name_what_exists(page: Path) -> None:
    wrong = {}
    for line, words in commands(page):
        problem = check_command(words)
        if problem:
            wrong[f"{name_of(page)}:{line}"] = problem
    assert wrong == {}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_to_files_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL))
    missing = [t for t in targets if "://" not in t and not t.startswith("mailto:") and not (page.parent / t).exists()]
    assert missing == []


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("make demo", None),
        ("make PYTHON=python3.11 test", None),
        ("make everything", "no target ['everything']"),
        ("mage play mage/KuhnPoker-v0 --opponents uniform", None),
        ("mage fly", "no subcommand 'fly'"),
        ("mage eval policy:uniform --env x --rows 2", None),
        ("mage eval x --row-count 2", "['--row-count']"),
        ("mage train --preset mage-kuhn --dry-run --max_rollouts 2", None),
        ("mage train --gama_step 1", "--gama_step"),
        ("mage train --preset mage-chess", "no preset ['mage-chess']"),
        ("python -m mage_envs.nothing", "no module"),
        ("python -m mage_envs train --preset grpo-kuhn", None),
        ("mage-teach", "not a command"),
        ("mage serve webshop --port 1", None),
        ("mage serve sell", "has no subcommand"),
        ("pip install -e .", None),
    ],
)
def test_the_check_of_commands_finds_mistakes(command: str, says: str | None) -> None:
    complaint = check_command(shlex.split(command))
    assert complaint is None if says is None else (complaint is not None and says in complaint), complaint
