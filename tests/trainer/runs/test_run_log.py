"""Output and files of a run: one line per rollout, all metrics and some transcripts as JSON lines, a summary."""

from __future__ import annotations

import io
import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from mage_envs.cli.program import main as report
from mage_envs.trainer.runs.console import Console, format_duration, rollout_line
from mage_envs.trainer.runs.run_log import RunLog
from mage_envs.trainer.runs.summary import FIGURE, RunLength, commands, table
from mage_envs.wrappers.rollout.resumable_jsonl import ResumableJsonl
from mage_envs.wrappers.rollout.training_log import METRICS, TRANSCRIPTS, metric_rows
from tests.programs import train as main
from tests.trainer.tiny_runs import TINY, flags, make_trainer, save_model, step, trajectory

RUN = ("--preset", "mage-kuhn", *TINY, *flags(groups_per_rollout=1, updates_per_rollout=2, num_episodes=2))
ROLLOUT = {
    "reward": -3.5,
    "success/episode_1": 0.25,
    "success/episode_2": 1.0,
    "kl": 0.0123,
    "clip_ratio/any": 0.031,
    "invalid": 0.01,
    "length": 0.01,
    "failures": 2.0,
    "tokens/sampled_per_second": 1234.4,
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_rollout_is_one_line() -> None:
    line = "rollout 12/150  reward -3.50  success .25 1.00  KL 0.012  clip .03  invalid .02  failed 2  1,234 tok/s"
    assert rollout_line(11, 150, ROLLOUT, None) == line
    assert rollout_line(11, 150, ROLLOUT, 7560.0) == f"{line}  2 h 6 min left"
    assert [format_duration(s) for s in (5.2, 65, 3600)] == ["5 s", "1 min 5 s", "1 h 0 min"]


def test_lines_are_whole_where_the_disk_is_full(tmp_path: Path) -> None:
    """As files are at their limit here: a write goes as far as there is room, and the next one fails."""
    lines = ResumableJsonl(tmp_path / METRICS)
    lines.append([{"step": 0}])
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (lines.path.stat().st_size + 5, hard))
    try:
        with pytest.raises(OSError, match=f"too large.*{METRICS}"):
            lines.append([{"step": 1}])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    lines.append([{"step": 2}])
    assert lines.rows() == [{"step": 0}, {"step": 2}]


@pytest.mark.parametrize("stream", [io.StringIO(), Terminal()])
def test_a_pipe_gets_whole_lines_and_a_terminal_is_redrawn(stream: io.StringIO, tmp_path: Path) -> None:
    log = RunLog(tmp_path, Console(stream, 2, 2**31), 0)
    log.on_rollout_begin(0, 0)
    log.on_rollout_progress(0, 3, 4)
    log.on_rollout_end(0, 0, [], [], {"reward": 1.0})
    log.on_update(0, {"kl": 0.1}, 1)
    log.on_update(1, {"kl": 0.3}, 0)
    text = stream.getvalue()
    if stream.isatty():
        assert text.startswith("rollout 1: 3 of 4 meta-episodes\r\x1b[2Krollout 1/2  reward 1.00")
    else:
        assert "\r" not in text
        assert text.startswith("rollout 1/2  reward 1.00  KL 0.200  invalid .00  failed 0")
    assert text.endswith("left\n")


def test_a_resumed_log_has_each_rollout_once(tmp_path: Path) -> None:
    def rollout(log: RunLog, index: int, step: int) -> None:
        log.on_rollout_end(index, step, [], [], {"reward": float(index)})
        log.on_update(step, {"kl": 0.0}, 1)
        log.on_update(step + 1, {"kl": 0.0}, 0)

    log = RunLog(tmp_path)
    rollout(log, 0, 0)
    log.on_evaluation(1, 2, {"score": 0.5}, "")
    rollout(log, 1, 2)
    log.on_evaluation(2, 4, {"score": 0.6}, "")
    resumed_log = RunLog(tmp_path)
    resumed_log.resume(2)
    rollout(resumed_log, 1, 2)
    rows = ResumableJsonl(tmp_path / METRICS).rows()
    assert [(row["kind"], row["step"]) for row in rows] == [
        ("rollout", 0),
        ("update", 0),
        ("update", 1),
        ("eval", 2),
        ("rollout", 2),
        ("update", 2),
        ("update", 3),
    ]


