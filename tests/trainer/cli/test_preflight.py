"""Settings that cannot be trained are refused before a model is loaded, in one line with the remedy."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mage_envs.trainer.cli.preflight import check_present
from tests.programs import train as main

CHATS: dict[str, Any] = {"chat_template": "{{ messages }}", "eos_token": "<end>"}
WORDS: dict[str, Any] = {"model": {"vocab": {"a": 0, "<end>": 1}}, "added_tokens": []}

SHA = "0" * 40


def hash_of(content: str) -> str:
    return hashlib.sha1(content.encode()).hexdigest()


def model(folder: Path, tokenizer_config: dict[str, Any], words: dict[str, Any]) -> str:
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer_config))
    (folder / "tokenizer.json").write_text(json.dumps(words))
    return str(folder)


@pytest.mark.parametrize(
    ("tokenizer_config", "words", "says"),
    [
        (CHATS, WORDS, None),
        ({"eos_token": "<end>"}, WORDS, "has no chat template; use an instruction-tuned model"),
        ({"chat_template": "x"}, WORDS, "names no eos_token, so that no reply would end"),
        (CHATS, {"model": {"vocab": {"a": 0}}}, "does not contain its end token '<end>'"),
        ({**CHATS, "eos_token": {"content": "<end>"}}, {"added_tokens": [{"content": "<end>"}]}, None),
    ],
)
def test_a_model_must_chat_and_end(
    tokenizer_config: dict[str, Any],
    words: dict[str, Any],
    says: str | None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    options = ("--preset", "mage-kuhn", "--dry-run", "--model", model(tmp_path, tokenizer_config, words))
    assert main(list(options)) == (2 if says else 0)
    assert (says or "") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--model", "tiny", "--num_generations", "3"), "num_generations=3 does not divide the 8 meta-episodes"),
        (("--preset", "mage-kuhn", "--groups_per_rollout", "0"), "groups_per_rollout=0 must be >= 1."),
        (("--preset", "mage-kuhn", "--num_generations", "1"), "num_generations=1 must be >= 2"),
        (("--preset", "mage-sokoban", "--population", "league"), "has none. Use population=fixed"),
        (("--preset", "mage-kuhn", "--eval_panel", "tictactoe-paper"), "is played in mage/TicTacToe-Meta-v0, not in"),
        (("--preset", "mage-kuhn", "--eval_panel", "kuhn-papr"), "Unknown panel 'kuhn-papr'. Did you mean 'kuhn-paper"),
        (("--preset", "mage-kuhn", "--early_stop", "2"), "early_stop=2 counts evaluations; set eval_panel"),
    ],
)
def test_what_does_not_go_together_is_one_line(
    arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--dry-run"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line


MODEL = {"config.json": {}, "tokenizer_config.json": {"eos_token": "<end>"}, "model.safetensors": {}}
HUB: dict[str, tuple[int, str] | dict[str, Any]] = {
    "no/such": (401, "RepoNotFound"),
    "no/more": (404, "RepoNotFound"),
    "some/secret": (403, ""),
    "some/gated": MODEL,
    "some/sick": (500, ""),
    "some/model": MODEL,
    "some/notes": {"README.md": {}},
}
"""Repositories: their files, or the status and the error code with which the hub answers."""


class Hub(BaseHTTPRequestHandler):
    """Answers as the hub does."""

    requests: list[str]

    def do_GET(self) -> None:
        self.requests.append(self.path)
        api, _, api_name = self.path.partition("/api/models/")
        name = "/".join((api_name if not api else self.path[1:]).split("/")[:2])
        files = HUB.get(name, (404, ""))
        if isinstance(files, tuple):
            self.answer(*files)
        elif "/tree/" in self.path:
            listed = [{"type": "file", "path": path, "oid": path, "size": 2} for path in files]
            self.answer(200, content=json.dumps(listed))
        elif not api:
            is_main = "/revision/main" in self.path
            self.answer(
                200 if is_main else 404, "" if is_main else "RevisionNotFound", json.dumps({"id": name, "sha": SHA})
            )
        elif name == "some/gated":
            self.answer(401, "GatedRepo")
        else:
            self.answer(200, content=json.dumps(files[self.path.rpartition("/")[2]]))

    do_HEAD = do_GET

    def answer(self, status: int, code: str = "", content: str = "") -> None:
        self.send_response(status)
        headers = {"X-Error-Code": code} if code else {"X-Repo-Commit": SHA, "ETag": f'"{hash_of(content)}"'}
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content.encode() if self.command == "GET" else b"")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yield the requests of a hub of this machine, which HF_ENDPOINT puts in place of the real one."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        place(monkeypatch, tmp_path, f"http://127.0.0.1:{running.server_address[1]}")
        Hub.requests = []
        yield Hub.requests
        running.shutdown()


def place(monkeypatch: pytest.MonkeyPatch, cache: Path, endpoint: str) -> None:
    constants = "huggingface_hub.constants"
    monkeypatch.setattr(f"{constants}.HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(f"{constants}.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(f"{constants}.ENDPOINT", endpoint)
    monkeypatch.setattr(
        f"{constants}.HUGGINGFACE_CO_URL_TEMPLATE", endpoint + "/{repo_id}/resolve/{revision}/{filename}"
    )


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("no/such", (), "no/such is not a local folder, and no model at http://127.0.0.1"),
        ("no/more", (), "that you may see; check --model, or run hf auth login if it is private"),
        ("some/secret", (), "some/secret is not a local folder and not in the hub's cache, and http://127.0.0.1"),
        ("some/gated", (), "some/gated requires permission; request it at http://127.0.0.1"),
        ("some/sick", (), "500 Internal Server Error"),
        ("some/model", ("--model_revision", "v9"), "has no revision 'v9'; check --model_revision"),
        ("some/notes", (), "has no config.json, so it is not a model; check --model"),
        ("some/model", (), "the tokenizer of some/model has no chat template; use an instruction-tuned model"),
    ],
)
def test_a_model_that_the_hub_refuses_is_reported_before_anything_is_loaded(
    name: str, options: tuple[str, ...], says: str, hub: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    assert main(["--preset", "mage-kuhn", "--model", name, *options, "--output_dir", str(run)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
    assert not run.exists()
    assert hub
    assert not any("safetensors" in path for path in hub)


def test_without_a_network_a_model_in_the_cache_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fill_cache(tmp_path, "config.json", "model.safetensors")
    place(monkeypatch, tmp_path, "http://127.0.0.1:9")
    check_present("some/model")
    with pytest.raises(
        ValueError, match=r"other/model is not a local folder and .*127.0.0.1:9 does not return it \(ConnectError: "
    ):
        check_present("other/model")


def fill_cache(cache: Path, *files: str) -> None:
    """The hub's cache with a model of which there are these files."""
    folder = cache / "models--some--model"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text(SHA)
    (folder / "snapshots" / (SHA)).mkdir(parents=True)
    for name in files:
        (folder / "snapshots" / (SHA) / name).write_text("{}")


@pytest.mark.parametrize(
    ("name", "files", "says"),
    [
        ("some/model", (), "some/model is not a local folder and it is not in the hub's cache, and HF_HUB_OFFLINE"),
        ("some/model", ("config.json",), "and its weights are not in the hub's cache"),
        ("some/model", ("config.json", "model.safetensors"), None),
        ("runs/no/such", (), "runs/no/such is neither a folder nor a name that the hub could have"),
        ("refs", (), "the folder refs holds no model: config.json or weights (*.safetensors) are missing"),
    ],
)
def test_a_missing_model_is_reported_before_anything_is_loaded(
    name: str,
    files: tuple[str, ...],
    says: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cache = tmp_path / "cache"
    fill_cache(cache, *files)
    monkeypatch.chdir(cache / "models--some--model")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    if says is None:
        check_present(name)
        return
    assert main(["--preset", "mage-kuhn", "--model", name, "--output_dir", str(tmp_path / "run")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
    assert not (tmp_path / "run").exists()
    assert main(["--preset", "mage-kuhn", "--model", name, "--dry-run"]) == 0  # a plan may be made anywhere
