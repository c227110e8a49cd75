"""Endpoints queried prompt by prompt: an evaluation never waits for another slot's reply, and spending has a limit."""

from __future__ import annotations

import gzip
import heapq
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mage_envs.benchmarks import GeneratorAgent, evaluate, make_agent
from mage_envs.benchmarks.evaluation.run.budget import Limits
from mage_envs.benchmarks.evaluation.suites.paper import setting_for
from mage_envs.benchmarks.records.about import setting_of
from mage_envs.benchmarks.records.lines import digest
from mage_envs.benchmarks.records.record_store import Records, read_about
from mage_envs.benchmarks.records.replay import replay
from mage_envs.cli.program import main
from mage_envs.core import Turn
from mage_envs.opponents.llm import AnswerStream
from mage_envs.registry import make_game
from mage_envs.text.generation import Completion, Message, Prompt, StreamingGenerator
from tests.opponents.llm.conftest import Connect
from tests.opponents.llm.server import Server, hang_up, says, silence, status

SECRET = "sk-planted-0123456789abcdef"
KUHN = ["--env", "mage/KuhnPoker-Meta-v0", "--opponents", "kuhn/rock", "--rows", "4"]


def ask(text: str, slot: int = 0) -> Prompt:
    return Prompt((Message("user", text),), slot, seed=(1, slot))


def everything(folder: Path) -> str:
    """All text that a run holds."""
    texts = []
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".gz":
            texts.append(gzip.decompress(path.read_bytes()).decode())
        elif path.is_file() and path.suffix != ".png":
            texts.append(path.read_text())
    return "\n".join(texts)


def test_a_reply_does_not_wait_for_a_slower_one(server: Server, connect: Connect) -> None:
    released = threading.Event()

    def slow(handler, body):
        assert released.wait(60)
        says({"content": "slow"})(handler, body)

    server.troubles = [slow, says({"content": "quick"}, usage={"prompt_tokens": 7, "completion_tokens": 2})]
    endpoint = connect()
    assert isinstance(endpoint, StreamingGenerator)
    endpoint.submit(ask("a", 0))
    while not server.bodies:
        pass  # the first request must meet the first trouble
    endpoint.submit(ask("b", 1))
    assert endpoint.poll() == [(1, Completion("quick", tokens=(7, 2)))]
    released.set()
    [(slot, completion)] = endpoint.poll()
    assert (slot, completion.text) == (0, "slow")
    assert endpoint.poll() == []


def test_streaming_and_batches_give_the_same(server: Server, connect: Connect) -> None:
    prompts = [ask(f"hello {row}", row) for row in range(5)]
    expected = connect().generate(prompts)
    endpoint = connect()
    for prompt in prompts:
        endpoint.submit(prompt)
    completions: dict[int, Completion] = {}
    while len(completions) < 5:
        completions.update(endpoint.poll())
    assert [completions[row] for row in range(5)] == expected
    assert AnswerStream([connect(), connect()]).generate(prompts) == expected


def test_the_least_busy_server_is_asked(server: Server, connect: Connect) -> None:
    first_endpoint, second_endpoint = connect("tiny"), connect("tiny-guided")
    stream = AnswerStream([first_endpoint, second_endpoint])
    for slot in range(4):
        stream.submit(ask("x", slot))
    num_answers = 0
    while num_answers < 4:
        num_answers += len(stream.poll())
    assert sorted(body["model"] for body in server.bodies) == ["tiny", "tiny", "tiny-guided", "tiny-guided"]
    two = make_agent(f"llm:tiny@{server.url}@{server.url.replace('127.0.0.1', 'localhost')},cache=off").generator(
        make_game("KuhnPoker")
    )
    assert isinstance(two, AnswerStream)


