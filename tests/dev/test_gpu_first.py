"""The first minutes on a GPU, in small sizes on the CPU: every part reports, and a failure costs only its part."""

import json
import subprocess
import sys

import pytest

from dev.gpu import first


def read_log(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.more
def test_all_parts_report_on_a_cpu(tmp_path):
    command = [sys.executable, "-m", "dev.gpu.first", "--out", str(tmp_path), "--device", "cpu", "--tiny"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert process.returncode == 0, process.stdout + process.stderr
    rows = read_log(tmp_path / "first.jsonl")
    # Nothing else is printed on stdout, so that it can be piped.
    assert [json.loads(line) for line in process.stdout.splitlines()] == rows
    assert [row["part"] for row in rows] == ["versions", "gradient", "gradient", "learning", "resume", "speed", "speed"]
    float32, bf16 = rows[1:3]
    # bf16 has 8 significant bits, float32 has 24.
    assert float32["relative_error"] < 1e-5 < bf16["relative_error"] < 0.05
    learning, resume = rows[3:5]
    assert learning["rollouts"] == first.TINY.rollouts
    assert learning["exact"] == {"no memory": [0.3125] * 3, "best learner": [0.3125, 0.375, 0.4625]}
    assert resume["updates"] == 16
    assert resume["largest_difference"] == 0.0
    assert [row["trainer"] for row in rows[5:]] == ["MAGETrainer", "GRPOTrainer"]
    assert all(len(row["seconds_per_step"]) == first.TINY.speed_steps for row in rows[5:])


def test_a_part_that_fails_costs_only_itself(tmp_path, monkeypatch, capsys):
    def fail(session):
        raise RuntimeError("out of\nmemory")

    monkeypatch.setitem(first.PARTS, "gradient", first.MeasuredPart(fail, 5))
    arguments = ["--out", str(tmp_path), "--device", "cpu", "--tiny", "--parts", "gradient", "versions"]
    assert first.main(arguments) == 1
    failed, versions = read_log(tmp_path / "first.jsonl")
    assert failed["failed"] == "RuntimeError: out of memory"
    assert versions["part"] == "versions"
    assert "device" in versions


def test_a_part_ends_at_its_deadline(tmp_path, monkeypatch):
    def hang(session):
        while True:
            pass

    monkeypatch.setitem(first.PARTS, "gradient", first.MeasuredPart(hang, 1))
    assert first.main(["--out", str(tmp_path), "--device", "cpu", "--tiny", "--parts", "gradient"]) == 1
    (row,) = read_log(tmp_path / "first.jsonl")
    assert row["failed"] == "TimeoutError: the part exceeded its deadline"


def test_the_deadlines_fit_into_nine_minutes():
    assert sum(part.deadline_s for part in first.PARTS.values()) <= 540


def test_a_machine_without_a_gpu_is_named(tmp_path, monkeypatch, capsys):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit):
        first.main(["--out", str(tmp_path)])
    assert "Add --device cpu --tiny." in capsys.readouterr().err
