"""docs/tour.md equals the output of its generator in every process. A hop that the code no longer takes is an error."""

from __future__ import annotations

import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from dev.tour import page as tour
from dev.tour.hops import ANSWER, TRAINING
from dev.tour.recorder import MAX_TEXT_LINES, Hop, Recorder, cut, format_value, text_lines
from mage_envs.trainer.method.returns import cumulative, differential_rewards, episode_values, scheme_of
from tests.processes import ROOT, run_in_two_processes
from tests.trainer.meta_episodes import trajectory


def test_the_page_is_what_the_generator_writes() -> None:
    # The opponent's replies are cached by process, and a warm cache must not change the page.
    env = gym.make(tour.ENV_ID, opponent=tour.OPPONENT)
    env.reset(seed=tour.SEED)
    env.step(tour.REPLY)
    assert tour.PAGE.read_text(encoding="utf-8") == tour.page()


@pytest.mark.more
def test_two_processes_write_the_same_page() -> None:
    assert run_in_two_processes("from dev.tour.page import page; print(page(), end='')") == tour.PAGE.read_text(
        encoding="utf-8"
    )


def test_check_finds_a_difference_and_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tour, "PAGE", tmp_path / "tour.md")
    assert tour.main(["--check"]) == 1
    assert not tour.PAGE.exists()
    assert "python -m dev.tour" in capsys.readouterr().err
    assert tour.main([]) == 0
    assert tour.main(["--check"]) == 0
    tour.PAGE.write_text(tour.PAGE.read_text().replace("lose 2 chips", "lose 3 chips"))
    assert tour.main(["--check"]) == 1


def test_every_hop_has_its_section_with_a_file_that_exists() -> None:
    headings = re.findall(r"^### (\d+)\. (\S+) \((\S+)\)$", tour.PAGE.read_text(), re.MULTILINE)
    assert [int(number) for number, _, _ in headings] == list(range(1, len(ANSWER) + len(TRAINING) + 1))
    assert {(name, file) for _, name, file in headings} == {(hop.name, hop.file) for hop in ANSWER + TRAINING}
    assert all((ROOT / file).exists() for _, _, file in headings)


def hop(**changes: object) -> Hop:
    fields = {"function": differential_rewards, "text": "Text.", "arguments": ("rewards",), "results": ("returned",)}
    return Hop(**{**fields, **changes})  # type: ignore[arg-type]


def test_the_recorder_records_values_and_nesting() -> None:
    trajectory_played, scheme = trajectory([1.0, 3.0], turns=1, reflections=False), scheme_of("differential")
    outer = hop(function=episode_values, arguments=(), results=("len(returned)",))
    inner = hop()
    with Recorder([outer, inner]) as recorder:
        episode_values(trajectory_played, scheme, 1.0, 0.5)
        cumulative([1.0])
    episode_values(trajectory_played, scheme, 1.0, 0.5)
    assert [(call.hop.name, call.depth, call.arguments, call.results) for call in recorder.calls] == [
        ("episode_values", 0, [], ["len(returned) = 2"]),
        ("differential_rewards", 1, ["rewards = [1.0, 3.0]"], ["returned = [1.0, 2.0]"]),
    ]
    tree, sections = tour.part(recorder, [inner, outer], 4)
    assert tree == "```text\n4. episode_values\n    5. differential_rewards\n```\n"
    assert sections.endswith(
        "### 5. differential_rewards (trainer/method/returns.py)\n\nText.\n\n"
        "```text\nin   rewards = [1.0, 3.0]\nout  returned = [1.0, 2.0]\n```\n"
    )


def test_values_are_those_at_the_call_and_at_the_return() -> None:
    rewards = [1.0]
    with Recorder([hop(names=("first",), results=("first", "rewards"))]) as recorder:
        differential_rewards(rewards)
        rewards.append(5.0)
    assert (recorder.calls[0].arguments, recorder.calls[0].results) == (
        ["rewards = [1.0]"],
        ["first = 1.0", "rewards = [1.0]"],
    )


def test_a_hop_that_is_not_called_often_enough_is_an_error() -> None:
    twice = hop(calls=2)
    with Recorder([twice]) as recorder:
        differential_rewards([1.0])
    with pytest.raises(LookupError, match=r"differential_rewards .* called 1 times, expected at least 2"):
        tour.part(recorder, [twice], 1)


def test_an_expression_without_a_value_is_an_error() -> None:
    wrong = Recorder([hop(arguments=("penalties",))])
    with pytest.raises(LookupError, match=r"'penalties' has no value in differential_rewards"), wrong:
        differential_rewards([1.0])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.123456, "0.1235"),
        (np.float32(1 / 3), "0.3333"),
        (np.array([1, 2]), "[1, 2]"),
        ((None,), "(None,)"),
        ({"a": [True, "b"]}, "{'a': [True, 'b']}"),
    ],
)
def test_a_value_as_text(value: object, text: str) -> None:
    assert format_value(value) == text


def test_an_object_without_a_short_text_is_an_error() -> None:
    with pytest.raises(TypeError, match="Recorder has no short text"):
        format_value(Recorder([]))


def test_long_values_are_cut() -> None:
    assert cut("abcdefgh", 8) == "abcdefgh"
    assert cut("abcdefghi", 8) == "abcde..."
    text = "\n".join(map(str, range(MAX_TEXT_LINES + 2)))
    assert text_lines(text)[-2:] == [f"| {MAX_TEXT_LINES - 1}", "... (2 more lines)"]
