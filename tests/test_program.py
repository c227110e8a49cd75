"""The program `mage`: every command is listed, documented and lazy, and every mistake is one line."""

import inspect
import os
import pty
import re
import select
import shlex
import subprocess
import sys
import time
from importlib import import_module

import pytest
import typer

from mage_envs.cli import program
from mage_envs.cli.commands import IMPORTS
from mage_envs.cli.program import COMMANDS, main
from mage_envs.trainer.cli.help import build_app
from tests.packages import mark_params

BIN = os.path.dirname(sys.executable)
LIGHT = "import sys; from mage_envs.cli.program import main; main({words}); print('|', *sys.modules)"


def functions(name):
    """The functions of a command: one, or those of its subcommands, by the words that call them."""
    module = import_module(COMMANDS[name].module)
    if hasattr(module, "command"):
        return {name: module.command}
    infos = module.app.registered_commands
    if len(infos) == 1 and module.app.registered_callback is None:
        return {name: None}
    return {f"{name} {info.name}": None for info in infos}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_has_its_text_and_an_example_that_parses(name, capsys):
    for words in functions(name):
        assert main([*words.split(), "--help"]) == 0
        text = capsys.readouterr().out
        assert text.startswith(f"Usage: mage {words} ")
        example = re.search(r"\n +Example: mage (.*)\Z", text, re.DOTALL)
        assert example, text
        arguments = shlex.split(example[1])
        assert " ".join(arguments).startswith(words)
        command = program.load_command(name)
        remaining = arguments[1:]
        if words != name:
            command = command.commands[arguments[1]]
            remaining = arguments[2:]
        if name != "train":
            # Raises a usage error for an unknown flag, a wrong type or a missing argument.
            command.make_context(words, remaining)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_says_what_the_docstring_says(name):
    (function, *other_functions) = functions(name).values()
    if function is not None and not other_functions:
        first_line = inspect.getdoc(function).splitlines()[0]
        assert first_line.removesuffix(".").casefold() == COMMANDS[name].about.casefold()


def test_the_help_lists_every_command_in_groups_and_loads_none():
    process = subprocess.run(
        [sys.executable, "-c", LIGHT.format(words=["--help"])], capture_output=True, text=True, check=True
    )
    text, _, modules = process.stdout.rpartition("|")
    assert {re.match(r"  (\S+)  ", line)[1] for line in text.splitlines() if re.match(r"  [a-z]\S*  ", line)} == set(
        COMMANDS
    )
    assert [line[:-1] for line in text.splitlines() if re.fullmatch(r"[A-Z][\w ]+:", line)] == [
        "Options",
        *dict.fromkeys(entry.panel for entry in COMMANDS.values()),
    ]
    assert not {"mage_envs.benchmarks", "mage_envs.trainer", "torch", "rich.console"} & set(modules.split())


def test_the_versions(capsys):
    assert main(["--version"]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["python"] == sys.version.split()[0]
    assert set(lines) == {"python", *program.PACKAGES}
    assert lines["numpy"] == import_module("numpy").__version__


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evl"], "mage: No such command 'evl'. Did you mean 'eval'? (options: mage --help)"),
        (["--verion"], "mage: No such option: --verion. Did you mean --version? (options: mage --help)"),
        (["play"], "mage: ID is missing. Name a game, as in mage play KuhnPoker, or use --browser."),
        (
            ["play", "mage/KuhnPoker-v0", "--seat", "frst"],
            "mage play: Invalid value for '--seat': 'frst' is not one of 'first', 'second', 'alternate'. "
            "Did you mean first? (options: mage play --help)",
        ),
        (
            ["serve", "websho"],
            "mage serve: No such command 'websho'. Did you mean 'webshop'? (options: mage serve --help)",
        ),
        (
            ["eval", "rows.yaml", "--suite", "adaptt"],
            "mage eval: Invalid value for '--suite': 'adaptt' must be one of ",
        ),
        (["train", "--gama_step", "1"], "mage: unknown flag: 'gama_step'. Did you mean 'gamma_step'?"),
        (["train", "--preset", "mage-kun"], "mage: unknown preset 'mage-kun'. Did you mean mage-kuhn"),
    ],
)
def test_a_mistake_is_one_line_with_the_nearest_name(words, message, capsys):
    assert main(words) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert captured.err.startswith(message)


@pytest.mark.parametrize("flag", ["--max-turns", "--max_turns"])
def test_both_spellings_of_a_flag_are_valid(flag, capsys):
    assert main(["play", "mage/KuhnPoker-v0", flag, "0"]) == 2
    assert "Input should be greater than or equal to 1" in capsys.readouterr().err


