"""`mage check` passes sound code, finds each planted defect, and prints the command that reproduces it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator

import gymnasium as gym
import pytest

from mage_envs.cli.game_options import as_flags
from mage_envs.cli.program import main
from mage_envs.loading import imports
from tests.packages import mark_params

PLANTED = "tests.benchmarks.chaos.planted"


@pytest.fixture(autouse=True)
def _no_trace_of_the_planted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(imports, "_IMPORTED", [])
    yield
    for name in [name for name in gym.registry if name.startswith("planted/")]:
        del gym.registry[name]


def against(opponent: str) -> tuple[str, ...]:
    return "mage/KuhnPoker-v0", "--opponents", f"{PLANTED}:{opponent}"


def own(env_id: str, **options: object) -> tuple[str, ...]:
    return env_id, "--import", PLANTED, *as_flags(options)


def chaos(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    try:
        status = main(["check", *arguments])
    except SystemExit as ended:
        status = int(str(ended.code))
    return status, capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        against("Sound"),
        pytest.param(("mage/KuhnPoker-Meta-v0",), marks=pytest.mark.more),
        pytest.param(("mage/TicTacToe-Meta-v0", "--opponents", "mcts:20"), marks=pytest.mark.more),
        pytest.param(("mage/WebShop-v0", "--game-option", "size=tiny"), marks=pytest.mark.more),
        own("planted/SayNumber-v0", kind="Number"),
    ],
)
def test_sound_code_passes(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    status, out = chaos(capsys, "--quick", *arguments)
    rows = [line.split() for line in out.splitlines()[3:]]
    assert " ".join(row[0] for row in rows) == "play fuzz order interleaving copies recall batch memory processes"
    assert {row[-1] for row in rows} == {"ok"}, out
    assert status == 0


@pytest.mark.parametrize(
    ("opponent", "check", "says"),
    mark_params(
        [
            ("Raises", "play", r"KeyError: '.*' \(planted\.py:\d+ in act\)"),
            ("Exits", "play", r"SystemExit: 3 \(planted\.py:\d+ in act\)"),
            ("Leaves", "play", r"the process ended early with status 3"),
            ("Crashes", "play", r"the process died of SIGSEGV \(planted\.py:\d+ in act\)"),
            ("Loops", "play", r"no answer within \d+ s \(planted\.py:\d+ in act\)"),
            ("Sleeps", "fuzz", r"no answer within \d+ s \(planted\.py:\d+ in reset\)"),
            ("Unkeyed", "processes", r"another process gave a different episode: row \d+ has "),
            ("Hashes", "processes", r"another process gave a different episode: row \d+ has "),
            (
                "Unkeyed",
                "order",
                r"after another episode, the same seed and replies gave a different one: row \d+ has ",
            ),
            (
                "Remembers",
                "order",
                r"after another episode, the same seed and replies gave a different one: row \d+ has ",
            ),
            (
                "Shares",
                "interleaving",
                r"beside a second environment, the same seed and replies gave a different episode",
            ),
            (
                "Uncopied",
                "copies",
                r"(a deepcopy|the original beside its copies), after \d replies, continued differently",
            ),
            ("Unpickled", "copies", r"(Attribute|Pickling)Error: Can't (pickle|get) local object.*"),
            ("CopiesForEver", "copies", r"no answer within 2 s \(planted\.py:\d+ in __deepcopy__\)"),
            ("PicklesForEver", "copies", r"no answer within 2 s \(planted\.py:\d+ in __reduce__\)"),
            ("Shares", "batch", r"with \d environments the rollout loop gave other trajectories than with one: row"),
            ("Raises", "batch", r"a rollout failed: opponent: "),
            ("Keeps", "memory", r"memory grows by \d+ bytes per episode, mostly in planted\.py:\d+"),
        ],
        step=2,
    ),
)
def test_a_planted_opponent_is_found(opponent: str, check: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    # Only a hang needs to meet its deadline.
    deadline = "2" if "no answer within" in says else "60"
    status, out = chaos(capsys, *against(opponent), "--check", check, "--timeout", deadline)
    assert status == 1, out
    assert re.search(f"^{check}: {says}", out, re.MULTILINE), out


@pytest.mark.parametrize(
    ("kind", "check", "says"),
    [
        ("NotANumber", "play", "the return of a hand is nan"),
        ("TooMuch", "play", r"the return of a hand is (5|10)\.0; the facts say -1.0 to 1.0"),
        ("Trusting", "fuzz", "ValueError: "),
    ],
)
def test_a_planted_game_is_found(kind: str, check: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out = chaos(capsys, *own("planted/SayNumber-v0", kind=kind), "--check", check, "--json")
    assert status == 1, out
    [row] = json.loads(out)
    assert row["check"] == row["found"]["check"] == check
    assert re.match(says, row["found"]["what"]), out
    assert shlex.split(row["again"])[:2] == ["mage", "check"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({}, "an episode did not end within 1000 replies"),
        ({"says": 7}, "the observation 7 is not in the observation space"),
    ],
)
def test_a_planted_environment_is_found(options: dict, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    status, out = chaos(capsys, *own("planted/Endless-v0", **options), "--check", "play")
    assert status == 1, out
    assert f"play: {says}" in out


@pytest.mark.more
@pytest.mark.parametrize("opponent", ["Raises", pytest.param("Loops", marks=pytest.mark.slow), "Hashes"])
def test_the_printed_command_shows_it_again(opponent: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Report one cause as one finding, even if several checks meet it, and replace a process that it ends."""
    status, out = chaos(capsys, "--quick", *against(opponent), "--seed", "5", "--timeout", "2")
    assert status == 1
    rows = [line for line in out.splitlines() if re.match(r"\w+ +\d+ +\d", line)]
    assert len(rows) == 9, out
    if opponent == "Hashes":
        assert [row.split()[0] for row in rows if "FAILED" in row] == ["processes"]
    else:
        assert "FAILED, as play" in out
    command = re.findall(r"again with: (.*)", out)[0]
    rerun_arguments, seed = shlex.split(command)[1:], int(command.split("--seed ")[1].split()[0])
    finding = out.split("\n\n")[1].splitlines()[0]
    status, rerun_output = chaos(capsys, *rerun_arguments[1:])
    assert status == 1
    assert finding in rerun_output.splitlines()
    assert f"--seed {seed}" in rerun_output, "the first seed that is tried"
    if opponent != "Hashes":
        assert 'planted.py", line' in rerun_output, "with its traceback"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("mage/KuhnPokr-v0",), "KuhnPokr"),
        (("mage/KuhnPoker-v0", "--opponents", "kuhn/nsh"), "Unknown opponent 'kuhn/nsh'. Did you mean 'kuhn/nash'?"),
        (("mage/KuhnPoker-v0", "--seed", "-1"), "Input should be greater than or equal to 0"),
        (("mage/KuhnPoker-v0", "--timeout", "nan"), "--timeout must be above 0"),
    ],
)
def test_what_cannot_be_tried_is_one_line(
    arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", *arguments]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert says in line
