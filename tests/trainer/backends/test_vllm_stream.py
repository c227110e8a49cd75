"""Streaming from vLLM, in its process and over HTTP, against fakes with the real signatures; see tests/engines."""

import contextlib
import http.server
import json
import sys
import threading
import time
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from mage_envs.text.generation import Completion, Prompt, StreamingGenerator
from mage_envs.trainer.backends.tokens import ChatTokenizer
from mage_envs.trainer.backends.vllm_server import StreamingServerGenerator
from mage_envs.trainer.backends.vllm_stream import RequestSettings, StreamingVLLMGenerator
from mage_envs.wrappers.rollout.generation_client import generate_with_timeout
from tests.trainer.asking import ask, word_tokens


def answers_of(backend: StreamingGenerator, prompts: list[Prompt]) -> list[Completion]:
    return generate_with_timeout(backend, prompts, 0.0, "the test")


@pytest.fixture(scope="module")
def tokens() -> ChatTokenizer:
    return word_tokens()


@dataclass(kw_only=True)
class FakeParams:
    """The fields of vllm.SamplingParams that we set; a misspelt one fails."""

    max_tokens: int
    temperature: float
    top_p: float
    top_k: int
    seed: int | None
    stop_token_ids: list[int]
    logprobs: int
    detokenize: bool
    output_kind: str


class FakeEngine:
    """vllm.LLMEngine: the reply repeats the prompt's last id, once per id of the prompt; one id per step.

    It makes as many steps as `turns` has been released for.
    """

    def __init__(self, turns: int = 1000) -> None:
        self.requests: dict[str, tuple[list[int], FakeParams, list[int]]] = {}
        self.aborted: list[str] = []
        self.seeds: set[int | None] = set()
        self.threads: set[str] = set()
        self.turns = threading.Semaphore(turns)
        self.finished = threading.Event()

    def add_request(
        self,
        request_id: str,
        prompt: Any,
        params: FakeParams,
        arrival_time: float | None = None,
        lora_request: Any = None,
        tokenization_kwargs: Any = None,
        trace_headers: Any = None,
        priority: int = 0,
        prompt_text: str | None = None,
    ) -> str:
        if len(prompt["prompt_token_ids"]) > 9:
            raise ValueError("The decoder prompt is longer than the maximum model length")
        self.requests[request_id] = (prompt["prompt_token_ids"], params, [])
        self.seeds.add(params.seed)
        return request_id

    def abort_request(self, request_ids: list[str], internal: bool = False) -> None:
        self.aborted += request_ids
        for request_id in request_ids:
            del self.requests[request_id]

    def step(self) -> list[Any]:
        assert self.turns.acquire(timeout=30)
        self.threads.add(threading.current_thread().name)
        outputs = []
        for request_id, (ids, params, sampled_ids) in list(self.requests.items()):
            sampled_ids.append(ids[-1] if len(sampled_ids) + 1 < len(ids) else params.stop_token_ids[0])
            reason = (
                "stop"
                if sampled_ids[-1] in params.stop_token_ids
                else "length"
                if len(sampled_ids) == params.max_tokens
                else None
            )
            if reason:
                del self.requests[request_id]
                token_logprobs = [
                    {i: types.SimpleNamespace(logprob=-0.25, rank=1, decoded_token=None)} for i in sampled_ids
                ]
                reply = types.SimpleNamespace(
                    index=0, token_ids=sampled_ids, logprobs=token_logprobs, finish_reason=reason, text=""
                )
                outputs.append(types.SimpleNamespace(request_id=request_id, outputs=[reply], finished=True))
                self.finished.set()
        return outputs


@pytest.fixture
def fake_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    package, params = types.ModuleType("vllm"), types.ModuleType("vllm.sampling_params")
    package.SamplingParams = FakeParams  # type: ignore[attr-defined]
    params.RequestOutputKind = types.SimpleNamespace(FINAL_ONLY="final")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", package)
    monkeypatch.setitem(sys.modules, "vllm.sampling_params", params)


