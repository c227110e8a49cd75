"""`mage eval` and its neighbours, in child processes and in this one."""

from __future__ import annotations

import os
import re

os.environ["HF_HUB_OFFLINE"] = "1"

import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mage_envs.benchmarks.evaluation.tables.summary_table import load
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.cli.program import main
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.text.words.vocabulary import vocabulary
from mage_envs.trainer.backends.play_settings import PlaySettings
from mage_envs.trainer.backends.tiny import save_tiny, tiny_model, tiny_tokenizer
from tests.trainer.foreign import Guess, register

COMMAND = [sys.executable, "-m", "mage_envs"]
KUHN = ["--env", "mage/KuhnPoker-Meta-v0"]


def bench(*arguments):
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, timeout=100)


def test_eval_of_a_policy(tmp_path):
    names = "kuhn/conservative,kuhn/aggressive"
    options = ["--opponents", names, "--rows", "8", "--seed", "3", "--out", str(tmp_path)]
    run = bench("eval", "policy:kuhn/nash", *KUHN, *options, "--game-option", "num_episodes=2")
    assert run.returncode == 0, run.stderr
    head, _, table = run.stdout.partition("\n\n")
    assert re.fullmatch(
        r"policy:kuhn/nash does not measurably adapt: -?\d*\.\d\d ± .* level, adaptation by its own memory .*\.", head
    )
    assert table.startswith("policy:kuhn/nash in mage/KuhnPoker-Meta-v0\nseed 3, 32 meta-episodes, sha256 ")
    assert "32 of 32 meta-episodes" in run.stderr
    summary = load(tmp_path)
    assert [row.opponent for row in summary.rows] == names.split(",")
    assert len(summary.overall.episodes) == 2
    assert summary.rows[1].episodes[0].returns.ceiling == pytest.approx(1 / 3)
    assert (tmp_path / "adaptation.png").exists()


def test_eval_of_a_saved_model_knows_its_environment(tmp_path, capfd):
    tokenizer = tiny_tokenizer(vocabulary(KuhnPoker()))
    save_tiny(tmp_path, tiny_model(len(tokenizer), hidden=16, layers=1, heads=2), tokenizer)
    options = {"style": "words", "context": "conversation", "memory": "history", "num_episodes": 4}
    PlaySettings("mage/KuhnPoker-Meta-v0", options, max_new_tokens=1, constrained=True).save(tmp_path)
    assert main(["eval", str(tmp_path), "--opponents", "switch:cfr,kuhn/rock,2;uniform", "--rows", "2", "--wide"]) == 0
    out = capfd.readouterr().out
    assert "episode 4" in out
    assert "switch:cfr,kuhn/rock,2" in out


def test_json_has_one_line_per_agent_with_every_digit(tmp_path, capfd):
    agents, options = ["scripted:first", "scripted:last"], [*KUHN, "--rows", "2", "--opponents", "uniform,cfr"]
    assert main(["eval", *agents, *options, "--out", str(tmp_path), "--json"]) == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [line["agent"] for line in lines] == agents
    # The scale is computed from the records, and summary.json holds the scores.
    assert [line.pop("scale")["verdict"] for line in lines] == ["does not measurably adapt"] * 2
    assert lines == [
        json.loads((tmp_path / f"scripted-{name}" / "summary.json").read_text()) for name in ("first", "last")
    ]


def test_names_are_whole_in_a_pipe(capfd):
    long = f"switch:{','.join(['kuhn/conservative'] * 2)},2"
    assert main(["eval", "scripted:last", *KUHN, "--rows", "2", "--opponents", f"{long};uniform", "--wide"]) == 0
    out = capfd.readouterr().out
    assert long in out
    assert "…" not in out


def test_default_opponents_and_pools_are_weighed(capfd):
    assert main(["eval", "scripted:last", *KUHN, "--rows", "2", "--wide"]) == 0
    assert "all, weighted" in capfd.readouterr().out
    assert main(["eval", "scripted:last", *KUHN, "--rows", "2", "--opponents", "pool:kuhn/demo", "--wide"]) == 0
    out = capfd.readouterr().out
    assert re.search(r"^all .* 0\.121 +0\.273$", out, re.M)


