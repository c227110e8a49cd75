"""`mage paper` and docs/paper.md: stages, costs, the commands of the page, and cells recomputed from raw records."""

from __future__ import annotations

import gzip
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from dev.paper import AGENTS, PAGE, page, reference_setting, with_ours
from mage_envs.benchmarks.commands.paper import serve_line, slurm_chain, training_words
from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.run.options import PlayOptions
from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate
from mage_envs.benchmarks.evaluation.suites.paper import setting_for
from mage_envs.benchmarks.paper import results
from mage_envs.benchmarks.paper.costs import cost_of, training_setting
from mage_envs.benchmarks.paper.results import (
    DRAWS,
    OTHER,
    SAME,
    SUCCESS,
    TRIAL,
    UNREACHABLE,
    cells_of,
    mark_of,
    reference,
)
from mage_envs.benchmarks.paper.stages import NAMES, PROMPTED, TRAINED, stages_of, suite_of
from mage_envs.benchmarks.runs.measuring import measure
from mage_envs.cli.program import main
from mage_envs.games.alfworld.scenes import is_installed
from mage_envs.trainer.config.hardware import hardware
from mage_envs.trainer.config.presets import ABLATION_PRESETS, PRESETS
from tests.test_readme import ROOT, SHELL, blocks

RECOMPUTED = {
    "paper-tictactoe-mcts100": ("ceiling",),
    "paper-tictactoe-mcts1000": ("ceiling",),
    "paper-kuhn": ("ceiling", "baseline"),
    "paper-kuhn-cfr": ("ceiling", "baseline"),
    "paper-kuhn-cfr-second": ("ceiling", "baseline"),
    "paper-sokoban-2box": ("ceiling",),
    "paper-sokoban-1box": ("ceiling",),
    "paper-sokoban-3box": ("ceiling",),
}
"""Panel to the references that are played here. The others take minutes."""


def raw(run: Path) -> list[dict[str, Any]]:
    """The lines of a run's files, without the project's reader."""
    records = []
    for shard in sorted((run / "episodes").iterdir()):
        records += [json.loads(line) for line in gzip.decompress(shard.read_bytes()).decode().splitlines()]
    return records


def count_successes(lines: list[dict[str, Any]]) -> int:
    return sum(any(episode["success"] for episode in line["episodes"]) for line in lines)


def count_draws(lines: list[dict[str, Any]]) -> tuple[int, int]:
    last_episodes = [line["episodes"][9] for line in lines if len(line["episodes"]) == 10]
    return sum(
        episode["value"] == 0 and not episode["timeout"] and not episode["success"] for episode in last_episodes
    ), len(last_episodes)


