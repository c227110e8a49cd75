"""Servers and networks as they are: reasons for the end of an answer, empty replies, proxies and URLs."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from mage_envs.opponents.llm import EndpointGenerator, reading
from mage_envs.opponents.llm.calls import at_path, is_loopback, proxy_variable
from mage_envs.opponents.llm.endpoint import NO_ANSWER, check_url
from mage_envs.opponents.llm.failures import CallFailed
from mage_envs.opponents.llm.names import read_endpoint
from mage_envs.opponents.llm.reading import read_answer
from mage_envs.text.generation import Message, Prompt
from tests.opponents.llm.conftest import Connect
from tests.opponents.llm.server import Handler, LegalModel, Server, says, status


def body(reason: Any, content: str | None = "I think <action>bet</action> but") -> bytes:
    return json.dumps({"choices": [{"index": 0, "message": {"content": content}, "finish_reason": reason}]}).encode()


@pytest.mark.parametrize(
    ("reason", "cut"),
    [
        *((reason, True) for reason in ("length", "model_length", "max_tokens", "MAX_TOKENS", "incomplete", "LENGTH")),
        *((reason, False) for reason in ("stop", "STOP", "tool_calls", None, "end_turn", "content_filter", "eos", 3)),
    ],
)
def test_a_reason_ends_a_whole_answer_or_cuts_it(reason: Any, cut: bool, caplog: pytest.LogCaptureFixture) -> None:
    assert read_answer(body(reason), 9).truncated == cut
    empty = read_answer(body(reason, ""), 9)
    assert (empty.no_text is None) == cut
    assert not caplog.records


def test_an_answer_that_failed_is_a_failed_call() -> None:
    with pytest.raises(CallFailed, match="ended its answer with the reason 'error'") as failed:
        read_answer(body("error"), 9)
    assert failed.value.passing


def test_an_unknown_reason_is_reported_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_reported", set())
    with caplog.at_level(logging.WARNING):
        assert not any(read_answer(body("solar\nflare"), 9).truncated for _ in range(3))
    assert [record.getMessage() for record in caplog.records] == [
        "A server ended its answer with finish_reason 'solar flare', which is unknown; it counts as whole."
    ]
    for number in range(100):
        read_answer(body(f"reason {number}"), 9)
    assert len(caplog.records) == reading.MOST_REPORTED


@pytest.mark.parametrize("empty", ["", " \n"])
def test_no_empty_assistant_message_is_sent(server: Server, connect: Connect, empty: str) -> None:
    chat = (Message("user", "a"), Message("assistant", empty), Message("user", "b"), Message("assistant", "c"))
    connect().generate([Prompt((*chat, Message("user", "")), seed=(1,))])
    [sent] = server.bodies
    assert [message["content"] for message in sent["messages"]] == ["a", NO_ANSWER, "b", "c", ""]


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.1", "[::1]", "0.0.0.0", "model.localhost"])
def test_no_proxy_serves_this_machine(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.test:3128")
    assert is_loopback(f"http://{host}:8000/v1")
    assert proxy_variable(f"http://{host}:8000/v1") is None
    assert proxy_variable("http://model.test/v1") == "HTTP_PROXY"
    monkeypatch.setenv("NO_PROXY", "model.test")
    assert proxy_variable("http://model.test/v1") is None


def test_a_proxy_in_the_environment_does_not_stop_a_local_server(
    server: Server, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    [answer] = connect().generate([Prompt((Message("user", "a"),), seed=(1,))])
    assert answer.error is None


def test_a_proxy_that_answers_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Server(LegalModel())
    proxy.troubles.append(status(403, "blocked by policy"))
    monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1"))
    endpoint = EndpointGenerator("tiny", "http://model.test/v1", attempts=1, deadline=20)
    try:
        [answer] = endpoint.generate([Prompt((Message("user", "a"),), seed=(1,))])
    finally:
        endpoint.close()
        proxy.stop()
    assert answer.error == (
        "http 403: blocked by policy (sent through the proxy in HTTP_PROXY, which may have answered)"
    )


@pytest.mark.parametrize("end", ["/chat/completions", "/completions", "/models", "/chat/completions/", "/responses"])
def test_the_path_of_a_call_is_not_a_base(end: str) -> None:
    with pytest.raises(ValueError, match=f"at model.test must be its base.* Remove {end.rstrip('/')}, which each call"):
        check_url(f"https://model.test/v1{end}")


def test_a_version_in_the_query_is_kept(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"{server.url}/deployments/gpt?api-version=2024-10-21"
    model, urls, options = read_endpoint(f"gpt@{url},temperature=0")
    assert (model, urls, options.temperature) == ("gpt", [url], 0)
    assert at_path(url, "/models") == f"{server.url}/deployments/gpt/models?api-version=2024-10-21"
    monkeypatch.setenv("MAGE_LLM_API_KEY", "sk-mage-0123456789abcdef")
    requests: list[tuple[str, str | None]] = []

    def answer_azure(handler: Handler, body: dict[str, Any]) -> None:
        requests.append((handler.path, handler.headers["api-key"]))
        says({"content": "x"})(handler, body)

    server.troubles.append(answer_azure)
    endpoint = EndpointGenerator(model, url, attempts=1)
    try:
        [answer] = endpoint.generate([Prompt((Message("user", "a"),), seed=(1,))])
    finally:
        endpoint.close()
    assert answer.error is None
    path = "/v1/deployments/gpt/chat/completions?api-version=2024-10-21"
    assert requests == [(path, "sk-mage-0123456789abcdef")]
    for query in ("key=abc", "api-version=1&sig=abc", "api-version=1&api-version=2"):
        with pytest.raises(ValueError, match=r"or a query other than \?api-version="):
            check_url(f"https://model.test/v1?{query}")