def test_both_names_of_the_program_and_python_m_run_it():
    for command in (["mage"], ["mage-envs"], ["python", "-m", "mage_envs"]):
        words = [os.path.join(BIN, command[0]), *command[1:], "--help"]
        process = subprocess.run(words, capture_output=True, text=True, check=True)
        assert process.stdout.startswith("Usage: mage [OPTIONS]")


def on_a_terminal(words, columns):
    """The output of the program on a terminal of this width."""
    pid, terminal = pty.fork()
    if pid == 0:
        environment = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm-256color"}
        os.execve(sys.executable, [sys.executable, "-m", "mage_envs", *words], environment)
    terminal_bytes, end = b"", time.monotonic() + 60
    while time.monotonic() < end and select.select([terminal], [], [], 60)[0]:
        try:
            terminal_bytes += os.read(terminal, 65536)
        except OSError:
            # The program has ended and closed its side.
            break
    os.close(terminal)
    os.waitpid(pid, 0)
    return terminal_bytes.decode()


@pytest.mark.parametrize("columns", mark_params([40, 80, 120], step=3))
@pytest.mark.parametrize("words", [["--help"], ["play", "--help"]])
def test_the_help_fits_the_terminal(words, columns):
    text = on_a_terminal(words, columns)
    assert "\x1b[" in text
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in text.splitlines()]
    assert max(map(len, lines)) <= columns
    assert any("╭" in line for line in lines)


def test_a_pipe_gets_no_escapes(capsys):
    assert main(["train", "--help"]) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "╭" not in text


def test_the_help_of_train_shows_the_presets_values(capsys):
    assert main(["train", "--preset", "mage-kuhn", "--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "Group size, the number of meta-episodes per group (default: 8). mage-kuhn: 8." in text
    assert (
        "Id of the meta-episode environment, or module:id (default: mage/KuhnPoker-Meta-v0). mage-kuhn: mage/K" in text
    )


@pytest.mark.parametrize(
    ("line", "completions"),
    [
        ("mage ev", ["eval"]),
        ("mage eval --pan", ["--panel"]),
        ("mage train --gamma", ["--gamma_step", "--gamma_episode"]),
        ("mage serve web", ["webshop"]),
    ],
)
def test_the_shell_completes_commands_and_flags(line: str, completions: list[str]) -> None:
    environment = {
        **os.environ,
        "_MAGE_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
    }
    process = subprocess.run([os.path.join(BIN, "mage")], env=environment, capture_output=True, text=True, check=True)
    assert process.stdout.split() == completions


def list_parameters() -> dict[str, list[str]]:
    """Options and arguments that the help of each command lists, without those that all commands share."""
    flags_by_command = {}
    for name in COMMANDS:
        command = program.load_command(name)
        if name == "train":
            command = typer.main.get_command(build_app({}, listed="usual"))
        functions = command.commands.values() if hasattr(command, "commands") else [command]
        flags_by_command[name] = [
            option.opts[0]
            for option_parameter in functions
            for option in option_parameter.params
            if option.name not in ("help", *IMPORTS)
        ]
    return flags_by_command


def test_there_are_few_commands_with_few_options() -> None:
    """Fields of a training that its short help leaves out are options, too; `mage train --help-all` lists them."""
    listed = list_parameters()
    count = sum(map(len, listed.values()))
    print(f"{len(listed)} commands, {count} options and arguments")
    assert len(listed) <= 18
    assert count <= 250


def test_one_thing_has_one_name() -> None:
    """Training alone has the names of its fields, some of which are TRL's."""
    names = {flag for name, flags in list_parameters().items() if name != "train" for flag in flags}
    others = (
        "--env-kwargs --game-kwargs --options --option --opponent --policies --num-episodes --deadline --output_dir"
    )
    assert names.isdisjoint(others.split())
    assert {"--game-option", "--opponents", "--episodes", "--rows", "--out", "--timeout"} <= names


def test_without_arguments_it_shows_what_to_type_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    out = capsys.readouterr().out
    for verb, about, example in program.FIRST:
        assert f"  {verb} " in out
        assert f" {about} " in out
        assert out.count(example) == 1
        arguments = shlex.split(example)[1:]
        assert arguments[0] == verb
        if verb != "train":
            # Raises a usage error if the example is wrong.
            program.load_command(verb).make_context(verb, arguments[1:])
    assert [verb for verb, *_ in program.FIRST] == ["play", "adapt", "eval", "report", "train", "demo"]
    assert max(map(len, out.splitlines())) <= 110
