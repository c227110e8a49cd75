"""`EndpointGenerator` against a real server: requests, answers, failures and retries."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import socket
import sys
import threading
from dataclasses import replace
from email.utils import formatdate

import pytest

from mage_envs.opponents.llm import AnswerCache, Budget, EndpointGenerator
from mage_envs.opponents.llm.calls import back_off
from mage_envs.opponents.llm.endpoint import server_seed
from mage_envs.text.generation import Completion, Message, Prompt
from tests.opponents.llm.conftest import Connect
from tests.opponents.llm.server import Server, drip, hang_up, raw, says, silence, status

KEY = "sk-mage-0123456789abcdef"


def ask(text: str = "Hello", *seed: int) -> Prompt:
    return Prompt((Message("user", text),), seed=seed or (1, 0))


def test_answers_come_from_the_model_in_order_and_by_seed(server: Server, connect: Connect) -> None:
    endpoint = connect(concurrency=4)
    prompts = [ask(f"Say {number}", 5, number) for number in range(12)]
    answers = endpoint.generate(prompts)
    expected = [
        server.model.reply(
            {
                "model": "tiny",
                "max_tokens": 8,
                "temperature": 1.0,
                "seed": server_seed(prompt.seed),
                "messages": [{"role": "user", "content": prompt.messages[0].content}],
            }
        )
        for prompt in prompts
    ]
    assert [answer.text for answer in answers] == [reply.text for reply in expected]
    assert [answer.truncated for answer in answers] == [reply.truncated for reply in expected]
    assert len({answer.text for answer in answers}) > 6
    assert endpoint.budget.calls == len(server.bodies) == 12
    assert endpoint.budget.prompt_tokens == sum(len(reply.prompt_ids) for reply in expected)
    assert endpoint.budget.completion_tokens == sum(len(reply.ids) for reply in expected)
    assert answers == connect().generate(prompts), "the same seeds, asked again"


def test_the_request_holds_the_options(server: Server, connect: Connect) -> None:
    chat = Prompt((Message("user", "a"), Message("assistant", "b"), Message("user", "ü🂡\u2028")), seed=(2**62, -3))
    connect(temperature=0.5, parameters={"top_p": 0.9, "chat_template_kwargs": {"enable_thinking": False}}).generate(
        [chat]
    )
    [body] = server.bodies
    assert body == {
        "model": "tiny",
        "messages": [{"role": role, "content": text} for role, text in chat.messages],
        "temperature": 0.5,
        "max_tokens": 8,
        "top_p": 0.9,
        "chat_template_kwargs": {"enable_thinking": False},
        "seed": server_seed(chat.seed),
    }
    assert 0 <= body["seed"] < 2**31
    connect(temperature=0).generate([chat])
    connect(send_seed=False).generate([chat])
    assert all("seed" not in body for body in server.bodies[1:])


def test_equal_requests_of_a_batch_are_asked_once(server: Server, connect: Connect) -> None:
    endpoint = connect(temperature=0)
    answers = endpoint.generate([ask("x", 1), ask("x", 2), ask("y", 3)])
    assert answers[0] == answers[1]
    assert sorted(body["messages"][0]["content"] for body in server.bodies) == ["x", "y"]
    connect().generate([ask("x", 1), ask("x", 2), ask("x", 2)])
    assert len(server.bodies) == 4, "where answers are sampled, other seeds are other requests"
    assert endpoint.generate([]) == []


def test_concurrency_is_used_and_bounded(server: Server, connect: Connect) -> None:
    together, peak, lock, event = [0], [0], threading.Lock(), threading.Event()

    def meet(handler, body):
        with lock:
            together[0] += 1
            peak[0] = max(peak[0], together[0])
            if together[0] == 3:
                event.set()
        assert event.wait(30)
        with lock:
            together[0] -= 1
        says({"content": "met"})(handler, body)

    server.troubles = [meet] * 9
    answers = connect(concurrency=3).generate([ask("x", number) for number in range(9)])
    assert [answer.text for answer in answers] == ["met"] * 9, "three were under way at once, else none had ended"
    assert peak == [3]


# -- reading ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "reason", "expected"),
    [
        ({"content": "<action>bet</action>"}, "stop", Completion("<action>bet</action>")),
        (
            {"content": "a", "reasoning_content": "<action>x</action>"},
            "stop",
            Completion("a", reasoning="<action>x</action>"),
        ),
        ({"content": "<think>a</think>b"}, "stop", Completion("<think>a</think>b")),
        ({"content": "cut"}, "length", Completion("cut", truncated=True)),
        ({"content": None, "reasoning_content": "hm"}, "length", Completion("", truncated=True, reasoning="hm")),
        ({"content": None, "refusal": "no"}, "content_filter", Completion("", no_text="refusal")),
        ({"content": "Grüße 🂡 \ud83d"}, "stop", Completion("Grüße 🂡 ?")),
    ],
)
def test_messages_of_all_kinds(
    server: Server, connect: Connect, message: dict, reason: str, expected: Completion
) -> None:
    server.troubles = [says(message, reason)]
    [completion] = connect().generate([ask()])
    assert replace(completion, tokens=None) == expected
    assert completion.tokens is not None


def test_uncounted_tokens_are_never_undercounted(server: Server, connect: Connect) -> None:
    server.troubles = [
        says({"content": "abc"}),
        says({"content": "abc"}, usage={"prompt_tokens": 7, "completion_tokens": 2}),
    ]
    endpoint = connect()
    endpoint.generate([ask("x" * 100)])
    assert endpoint.budget.prompt_tokens > 100
    assert endpoint.budget.completion_tokens > 3
    tokens_before = endpoint.budget.tokens
    endpoint.generate([ask("x")])
    assert endpoint.budget.tokens == tokens_before + 9


# -- failures --------------------------------------------------------------------------------------------------


def failure(endpoint: EndpointGenerator, prompt: Prompt | None = None) -> str:
    [completion] = endpoint.generate([prompt or ask()])
    assert completion.text == ""
    assert completion.error is not None
    return completion.error


@pytest.mark.parametrize("trouble", [silence, drip])
def test_a_slow_server_is_a_timeout(server: Server, connect: Connect, trouble) -> None:
    server.troubles = [trouble] * 10
    endpoint = connect(deadline=0.5, attempts=2)
    assert failure(endpoint).startswith("timeout: no answer within ")
    assert endpoint.budget.calls <= 2
    assert endpoint.failures == {"timeout": 1}
    server.troubles = []
    assert connect().generate([ask()])[0].error is None, "the server is well, and the failure was not kept"


def test_what_passes_by_is_tried_again(server: Server, connect: Connect) -> None:
    server.troubles = [status(503, "busy"), status(500, "oh"), raw(b"<html>", "text/html")]
    endpoint = connect(attempts=4)
    assert endpoint.generate([ask()])[0].error is None
    assert endpoint.budget.calls == len(server.bodies) == 4
    assert not endpoint.failures
    server.troubles = [status(503, "busy  \n today")] * 9
    assert failure(connect(attempts=2)) == "http 503: busy today"
    assert len(server.bodies) == 6


def test_retry_after_is_honoured(server: Server, connect: Connect) -> None:
    date = formatdate(0, usegmt=True)  # long over
    server.troubles = [status(429, "slow down", {"Retry-After": wait}) for wait in ("0", date, "soon")]
    endpoint = connect(attempts=4)
    assert endpoint.generate([ask()])[0].error is None
    assert len(server.bodies) == 4
    server.troubles = [status(429, "slow down", {"Retry-After": "3600"})]
    assert failure(endpoint) == "http 429: slow down (another attempt after 3600 s would be too late)"
    assert len(server.bodies) == 5
    assert endpoint.failures == {"http 429": 1}


def test_what_stays_wrong_is_not_tried_again(server: Server, connect: Connect) -> None:
    endpoint = connect("nobody")
    assert failure(endpoint) == "http 404: The model `nobody` does not exist."
    assert failure(connect(url=f"http://127.0.0.1:{server.server_port}")) == (
        "http 404: Not Found (the url has no path: most servers answer under /v1)"
    )
    server.troubles = [status(400, "Unsupported parameter: 'max_tokens'"), status(401, "x" * 1000), raw(b"")]
    assert failure(connect()) == "http 400: Unsupported parameter: 'max_tokens'"
    assert failure(connect()) == (
        f"http 401: {'x' * 300}… (no API key was sent: put this server's into MAGE_LLM_API_KEY, or name another "
        "key_variable)"
    )
    assert len(server.bodies) == 4


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b'{"choices": []}',
        b'{"choices": null}',
        b"\xff",
        b'{"choices": [{"message": {"content": [1]}}]}',
        b'{"error": {"message": "upstream"}}',
    ],
)
def test_garbage_is_reported(server: Server, connect: Connect, content: bytes) -> None:
    server.troubles = [raw(content)]
    error = failure(connect(attempts=1))
    assert error.startswith("garbage: no chat completion in the server's answer: ")
    assert repr(content.decode("utf-8", "replace")) in error


def test_no_server_and_a_broken_connection(server: Server, connect: Connect, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as bound_socket:
        bound_socket.bind(("127.0.0.1", 0))  # bound, but without a listener
        url = f"http://127.0.0.1:{bound_socket.getsockname()[1]}/v1"
        endpoint = connect(url=url, attempts=2)
        assert failure(endpoint) == "refused: nothing listens at the server's address"
        assert f"({url})" in caplog.text, "the terminal shows the address"
        assert endpoint.budget.calls == 2
    server.troubles = [hang_up]
    assert failure(connect(attempts=1)).startswith("connection: no answer (")
    assert f"({server.url})" in caplog.text


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (400, "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens."),
        (400, "The decoder prompt (length 15) is longer than the maximum model length of 8."),
        (413, "the request exceeds the available context size"),
    ],
)
def test_a_prompt_that_is_too_long_is_an_overflow(server: Server, connect: Connect, code: int, message: str) -> None:
    server.troubles = [status(code, message)]
    endpoint = connect()
    assert endpoint.generate([ask()]) == [Completion("", overflow=True)]
    assert endpoint.budget.calls == 1
    assert not endpoint.failures


def test_a_spent_budget_is_a_failure_and_no_call(server: Server, connect: Connect) -> None:
    shared = Budget(max_calls=3)
    first_endpoint, second_endpoint = connect(budget=shared), connect(budget=shared, temperature=0.5)
    assert all(
        answer.error is None
        for answer in first_endpoint.generate([ask("x", 1), ask("x", 2)]) + second_endpoint.generate([ask()])
    )
    assert failure(second_endpoint, ask("other")) == "budget: all 3 calls are spent"
    server.troubles = [status(503, "busy")] * 3
    assert failure(connect(budget=Budget(max_calls=2), attempts=5)) == "budget: all 2 calls are spent"
    assert len(server.bodies) == 5
    small_endpoint = connect(budget=Budget(max_tokens=1))
    server.troubles = [says({"content": "x"}, usage={"prompt_tokens": 3, "completion_tokens": 1})]
    assert small_endpoint.generate([ask()])[0].error is None
    assert failure(small_endpoint, ask("other")) == "budget: 4 of 1 tokens are spent"
    assert small_endpoint.budget.calls == 1
    with pytest.raises(ValueError, match="max_calls must be 0 or more, got -1"):
        Budget(-1)


def test_waits_grow_are_bounded_and_a_function_of_the_request() -> None:
    waits = [[back_off(key, attempt) for attempt in (1, 2, 3)] for key in ("0a" * 32, "0b" * 32)]
    assert waits[0] == [back_off("0a" * 32, attempt) for attempt in (1, 2, 3)]
    assert waits[0] != waits[1]
    for first_wait, second_wait, third_wait in waits:
        assert 0.25 <= first_wait <= 0.5 <= second_wait <= 1 <= third_wait <= 2


# -- the key ---------------------------------------------------------------------------------------------------


def test_the_api_key_is_sent_to_its_server_and_stays_secret(
    server: Server,
    connect: Connect,
    cache: AnswerCache,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG")
    endpoint = connect(cache=cache)
    monkeypatch.setenv("OPENAI_API_KEY", "for api.openai.com alone")
    endpoint.generate([ask("1")])
    monkeypatch.setenv("MAGE_LLM_API_KEY", KEY)
    endpoint.generate([ask("2")])
    server.troubles = [status(401, f"Incorrect API key provided: {KEY}.")]
    assert failure(endpoint, ask("3")) == "http 401: Incorrect API key provided: ***."
    monkeypatch.setenv("VENDOR_KEY", "third")
    connect(key_variable="VENDOR_KEY").generate([ask("4")])
    sent = [{name.lower(): value for name, value in headers.items()}.get("authorization") for headers in server.headers]
    assert sent == [None, f"Bearer {KEY}", f"Bearer {KEY}", "Bearer third"]
    cache.close()
    cache_bytes = b"".join(path.read_bytes() for path in cache.path.parent.glob("answers.sqlite*"))
    assert len(cache_bytes) > 1000
    assert KEY.encode() not in cache_bytes
    assert KEY not in repr(endpoint) + str(vars(endpoint)) + caplog.text
    assert endpoint.generate([ask("2")]) == connect(cache=cache).generate([ask("2")]), "another key, the same answer"
    assert len(server.bodies) == 4


# -- making ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"base_url": "localhost:8000"}, "must start with http:// or https://"),
        ({"base_url": "http:///v1"}, "and a host"),
        ({"base_url": f"http://me:{KEY}@host/v1"}, "must not contain a user, a fragment, or a query other"),
        ({"base_url": f"http://host/v1?api-key={KEY}"}, "MAGE_LLM_API_KEY"),
        ({"temperature": -1.0}, "temperature >= 0"),
        ({"deadline": 0.0}, "deadline > 0"),
        ({"attempts": 0}, "attempts >= 1"),
        ({"deadline": float("inf")}, "deadline > 0"),
        ({"concurrency": 0}, "concurrency >= 1"),
        ({"model": ""}, "a name"),
        ({"max_tokens": 0}, "max_tokens >= 1, got 0"),
    ],
)
def test_settings_that_cannot_be(options: dict, says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        EndpointGenerator(**{"model": "x", "base_url": "http://host/v1", **options})
    assert KEY not in str(caught.value)
    assert "\n" not in str(caught.value)


def _in_child(endpoint: EndpointGenerator, answers) -> None:
    answers.put(endpoint.generate([ask("child")])[0].text)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_makes_its_own_connections(server: Server, connect: Connect, cache: AnswerCache) -> None:
    endpoint = connect(cache=cache)
    mine = endpoint.generate([ask("parent")])
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(endpoint, answers))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    text = answers.get()
    assert endpoint.generate([ask("parent"), ask("child")]) == [*mine, Completion(text, truncated=True, tokens=(24, 8))]
    assert endpoint.cached == 2
    assert len(server.bodies) == 2


def test_closed_and_used_again(server: Server, connect: Connect) -> None:
    endpoint = connect()
    completions = endpoint.generate([ask()])
    endpoint.close()
    endpoint.close()
    assert endpoint.generate([ask()]) == completions


def test_a_dropped_endpoint_ends_its_thread(server: Server) -> None:
    threads_before = set(threading.enumerate())
    endpoint = EndpointGenerator("tiny", server.url, max_tokens=2)
    assert repr(endpoint) == f"EndpointGenerator('tiny', '{server.url}')"
    endpoint.generate([ask()])
    [client_thread] = [t for t in threading.enumerate() if t not in threads_before and t.name == "mage-llm"]
    del endpoint
    gc.collect()
    client_thread.join(60)
    assert not client_thread.is_alive()


def test_nothing_runs_on_after_an_interrupt(server: Server, connect: Connect) -> None:
    endpoint = connect(concurrency=1)

    def interrupt(handler, body):
        os.kill(os.getpid(), signal.SIGINT)  # reaches the main thread, as Ctrl-C does
        silence(handler, body)

    server.troubles = [interrupt] + [silence] * 5
    with pytest.raises(KeyboardInterrupt):
        endpoint.generate([ask("x", number) for number in range(6)])
    server.troubles = []
    assert endpoint.generate([ask("y")])[0].error is None, "no call holds the only place"
    assert endpoint.budget.calls == len(server.bodies) == 2


@pytest.mark.parametrize(
    "function",
    ["PendingCalls.add", "BaseEventLoop.call_soon_threadsafe", "Connection.start", "EndpointGenerator.start"],
)
def test_an_interrupt_while_a_call_starts_cancels_it(server: Server, connect: Connect, function: str) -> None:
    endpoint = connect(concurrency=1)

    def interrupt(frame, event, argument):
        if event == "return" and frame.f_code.co_qualname == function:
            sys.setprofile(None)
            raise KeyboardInterrupt

    def answer_second(handler, body):
        trouble = silence if body["messages"][0]["content"] == "x" else says({"content": "answer"})
        trouble(handler, body)

    server.troubles = [answer_second] * 2
    sys.setprofile(interrupt)  # as Ctrl-C at the end of this function
    with pytest.raises(KeyboardInterrupt):
        endpoint.generate([ask("x")])
    endpoint.submit(ask("y"))
    # A call that did not end would hold the only slot for 60 s.
    assert [completion.text for _, completion in endpoint.poll(30)] == ["answer"]
    assert endpoint.budget.calls <= 2