def test_named_panel_and_list(capfd):
    assert main(["eval", "scripted:first", "--panel", "paper-kuhn-cfr"]) == 0
    assert "\npaper-kuhn-cfr-128, 128 meta-episodes, sha256 " in capfd.readouterr().out
    assert main(["list", "agents"]) == 0
    assert "policy:NAME" in capfd.readouterr().out


def test_a_run_is_kept_replayed_validated_and_resumed(tmp_path, capfd):
    folder = str(tmp_path / "run")
    # A process of its own plays, so that the record is executed again in another one.
    process = bench("eval", "scripted:random", "--panel", "kuhn-paper-128", "--out", folder)
    assert process.returncode == 0, process.stderr
    assert main(["verify", "--replay", folder]) == 0
    out = capfd.readouterr().out
    assert "132 meta-episodes" in out
    assert out.endswith("all as recorded\n")
    assert main(["verify", folder]) == 0
    assert ": valid\n" in capfd.readouterr().out
    assert main(["eval", "scripted:random", "--panel", "kuhn-paper-128", "--out", folder]) == 2
    assert "holds a run; resume it with --resume" in capfd.readouterr().err


def test_limits_keep_the_finished_meta_episodes_and_resume_plays_the_rest(tmp_path, capfd):
    arguments = ["eval", "scripted:last", "--panel", "kuhn-paper-128", "--out", str(tmp_path), "--batch", "8"]
    with pytest.raises(SystemExit) as exit_info:
        main([*arguments, "--budget", "calls=100"])
    assert exit_info.value.code == 3
    err = capfd.readouterr().err
    assert "meta-episodes were not played: all 100 calls are spent; --resume plays them" in err
    records = Records(tmp_path)
    assert 5 < len(records.lines) < 40
    assert records.failed == []
    assert records.root()["missing"]
    assert main([*arguments, "--resume"]) == 0
    assert Records(tmp_path).missing == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["eval", "policy:cfr"], "Nothing to play. Use --env"),
        (["eval", "policy:cfr", *KUHN, "--quick"], "--size and --quick apply to --suite"),
        (["eval", "policy:cfr", *KUHN, "--size", "128"], "--size and --quick apply to --suite"),
        (["eval", "policy:cfr", *KUHN, "--format", "latex"], "--format latex applies to --suite"),
        (["eval", "policy:cfr", *KUHN, "--fill", "bank.json"], "--fill needs one agent, --panel and --memory"),
        (["eval", "a.yaml", "--suite", "demo", "--memory", "both"], "--memory does not apply to --suite"),
        (["eval", "a.yaml", "--suite", "demo", "--panel", "kuhn-train"], "--panel does not apply to --suite"),
        (["eval", "a.yaml", "b.yaml", "--suite", "demo"], "--suite reads one YAML file of rows"),
        (["eval", "a.yaml", "--suite", "demo", "--game-option", "reveal=always"], "takes only --game-option protocol="),
        (["eval", "a.yaml", "--suite", "demo", "--episodes", "4"], "--episodes 4 must be 3 or 10 in a suite"),
        (["verify", "docs", "--replay", "--challenge"], "--replay and --challenge are two checks"),
        (["verify", "docs", "--agent", "policy:cfr"], "--agent, --out and --rows apply to --challenge"),
        (["verify", "docs", "--sample", "3"], "--sample applies to --replay and --challenge"),
        (["headroom", "KuhnPoker", "--ceilings", "--transfer"], "print different tables. Choose one"),
        (["headroom", "KuhnPoker", "--transfer"], "is not a series of tasks from a table"),
        (["doctor", "tiny"], "must have one of the forms hf:MODEL, webshop:DIR"),
        (["play", "KuhnPoker", "--port", "0"], "apply to the browser. Add --browser"),
        (["play", "--browser", "--watch", "policy:cfr", "--seed", "1"], "--seed applies to the terminal"),
        (["paper", "4.4.3"], "Name the folder of the trainings with --out"),
        (["paper", "4.4.3", "--stage", "1"], "apply to a table, and 4.4.3 is an ablation"),
        (["paper", "table1", "--seeds", "2"], "--model, --seeds and --rollouts apply to an ablation"),
        (["eval", "polcy:cfr", *KUHN], "Unknown agent 'polcy:cfr'"),
        (["eval", "policy:cfr", "--env", "mage/KuhnPoker-v0"], "is not a meta-episode"),
        (["eval", "policy:cfr", "--env", "mage/Kuhn-Meta-v0"], "Unknown environment"),
        (["eval", "policy:cfr", *KUHN, "--opponents", "kuhn/agressive"], "Did you mean 'kuhn/aggressive'?"),
        (["eval", "policy:cfr", *KUHN, "--opponents", "pool:kuhn/dmo"], "Did you mean 'kuhn/demo'?"),
        (["eval", "policy:cfr", *KUHN, "--opponents", "minimax"], "plays TicTacToe, not KuhnPoker"),
        (["eval", "policy:cfr", *KUHN, "--game-option", "nope"], "must have the form NAME=VALUE"),
        (["eval", "policy:cfr", *KUHN, "--game-option", "=3"], "must have the form NAME=VALUE"),
        (["eval", "policy:cfr", *KUHN, "--game-option", "nope=1"], "nope"),
        (["eval", "policy:cfr", *KUHN, "--game-option", "memory=all"], "memory='all' is unknown"),
        (["eval", "policy:cfr", *KUHN, "--rows", "0"], "at least one row"),
        (["eval", "policy:cfr", "--panel", "kuhn-trian"], "Did you mean 'kuhn-train'?"),
        (["eval", "policy:cfr", "--panel", "kuhn-train", "--rows", "3"], "--panel fixes its rows"),
        (["eval", "scripted:first", "--panel", "sokoban-eval-1box", "--game-option", "boxes=2"], "fixes boxes"),
        (["eval", "policy:cfr", "--panel", "kuhn-train", "--env", "mage/TicTacToe-Meta-v0"], "is played in mage/Kuhn"),
        (["eval", "policy:cfr", "--panel", "kuhn-paper", "--episodes", "0"], "num_episodes"),
        (["eval", "policy:cfr", "--panel", "kuhn-paper", "--memory", "reflektion"], "memory='reflektion' is unknown"),
        (["eval", "policy:cfr", *KUHN, "--memory", "none", "--game-option", "memory=both"], "by its flag"),
        (["eval", "policy:cfr", *KUHN, "--budget", "calls=0"], "--budget calls must be more than 0"),
        (["eval", "policy:cfr", *KUHN, "--resume"], "Name the folder with --out"),
        (["eval", "policy:cfr", *KUHN, "--opponents", "cfr,cfr"], "The opponents of a panel must differ"),
        (["eval", "policy:cfr", "--panel", "alfworld-eval-in", "--game-option", "data=official"], "fixes data"),
        (["eval", "policy:cfr", *KUHN, "--game-option", "revael=always"], "'revael'. Did you mean 'reveal'?"),
        (["eval", "policy:cfr", *KUHN, "--game-option", "num_episods=1"], "Did you mean 'num_episodes'?"),
        (
            ["eval", "policy:cfr", *KUHN, "--batch", "0", "--out", "/proc/x"],
            "'--batch': Input should be greater than or eq",
        ),
        (["eval", "policy:cfr", *KUHN, "--timeout", "nan"], "'--timeout': Input should be greater than or equal"),
        (["eval", "policy:cfr", "--panel", "kuhn-paper", "--opponents", "cfr"], "--panel fixes its opponents"),
        (["eval", "x", "--rows", "a"], "mage eval: Invalid value for '--rows': Input should be a valid integer"),
        (["eval", "x", "--control", "frozn"], "'shuffled', 'other', 'same', 'given'. Did you mean frozen?"),
        (["eval"], "Name an agent, as in mage eval policy:kuhn/nash, or a stored run with --from RUN."),
        (["eval", "--from", "nowhere"], "nowhere holds no run"),
        (["eval", "--from", "x", "--rows", "2"], "--from without an agent scores a stored run"),
        (["eval", "policy:cfr", *KUHN, "--budget", "minutes=nan"], "--budget minutes must be more than 0"),
        (["eval", "policy:cfr", *KUHN, "--seed", "-1"], "seed=-1 must not be negative"),
        (
            ["eval", "policy:cfr", *KUHN, "--game-option", "memory=none", "--game-option", "memory=both"],
            "names 'memory' twice",
        ),
        (["eval", "policy:cfr", "--env", "KuhnPokr"], "doesn't exist. mage list prints all ids."),
        (["headroom", "--ceilings", "KuhnPoker", "--opponents", "pool:nosuch"], "Unknown pool 'nosuch'"),
        (["headroom", "KuhnPoker", "--limit", "0"], "--limit"),
        (["headroom", "KuhnPoker", "--samples", "-1"], "--samples"),
        (["headroom", "KuhnPoker", "--plot", "/proc/x/y.png"], "/proc/x: No such file or directory; check the path"),
        (["exploit", "nowhere", "--out", "/proc/x/y"], "/proc/x: No such file or directory; check the path"),
        (["verify", "--replay", "nowhere"], "nowhere holds no run: run.json does not exist"),
        (["verify", "docs"], "holds no run"),
        (["eval", "model:nowhere"], "the folder does not exist"),
        (["eval", ".", *KUHN], "holds no mage.json"),
    ],
)
def test_errors_are_one_line_and_exit_2(arguments, message, capfd):
    assert main(arguments) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1].startswith(("mage: ", f"mage {arguments[0]}: "))
    assert message in captured.err.splitlines()[-1]
    assert "Traceback" not in captured.err