@pytest.mark.usefixtures("fake_vllm")
def test_vllm_engine_streams(tokens: ChatTokenizer) -> None:
    engine = FakeEngine(turns=0)
    backend = StreamingVLLMGenerator(engine, tokens, RequestSettings(max_new_tokens=4, max_prompt_length=20))
    assert isinstance(backend, StreamingGenerator)
    for slot, text in enumerate(["w1 w2", "w3", "w4 " * 5, "w5 " * 12, "w6 " * 30]):
        backend.submit(ask(text, slot))
    replies = dict(backend.poll())  # a refused prompt may be among the first answers
    assert replies[4] == Completion("", overflow=True)  # it was never sent
    assert set(replies) <= {3, 4}
    engine.turns.release(100)
    while len(replies) < 5:
        replies.update(backend.poll())
    assert replies[3].error == "vllm refused: The decoder prompt is longer than the maximum model length"
    assert len(engine.seeds) == 3
    assert (replies[1].text, replies[1].logprobs, replies[1].truncated) == ("w3", (-0.25, -0.25), False)
    assert replies[1].ids[-1] in tokens.end_ids
    assert replies[2].truncated
    assert backend.poll() == []
    assert [answer.text for answer in answers_of(backend, [ask("w1 w2", 7), ask("w3", 7)])] == ["w2 w2", "w3"]
    assert engine.threads == {"mage-vllm"}


@pytest.mark.usefixtures("fake_vllm")
def test_a_vllm_engine_works_while_no_caller_waits_for_it(tokens: ChatTokenizer) -> None:
    engine = FakeEngine()
    backend = StreamingVLLMGenerator(engine, tokens, RequestSettings(max_new_tokens=4))
    for slot in range(2):
        engine.finished.clear()
        backend.submit(ask("w1 w2", slot))
        assert engine.finished.wait(30)
    assert sorted(slot for _ in range(2) for slot, _ in backend.poll()) == [0, 1]
    backend.cancel()  # waits until the engine is idle, so that weights may be pushed
    assert [thread.name for thread in threading.enumerate() if thread.name == "mage-vllm"] == []


@pytest.mark.usefixtures("fake_vllm")
def test_a_cancelled_request_is_aborted_and_the_engine_continues(tokens: ChatTokenizer) -> None:
    engine = FakeEngine(turns=0)
    backend = StreamingVLLMGenerator(engine, tokens, RequestSettings(max_new_tokens=4))
    backend.submit(ask("w1 w2", 0))
    assert backend.poll(0.0) == backend.poll(0.01) == []
    threading.Timer(0.05, engine.turns.release).start()  # the running step continues to its end
    backend.cancel()
    assert (engine.aborted, backend.poll(0.0)) == (["mage-0"], [])
    engine.turns.release(100)
    assert [answer.text for answer in answers_of(backend, [ask("w3", 0)])] == ["w3"]


