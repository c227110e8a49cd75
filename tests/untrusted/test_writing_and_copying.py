"""Links in a stranger's run are neither copied nor written, and an unreadable record is one failure."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mage_envs.benchmarks.canonical import canonical
from mage_envs.benchmarks.records import record_store, validate
from mage_envs.benchmarks.records.lines import digest
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.cli.program import main
from mage_envs.games.webshop.cache import DamagedCache
from mage_envs.games.webshop.official import import_official
from mage_envs.games.webshop.shop import open_shop
from mage_envs.wrappers.rollout.resumable_jsonl import ResumableJsonl
from tests.games.webshop.raw import write_official
from tests.packages import mark_params

EVAL = (
    *("eval", "scripted:random", "--env", "mage/KuhnPoker-Meta-v0", "--no-baselines"),
    *("--opponents", "kuhn/nash", "--rows", "2", "--out"),
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    assert main([*EVAL, str(tmp_path / "run")]) == 0
    return tmp_path / "run"


def rewrite(run: Path, change: Any) -> None:
    """Change every line of a run and sign it again."""
    shard = run / "episodes" / "00000.jsonl.gz"
    lines = [json.loads(line) for line in gzip.decompress(shard.read_bytes()).splitlines()]
    for line in lines:
        change(line)
        line["digest"] = digest(line)
    shard.write_bytes(gzip.compress(b"".join(canonical(line) + b"\n" for line in lines)))


@pytest.mark.parametrize("name", ["root.json", "run.json", "episodes/00000.jsonl.gz"])
def test_a_linked_file_is_not_copied_into_a_folder_to_publish(name: str, run: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    secret = tmp_path / "secret"
    secret.write_bytes((run / name).read_bytes())
    (run / name).unlink()
    (run / name).symlink_to(secret)
    assert main(["export", str(run), "--to", "hub-folder", "--out", str(tmp_path / "hub")]) == 2
    assert not (tmp_path / "hub" / "run" / name).exists()
    assert not (tmp_path / "hub" / "README.md").exists()


def test_a_line_that_is_too_long_is_one_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_store, "MAX_LINE_BYTES", 2500)
    folder = tmp_path / "run"
    # The status is 1 if no meta-episode of an opponent could be played.
    with suppress(SystemExit):
        main([*EVAL, str(folder)])
    records = Records(folder)
    assert records.problems == []
    assert records.failed
    assert validate.problems(folder) == []
    assert main(["report", str(folder), "--out", str(tmp_path / "r.html")]) == 0
    assert main(["export", str(folder), "--to", "csv", "--out", str(tmp_path / "r.csv")]) == 0


FORGERIES: dict[str, Any] = {
    "huge reward": lambda line: [episode.update(reward=1e308, value=1e308) for episode in line["episodes"]],
    "huge whole number": lambda line: [episode.update(reward=10**400) for episode in line["episodes"]],
    "seconds of text": lambda line: line.update(seconds=["NaN"] * len(line["calls"])),
    "too few seconds": lambda line: line.update(seconds=[]),
    "negative seconds": lambda line: line.update(seconds=[-1.0] * len(line["calls"])),
    "a later episode": lambda line: line["calls"][0].update(episode=line["num_episodes"]),
    "more episodes": lambda line: line.update(episodes=line["episodes"] * 2),
    "an answer to nothing": lambda line: line["calls"][0].update(fresh=False),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_validate_finds_what_no_reader_accepts(
    forgery: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rewrite(run, FORGERIES[forgery])
    (run / "summary.json").unlink()
    assert validate.problems(run) != []
    capsys.readouterr()
    for words in (
        ["report", str(run), "--out", str(tmp_path / "r.html")],
        ["export", str(run), "--to", "csv", "--out", str(tmp_path / "r.csv")],
    ):
        assert main(words) in (0, 2)
        assert "Traceback" not in capsys.readouterr().err


def test_baselines_of_another_form_are_found(run: Path) -> None:
    summary = json.loads((run / "summary.json").read_text())
    (run / "summary.json").write_text(json.dumps(summary | {"floors": [{"opponent": 1}]}))
    assert any("summary.json: cannot be read" in problem for problem in validate.problems(run))


def test_many_line_ends_are_few_problems(run: Path) -> None:
    (run / "episodes" / "00001.jsonl.gz").write_bytes(gzip.compress(b"\n" * 100_000))
    problems = Records(run).problems
    assert len(problems) == 101
    assert problems[-1].reason == "further lines are damaged"


def test_an_interrupted_training_ends_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mage_envs.trainer.cli.train.main", lambda _: 130)
    plan = tmp_path / "plan.yaml"
    plan.write_text("presets: [mage-kuhn]\n")
    assert main(["train", "--sweep", str(plan), "--seeds", "2", "--output_dir", str(tmp_path / "out")]) == 130


def test_a_result_of_another_form_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, result = tmp_path / "plan.yaml", tmp_path / "out" / "mage-kuhn" / "seed-0" / "result.json"
    plan.write_text("presets: [mage-kuhn]\n")
    result.parent.mkdir(parents=True)
    result.write_text("[]")
    assert main(["train", "--sweep", str(plan), "--seeds", "1", "--output_dir", str(tmp_path / "out")]) == 2
    assert f"{result} is not a result of a sweep" in capsys.readouterr().err


# -- files that the user names -----------------------------------------------------------------------------------------

NAMED: dict[str, list[str]] = {
    "config": ["train", "--config", "{pipe}", "--dry-run"],
    "system prompt": ["train", "--model", "tiny", "--system_prompt", "@{pipe}", "--dry-run"],
    "sweep": ["train", "--sweep", "{pipe}", "--output_dir", "{out}"],
    "rows": ["eval", "{pipe}", "--suite", "heldout", "--quick", "--out", "{out}"],
    "levels": ["eval", "scripted:first", "--env", "mage/Sokoban-Meta-v0", "--game-option", "generator={pipe}"],
    "goals": ["eval", "scripted:first", "--env", "mage/WebShop-Meta-v0", "--game-option", "goals={pipe}"],
    "bank": [*EVAL[:-1], "--memory", "memento:scope=run,bank={pipe}"],
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", NAMED)
def test_a_pipe_is_refused_in_one_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    words = [word.format(pipe=tmp_path / "pipe.json", out=tmp_path / "out") for word in NAMED[name]]
    assert main(words) == 2
    err = capsys.readouterr().err
    assert "is not a regular file" in err
    assert len(err.strip().splitlines()) == 1


def test_rows_of_a_billion_values_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tmp_path / "rows.yaml"
    lines = ["a0: &a0 [x, x]", *(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 11))]
    rows.write_text("\n".join(lines))
    assert main(["eval", str(rows), "--suite", "heldout", "--quick", "--out", str(tmp_path / "out")]) == 2
    assert "it has more than 10000 values" in capsys.readouterr().err


# -- files in a folder of others ----------------------------------------------------------------------------------


def test_a_log_is_not_written_through_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside.jsonl"
    outside.write_text("mine\n")
    (tmp_path / "log.jsonl").symlink_to(outside)
    with pytest.raises(OSError, match=r"log\.jsonl"):
        ResumableJsonl(tmp_path / "log.jsonl").append([{"step": 1}])
    assert outside.read_text() == "mine\n"


@pytest.mark.parametrize("linked", ["mage-kuhn", "mage-kuhn/seed-0", "mage-kuhn/seed-0/shown.txt"])
def test_a_sweep_does_not_train_through_a_link(
    linked: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mage_envs.trainer.cli.train.main", lambda _: 1)
    outside, link = tmp_path / "outside", tmp_path / "out" / linked
    link.parent.mkdir(parents=True)
    if linked.endswith(".txt"):
        outside.write_text("mine\n")
    else:
        outside.mkdir()
    link.symlink_to(outside)
    (tmp_path / "plan.yaml").write_text("presets: [mage-kuhn]\n")
    assert (
        main(["train", "--sweep", str(tmp_path / "plan.yaml"), "--seeds", "1", "--output_dir", str(tmp_path / "out")])
        == 2
    )
    assert str(link) in capsys.readouterr().err
    assert list(outside.iterdir()) == [] if outside.is_dir() else outside.read_text() == "mine\n"


def test_a_catalogue_that_links_out_of_its_folder_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    folder = import_official(write_official(tmp_path / "shop"), products=3, cache=tmp_path / "cache")
    moved = tmp_path / "elsewhere.bin"
    (folder / "products.bin").rename(moved)
    (folder / "products.bin").symlink_to(moved)
    with pytest.raises(DamagedCache, match=r"products\.bin is missing, a link out of the folder"):
        open_shop(folder, "human", 0)


# -- controls beside a run ---------------------------------------------------------------------------------------------

JUDGED = (*EVAL[:-1], "--opponents", "kuhn/conservative,kuhn/aggressive", "--out")


@pytest.fixture
def evaluation_run(tmp_path: Path) -> Path:
    assert main([*JUDGED, str(tmp_path / "judged")]) == 0
    assert sorted(path.name for path in (tmp_path / "judged" / "controls").iterdir()) == ["none", "other"]
    return tmp_path / "judged"


@pytest.mark.parametrize("linked", ["controls", "controls/none", "controls/other"])
def test_controls_that_are_links_are_neither_read_nor_written(
    linked: str, evaluation_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outside = tmp_path / "outside"
    (evaluation_run / linked).rename(outside)
    (evaluation_run / linked).symlink_to(outside)
    content_before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    capsys.readouterr()
    assert main([*JUDGED, str(evaluation_run), "--resume"]) == 2
    assert f"{evaluation_run / linked} is a link" in capsys.readouterr().err
    assert main(["report", str(evaluation_run), "--out", str(tmp_path / "r.html")]) == 0
    assert f"mage: no level: {evaluation_run / linked} is a link" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == content_before


@pytest.mark.parametrize("forged", mark_params(["other agent", "other tasks", "wrong control"], step=3))
def test_a_run_of_another_agent_is_not_a_control(
    forged: str, evaluation_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bad player without memory would make any player with memory adapt."""
    control_folder = evaluation_run / "controls" / "none"
    source = evaluation_run / "controls" / "other"
    if forged != "wrong control":
        words = {"other agent": ("scripted:first",), "other tasks": ("scripted:random", "--seed", "9")}[forged]
        assert main(["eval", *words, *JUDGED[2:], str(tmp_path / "forged")]) == 0
        source = tmp_path / "forged" / "controls" / "none"
    shutil.rmtree(control_folder)
    shutil.copytree(source, control_folder)
    capsys.readouterr()
    assert main(["report", str(evaluation_run), "--out", str(tmp_path / "r.html")]) == 0
    assert f"no level: {control_folder} is not the control 'none' of this run. Remove it." in capsys.readouterr().err


def test_a_policy_plays_a_control_again_whose_memories_have_changed(evaluation_run: Path) -> None:
    """The stored control copied the memories of another state of the main run."""
    other_control = evaluation_run / "controls" / "other"
    root, about = (other_control / "root.json").read_text(), json.loads((other_control / "run.json").read_text())
    for options in (about["setting"]["options"], about["env_kwargs"]):
        options["memory"] = re.sub("@[0-9a-f]{32}", "@" + 32 * "0", options["memory"])
    (other_control / "run.json").write_text(json.dumps(about))
    (other_control / "root.json").unlink()
    assert main([*JUDGED, str(evaluation_run), "--resume"]) == 0
    assert (other_control / "root.json").read_text() == root


def test_a_run_that_cannot_be_executed_again_can_be_read(
    evaluation_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rewrite(evaluation_run, lambda line: line["episodes"][0].update(reward=line["episodes"][0]["reward"] + 1))
    (evaluation_run / "summary.json").unlink()
    assert main(["report", str(evaluation_run), "--out", str(tmp_path / "r.html")]) == 0
    assert "mage: no level: " in capsys.readouterr().err
