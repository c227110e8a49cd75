"""Runs of a model behind an endpoint: identity, preflight, depth first, reasoning."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mage_envs.benchmarks import make_agent
from mage_envs.benchmarks.records import record_store
from mage_envs.benchmarks.records.record_store import Records, read_about
from mage_envs.benchmarks.runs.distributed import Playing
from mage_envs.cli.program import main
from mage_envs.opponents.llm.endpoint import EndpointGenerator
from mage_envs.opponents.llm.failures import CallFailed, without_addresses
from mage_envs.opponents.llm.names import SERVERS, portable_name, read_servers
from mage_envs.opponents.llm.reading import read_answer, read_models
from mage_envs.text.generation import Completion
from tests.interruptions import run_in_fork
from tests.opponents.llm.hostile_modes import GARBAGE, encode_json
from tests.opponents.llm.server import LegalModel, Server, Trouble, hang_up, status
from tests.opponents.llm.test_streaming import everything

KUHN = ["--env", "mage/KuhnPoker-Meta-v0", "--opponents", "kuhn/rock", "--no-baselines"]
THOUGHT = "I wonder what the rock holds."
Serve = Callable[..., Server]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers of `LegalModel`, which end with the test."""
    servers: list[Server] = []

    def start(**options: Any) -> Server:
        servers.append(Server(LegalModel(**options)))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def spec(server: Server, *options: str) -> str:
    return ",".join([f"llm:tiny@{server.url}", "cache=off", *options])


def exit_status(words: list[str]) -> int:
    """The exit status of a command that may end by SystemExit."""
    try:
        return main(words)
    except SystemExit as end:
        return int(str(end.code))


# -- identity ------------------------------------------------------------------------------------------------


def test_a_run_resumes_at_another_server_and_shows_no_host(serve: Serve, tmp_path: Path, capfd: Any) -> None:
    first_server, second_server = serve(), serve()
    out, whole_run = tmp_path / "run", tmp_path / "whole"
    words = [*KUHN, "--rows", "12", "--sampling", "temperature=0.5"]
    assert (
        exit_status(["eval", spec(first_server, "concurrency=2"), *words, "--out", str(out), "--budget", "calls=60"])
        == 3
    )
    num_stored = len(Records(out).lines)
    assert 0 < num_stored < 24
    assert exit_status(["eval", spec(second_server, "concurrency=5"), *words, "--out", str(out), "--resume"]) == 0
    assert second_server.bodies, "the second server played the rest"
    assert exit_status(["eval", spec(second_server, "concurrency=1"), *words, "--out", str(whole_run)]) == 0
    assert Records(out).root() == Records(whole_run).root()
    agent = read_about(out)["agent"]
    assert (agent["name"], agent["model"]) == ("llm:tiny", "tiny")
    assert agent["request"] == {"temperature": 0.5, "max_tokens": 4096}
    text = everything(out)
    assert "127.0.0.1" not in text
    assert "127.0.0.1" not in capfd.readouterr().out
    assert main(["verify", str(out)]) == 0


@pytest.mark.parametrize("request_options", ["temperature=0.5", "max_tokens=9", "thinking=off", "seed=off"])
def test_other_requests_are_another_agent(serve: Serve, tmp_path: Path, capfd: Any, request_options: str) -> None:
    server = serve()
    out = str(tmp_path / "run")
    assert exit_status(["eval", spec(server), *KUHN, "--rows", "1", "--out", out, "--name", "m"]) == 0
    assert (
        exit_status(
            ["eval", spec(server, request_options), *KUHN, "--rows", "1", "--out", out, "--name", "m", "--resume"]
        )
        == 2
    )
    assert "holds a run with other settings (agent.request." in capfd.readouterr().err