@pytest.mark.usefixtures("fake_vllm")
def test_what_an_engine_raises_is_raised_where_it_is_polled(
    tokens: ChatTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FakeEngine()
    backend = StreamingVLLMGenerator(engine, tokens, RequestSettings(max_new_tokens=4))
    with monkeypatch.context() as patch:
        patch.setattr(engine, "step", lambda: {}["lost"])
        backend.submit(ask("w1 w2", 0))
        with pytest.raises(KeyError, match="lost"):
            backend.poll()
    backend.cancel()
    assert [answer.text for answer in answers_of(backend, [ask("w3", 0)])] == ["w3"]
    assert engine.aborted == ["mage-0"]


@pytest.mark.usefixtures("fake_vllm")
def test_vllm_engine_aborts_late_requests(tokens: ChatTokenizer) -> None:
    engine = FakeEngine()
    backend = StreamingVLLMGenerator(engine, tokens, RequestSettings(max_new_tokens=4, timeout=-1))
    backend.submit(ask("w1 w2"))
    assert backend.poll() == [(0, Completion("", error="vllm timeout after -1 s"))]
    assert engine.aborted == ["mage-0"]


def test_vllm_missing_is_one_line(tokens: ChatTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(ImportError, match=r'needs vllm. Install it with: pip install "mage-envs\[vllm\]"'):
        StreamingVLLMGenerator(FakeEngine(), tokens, RequestSettings(max_new_tokens=4))


class FakeServer(http.server.BaseHTTPRequestHandler):
    """`vllm serve`: /v1/completions with token ids; a prompt of two ids fails, one of three forgets the ids, the answer
    to one of 10 never ends."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if len(body["prompt"]) == 10:
            with contextlib.suppress(OSError):
                self.wfile.write(b"HTTP/1.0 200 OK\r\n")
                while True:
                    self.wfile.write(b"X-More: yes\r\n")
                    time.sleep(0.05)
            return
        choice = {"text": "", "finish_reason": "length", "logprobs": {"token_logprobs": [-0.5] * body["max_tokens"]}}
        if body["return_token_ids"] and len(body["prompt"]) != 3:
            choice["token_ids"] = [body["prompt"][-1]] * body["max_tokens"]
        data = json.dumps({"choices": [choice]}).encode()
        self.send_response(500 if len(body["prompt"]) == 2 or self.path != "/v1/completions" else 200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), FakeServer) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.05,))
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}/"
        running.shutdown()
        thread.join()


def test_vllm_server_answers_and_failures_are_data(tokens: ChatTokenizer, server: str) -> None:
    backend = StreamingServerGenerator(
        server, "m", tokens, RequestSettings(max_new_tokens=2, max_prompt_length=6), concurrency=4
    )
    assert isinstance(backend, StreamingGenerator)
    texts = ["w1 w2 w3", "w1", "w1 w2", "w1 w2 w3 w4 w5 w6"]
    good, broken, idless, long = answers_of(backend, [ask(text) for text in texts])
    assert (good.text, good.logprobs, good.truncated, len(good.prompt_ids)) == ("w3 w3", (-0.5, -0.5), True, 4)
    assert str(broken.error).startswith("vllm http 500: ")
    assert idless.error == "vllm garbage: a reply without token ids or log-probabilities: KeyError('token_ids')"
    assert long == Completion("", overflow=True)
    assert backend.poll() == []
    backend.close()
    gone = StreamingServerGenerator("http://127.0.0.1:9", "m", tokens, RequestSettings(max_new_tokens=2), concurrency=1)
    assert answers_of(gone, [ask("w1")])[0].error == "vllm refused: nothing listens at the server's address"
    gone.close()
    with pytest.raises(ValueError, match="must start with http:// or https:// and a host, got 'host:8000'"):
        StreamingServerGenerator("host:8000", "m", tokens, RequestSettings(max_new_tokens=2))


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"token_ids": [10**30, 4]}, "2 token ids, expected at most 2 from 0 to "),
        ({"token_ids": [-1, 4]}, "2 token ids, expected at most 2 from 0 to "),
        ({"token_ids": [4] * 3, "logprobs": {"token_logprobs": [-0.5] * 3}}, "3 token ids, expected at most 2 from 0"),
        ({"token_ids": [float("inf"), 4]}, "a reply without token ids or log-probabilities: OverflowError"),
        ({"token_ids": {"a": 1}}, "a reply without token ids or log-probabilities: ValueError"),
        ({"token_ids": [4]}, "1 token ids, expected as many finite log-probabilities, got 2"),
        ({"logprobs": {"token_logprobs": [-0.5, float("nan")]}}, "2 token ids, expected as many finite"),
        ({"logprobs": {"token_logprobs": [10**400, -0.5]}}, "a reply without token ids or log-probabilities: Overflow"),
        ({"logprobs": 5}, "a reply without token ids or log-probabilities: TypeError"),
        ({"finish_reason": ["stop"]}, "finished with ['stop']"),
    ],
)
def test_ids_that_the_model_does_not_have_fail_that_prompt_alone(
    tokens: ChatTokenizer, changed: dict[str, Any], says: str
) -> None:
    good = {"token_ids": [3, 4], "logprobs": {"token_logprobs": [-0.5, -0.25]}, "finish_reason": "length"}
    replies = [json.dumps({"choices": [choice]}).encode() for choice in (good | changed, good)]

    class Server(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(replies[len(body["prompt"]) % 2])

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server) as running:
        threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{running.server_address[1]}"
        backend = StreamingServerGenerator(url, "m", tokens, RequestSettings(max_new_tokens=2))
        bad, fine = sorted(answers_of(backend, [ask("w1"), ask("w1 w2")]), key=lambda answer: answer.error is None)
        backend.close()
        running.shutdown()
    assert fine.ids == (3, 4)
    assert str(bad.error).startswith(f"vllm garbage: {says}")


def test_an_answer_that_trickles_is_late_and_its_request_ends(tokens: ChatTokenizer, server: str) -> None:
    # Long enough for the honest answers on a busy machine.
    settings = RequestSettings(max_new_tokens=2, timeout=2.0)
    backend = StreamingServerGenerator(server, "m", tokens, settings, concurrency=1)
    slow, queued = ask("w1 w2 w3 w4 w5 w6 w7 w8 w9", 0), ask("w1 w2 w3", 1)
    backend.submit(slow)
    backend.submit(queued)  # waits for the one place, and has its own time from then on
    replies = dict(backend.poll())
    while len(replies) < 2:
        replies.update(backend.poll())
    assert replies[0] == Completion("", error="vllm timeout: no answer within 2 s")
    assert replies[1].text == "w3 w3"
    backend.submit(slow)
    backend.submit(queued)
    backend.cancel()
    assert backend.poll() == []
    assert [reply.text for reply in answers_of(backend, [queued])] == ["w3 w3"]
    backend.close()