def rows_named_by(line):
    """The lines of the failure log that a line of stderr names at its end."""
    return [json.loads(row) for row in Path(line.split()[-1]).read_text().splitlines()]


def test_tracebacks_are_kept_without_a_folder_too(tmp_path, capfd, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    eval_of = ["eval", "scripted:first", *KUHN, "--rows", "2", "--opponents"]
    assert main([*eval_of, "uniform"]) == 0
    assert list(tmp_path.iterdir()) == []
    illegal = "tests.benchmarks.tournament_policies:Illegal"
    with pytest.raises(SystemExit) as exit_info:
        main([*eval_of, f"uniform,{illegal}"])
    assert exit_info.value.code == 1
    (line,) = (line for line in capfd.readouterr().err.splitlines() if line.startswith("Failures: "))
    rows = rows_named_by(line)
    assert {row["opponent"] for row in rows} == {illegal}
    assert all("IllegalAction: 'dance' is not legal" in row["traceback"] for row in rows)
    assert main([*eval_of, illegal]) == 2
    assert {row["kind"] for row in rows_named_by(capfd.readouterr().err)} == {"opponent"}


def test_an_error_that_ends_an_evaluation_names_its_traceback(tmp_path, capfd, monkeypatch):
    def broken(self, **options):
        raise ValueError("no number today")

    register()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(Guess, "reset", broken)
    assert main(["eval", "scripted:first", "--env", "foreign/Guess-Meta-v0", "--rows", "2"]) == 2
    error = capfd.readouterr().err
    assert error.startswith("mage: no number today Its traceback is in ")
    (row,) = rows_named_by(error)
    assert row["kind"] == "run"
    assert "in broken" in row["traceback"]


def test_ctrl_c_is_clean():
    run = subprocess.Popen(
        [*COMMAND, "eval", "policy:mcts:1000", "--panel", "tictactoe-paper-unseen-128"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert "128 meta-episodes" in run.stderr.readline()
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert (run.returncode, out) == (130, "")
    assert err.strip().splitlines()[-1] == "Interrupted."
    assert "Traceback" not in err


def test_a_dry_run_says_what_to_expect_and_asks_no_model(capsys):
    agents = ["llm:m@http://127.0.0.1:9/v1,max_tokens=50", "scripted:first"]
    assert main(["eval", *agents, "--panel", "kuhn-paper-16", "--dry-run", "--price", "0,1000000"]) == 0
    note, _, model, scripted = capsys.readouterr().out.splitlines()
    assert note.startswith("Estimates from random play of the first 16 tasks of each panel")
    assert model.startswith("llm:m,max_tokens=50: 18 meta-episodes, with 95% intervals: ")
    calls, tokens, price = (
        float(re.search(pattern, model)[1].replace(",", ""))
        for pattern in (r"([\d,]+) \[[^\]]*\] calls", r"([\d,]+) \[[^\]]*\] reply", r"price ([\d,.]+)")
    )
    # At least three answers and two reflections of a meta-episode, of 50 tokens each.
    assert calls >= 18 * 5
    assert (tokens, price) == pytest.approx((50 * calls, tokens), rel=0.01)
    assert scripted == "scripted:first: 18 meta-episodes, no model"