@pytest.mark.parametrize("source", ["listed", "replied"])
def test_a_server_with_another_model_is_refused(serve: Serve, tmp_path: Path, capfd: Any, source: str) -> None:
    server, out = serve(), tmp_path / "run"

    def becomes(model: str) -> None:
        if source == "listed":
            server.listed = [{"id": "tiny", "root": f"/disk/{model}"}, {"id": "another"}]
        else:
            server.served = model

    becomes("weights-a")
    words = ["eval", spec(server, "concurrency=1"), *KUHN, "--rows", "4", "--out", str(out)]
    assert exit_status([*words, "--budget", "calls=20"]) == 3
    assert read_about(out)["agent"]["served"] == {"listed": None, "replied": None} | {source: "weights-a"}
    becomes("weights-b")
    records_before = len(Records(out).lines)
    capfd.readouterr()
    assert exit_status([*words, "--resume"]) == 2
    stderr = capfd.readouterr().err
    assert f'agent.served.{source} "weights-a" there, "weights-b" now' in stderr
    assert len(Records(out).lines) == records_before, "no meta-episode of the other model is stored"
    becomes("weights-a")
    assert exit_status([*words, "--resume"]) == 0
    assert len(Records(out).lines) == 8


def test_a_run_against_a_model_resumes_at_another_server_and_shows_no_host(
    serve: Serve, tmp_path: Path, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    first_server, second_server = serve(), serve()
    out, whole_run = tmp_path / "run", tmp_path / "whole"

    def run_eval(server: Server, folder: Path, *options: str) -> int:
        against = ["--opponents", f"{spec(server, 'temperature=0.5')};", "--rows", "6", "--episodes", "1"]
        return exit_status(
            ["eval", "scripted:first", *KUHN[:2], *against, "--out", str(folder), "--batch", "1", *options]
        )

    assert run_eval(first_server, out, "--budget", "calls=6") == 3
    num_stored = len(Records(out).lines)
    assert 0 < num_stored < 12
    assert run_eval(second_server, out, "--resume", "--env-workers", "2") == 0
    assert second_server.bodies, "the second server played the rest"
    assert run_eval(second_server, whole_run, "--executor", "processes:2") == 0
    assert Records(out).root() == Records(whole_run).root()
    assert read_about(out)["setting"]["weights"] == {"llm:tiny,temperature=0.5": 1.0}
    assert {line["opponent"] for line in Records(out).lines.values()} == {"llm:tiny,temperature=0.5"}
    assert "127.0.0.1" not in everything(out) + capfd.readouterr().out
    assert main(["verify", str(out)]) == 0
    assert main(["verify", "--replay", str(out)]) == 0
    # A worker on another machine has another environment, and is sent the servers.
    servers = read_servers()
    assert servers["tiny,temperature=0.5"] == spec(second_server, "temperature=0.5").removeprefix("llm:")
    monkeypatch.delenv(SERVERS)
    Playing("scripted:first", read_about(out), batch=1, env_timeout=0, servers=servers)()
    assert read_servers() == servers


def test_the_name_of_an_agent_is_the_users(tmp_path: Path, capfd: Any) -> None:
    words = ["eval", "scripted:first", *KUHN, "--rows", "1", "--name", "First of all"]
    assert exit_status([*words, "--out", str(tmp_path / "run")]) == 0
    assert capfd.readouterr().out.startswith("First of all in mage/KuhnPoker-Meta-v0")
    assert read_about(tmp_path / "run")["agent"]["name"] == "First of all"
    assert exit_status([*words[:2], "scripted:last", *words[2:]]) == 2
    assert "--name names one agent, got 2 agents." in capfd.readouterr().err


@pytest.mark.parametrize(
    ("endpoint", "name"),
    [
        ("qwen3:4b@http://h:1/v1", "qwen3:4b"),
        ("a@b@http://h:1/v1@http://i:2/v1,concurrency=64,deadline=3,cache=off,key_variable=K", "a@b"),
        ("m@http://h/v1,temperature=0.5,max_tokens=9,thinking=off,seed=off", "m,temperature=0.5,max_tokens=9,"
         "thinking=off,seed=off"),
        ("m@http://h/v1,seed=on", "m"),
    ],
)  # fmt: skip
def test_a_portable_name_has_what_affects_answers(endpoint: str, name: str) -> None:
    assert portable_name(endpoint) == name
    assert make_agent(f"llm:{endpoint}").name == f"llm:{name}"


# -- fields of a server beside the text -------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_read_from_either_field(field: str) -> None:
    def read(reasoning: object) -> str | None:
        message = {"content": "bet", field: reasoning}
        return read_answer(encode_json({"choices": [{"message": message}], "model": [1]}), 1).reasoning

    assert read(THOUGHT) == THOUGHT
    assert [read(odd) for odd in ("", " \n", None, 5, ["hm"], {"text": "hm"})] == [None] * 6
    assert read("half \ud83d") == "half ?"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"data": [{"id": "m"}]}, "m"),
        ({"data": [{"id": "other"}, {"id": "m", "root": "Qwen/Qwen3-4B"}]}, "Qwen/Qwen3-4B"),
        ({"data": [{"id": "/models/smollm2.gguf"}]}, "smollm2.gguf"),
        ({"data": [{"id": "m", "root": "/data/weights/"}]}, "weights"),
        ({"data": [{"id": "one"}, {"id": "two"}]}, None),
        ({"data": [{"id": 5}]}, None),
        ({"data": [{"id": "m", "root": 5}]}, "m"),
    ],
)
def test_a_list_of_models_shows_the_served_one(body: Any, expected: str | None) -> None:
    assert read_models(encode_json(body), "m") == expected


