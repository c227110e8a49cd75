"""The cache of answers: replays, other processes, damage."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mage_envs.opponents.llm import AnswerCache
from mage_envs.opponents.llm.cache import ServerAnswer, cache_path
from mage_envs.text.generation import Completion, Message, Prompt
from tests.opponents.llm.conftest import Connect
from tests.opponents.llm.server import Server, says, status


def ask(text: str, *seed: int) -> Prompt:
    return Prompt((Message("user", text),), seed=seed or (1, 0))


def test_a_replay_costs_nothing_and_is_the_same(server: Server, connect: Connect, cache: AnswerCache) -> None:
    prompts = [ask(text, seed) for text in ("Grüße 🂡", "b", "") for seed in (1, 2)]
    completions = connect(cache=cache, send_seed=False).generate(prompts)  # the server varies its answers
    assert connect(send_seed=False).generate(prompts) != completions
    num_requests = len(server.bodies)
    server.stop()
    cached_endpoint = connect(cache=AnswerCache(cache.path), send_seed=False)
    assert cached_endpoint.generate(prompts) == completions
    assert (cached_endpoint.cached, cached_endpoint.budget.calls, len(server.bodies)) == (6, 0, num_requests)
    assert len(cache) == 6
    cached_endpoint.generate([prompts[0]] * 3)
    assert cached_endpoint.cached == 9, "each prompt counts, also if it shares its request"


def test_what_makes_an_answer_another(server: Server, connect: Connect, cache: AnswerCache) -> None:
    def calls(*seed: int, text: str = "x", **options) -> int:
        requests_before = len(server.bodies)
        assert connect(cache=cache, **options).generate([ask(text, *seed)])[0].error is None
        return len(server.bodies) - requests_before

    assert calls(1, 2) == 1
    for changed in (
        {"temperature": 0.9},
        {"max_tokens": 9},
        {"parameters": {"top_p": 0.5}},
        {"send_seed": False},
        {"namespace": "elsewhere"},
        {"text": "y"},
        {"model": "tiny", "temperature": 0},
    ):
        assert calls(1, 2, **changed) == 1
        assert calls(1, 2, **changed) == 0
    assert calls(1, 3) == 1
    assert calls(1, 3, temperature=0) == 0, "greedy answers depend on no seed"
    assert calls(1, 2, namespace=server.url) == calls(1, 2, url=server.url + "/") == 0
    assert calls(1, 2, deadline=9.0, attempts=1, concurrency=2) == 0


def test_a_server_that_moved_keeps_its_answers_under_a_name(
    server: Server, connect: Connect, cache: AnswerCache
) -> None:
    completions = connect(cache=cache, namespace="lab").generate([ask("x")])
    moved = connect(cache=cache, namespace="lab", url="http://127.0.0.1:9/v1", attempts=1)
    assert moved.generate([ask("x")]) == completions


def test_neither_failures_nor_overflows_are_kept(server: Server, connect: Connect, cache: AnswerCache) -> None:
    server.troubles = [status(400, "no")]
    assert connect(cache=cache).generate([ask("x")])[0].error == "http 400: no"
    server.troubles = [lambda handler, body: handler.send(400, {"error": {"code": "context_length_exceeded"}})]
    assert connect(cache=cache).generate([ask("x")])[0].overflow
    assert len(cache) == 0
    assert connect(cache=cache).generate([ask("x")])[0].error is None


def test_of_two_answers_the_first_stays(cache: AnswerCache) -> None:
    first_answer, second_answer = ServerAnswer("one", False, 1, 2), ServerAnswer("two\ud83d\n\0", True, 3, 4)
    assert cache.add("k", first_answer) == first_answer == cache.add("k", second_answer) == cache.get("k")
    assert cache.add("l", second_answer) == second_answer == cache.get("l")
    assert cache.get("m") is None


SCRIPT = """
import sys
from mage_envs.text.generation import Message, Prompt
from mage_envs.opponents.llm import AnswerCache, EndpointGenerator
endpoint = EndpointGenerator("tiny", sys.argv[1], max_tokens=8, send_seed=False, cache=AnswerCache(sys.argv[2]))
prompts = [Prompt((Message("user", "x"),), seed=(number,)) for number in range(24)]
for completion in endpoint.generate(prompts):
    print(ascii(completion.text))
