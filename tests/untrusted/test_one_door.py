"""Every command opens a stranger's folder through one door: no other module reads, writes or unpickles there."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from mage_envs.cli.program import COMMANDS, main
from mage_envs.games.webshop.official import import_official
from mage_envs.trainer.backends.play_settings import PlaySettings
from mage_envs.trainer.backends.weights import load_model
from tests.games.webshop.raw import write_official
from tests.trainer.backends.test_weights import in_shards
from tests.trainer.tiny_runs import save_model

ROOT = Path(__file__).resolve().parents[2]
KUHN = ("--env", "mage/KuhnPoker-Meta-v0", "--no-baselines", "--opponents", "kuhn/nash", "--rows", "1")
TINY = (
    *("--num_generations", "2", "--groups_per_rollout", "1", "--max_completion_length", "4", "--use_cpu", "true"),
    *("--env_id", "mage/KuhnPoker-Meta-v0", "--report_to", "none", "--bf16", "false", "--max_rollouts", "1"),
    *("--env_kwargs", '{"max_turns": 1, "style": "words", "memory": "history"}', "--gradient_checkpointing", "false"),
)
WORDS: dict[str, list[list[str]]] = {
    "report": [["{run}", "--sample", "1", "--out", "{out}/report.html"]],
    "compare": [["{run}", "{run}"], ["{run}", "--page", "{out}/page.csv"], ["{suite}", "--page", "{out}/page.html"]],
    "verify": [["{run}"], ["{run}", "--replay"], ["{run}", "--challenge", "--out", "{out}/attest"]],
    "export": [
        ["{run}", "--to", "csv", "--out", "{out}/calls.csv"],
        ["{run}", "--to", "markdown"],
        ["{run}", "--to", "hub-folder", "--out", "{out}/hub"],
    ],
    "regret": [["{run}"]],
    "eval": [
        ["scripted:random", *KUHN, "--out", "{run}", "--resume"],
        # With two opponents the controls are kept, and resumed, too.
        ["scripted:random", *KUHN, "--opponents", "kuhn/conservative,kuhn/aggressive", "--out", "{other}", "--resume"],
        [
            "scripted:first",
            *KUHN,
            "--opponents",
            "kuhn/conservative,kuhn/aggressive",
            "--control",
            "other",
            "--from",
            "{other}",
        ],
        ["{model}", *KUHN],
        ["{shards}", *KUHN],
        ["hf:{model},max_tokens=4", *KUHN],
        ["scripted:first", *KUHN[:3], "--rows", "1", "--opponents", "checkpoint:{model}"],
        [
            *("model:{model}", "--panel", "kuhn-heldout-128", "--memory", "memento", "--rows", "1"),
            *("--fill", "{bank}"),
        ],
        ["{files}/rows.yaml", "--suite", "demo", "--quick", "--out", "{played}", "--resume"],
    ],
    "exploit": [["model:{model}", "--samples", "0"]],
    "tournament": [
        ["KuhnPoker", "--opponents", "checkpoint:{model},kuhn/nash", "--games", "2", "--no-exact"],
        ["KuhnPoker", "--opponents", "kuhn/nash,kuhn/aggressive", "--games", "2", "--no-exact", "--out", "{cup}"],
    ],
    "train": [
        ["--model", "{model}", *TINY, "--output_dir", "{out}/trained"],
        ["--config", "{files}/train.yaml", "--dry-run"],
        ["--config", "{files}/remark.yaml", "--dry-run"],
        ["--sweep", "{files}/sweep.yaml", "--seeds", "1", "--output_dir", "{swept}"],
    ],
    "play": [
        ["KuhnPoker", "--opponents", "checkpoint:{model}", "--seed", "1"],
        ["--browser", "--watch", "model:{model}", "--port", "{port}"],
    ],
    "doctor": [[], ["hf:{model}"], ["hf:{shards}"], ["webshop:{shop}"], ["webshop:{catalogue}"]],
    "adapt": [["policy:blind", "--suite", "adapt-mini", "--no-controls", "--out", "{suite}", "--resume"]],
    "paper": [["ablation-4.4.3", "--dry-run", "--quick", "--out", "{out}/paper"]],
    "check": [["mage/KuhnPoker-Meta-v0", "--opponents", "checkpoint:{model}", "--check", "play", "--quick"]],
}
"""Arguments of the commands that read a folder or a file of others. Each writes where its user says."""
LONG = {
    "paper": [["4.4.3", "--seeds", "1", "--rollouts", "1", "--model", "tiny", "--out", "{out}/ablation"]],
    "demo": [["--rollouts", "1", "--rows", "3", "--out", "{out}/demo"]],
}
"""Arguments of the commands that train and play for minutes."""
FILES: dict[str, object] = {
    "train.yaml": {"model_name_or_path": "words", "max_rollouts": 1},
    "remark.yaml": {"system_prompt": "@{files}/remark.txt", "model_name_or_path": "tiny"},
    "remark.txt": "Play well.",
    "rows.yaml": [{"name": "first", "agent": "scripted:first", "memory": "none"}],
    "sweep.yaml": {
        "presets": ["mage-kuhn"],
        "common": {
            "model": "tiny",
            "max_rollouts": 1,
            "num_generations": 2,
            "groups_per_rollout": 1,
            "max_completion_length": 4,
            "num_episodes": 1,
            "gradient_checkpointing": False,
        },
    },
}
"""Files that the user names, each with its text, or with a value that is written as JSON."""
OWN = {"list", "serve", "headroom"}
"""Commands that read none: exact values, and environments without data."""


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("door")
    names = ("run", "other", "model", "shards", "suite", "played", "files", "cup", "swept", "shop")
    foreign = {name: folder / "foreign" / name for name in names}
    for name in ("run", "other"):
        opponents = "kuhn/nash" if name == "run" else "kuhn/conservative,kuhn/aggressive"
        assert main(["eval", "scripted:random", *KUHN, "--opponents", opponents, "--out", str(foreign[name])]) == 0
    save_model(foreign["model"])
    settings = PlaySettings("mage/KuhnPoker-Meta-v0", {"style": "words", "memory": "history"}, 1, constrained=True)
    settings.save(foreign["model"])
    shutil.copytree(foreign["model"], foreign["shards"])
    weights: dict[str, torch.Tensor] = load_model(foreign["model"]).state_dict()
    in_shards(foreign["shards"], weights)
    foreign["files"].mkdir()
    for name, content in FILES.items():
        text = json.dumps(content) if not isinstance(content, str) else content
        (foreign["files"] / name).write_text(text.replace("{files}", str(foreign["files"])))
    foreign["shop"].mkdir()
    write_official(foreign["shop"])
    catalogue = import_official(foreign["shop"], "small", products=8, cache=folder / "foreign" / "cache")
    for command in ("tournament", "eval", "adapt", "train"):
        words = WORDS[command][-1]
        assert main([command, *(word.format(**foreign) for word in words if word != "--resume")]) == 0
    (folder / "out").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    own_paths = {"out": folder / "out", "bank": folder / "out" / "bank.json", "place": folder}
    return foreign | own_paths | {"catalogue": catalogue, "port": port}


def test_every_command_is_listed() -> None:
    assert WORDS.keys() | LONG.keys() | OWN == COMMANDS.keys()


@pytest.mark.more
def test_every_command_uses_the_door(places: dict[str, Any]) -> None:
    run_audited(WORDS, places, 280)


@pytest.mark.slow
def test_long_commands_use_the_door(places: dict[str, Any]) -> None:
    run_audited(LONG, places, 3000)


def run_audited(commands: dict[str, list[list[str]]], places: dict[str, Any], seconds: float) -> None:
    """Run commands under the audit hook, and assert that each ends well and no other module opens a foreign folder."""
    words = [
        [command, *(word.replace("{", "{{").replace("}", "}}") if word.startswith('{"') else word for word in line)]
        for command, lines in commands.items()
        for line in lines
    ]
    lines = [[word.format(**places) for word in line] for line in words]
    job, report = places["place"] / "job.json", places["place"] / "report.json"
    foreign = [str(places["place"] / "foreign")]
    visits = {"--browser": f"http://127.0.0.1:{places['port']}/watch"}
    allowed = [str(places["place"])]
    content = {"commands": lines, "allowed": allowed, "foreign": foreign, "visits": visits, "out": str(report)}
    job.write_text(json.dumps(content))
    environment = os.environ | {"MAGE_ENVS_CACHE": str(places["place"] / "cache"), "HF_HUB_OFFLINE": "1"}
    process = subprocess.run(
        [sys.executable, "-m", "tests.untrusted.audited", str(job)],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    results = json.loads(report.read_text())
    failed = {" ".join(row["arguments"][:3]): row["err"][-500:] for row in results if row["status"] not in (0, 1)}
    assert failed == {}
    past = {
        " ".join(row["arguments"][:3]): sorted({event for event in row["events"] if event.startswith("past the door")})
        for row in results
    }
    assert {command: events for command, events in past.items() if events} == {}