def test_no_list_of_models_breaks_a_run() -> None:
    for name, body in GARBAGE.items():
        content = body if isinstance(body, bytes) else encode_json(body)
        assert read_models(content, "m") is None, name
        with pytest.raises(CallFailed):
            read_answer(content, 1)


@pytest.mark.parametrize("context", ["conversation", "rebuilt"])
def test_reasoning_is_in_the_record_and_in_no_prompt(serve: Serve, tmp_path: Path, context: str) -> None:
    server, out = serve(reasoning=THOUGHT), tmp_path / "run"
    words = ["eval", f"{spec(server)}", *KUHN, "--rows", "2", "--game-option", f"context={context}", "--out", str(out)]
    assert exit_status(words) == 0
    calls = [call for line in Records(out).lines.values() for call in line["calls"]]
    assert {call["kind"] for call in calls} == {"play", "reflect"}
    assert {call["reasoning"] for call in calls} == {THOUGHT}
    assert len(server.bodies) == len(calls)
    assert THOUGHT not in json.dumps(server.bodies)
    server.stop()
    assert main(["verify", "--replay", str(out)]) == 0
    assert main(["verify", str(out)]) == 0
    assert main(["export", str(out), "--to", "markdown", "--index", "0", "--out", str(tmp_path / "x.md")]) == 0
    assert (tmp_path / "x.md").read_text().count(f"Thinking:\n\n```text\n{THOUGHT}") == len(
        Records(out).lines[0]["calls"]
    )
    assert main(["export", str(out), "--to", "atif", "--out", str(tmp_path / "x.jsonl")]) == 0
    assert (tmp_path / "x.jsonl").read_text().count('"reasoning_content"') == len(calls)


def test_the_reasoning_of_an_opponent_is_recorded_and_executed_again(serve: Serve, tmp_path: Path) -> None:
    server, out = serve(reasoning=THOUGHT), str(tmp_path / "run")
    words = ["--env", "mage/KuhnPoker-Meta-v0", "--rows", "2", "--opponents", f"llm:tiny@{server.url},cache=off;"]
    assert exit_status(["eval", "scripted:random", *words, "--out", out]) == 0
    calls = [call for line in Records(Path(out)).lines.values() for call in line["opponent_calls"]]
    assert {call["reasoning"] for call in calls} == {THOUGHT}
    server.stop()
    assert main(["verify", "--replay", out]) == 0