def test_a_run_keeps_its_metrics_and_says_what_to_do_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = (*RUN, "--max_rollouts", "2", "--output_dir", "run", "--log_transcripts", "1")
    assert main(list(arguments)) == 0
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if line]
    assert [line.split("  ")[0] for line in lines] == ["rollout 1/2", "rollout 2/2"]  # no progress bars
    assert "2147483648" not in captured.err + captured.out
    assert f"Figure: {Path('run') / FIGURE}" in captured.out
    assert (tmp_path / "run" / FIGURE).read_bytes().startswith(b"\x89PNG")
    assert "Evaluate it:      mage eval run" in captured.out
    assert "Play against it:  mage play mage/KuhnPoker-v0 --opponents checkpoint:run" in captured.out
    assert f"mage train --preset mage-kuhn --model tiny {' '.join(TINY[2:4])}" in captured.out
    rollouts, updates = metric_rows("run", "rollout"), metric_rows("run", "update")
    assert [row["step"] for row in rollouts] == [0, 2]
    assert [row["step"] for row in updates] == [0, 1, 2, 3]
    assert {"reward", "success/episode_1", "environment_share", "invalid", "failures", "overflow"} <= set(rollouts[0])
    assert {"kl", "clip_ratio/any", "tokens/padding_factor"} <= set(updates[0])
    transcripts = [json.loads(line) for line in (Path("run") / TRANSCRIPTS).read_text().splitlines()]
    assert [transcript["rollout"] for transcript in transcripts] == [0, 1]
    assert "# Task\nKuhn Poker" in transcripts[0]["calls"][0]["messages"][0]["content"]
    assert {"reply", "reward", "penalty", "advantage", "invalid_reason"} <= set(transcripts[0]["calls"][0])
    report_line = next(line for line in captured.out.splitlines() if line.startswith("Read transcripts"))
    assert report(report_line.split()[3:]) == 0
    assert f"wrote {tmp_path / 'run' / 'report.html'}: 1 run, 2 transcripts" in capsys.readouterr().err
    resume_line = next(line for line in captured.out.splitlines() if line.startswith("Train it further"))
    assert resume_line.endswith("--max_rollouts 4 --resume")


def test_transcripts_hold_each_step_s_advantage(tmp_path: Path) -> None:
    log = RunLog(tmp_path, transcripts=2)
    members = [trajectory([step([1], [2]), step([1, 2], [3])], member=member) for member in range(4)]
    log.on_rollout_end(5, 7, members, [[member + 0.25, member + 0.5] for member in range(4)], {})
    rows = ResumableJsonl(tmp_path / TRANSCRIPTS).rows()
    assert [(row["member"], [call["advantage"] for call in row["calls"]]) for row in rows] == [
        (0, [0.25, 0.5]),
        (2, [2.25, 2.5]),
    ]
    assert {(row["rollout"], row["step"]) for row in rows} == {(5, 7)}


def test_the_table_compares_the_first_with_the_last_rollouts(tmp_path: Path) -> None:
    log = RunLog(tmp_path)
    for index in range(10):
        metrics = {"success/episode_1": index / 10, "success/episode_1/kuhn/rock": 1.0, "value/episode_1": -1.0}
        log.on_rollout_end(index, index, [], [], metrics)
        log.on_update(index, {}, 0)
    lines = table(tmp_path).splitlines()
    assert lines[0].endswith("the first and the last 2 of 10 rollouts")
    assert lines[2].split() == ["all", "success", "0.050", "->", "0.850"]
    assert lines[3].split() == ["kuhn/rock", "success", "1.000", "->", "1.000"]
    assert "mage eval" not in commands(tmp_path, None, ["--resume", "--x", "1"], RunLength(None, 4), False)


def test_nothing_is_shown_under_logging_strategy_no(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = {"max_rollouts": 1, "updates_per_rollout": 1, "groups_per_rollout": 1, "logging_strategy": "no"}
    trainer = make_trainer(save_model(tmp_path / "model"), tmp_path / "run", **options)
    capsys.readouterr()
    trainer.train()
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""
    assert len(metric_rows(tmp_path / "run", "rollout")) == 1


def test_a_dry_run_loads_neither_torch_nor_transformers() -> None:
    code = "import sys; from tests.programs import train as main; assert main(sys.argv[1:]) == 0; print(*sys.modules)"
    dry = ("--preset", "mage-kuhn-paper", "--hardware", "8x80gb", "--dry-run")
    process = subprocess.run([sys.executable, "-c", code, *dry], capture_output=True, text=True, check=True)
    loaded = set(process.stdout.splitlines()[-1].split())
    assert not loaded & {"torch", "transformers", "accelerate", "datasets", "peft"}
