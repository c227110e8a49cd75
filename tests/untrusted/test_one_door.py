"""Every command opens a stranger's folder through one door: no other module reads, writes or unpickles there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.__main__ import main
from mage_commands import COMMANDS
from tests.trainer.backends.test_weights import in_shards
from tests.trainer.tiny_runs import save_model
from trainer.backends.play_settings import PlaySettings
from trainer.backends.weights import load_model

ROOT = Path(__file__).resolve().parents[2]
KUHN = ("--env", "mage/KuhnPoker-Meta-v0", "--no-baselines", "--opponents", "kuhn/nash", "--rows", "1")
TINY = (
    *("--num_generations", "2", "--groups_per_rollout", "1", "--max_completion_length", "4", "--use_cpu", "true"),
    *("--env_id", "mage/KuhnPoker-Meta-v0", "--report_to", "none", "--bf16", "false", "--max_rollouts", "1"),
    *("--env_kwargs", '{"max_turns": 1, "style": "words", "memory": "history"}', "--gradient_checkpointing", "false"),
)
WORDS: dict[str, list[list[str]]] = {
    "validate": [["{run}"]],
    "report": [["{run}", "--sample", "1", "--out", "{out}/report.html"]],
    "compare": [["{run}", "{run}"]],
    "replay": [["{run}"]],
    "attest": [["{run}", "--out", "{out}/attest"]],
    "export": [
        ["{run}", "--to", "csv", "--out", "{out}/calls.csv"],
        ["{run}", "--to", "markdown"],
        ["{run}", "--to", "hub-folder", "--out", "{out}/hub"],
    ],
    "leaderboard": [["{run}"]],
    "regret": [["{run}"]],
    "eval": [
        ["scripted:random", *KUHN, "--out", "{run}", "--resume"],
        [
            "scripted:first",
            *KUHN,
            "--opponents",
            "kuhn/nash,kuhn/aggressive",
            "--control",
            "other",
            "--from",
            "{other}",
        ],
        ["{model}", *KUHN],
        ["{shards}", *KUHN],
        ["hf:{model},max_tokens=4", *KUHN],
        ["scripted:first", *KUHN[:3], "--rows", "1", "--opponents", "checkpoint:{model}"],
    ],
    "exploit": [["model:{model}", "--samples", "0"]],
    "tournament": [["KuhnPoker", "--policies", "checkpoint:{model},kuhn/nash", "--games", "2", "--no-exact"]],
    "train": [["--model", "{model}", *TINY, "--output_dir", "{out}/trained"]],
}
"""Arguments of the commands that read a folder of others."""
OWN = {
    *("play", "arena", "list", "doctor", "webshop", "serve", "ceilings", "headroom", "transfer", "models", "chaos"),
    # These read only what they made below --out, by the modules that the commands above use.
    *("demo", "sweep", "ablate", "suite", "paper", "adapt", "fill"),
}
"""Commands that name no such folder, or an agent or opponent as the commands above."""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("door")
    names = {name: place / "foreign" / name for name in ("run", "other", "model", "shards")}
    for name in ("run", "other"):
        opponents = "kuhn/nash" if name == "run" else "kuhn/nash,kuhn/aggressive"
        assert main(["eval", "scripted:random", *KUHN, "--opponents", opponents, "--out", str(names[name])]) == 0
    save_model(names["model"])
    settings = PlaySettings("mage/KuhnPoker-Meta-v0", {"style": "words", "memory": "history"}, 1, constrained=True)
    settings.save(names["model"])
    shutil.copytree(names["model"], names["shards"])
    weights: dict[str, torch.Tensor] = load_model(names["model"]).state_dict()
    in_shards(names["shards"], weights)
    (place / "out").mkdir()
    return names | {"out": place / "out", "place": place}


def test_every_command_is_listed() -> None:
    assert WORDS.keys() | OWN == COMMANDS.keys()


def test_every_command_uses_the_door(places: dict[str, Path]) -> None:
    words = [
        [command, *(word.replace("{", "{{").replace("}", "}}") if word.startswith('{"') else word for word in line)]
        for command, lines in WORDS.items()
        for line in lines
    ]
    commands = [[word.format(**places) for word in line] for line in words]
    job, report = places["place"] / "job.json", places["place"] / "report.json"
    foreign = [str(places["place"] / "foreign")]
    content = {"commands": commands, "allowed": [str(places["place"])], "foreign": foreign, "out": str(report)}
    job.write_text(json.dumps(content))
    environment = os.environ | {"MAGE_ENVS_CACHE": str(places["place"] / "cache"), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.untrusted.audited", str(job)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    results = json.loads(report.read_text())
    failed = {" ".join(row["arguments"][:3]): row["err"][-500:] for row in results if row["status"] not in (0, 1)}
    assert failed == {}
    past = {
        " ".join(row["arguments"][:3]): sorted({event for event in row["events"] if event.startswith("past the door")})
        for row in results
    }
    assert {command: events for command, events in past.items() if events} == {}
