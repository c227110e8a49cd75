"""`EndpointGenerator` protects other hosts, other secrets, this machine's memory and the run from a server."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import pytest

from mage_envs.opponents.llm import Budget
from mage_envs.opponents.llm import calls as bounds
from mage_envs.opponents.llm.cache import ServerAnswer
from mage_envs.opponents.llm.endpoint import key_variables
from mage_envs.opponents.llm.failures import CallFailed
from mage_envs.text.generation import Completion, Message, Prompt
from tests.opponents.llm.conftest import Connect
from tests.opponents.llm.server import Server, Trouble, hang_up, raw, says, status
from tests.opponents.llm.test_endpoint import KEY, ask, failure


def redirect(code: int, target: str) -> Trouble:
    return lambda handler, body: handler.send(code, {}, {"Location": target})


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(server: Server, connect: Connect, code: int) -> None:
    server.troubles = [redirect(code, server.url + "/chat/completions")] * 50
    endpoint = connect(budget=Budget(max_calls=2))
    assert failure(endpoint) == (
        f"redirect: the server answers with status {code} and sends on to another address; nothing was sent there. "
        "Name that address if it is the right one."
    )
    assert len(server.bodies) == endpoint.budget.calls == 1
    assert endpoint.failures == {"redirect": 1}


def test_the_target_of_a_redirect_is_shown_without_the_key(
    server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MAGE_LLM_API_KEY", KEY)
    server.troubles = [redirect(307, f"//evil.example/?k={KEY}"), status(304, "no target")]
    assert "evil" not in failure(connect())
    assert f"({server.url} sends on to //evil.example/?k=***)" in caplog.text
    assert failure(connect()).startswith("http 304")


def test_nothing_of_the_environment_is_sent(server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_ORGANIZATION", "OPENAI_PROJECT_ID"):
        monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", f"X-Secret: {KEY}")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    assert connect().generate([ask()])[0].error is None
    [headers] = server.headers
    names = {name.lower() for name in headers}
    assert names == {"host", "accept", "accept-encoding", "connection", "user-agent", "content-type", "content-length"}
    assert KEY not in str(headers)


@pytest.mark.parametrize(
    ("url", "variables"),
    [
        ("https://api.openai.com/v1", ("OPENAI_API_KEY", "MAGE_LLM_API_KEY")),
        ("http://api.openai.com/v1", ("MAGE_LLM_API_KEY",)),
        ("https://api.openai.com.evil.example/v1", ("MAGE_LLM_API_KEY",)),
        ("https://openai.com/v1", ("MAGE_LLM_API_KEY",)),
        ("http://localhost:8000/v1", ("MAGE_LLM_API_KEY",)),
    ],
)
def test_whose_key_goes_where(url: str, variables: tuple[str, ...]) -> None:
    assert key_variables(url) == variables


def test_a_key_that_no_header_can_hold(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGE_LLM_API_KEY", f"{KEY}\nX-Other: 1")
    with pytest.raises(ValueError, match="key in MAGE_LLM_API_KEY holds a line break") as exc_info:
        connect().generate([ask()])
    assert KEY not in str(exc_info.value)


DEEP = b'{"choices": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"


def test_deep_nesting_fails_that_prompt_alone(server: Server, connect: Connect) -> None:
    server.troubles = [raw(DEEP), says({"content": "well"})]
    failed_answer, good_answer = connect(attempts=1, concurrency=1).generate([ask("x", 1), ask("x", 2)])
    assert failed_answer.error is not None
    assert failed_answer.error.startswith("garbage: no chat completion in the server's answer: '{\"choices\": [[[")
    assert (good_answer.text, good_answer.error) == ("well", None)
    server.troubles = [lambda handler, body: handler.send(400, DEEP)]
    assert failure(connect()).startswith('http 400: {"choices": [[[')
    nested: object = {"message": "at the bottom"}
    for _ in range(300):
        nested = {"error": nested}
    server.troubles = [lambda handler, body: handler.send(400, json.dumps(nested).encode())]
    assert failure(connect()) == "http 400: at the bottom"


def test_half_a_surrogate_pair_fails_that_prompt_alone(server: Server, connect: Connect) -> None:
    endpoint = connect()
    chat = Prompt((Message("user", "a"), Message("assistant", "b\ud83d")), seed=(3,))
    first_answer, second_answer, third_answer = endpoint.generate([ask("x", 1), chat, ask("y", 2)])
    assert second_answer == Completion(
        "", error="prompt: character 2 of message 2 is half of a surrogate pair; it cannot be sent"
    )
    assert first_answer.error is third_answer.error is None
    assert endpoint.budget.calls == len(server.bodies) == 2
    assert endpoint.failures == {"prompt": 1}
    assert endpoint.cached == 0


@pytest.mark.parametrize("code", [200, 500])
def test_an_answer_has_a_bounded_size(
    server: Server, connect: Connect, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MOST_BYTES", 100_000)
    sent = [0]

    def flood(handler, body):
        handler.send_response(code)
        handler.end_headers()
        handler.close_connection = True
        while not handler.server.stopped.is_set():
            handler.wfile.write(b" " * 65536)  # ends when the client hangs up
            sent[0] += 65536

    server.troubles = [flood]
    assert failure(connect()) == "garbage: the server's answer is longer than 100000 bytes"
    assert len(server.bodies) == 1, "not asked for again"
    assert sent[0] < 100 * 2**20
    server.troubles = [says({"content": "x" * 90_000})]
    assert len(connect().generate([ask()])[0].text) == 90_000


@pytest.mark.parametrize("count", [-1, -(10**30), True, 1.5, "7", None])
def test_counts_that_are_none(server: Server, connect: Connect, count) -> None:
    server.troubles = [says({"content": "abc"}, usage={"prompt_tokens": count, "completion_tokens": count})]
    endpoint = connect()
    endpoint.generate([ask("x" * 100)])
    assert endpoint.budget.prompt_tokens > 100
    assert endpoint.budget.completion_tokens > 3


def test_what_a_server_says_cannot_steer_a_terminal(server: Server, connect: Connect) -> None:
    server.troubles = [status(400, "\x1b[2Jred\x07\u202e")]
    assert failure(connect()) == "http 400: \ufffd[2Jred\ufffd\ufffd"


@contextmanager
def deaf() -> Iterator[str]:
    """An address that takes no further connection and refuses none: its queue is full."""
    with socket.socket() as listening, socket.socket() as first_filler, socket.socket() as second_filler:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for filler in (first_filler, second_filler):
            filler.setblocking(False)
            filler.connect_ex(listening.getsockname())
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


def test_an_endpoint_that_is_down_is_reported_in_time(
    connect: Connect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Scaled down by ten; all prompts of a batch, waiting ones too, fail with the first."""
    assert (bounds.DOWN_SECONDS, bounds.CONNECT_SECONDS) == (10.0, 3.0)
    monkeypatch.setattr(bounds, "DOWN_SECONDS", 1.0)
    monkeypatch.setattr(bounds, "CONNECT_SECONDS", 0.3)
    with deaf() as url:
        endpoint = connect(url=url, attempts=50, concurrency=2)
        errors = {completion.error for completion in endpoint.generate([ask("x", number) for number in range(20)])}
        calls = endpoint.budget.calls
        [second_answer] = endpoint.generate([ask("y")])
    assert all(error is not None and error.startswith("connection: no connection within ") for error in errors)
    assert calls <= 8, "the prompts that waited asked nothing"
    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warning.startswith("The language model's endpoint is down: connection: no connection within 0.")
    assert warning.endswith(f" ({url})")
    assert second_answer.error is not None
    assert endpoint.budget.calls == calls + 1, "known to be down: one attempt"


def test_an_endpoint_that_came_back_has_all_its_attempts(server: Server, connect: Connect) -> None:
    with socket.socket() as bound_socket:
        bound_socket.bind(("127.0.0.1", 0))
        gone = connect(url=f"http://127.0.0.1:{bound_socket.getsockname()[1]}/v1", attempts=2)
        assert failure(gone).startswith("refused: nothing listens at ")
    endpoint = connect(attempts=3)
    server.troubles = [hang_up, hang_up]
    assert endpoint.generate([ask()])[0].error is None
    assert endpoint.budget.calls == 3


def test_what_no_reader_foresaw_is_a_typed_failure(server: Server) -> None:
    def read(content: bytes, sent: int) -> ServerAnswer:
        raise ZeroDivisionError(f"{len(content)} bytes\n")

    connection = bounds.Connection(
        server.url + bounds.CHAT, read, budget=Budget(), deadline=30, attempts=1, concurrency=1
    )
    server.troubles = [says({"content": "bet"})]
    call = Future[ServerAnswer]()
    connection.start(call, b"{}", "0")
    failed = call.exception(30)
    connection.close()
    assert isinstance(failed, CallFailed)
    assert str(failed).startswith("garbage: the server's answer could not be read (ZeroDivisionError: ")
