"""`mage attest`: the verifier plays. A copied record under another name does not survive it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mage_envs.benchmarks.comparison.attest import attestations_in, challenge_seed
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.cli.program import main
from mage_envs.text.generation import Completion
from tests.opponents.llm.server import LegalModel, Server
from tests.trainer.tiny_runs import save_model

KUHN = ["--env", "mage/KuhnPoker-Meta-v0", "--no-baselines", "--opponents", "kuhn/rock,kuhn/maniac"]


class FirstLegal(LegalModel):
    """Another model: it replies with the first legal action."""

    def reply(self, body: dict[str, Any]) -> Completion:
        listed = re.findall("Legal actions: (.*)", body["messages"][-1]["content"])
        text = f"<action>{listed[-1].split(' | ')[0]}</action>" if listed else "<remark>noted</remark>"
        return Completion(text, (1,) * 100, (1,) * 10)


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGE_ENVS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def servers() -> Iterator[tuple[Server, Server]]:
    two_servers = Server(LegalModel()), Server(FirstLegal())
    yield two_servers
    for server in two_servers:
        server.stop()


def run_eval(agent: str, folder: Path, *options: str) -> str:
    assert main(["eval", agent, *KUHN, "--out", str(folder), *options]) == 0
    return str(folder)


def exit_status(*words: str) -> int:
    try:
        return main(["verify", "--challenge", *words])
    except SystemExit as end:
        return int(str(end.code))


def test_a_policy_plays_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own_run = run_eval("scripted:random", tmp_path / "own", "--rows", "2", "--episodes", "2")
    forged = run_eval(
        "scripted:last", tmp_path / "forged", "--rows", "2", "--episodes", "2", "--name", "scripted:random"
    )
    capsys.readouterr()
    out = tmp_path / "attested"
    assert exit_status(own_run, "--out", str(out)) == 0
    assert "executed, 8 of 8 meta-episodes equal the records" in capsys.readouterr().out
    root = Records(Path(own_run)).root()["root"]
    [statement] = attestations_in(out).values()
    assert (statement.root, statement.method, statement.agreed, statement.equal) == (root, "executed", True, 8)
    assert exit_status(own_run, "--sample", "3", "--json") == 0
    assert json.loads(capsys.readouterr().out)[0]["meta_episodes"] == 3
    # The records are valid and replay, but another policy gave the replies.
    assert main(["verify", forged]) == 0
    assert main(["verify", "--replay", forged]) == 0
    assert exit_status(forged, "--out", str(out)) == 1
    capsys.readouterr()
    assert main(["compare", own_run, "--attested", str(out), "--page", str(tmp_path / "page.md")]) == 0
    assert "digests, 8 replayed, ceilings, 8 executed" in (tmp_path / "page.md").read_text()
    assert main(["compare", forged, "--attested", str(out), "--page", str(tmp_path / "page.md")]) == 2
    assert "is contradicted by its attestation" in capsys.readouterr().err
    (out / "bad.json").write_text(json.dumps({"schema": 1, "root": "x"}))
    assert main(["compare", own_run, "--attested", str(out), "--page", str(tmp_path / "page.md")]) == 2
    assert "bad.json is no attestation" in capsys.readouterr().err


def test_a_saved_model_plays_again_and_only_the_verifier_names_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"env_id": "mage/KuhnPoker-Meta-v0", "env_kwargs": {"memory": "history", "style": "words"}}
    models = [save_model(tmp_path / name, seed) for name, seed in (("model", 0), ("copy", 0), ("another", 1))]
    for folder in models:
        model_settings = (
            json.loads((Path(folder) / "mage.json").read_text()) if (Path(folder) / "mage.json").exists() else {}
        )
        (Path(folder) / "mage.json").write_text(json.dumps(model_settings | settings | {"max_new_tokens": 1}))
    run = run_eval(f"model:{models[0]}", tmp_path / "run", "--rows", "1", "--episodes", "2")
    capsys.readouterr()
    assert exit_status(run) == 2
    assert "is a model. Name your copy with --agent" in capsys.readouterr().err
    assert exit_status(run, "--agent", f"model:{models[1]}") == 0
    assert "executed, 4 of 4 meta-episodes equal" in capsys.readouterr().out
    assert exit_status(run, "--agent", f"model:{models[2]}") == 2
    assert "was played by another agent: content is" in capsys.readouterr().err


def test_a_model_behind_an_endpoint_is_challenged(
    servers: tuple[Server, Server], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own_agent, other_agent = (f"llm:tiny@{server.url},cache=off" for server in servers)
    run = run_eval(own_agent, tmp_path / "run", "--rows", "16", "--episodes", "2", "--memory", "none")
    recorded = {line["task"]["seed"] for line in Records(Path(run)).lines.values()}
    capsys.readouterr()
    out = tmp_path / "attested"
    assert exit_status(run, "--agent", own_agent, "--rows", "12", "--out", str(out)) == 0
    assert "challenged on 48 new meta-episodes" in capsys.readouterr().out
    root = Records(Path(run)).root()["root"]
    statement = attestations_in(out)[root]
    challenge = Records(out / f"challenge-{root[:12]}")
    assert statement.nonce is not None
    assert challenge.about["panel"]["seed"] == challenge_seed(root, statement.nonce)
    assert not recorded & {line["task"]["seed"] for line in challenge.lines.values()}
    assert main(["verify", "--replay", str(challenge.folder)]) == 0
    # A server with another model under the same name earns something else.
    assert exit_status(run, "--agent", other_agent, "--rows", "12") == 1
    assert "contradicts the recorded" in capsys.readouterr().out
    assert exit_status(run, "--agent", own_agent.replace("tiny@", "tiny-guided@")) == 2
    assert "model is 'tiny' there and 'tiny-guided' here" in capsys.readouterr().err


def test_the_seed_of_a_challenge_needs_both_sides() -> None:
    seeds = {challenge_seed(root, nonce) for root in ("a" * 64, "b" * 64) for nonce in ("0" * 32, "1" * 32)}
    assert len(seeds) == 4
    assert all(0 <= seed < 2**53 for seed in seeds)
