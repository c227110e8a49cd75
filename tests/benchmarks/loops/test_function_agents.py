"""Agents that are Python functions, and the result of `mage_envs.evaluate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mage_envs
from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.cli.program import main
from mage_envs.loading.imports import user_modules
from tests.benchmarks.loops import function_agents

MODULE = "tests.benchmarks.loops.function_agents"
KUHN = ("--panel", "kuhn-paper-16")


def replies_of(folder: Path) -> list[list[str]]:
    return [[call["reply"] for call in line["calls"]] for _, line in sorted(Records(folder).lines.items())]


def test_a_function_plays_like_the_script_with_its_replies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory = ("--memory", "reflection")
    for name, agent in (("script", "scripted:first"), ("sync", f"{MODULE}:reply")):
        assert main(["eval", agent, *KUHN, *memory, "--no-controls", "--out", str(tmp_path / name)]) == 0
    records = {name: Records(tmp_path / name) for name in ("script", "sync")}
    assert records["sync"].root() == records["script"].root()
    # The record needs no module of the agent's to be read.
    assert records["sync"].about["imports"] == []
    assert MODULE not in user_modules()
    capsys.readouterr()
    assert main(["eval", "--from", str(tmp_path / "script")]) == 0
    recorded = capsys.readouterr().out
    assert main(["eval", "scripted:first", *KUHN, *memory, "--no-controls"]) == 0
    assert capsys.readouterr().out == recorded


def test_async_calls_wait_together_and_their_usage_is_recorded(tmp_path: Path) -> None:
    function_agents.waiting = 0
    result = mage_envs.evaluate(function_agents.reply_later, "kuhn-paper-16", batch=8, out=tmp_path / "a")
    expected = mage_envs.evaluate(function_agents.reply, "kuhn-paper-16", out=tmp_path / "b")
    assert replies_of(tmp_path / "a") == replies_of(tmp_path / "b")
    assert result.summary.rows[0].episodes == expected.summary.rows[0].episodes
    call = Records(tmp_path / "a").lines[0]["calls"][0]
    assert (call["tokens"], call["reasoning"]) == ([7, 3], "The first one.")


@pytest.mark.parametrize("target", [function_agents.Counting, function_agents.CountingLater])
def test_a_class_has_one_instance_per_meta_episode(tmp_path: Path, target: type) -> None:
    mage_envs.evaluate(target, "kuhn-paper-16", memory="history", controls=True, out=tmp_path / "run", batch=4)
    numbers = [[int(text.split()[0]) for text in texts] for texts in replies_of(tmp_path / "run")]
    assert all(counts == list(range(1, len(counts) + 1)) for counts in numbers)
    # Without its memory, and with another's, an instance answers one episode only.
    for control in ("none", "other"):
        for line in Records(tmp_path / "run" / "controls" / control).lines.values():
            by_episode: dict[int, list[int]] = {}
            for call in line["calls"]:
                by_episode.setdefault(call["episode"], []).append(int(call["reply"].split()[0]))
            assert all(counts == list(range(1, len(counts) + 1)) for counts in by_episode.values())


def test_a_result_prints_plots_and_saves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    opponents = ["kuhn/conservative", "kuhn/aggressive"]
    result = mage_envs.evaluate(function_agents.Callable(), "KuhnPoker", opponents=opponents, rows=2)
    assert result.plot(tmp_path / "curve.png").stat().st_size > 1000
    written = result.save(tmp_path / "run")
    assert {path.name for path in written} >= {"summary.json", "scores.csv"}
    with pytest.raises(FileExistsError, match="is not empty"):
        result.save(tmp_path / "run")
    capsys.readouterr()
    assert main(["eval", "--from", str(tmp_path / "run")]) == 0
    assert capsys.readouterr().out.rstrip() == str(result).rstrip()
    assert main(["eval", "--from", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(result.to_json()))
    assert main(["verify", "--replay", str(tmp_path / "run")]) == 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("thing", "must be a function or a class that .* defines; got int"),
        ("nothing", "the module has no 'nothing'"),
        ("two", "must accept one argument, the list of messages: missing a required argument: 'more'"),
        ("NoReply", r"or a class with a method reply\(messages\)\. Use policy:.*:NoReply for a policy"),
        ("NeedsMore", r"NeedsMore\(\) must accept no arguments: missing a required argument: 'model'"),
        (
            "divide",
            r"failed; the first: generator: ZeroDivisionError: division by zero \(function_agents.py, line \d+\)",
        ),
        ("number", "must return a text or mage_envs.Completion, got int"),
        ("forgotten", "returned a coroutine. Define it with async def"),
    ],
)
def test_a_wrong_agent_is_one_line(name: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", f"{MODULE}:{name}", *KUHN]) == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if "meta-episodes, " not in line]
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(line)


def test_wrong_modules_and_policies_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken_agent.py").write_text("def reply(:\n")
    (tmp_path / "raising_agent.py").write_text("x = 1\ny = {}['a']\n")
    (tmp_path / "rows.yaml").write_text("- name: mine\n  agent: raising_agent:reply\n")
    for words, message in (
        (
            ["eval", "broken_agent:reply", *KUHN],
            "cannot be imported: SyntaxError: invalid syntax (broken_agent.py, line 1)",
        ),
        (["eval", "raising_agent:reply", *KUHN], "cannot be imported: KeyError: 'a' (raising_agent.py, line 2)"),
        (["eval", "os:system", *KUHN], "must be a function or a class that os defines"),
        (["eval", "no_such_agent:reply", *KUHN], "no module 'no_such_agent' was found"),
        (["eval", f"policy:{MODULE}:NoReply", *KUHN], "a class with reset, act; it lacks reset"),
        (["eval", "rows.yaml", "--suite", "demo", "--out", "x"], "needs the module 'raising_agent'"),
    ):
        assert main(words) == 2
        [line] = capsys.readouterr().err.splitlines()
        assert message in line


def test_the_arguments_of_evaluate_are_checked() -> None:
    with pytest.raises(ValueError, match="'KuhnPokr' is neither a game, an environment id nor a panel. Did you mean"):
        mage_envs.evaluate(function_agents.reply, "KuhnPokr")
    with pytest.raises(TypeError, match="must be a function, or a class"):
        mage_envs.evaluate(3, "KuhnPoker")
    with pytest.raises(ValueError, match="resume=True continues"):
        mage_envs.evaluate(function_agents.reply, "KuhnPoker", resume=True)
    assert make_agent(f"{MODULE}:reply", name="mine").name == "mine"


def test_a_list_of_opponents_is_not_split_at_the_commas_of_a_name():
    result = mage_envs.evaluate(
        "scripted:first", "PrisonersDilemma", opponents=["hazard:pd/tit-for-tat,pd/all-d,.2"], rows=1
    )
    assert [row.opponent for row in result.summary.rows] == ["hazard:pd/tit-for-tat,pd/all-d,.2"]
    with pytest.raises(ValueError, match="opponents must name an opponent"):
        mage_envs.evaluate("scripted:first", "KuhnPoker", opponents=[], rows=1)


def test_suites_are_compared_before_an_agent_plays(tmp_path, capsys):
    folder = tmp_path / "learning"
    words = ["adapt", "scripted:first", "--suite", "adapt-mini", "--pool", "hidden", "--no-controls"]
    assert main([*words, "--out", str(folder)]) == 0
    capsys.readouterr()
    assert main(["adapt", str(folder), "scripted:last", "--suite", "adapt", "--no-controls"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "One table has one suite, got adapt-mini and adapt. Choose it with --suite." in err
    assert main(["adapt", str(folder), "--elicit"]) == 2
    assert "apply to agents that play. Remove them." in capsys.readouterr().err


def test_controls_that_cannot_be_played_are_named(capsys):
    words = ["eval", "scripted:first", "--env", "mage/KuhnPoker-Meta-v0", "--opponents", "kuhn/nash", "--rows", "1"]
    assert main([*words, "--controls", "--no-baselines"]) == 0
    assert "No controls are played: they need two opponents or more (--opponents A,B)." in capsys.readouterr().err


@pytest.mark.parametrize("rows", [0, -1, 1.5, "2", True])
def test_rows_are_a_whole_number(rows):
    with pytest.raises(ValueError, match=r"rows must be a whole number of at least 1, got "):
        mage_envs.evaluate("scripted:first", "KuhnPoker", opponents="kuhn/nash", rows=rows)