def test_a_batch_that_cannot_be_submitted_leaves_no_call_running(
    server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKEN_KEY", "line\nbreak")
    server.troubles = [silence]
    first_endpoint, second_endpoint = connect(concurrency=1, deadline=60.0), connect(key_variable="BROKEN_KEY")

    def prompts() -> Iterator[Prompt]:
        yield ask("a")
        while not server.bodies:
            pass  # the first request must meet the trouble
        yield ask("b")

    with pytest.raises(ValueError, match="key in BROKEN_KEY holds a line break"):
        AnswerStream([first_endpoint, second_endpoint]).generate(prompts())
    assert first_endpoint.generate([ask("c")])[0].error is None
    assert first_endpoint.budget.calls == len(server.bodies) == 2, "the first call was cancelled, not tried again"


class LongTailed:
    """A server in virtual time: each reply takes its own latency, lognormal with sigma 1."""

    def __init__(self) -> None:
        self.now = 0.0
        self.spent: dict[tuple[int, ...], float] = {}
        self._rng = np.random.default_rng(0)
        self._running: list[tuple[float, int, Completion]] = []

    def submit(self, prompt: Prompt) -> None:
        latency = float(self._rng.lognormal(0, 1))
        self.spent[prompt.seed[:1]] = self.spent.get(prompt.seed[:1], 0.0) + latency
        text = "<remark>x</remark>" if prompt.phase == "reflect" else "<action>bet</action>"
        heapq.heappush(self._running, (self.now + latency, prompt.slot, Completion(text)))

    def poll(self, timeout: float | None = None) -> list[tuple[int, Completion]]:
        if timeout == 0.0:  # time spent waiting for this thread does not count on this clock
            return []
        self.now, slot, completion = heapq.heappop(self._running)
        return [(slot, completion)]

    def cancel(self) -> None:
        self._running.clear()


def test_32_slots_take_little_longer_than_the_slowest_meta_episode() -> None:
    setting = setting_for("kuhn-paper-128", num_episodes=10)
    seeds: dict[int, None] = {}
    tasks = []
    for task in setting.tasks:  # one of each seed, so that the seed names the meta-episode
        if task.seed not in seeds:
            seeds[task.seed] = None
            tasks.append(task)
    tasks = (tasks * 2)[:32]
    tasks = [replace(task, seed=number) for number, task in enumerate(tasks)]
    backend = LongTailed()
    evaluate(GeneratorAgent(backend, "long-tailed"), tasks, setting.options, batch=32)
    shortest = min(backend.spent.values())
    assert max(backend.spent.values()) <= backend.now <= 1.3 * max(backend.spent.values())
    assert backend.now > shortest


def test_a_run_against_a_server_within_a_budget_is_kept_and_resumed(server: Server, tmp_path: Path, capfd) -> None:
    agent = f"llm:tiny-guided@{server.url},max_tokens=8,concurrency=4"
    arguments = ["eval", agent, *KUHN, "--episodes", "2", "--batch", "4", "--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as exit_info:
        main([*arguments, "--budget", "calls=12"])
    assert exit_info.value.code == 3
    assert "all 12 calls are spent" in capfd.readouterr().err
    records = Records(tmp_path / "run")
    assert 0 < len(records.lines) < 8
    calls = [call for line in records.lines.values() for call in line["calls"]]
    assert all(prompt > 0 and reply > 0 for prompt, reply in (call["tokens"] for call in calls))
    assert main([*arguments, "--resume"]) == 0
    assert len(Records(tmp_path / "run").lines) == 8
    assert main(["verify", str(tmp_path / "run")]) == 0
    server.stop()
    assert main(["verify", "--replay", str(tmp_path / "run")]) == 0  # no model is asked


def test_webshop_against_a_server(server: Server, tmp_path: Path) -> None:
    agent = f"llm:tiny@{server.url}"
    limits = ["--budget", "calls=60", "--batch", "4", "--game-option", "max_turns=2", "--episodes", "2"]
    with pytest.raises(SystemExit) as exit_info:
        main(["eval", agent, "--env", "mage/WebShop-Meta-v0", "--rows", "16", *limits, "--out", str(tmp_path / "run")])
    assert exit_info.value.code == 3
    assert len(Records(tmp_path / "run").lines) >= 8
    assert main(["verify", "--replay", str(tmp_path / "run"), "--sample", "4"]) == 0


def test_a_server_that_is_down_is_reported_before_anything_is_played(server: Server, tmp_path: Path, capfd) -> None:
    server.stop()
    agent = f"llm:tiny@{server.url},cache=off,attempts=1"
    assert main(["eval", agent, *KUHN, "--out", str(tmp_path / "run")]) == 2
    assert "mage: The first call failed, so no further calls were made: refused: nothing" in capfd.readouterr().err
    assert not (tmp_path / "run" / "run.json").exists(), "the folder stays free"


def test_a_server_that_dies_in_the_middle_leaves_a_run_that_can_be_resumed(
    server: Server, tmp_path: Path, capfd
) -> None:
    server.troubles = [says({"content": "<action>bet</action>"})] * 4 + [hang_up] * 200
    agent = f"llm:tiny-guided@{server.url},max_tokens=8,attempts=1,cache=off"
    arguments = ["eval", agent, *KUHN, "--episodes", "1", "--batch", "2", "--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    assert exit_info.value.code == 3
    broken = Records(tmp_path / "run")
    assert 0 < len(broken.failed) < len(broken.lines) == 8
    assert "failed; the first: generator: connection" in capfd.readouterr().err
    server.troubles = []
    assert main([*arguments, "--resume"]) == 0
    assert Records(tmp_path / "run").failed == []


def test_a_served_model_with_a_memory_that_asks_it(server: Server, tmp_path: Path) -> None:
    agent = f"llm:tiny@{server.url},max_tokens=8+amem"
    folder = str(tmp_path / "run")
    assert main(["eval", agent, *KUHN[:4], "--rows", "1", "--episodes", "2", "--out", folder]) == 0
    records = Records(Path(folder))
    assert records.about["setting"]["options"]["memory"] == "amem"
    kinds = [{call["kind"] for call in line["calls"]} for line in records.lines.values()]
    assert kinds == [{"play", "note"}] * 2
    assert main(["verify", "--replay", folder]) == 0
    assert main(["verify", folder]) == 0
    assert (tmp_path / "run" / "report.html").exists()


def test_a_key_reaches_no_file_and_no_output(server: Server, tmp_path: Path, monkeypatch, capfd) -> None:
    monkeypatch.setenv("MAGE_LLM_API_KEY", SECRET)
    server.troubles = [
        says({"content": f"<action>bet</action> {SECRET}"}),
        *[status(401, f"Incorrect API key provided: {SECRET}")] * 200,
    ]
    agent = f"llm:tiny-guided@{server.url},max_tokens=8,attempts=1,cache=off"
    folder = tmp_path / "run"
    with pytest.raises(SystemExit):
        main(["eval", agent, *KUHN, "--batch", "2", "--out", str(folder), "--game-option", "num_episodes=1"])
    assert any(SECRET in header.get("Authorization", "") for header in server.headers)
    captured = capfd.readouterr()
    file_text = everything(folder)
    assert SECRET not in file_text + captured.out + captured.err
    assert "***" in file_text
    assert "http 401" in json.dumps([line["failure"] for line in Records(folder).lines.values()])
    assert main(["verify", "--replay", str(folder)]) == 0
    assert main(["verify", str(folder)]) == 0


@pytest.mark.parametrize(("name", "value"), [("calls", 0), ("tokens", -1), ("minutes", 0.0)])
def test_limits_are_more_than_nothing(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"--budget {name} must be more than 0"):
        Limits(**{f"max_{name}": value})


def test_a_model_in_the_other_seat_is_executed_again_from_its_recorded_answers(
    server: Server, tmp_path: Path, monkeypatch, capfd
) -> None:
    opponent = f"llm:tiny@{server.url},max_tokens=8"
    run = [str(tmp_path / "run")]
    command = [
        "eval",
        "scripted:random",
        "--env",
        "mage/KuhnPoker-Meta-v0",
        "--rows",
        "3",
        "--opponents",
        f"{opponent};",
    ]
    assert main([*command, "--episodes", "2", "--env-workers", "2", "--out", *run]) == 0
    num_requests = len(server.bodies)
    server.stop()
    monkeypatch.setenv("MAGE_ENVS_CACHE", str(tmp_path / "another"))  # no answer is kept but in the records
    capfd.readouterr()
    assert main(["verify", "--replay", *run]) == 0
    assert "all as recorded" in capfd.readouterr().out
    assert main(["verify", *run]) == 0
    assert len(server.bodies) == num_requests > 0
    lines = list(Records(tmp_path / "run").lines.values())
    [first_call, *_] = [call for line in lines for call in line["opponent_calls"]]
    assert first_call["model"] == "tiny,max_tokens=8"
    answers = {call["key"] for line in lines for call in line["opponent_calls"]}
    assert len(answers) == num_requests
    del lines[0]["opponent_calls"]
    [difference] = replay([lines[0] | {"digest": digest(lines[0])}], setting_of(read_about(tmp_path / "run")))
    assert (difference.place, "hold no answer" in str(difference.found)) == ("failure", True)


class FailsInTheSecondEpisode:
    """A policy that takes the first legal action, until it cannot."""

    def reset(self, rng: np.random.Generator) -> None: ...

    def act(self, turn: Turn) -> str:
        if turn.episode == 1:
            raise ArithmeticError("out of numbers")
        return turn.legal_actions[0]


@pytest.mark.parametrize(
    ("agent", "failure"),
    [("scripted:first", "opponent: "), (f"policy:{__name__}:FailsInTheSecondEpisode", "generator: ArithmeticError")],
)
def test_failed_meta_episodes_against_a_model_are_executed_again_up_to_their_failure(
    server: Server, tmp_path: Path, monkeypatch, capfd, agent: str, failure: str
) -> None:
    """Replay the meta-episode if the model failed, or if the agent failed after answers of the model."""
    good = says({"content": "<action>check</action>"})
    # A kept connection that was closed before one byte came is asked again, so that one call fails only by the second.
    server.troubles = [good, good, hang_up, hang_up] * 40 if failure == "opponent: " else []
    opponent = f"llm:tiny@{server.url},max_tokens=8,attempts=1,cache=off"
    folder = tmp_path / "run"
    run = ["--env", "mage/KuhnPoker-Meta-v0", "--opponents", f"{opponent};", "--rows", "2", "--batch", "1"]
    assert main(["eval", agent, *run, "--episodes", "3", "--out", str(folder)]) == 2, "all of them broke"
    server.stop()
    capfd.readouterr()
    assert main(["verify", "--replay", str(folder)]) == 0
    assert "all as recorded" in capfd.readouterr().out
    assert main(["verify", str(folder)]) == 0
    lines = [line for line in Records(folder).lines.values() if line["failure"]]
    assert lines
    assert all(line["failure"].startswith(failure) for line in lines)
    calls = [call for line in lines for call in line["opponent_calls"]]
    assert any("error" not in call for call in calls), "what it had answered before"
    assert [call["error"] for call in calls if "error" in call] or failure != "opponent: "
    changed = lines[0] | {"opponent_calls": lines[0]["opponent_calls"][:-1]}
    [difference] = replay([changed | {"digest": digest(changed)}], setting_of(read_about(folder)))
    assert difference.place