def trial_of(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let trials have so few tasks a panel."""
    for module in ("mage_envs.benchmarks.evaluation.suites.panels", "mage_envs.benchmarks.paper.stages"):
        monkeypatch.setattr(f"{module}.QUICK", size)


def test_the_page_is_made_from_its_data() -> None:
    assert PAGE.read_text("utf-8") == page(), "run python -m dev.paper"


@pytest.mark.more
def test_cells_are_recomputed_from_raw_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEBSHOP_DATA", raising=False)
    trial_of(4, monkeypatch)
    checked = 0
    for panel, kinds in RECOMPUTED.items():
        game = setting_for(panel).game_name
        for kind, agent in zip(("ceiling", "baseline"), AGENTS[game], strict=True):
            if kind not in kinds:
                continue
            out = tmp_path / panel / kind
            # Without the report and the figure that `mage eval` writes, too.
            setting = reference_setting(panel)
            measure(PlayOptions(out=out, baselines=False), make_agent(agent), setting, agent)
            lines, reference_row = raw(out), reference(panel, SUCCESS, kind)
            assert (reference_row.agent, reference_row.count, reference_row.of) == (
                agent,
                count_successes(lines),
                len(lines),
            ), (panel, kind)
            checked += 1
            if (draws := reference(panel, DRAWS, kind)) is not None:
                assert (draws.count, draws.of) == count_draws(lines)
                checked += 1
    # Our cells, which `mage paper` reads from the runs below its folder.
    out = tmp_path / "stages"
    for stage in stages_of("table1"):
        if stage.method in PROMPTED and stage.panel in ("paper-kuhn", "paper-webshop"):
            words = ["paper", "table1", "--stage", str(stage.number), "--quick", "--no-baselines", "--out", str(out)]
            assert main(words) == 0
    for cell in cells_of("table1", out):
        if cell.ours is not None:
            [run] = (out / "evaluate").glob(f"{cell.panel.split('-')[1]}-k10-paper/{cell.method}")
            lines = raw(run)
            assert len(lines) == cell.ours.n == 4
            # Every opponent has its weight in the panel, for any share of the tasks. Goals count equally.
            groups = {
                name: [line for line in lines if line["opponent"] == name] for name in {x["opponent"] for x in lines}
            }
            weights = setting_for(cell.panel).panel.weights() or dict.fromkeys(groups, 1.0)
            assert cell.ours.mean == pytest.approx(
                sum(weights[name] * count_successes(group) / len(group) for name, group in groups.items())
            )
            # Hide the paper's figure beside a trial, because a trial does not run the panel.
            assert (cell.paper, cell.mark) == (None, TRIAL)
            checked += 1
    assert checked >= 20


def test_references_are_those_of_the_tasks_of_today() -> None:
    for panel, row in results.references().items():
        if "alfworld" not in panel or is_installed():
            setting = reference_setting(panel)
            remedy = f"run python -m dev.paper --measure {panel}"
            assert (row["played"], row["fingerprint"]) == (setting.name, setting.fingerprint), remedy


def test_perfect_play_is_not_below_the_papers_row_except_by_the_cards() -> None:
    cells = cells_of("table1", None) + cells_of("ood", None)
    for cell in cells:
        if cell.paper is not None and cell.ceiling is not None and cell.measure == SUCCESS:
            above = cell.paper > cell.ceiling.share
            assert above == (cell.mark == UNREACHABLE)
            assert not above or cell.panel.startswith("paper-kuhn")
    assert reference("paper-tictactoe-mcts100", SUCCESS, "ceiling").share > 0.672
    # No line of play wins more of the deals in Kuhn Poker than betting does.
    setting = setting_for("paper-kuhn", memory="none")
    reached: set[int] = set()
    for agent in ("policy:kuhn/maniac", "policy:kuhn/caller", "policy:kuhn/passive", "scripted:random"):
        trajectories = evaluate(make_agent(agent), setting.tasks, setting.options)
        reached |= {
            index
            for index, trajectory in enumerate(trajectories)
            if any(episode.success for episode in trajectory.episodes)
        }
    assert len(reached) == reference("paper-kuhn", SUCCESS, "ceiling").count


def test_marks() -> None:
    low, high = results.ReferenceResult("a", 1, 4), results.ReferenceResult("a", 3, 4)
    assert mark_of("p", SUCCESS, 0.5, high, generated=False) == SAME
    assert mark_of("p", SUCCESS, 0.5, low, generated=False) == UNREACHABLE
    assert mark_of("p", SUCCESS, 0.5, low, generated=True) == OTHER
    assert mark_of("p", DRAWS, 1.0, low, generated=False) == SAME
    [draws] = [cell for cell in cells_of("ood", None) if cell.measure == DRAWS and cell.method == "MAGE"]
    assert (draws.panel, draws.paper) == ("paper-tictactoe-mcts1000", 1.0)
    cfr = {cell.panel: cell.paper for cell in cells_of("ood", None) if cell.method == "MAGE" and "cfr" in cell.panel}
    assert cfr == {"paper-kuhn-cfr": None, "paper-kuhn-cfr-second": 0.508}
    first_cell = next(
        iter(with_ours(cells_of("table1", None), {"paper-kuhn/ReAct/success rate": vars(Estimate(0.5, 0.4, 0.6, 9))}))
    )
    assert first_cell.texts()[:2] == ["0.500 [0.400, 0.600]", "0.648"]


def test_stages() -> None:
    stages = stages_of("table1")
    assert [stage.number for stage in stages] == list(range(1, 61))
    trainings, evaluations = stages[:20], stages[20:]
    assert {stage.preset for stage in trainings} == {
        f"{algorithm}-{game}-paper"
        for algorithm in ("mage", "lamer", "gigpo", "grpo")
        for game in ("kuhn", "tictactoe", "alfworld", "sokoban", "webshop")
    }
    assert len({(stage.panel, stage.method) for stage in evaluations}) == 40 == len(evaluations)
    for stage in evaluations:
        assert [stages[number - 1].preset for number in stage.after] == (
            [stage.preset] if stage.method in TRAINED else []
        )
    for name in NAMES:
        assert {stage.panel for stage in stages_of(name)} - {""} == set(suite_of(name).panels)
        if name.startswith("ablation-"):
            presets = list(ABLATION_PRESETS[name.removeprefix("ablation-")].values())
            assert [stage.preset for stage in stages_of(name) if not stage.panel] == presets


def test_costs_are_those_of_the_training_and_of_the_mean_reply() -> None:
    stage, machine = stages_of("ablation-4.4.3")[0], hardware("8x80gb")
    costs = {mean: cost_of(stage, suite_of("ablation-4.4.3"), machine, mean, 2) for mean in (100, 200, 99_999)}
    fields = PRESETS[stage.preset]
    setting = training_setting(stage.preset, 2)
    assert setting.options["num_episodes"] == fields["num_episodes"] == 3
    cost = costs[100]
    # 150 rollouts of 16 groups of 8, each of at most three episodes of six turns and two reflections.
    assert cost.calls.most == 150 * 16 * 8 * (3 * 6 + 2)
    assert cost.hours.most == pytest.approx(50.34, abs=0.01)
    assert (cost.devices, cost.reply_tokens.typical) == (8, 100 * cost.calls.typical)
    assert costs[200].reply_tokens.typical == 2 * cost.reply_tokens.typical
    # A text that is longer than the limit cannot be a reply.
    assert costs[99_999].reply_tokens.typical == 4096 * cost.calls.typical
    assert costs[99_999].hours.typical <= costs[99_999].hours.most
    # By hand: a second per device and rollout for sampling, then for scores and updates with the reference model.
    prompt = cost.prompt_tokens.typical / cost.calls.typical
    seconds = cost.calls.typical * (100 / 4000 + (prompt + 100) * (1 + 2 / 3) / 5000) / 8
    assert cost.hours.typical == pytest.approx(seconds / 3600, rel=0.02)


def test_the_chain_waits_for_the_training_and_the_server() -> None:
    stages = stages_of("table1")
    lines = slurm_chain("table1", stages, Path("runs/t 1"), hardware("8x80gb"))[2:]
    assert len(lines) == 60
    for stage, line in zip(stages, lines, strict=True):
        assert line.startswith(f"s{stage.number}=$(sbatch --parsable ")
        assert ("--dependency=afterok:" in line) == bool(stage.after)
        assert all(f"${{s{number}}}" in line for number in stage.after)
        assert (serve_line(8000 + stage.number) in line) == (stage.method in PROMPTED)
        words = shlex.split(line[line.index("sbatch") : -1])
        if stage.panel:
            assert f"mage paper table1 --stage {stage.number} --out 'runs/t 1'" in words[-1]
        else:
            assert words[-3:] == [stage.preset, "--output_dir", f"runs/t 1/train/{stage.preset}"]
    assert serve_line() == "vllm serve Qwen/Qwen3-4B --port 8000 --max-model-len 9216"
    launched = training_words(stages[0], Path("o"), "8x80gb")
    assert launched[:2] == ["accelerate", "launch"]
    assert launched[-5:] == [
        "--preset",
        "grpo-kuhn-paper",
        "--output_dir",
        "o/train/grpo-kuhn-paper",
        "--resume-if-any",
    ]


@pytest.mark.more
def test_the_commands_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in ("ALFWORLD_DATA", "WEBSHOP_DATA"):
        monkeypatch.delenv(variable, raising=False)
    # Two tasks a panel are enough to see that a command runs.
    trial_of(2, monkeypatch)
    commands = [
        line for block in blocks(PAGE) if block.language in SHELL for line in block.text.splitlines() if line.strip()
    ]
    assert len(commands) >= 8
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "mage"
        if "alfworld" in command and not is_installed():
            continue
        assert main(words) == 0, f"{command}: {capsys.readouterr().err}"
        assert capsys.readouterr()
    assert (tmp_path / "runs/table1/train/grpo-kuhn-paper/mage.json").exists()
    cells = {(cell.panel, cell.method): cell for cell in cells_of("table1", tmp_path / "runs/table1")}
    assert cells["paper-kuhn", "GRPO"].ours.n == 2
    # On generated goals, because the original ones are absent.
    shop = json.loads((tmp_path / "runs/table1/evaluate/webshop-k10-paper/ReAct/run.json").read_text())
    assert shop["setting"]["name"] == "webshop-val-2"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["table2"], "Unknown table 'table2'. Did you mean 'table1'?"),
        (["table1", "--stage", "61", "--out", "o"], "--stage 61 is none of the stages 1 to 60 of table1"),
        (["table1", "--stage", "1"], "Name the folder of the stages with --out"),
        (["table1", "--stage", "25", "--out", "o"], "train/grpo-kuhn-paper"),
        (["table1", "--stage", "53", "--out", "o"], "paper-webshop needs the original data, which are absent"),
    ],
)
def test_mistakes_are_one_line(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WEBSHOP_DATA", raising=False)
    assert main(["paper", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


# -- no figure of the paper beside a run of another setting ---------------------------------------------------------

METHODS = (*PROMPTED, *TRAINED)
SHOWN_BY = {
    "benchmarks/evaluation/suites/paper.py",
    "benchmarks/evaluation/suites/suite_table.py",
    "benchmarks/report/sections.py",
    "benchmarks/paper/results.py",
    "dev/paper.py",
}
"""Modules that read the paper's figures. The tests of suites, reports and `mage paper` cover their tables."""


def test_only_the_modules_that_compare_settings_read_the_papers_figures() -> None:
    read = re.compile(r"\bload_reported_scores\(\)|reported\.json")
    readers = {
        str(path.relative_to(ROOT))
        for folder in ("benchmarks", "trainer", "wrappers", "opponents", "mage_envs", "dev", "examples")
        for path in (ROOT / folder).rglob("*.py")
        if read.search(path.read_text("utf-8"))
    }
    assert readers == SHOWN_BY


def test_no_page_and_no_result_has_a_figure_of_the_paper_elsewhere() -> None:
    tables = json.loads((ROOT / "benchmarks/evaluation/suites/reported.json").read_text())["tables"]
    shares = {value for table in tables for row in table["rows"].values() for value in row if 0 < value < 1}
    figures = "|".join(rf"0?\.{round(1000 * value):03d}\b|\b{100 * value:.1f} ?%" for value in sorted(shares))
    pattern = re.compile(rf"(?<![\d.])(?:{figures})")
    method = re.compile("|".join(METHODS))
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks/results").glob("*.*")]
    for path in pages:
        if path == PAGE or path.suffix in (".png", ".json", ".xz"):
            continue
        text = path.read_text("utf-8")
        if path.name == "method.md":
            # Section 7 has the paper's table alone, without ours.
            text = text.partition("## 7. ")[0]
        assert "As reported" not in text, path
        for line in text.splitlines():
            numbers = pattern.findall(line)
            # A single equal number in a line about a method, such as a gain of .438, is a coincidence.
            assert not (numbers and re.search("the paper|paper's|2603", line)), f"{path}: {line}"
            assert not (len(numbers) > 1 and method.search(line)), f"{path}: {line}"


def test_a_leaderboard_has_no_figure_of_the_paper(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    setting = setting_for("paper-kuhn", memory="react")
    measure(PlayOptions(out=tmp_path / "run"), make_agent("scripted:last"), setting, "scripted:last")
    capsys.readouterr()
    assert main(["compare", str(tmp_path / "run"), "--page", str(tmp_path / "board.csv")]) == 0
    out = (tmp_path / "board.csv").read_text()
    assert "scripted:last" in out
    assert not [method for method in METHODS if method in out]