def test_the_first_episodes_of_the_controls_come_from_the_cache(serve: Serve, tmp_path: Path) -> None:
    """No memory exists there yet, so that the verdict costs 2.3 times the calls of the main run, not 3 times."""
    server, out = serve(), tmp_path / "run"
    panel = ["--env", "mage/Ultimatum-Meta-v0", "--opponents", "pool:ultimatum/reserves", "--rows", "2"]
    options = ["--memory", "history", "--controls", "--no-baselines", "--allow-cut"]
    assert exit_status(["eval", f"llm:tiny@{server.url}", *panel, *options, "--out", str(out)]) == 0
    runs = [path.parent for path in sorted(out.rglob("run.json"))]
    assert len(runs) == 3
    calls = [call for run in runs for line in Records(run).lines.values() for call in line["calls"]]
    first_calls = [call for call in calls if call["episode"] == 0]
    assert len(first_calls) % 3 == 0
    # Tasks of one seed share their first prompts, too.
    assert len(server.bodies) <= len(calls) - len(first_calls) * 2 // 3


# -- failures ------------------------------------------------------------------------------------------------


def host_free(text: str, server: Server) -> None:
    """Fail if the text has the host or the port of the server."""
    for address in ("127.0.0.1", "localhost", str(server.server_address[1]), "node-7"):
        # A digest may contain the digits of the port.
        match = re.search(rf"(?<![0-9a-f]){re.escape(address)}(?![0-9a-f])", text)
        assert not match, text[max(match.start() - 200, 0) : match.end() + 50] if match else ""


@pytest.mark.parametrize("failing", ["agent", "opponent"])
def test_no_file_of_a_run_with_failures_and_no_report_shows_the_servers_address(
    serve: Serve, tmp_path: Path, failing: str
) -> None:
    server, out = serve(), tmp_path / "run"
    port = server.server_address[1]
    message = f"upstream http://node-7:8000/v1 of 127.0.0.1:{port} failed (host='localhost', port={port})"
    model = spec(server, "attempts=1", "concurrency=1")
    seats = ["scripted:first", *KUHN[:2], "--opponents", f"{model};", "--no-baselines", "--batch", "1"]
    words = ["eval", model, *KUHN] if failing == "agent" else ["eval", *seats]
    words += ["--rows", "4", "--episodes", "1", "--out", str(out)]

    # A server that fails after some answers: an error with its own address, a cut connection, a redirect.
    moved: Trouble = lambda handler, body: handler.send(307, {}, {"Location": f"{server.url}/other"})  # noqa: E731
    troubles = [status(500, message), status(400, message), hang_up, moved]
    server.troubles = [None, None, *[trouble for trouble in troubles for _ in range(2)]]
    assert exit_status(words) in (0, 3)
    failures = [line["failure"] for line in Records(out).lines.values() if line["failure"] is not None]
    assert failures, "a meta-episode failed for good"
    logged = [json.loads(line)["reason"] for line in (out / "failures.jsonl").read_text().splitlines()]
    for kind in (
        "http 500: upstream [address]",
        "http 400: ",
        "connection: no answer (",
        "redirect: the server answers",
    ):
        assert any(kind in reason for reason in logged), kind
    host_free(everything(out), server)
    # Nothing listens any more. An agent whose first call fails ends the run; an opponent's calls fail one by one.
    server.stop()
    assert exit_status([*words, "--resume"]) == (2 if failing == "agent" else 3)
    host_free(everything(out), server)
    assert "refused: nothing listens at the server's address" in (out / "failures.jsonl").read_text()
    assert main(["report", str(out), "--out", str(tmp_path / "report.html")]) == 0
    assert main(["export", str(out), "--to", "markdown", "--out", str(tmp_path / "run.md")]) == 0
    host_free((tmp_path / "report.html").read_text() + (tmp_path / "run.md").read_text(), server)


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("see http://gpu-3.lab:8000/v1?a=b.", "see [address]"),
        ("gpu-3.lab refused it", "[address] refused it"),
        ("host='GPU-3.LAB', port=8000: no", "host='[address]', port=[address]: no"),
        ("10.0.0.7:31 and [fe80::1]:80, db.lab:5432", "[address] and [address], [address]"),
        ("status 8000 of qwen2.5:14b, version 1.2.3, at 12:30", "status 8000 of qwen2.5:14b, version 1.2.3, at 12:30"),
    ],
)
def test_addresses_in_a_servers_message_are_hidden(text: str, hidden: str) -> None:
    assert without_addresses(text, "http://gpu-3.lab:8000/v1") == hidden