"""


def test_processes_share_the_answers(server: Server, cache: AnswerCache, tmp_path: Path) -> None:
    arguments = [sys.executable, "-W", "error", "-c", SCRIPT, server.url, str(tmp_path / "new" / "shared.sqlite")]
    running = [subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    printed = [process.communicate(timeout=120) for process in running]
    assert printed[0] == printed[1]
    assert printed[0][1] == ""
    assert len(set(printed[0][0].splitlines())) > 12
    num_requests = len(server.bodies)
    assert 24 <= num_requests <= 48
    assert subprocess.run(arguments, capture_output=True, text=True, check=True).stdout == printed[0][0]
    assert len(server.bodies) == num_requests


def test_threads_share_a_cache(cache: AnswerCache) -> None:
    answers: list[list[ServerAnswer]] = [[] for _ in range(4)]

    def work(worker: int) -> None:
        for number in range(200):
            answers[worker].append(cache.add(str(number), ServerAnswer(f"{worker}", False, 0, 0)))

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers[0] == answers[1] == answers[2] == answers[3]
    assert len(cache) == 200


def test_a_file_that_cannot_be_used(tmp_path: Path) -> None:
    damaged = tmp_path / "llm.sqlite"
    damaged.write_bytes(b"not a database, but long enough to look at" * 100)
    with pytest.raises(
        OSError, match=r"llm\.sqlite, cannot be used \(file is not a database\)\. Delete the file"
    ) as exc_info:
        AnswerCache(damaged)
    assert "\n" not in str(exc_info.value)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="set MAGE_ENVS_CACHE to another folder"):
        AnswerCache(tmp_path / "file" / "llm.sqlite")
    with pytest.raises(OSError, match="unable to open database file"):
        AnswerCache(tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE checked_answers SET answer = '[1'",
        "UPDATE checked_answers SET answer = replace(answer, 'right', 'wrong')",
        "UPDATE checked_answers SET answer = x'00ff'",
        "UPDATE checked_answers SET answer = '[[], 1, 2, 3]'",
        "UPDATE checked_answers SET sha256 = ''",
    ],
)
def test_a_damaged_answer_is_passed_over_said_and_replaced(
    server: Server, connect: Connect, cache: AnswerCache, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    import sqlite3

    server.troubles = [says({"content": "right"})] * 2
    connect(cache=cache).generate([ask("x")])
    connection = sqlite3.connect(cache.path)
    with connection:
        assert connection.execute(damage).rowcount == 1
    connection.close()
    assert [answer.text for answer in connect(cache=cache).generate([ask("x")])] == ["right"]
    assert len(server.bodies) == 2
    assert {record.getMessage().partition(" is ")[2] for record in caplog.records if record.levelname == "WARNING"} == {
        "damaged. It is ignored and requested again."
    }
    caplog.clear()
    assert [answer.text for answer in connect(cache=cache).generate([ask("x")])] == ["right"]
    assert len(server.bodies) == 2, "mended"
    assert not [record for record in caplog.records if record.levelname == "WARNING"]


def test_an_answer_under_another_key_is_damage(cache: AnswerCache) -> None:
    import sqlite3

    cache.add("a", ServerAnswer("for a", False, 0, 0))
    connection = sqlite3.connect(cache.path)
    with connection:
        connection.execute("UPDATE checked_answers SET key = 'b'")
    connection.close()
    assert cache.get("b") is None


def test_where_answers_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_path() == tmp_path / "cache" / "llm.sqlite"
    monkeypatch.delenv("MAGE_ENVS_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_path() == tmp_path / ".cache" / "mage-envs" / "llm.sqlite"


def test_a_kept_answer_says_what_it_took_and_takes_nothing(
    server: Server, connect: Connect, cache: AnswerCache
) -> None:
    server.troubles = [says({"content": "x"}, usage={"prompt_tokens": 3, "completion_tokens": 1})]
    connect(cache=cache).generate([ask("x")])
    cached_endpoint = connect(cache=cache)
    assert cached_endpoint.generate([ask("x")]) == [Completion("x", tokens=(3, 1))]
    assert cached_endpoint.budget.tokens == 0
