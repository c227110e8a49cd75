"""SECURITY.md: its commands as printed, and its sentences that no other test proves."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from mage_envs.cli.program import main
from mage_envs.games.sokoban.boxoban import read_levels
from mage_envs.games.sokoban.level_text import MAX_CELLS
from mage_envs.trainer.backends.play_settings import PlaySettings
from mage_envs.trainer.backends.tiny import general_tiny
from tests.trainer.tiny_runs import save_model

ROOT = Path(__file__).resolve().parents[2]
RUN = ("eval", "scripted:random", "--env", "mage/KuhnPoker-Meta-v0", "--opponents", "kuhn/nash", "--rows", "2")


def read_commands() -> list[str]:
    block = (ROOT / "SECURITY.md").read_text().split("```")[1]
    return [line.partition("#")[0].strip() for line in block.splitlines() if line.startswith("mage ")]


@pytest.mark.timeout(240)
def test_the_commands_for_what_a_stranger_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*RUN, "--out", "run"]) == 0
    save_model(tmp_path / "model")
    PlaySettings("mage/KuhnPoker-Meta-v0", {"style": "words", "memory": "history"}, 1, constrained=True).save(
        tmp_path / "model"
    )
    general_tiny(tmp_path / "other")
    (tmp_path / "config.yaml").write_text(json.dumps({"model_name_or_path": "tiny", "max_rollouts": 1}))
    lines = read_commands()
    assert [line.split()[1] for line in lines] == ["verify", "report", "eval", "eval", "train"]
    for line in lines:
        line = line.replace("hf:STRANGER_MODEL", "hf:other,max_tokens=4").replace("STRANGER_MODEL", "model")
        line = line.replace("STRANGER.yaml", "config.yaml").replace("STRANGER", "run").replace("--rows 8", "--rows 1")
        assert main(shlex.split(line)[1:]) == 0, line
        capsys.readouterr()


@pytest.mark.parametrize("words", ["play --browser", "serve webshop", "serve openenv"])
def test_a_server_for_other_machines_must_be_asked_for(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    if words == "serve openenv":
        pytest.importorskip("uvicorn")
    assert main([*words.split(), "--host", "0.0.0.0", "--port", "0"]) == 2
    assert "--exposed" in capsys.readouterr().err


def test_a_level_of_too_many_cells_is_dropped_with_its_reason(tmp_path: Path) -> None:
    room = ["######", "#@$. #", "######"]
    wide = MAX_CELLS // 3 + 1
    huge = ["#" * wide, "#@$." + " " * (wide - 5) + "#", "#" * wide]
    (tmp_path / "levels.xsb").write_text("\n".join([*room, "", *huge, ""]))
    read = read_levels(tmp_path / "levels.xsb")
    assert len(read.levels) == 1
    assert [
        (dropped_level.line, "at most 10,000 are allowed" in dropped_level.reason) for dropped_level in read.dropped
    ] == [(5, True)]


@pytest.mark.more
@pytest.mark.parametrize(("setting", "off"), [(None, True), ("0", False)])
def test_telemetry_is_off_unless_asked(setting: str | None, off: bool) -> None:
    code = "import mage_envs.trainer.trl.trl_compat\nfrom huggingface_hub import constants\n"
    code += "print(constants.HF_HUB_DISABLE_TELEMETRY)"
    environment = {key: value for key, value in os.environ.items() if key != "HF_HUB_DISABLE_TELEMETRY"}
    environment |= {} if setting is None else {"HF_HUB_DISABLE_TELEMETRY": setting}
    environment["HF_HUB_OFFLINE"] = "0"
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )
    assert process.stdout.strip().splitlines()[-1:] == [str(off)], process.stderr[-500:]