# -- preflight, limits and crashes ---------------------------------------------------------------------------


def test_a_run_whose_replies_are_cut_stops_after_its_preflight(serve: Serve, tmp_path: Path, capfd: Any) -> None:
    server, out = serve(truncated=True), tmp_path / "run"
    words = ["eval", spec(server, "concurrency=4"), *KUHN, "--rows", "20", "--episodes", "1", "--out", str(out)]
    assert exit_status([*words, "--price", "2,30"]) == 2
    stderr = capfd.readouterr().err
    calls = sum(len(line["calls"]) for line in Records(out).lines.values())
    assert f"llm:tiny, 16 meta-episodes, {calls} replies: invalid 0 (0.0%), cut {calls} (100.0%), overflow 0" in stderr
    # Each call has 100 prompt and 10 reply tokens, so a call costs 0.0005.
    calls_per_episode = calls / 16
    assert f"Expected for 40 meta-episodes, with 95% intervals: {40 * calls_per_episode:,.0f} [" in stderr
    assert re.search(rf", price {40 * calls_per_episode * 0.0005:,.2f} \[", stderr)
    assert f"{calls} of {calls} replies in the preflight were cut at the token limit, more than 20%." in stderr
    assert "16 of 40 meta-episodes are kept; the same command with --resume continues the run." in stderr
    assert len(Records(out).lines) == 16
    assert exit_status([*words, "--resume", "--allow-cut"]) == 0
    assert len(Records(out).lines) == 40


def test_progress_counts_what_a_limit_left_finished(serve: Serve, tmp_path: Path, capfd: Any) -> None:
    server, out = serve(), tmp_path / "run"
    words = ["eval", spec(server, "concurrency=2"), *KUHN, "--rows", "6", "--out", str(out), "--budget", "calls=30"]
    assert exit_status(words) == 3
    num_stored = len(Records(out).lines)
    stderr = capfd.readouterr().err
    assert "12 of 12 meta-episodes" not in stderr
    # The server counts 110 tokens per call.
    assert "0 of 12 meta-episodes, 110 tokens, starting." in stderr
    assert 0 < num_stored < 12
    assert f"mage: {12 - num_stored} meta-episodes were not played: all 30 calls are spent" in stderr


def run_until_killed(calls: int, words: list[str]) -> None:
    """Plays until so many replies have come; every finished meta-episode is written at once."""
    record_store.SAVE_INTERVAL_S = 0.0
    finish, calls_left = EndpointGenerator._finish, [calls]

    def count_call(endpoint: EndpointGenerator, *arguments: Any) -> Completion:
        calls_left[0] -= 1
        if not calls_left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return finish(endpoint, *arguments)

    EndpointGenerator._finish = count_call  # type: ignore[method-assign]
    main(words)


def test_a_run_that_is_killed_at_half_keeps_two_fifths(serve: Serve, tmp_path: Path) -> None:
    server, out, whole_run = serve(), tmp_path / "run", tmp_path / "whole"
    words = ["eval", spec(server, "concurrency=8"), *KUHN, "--rows", "32", "--out"]
    assert exit_status([*words, str(whole_run)]) == 0
    half = len(server.bodies) // 2
    assert run_in_fork(partial(run_until_killed, half, [*words, str(out)])) == -signal.SIGKILL
    assert len(Records(out).lines) >= 0.4 * 64
    assert exit_status([*words, str(out), "--resume"]) == 0
    assert Records(out).root() == Records(whole_run).root()
