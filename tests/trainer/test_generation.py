"""Backends: scripted, lock-step, local with and without a kept cache, vLLM streaming; and the keyed randomness."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import contextlib
import http.server
import json
import sys
import threading
import time
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from mage_envs.text.generation import Completion, Generator, Message, Prompt
from trainer.cached import CachedGenerator
from trainer.generation import LockStepGenerator, ScriptedGenerator, StreamingGenerator, stream_keys
from trainer.local_model import HFGenerator, RaggedCache, Sampling
from trainer.tiny import tiny_model, tiny_tokenizer
from trainer.tokens import ChatTokenizer
from trainer.vllm_stream import RequestSettings, StreamingServerGenerator, StreamingVLLMGenerator

WORDS = ("bet", "check", "call", "fold", *(f"w{index}" for index in range(20)))
LEGAL = ("bet", "check")


@pytest.fixture(scope="module")
def tokens() -> ChatTokenizer:
    return ChatTokenizer(tiny_tokenizer(WORDS))


@pytest.fixture(scope="module")
def model(tokens: ChatTokenizer) -> Any:
    return tiny_model(len(tokens.tokenizer), hidden=16, layers=2, heads=2, initializer_range=0.3)


def ask(text: str, slot: int = 0, key: int = 0, legal: tuple[str, ...] = LEGAL) -> Prompt:
    return Prompt((Message("user", text),), slot, (5, slot, key, 0), legal)


def go_on(prompt: Prompt, answer: Completion, text: str, key: int) -> Prompt:
    messages = (*prompt.messages, Message("assistant", answer.text), Message("user", text))
    return prompt._replace(messages=messages, seed=(5, prompt.slot, key, 0), previous=answer)


def say(rng: np.random.Generator, most: int = 6) -> str:
    return " ".join(rng.choice(WORDS, int(rng.integers(1, most))))


def test_stream_keys_tell_seeds_apart() -> None:
    seeds = [(0,), (0, 0), (0, 0, 0), (1,), (-1,), (2**64 - 2,), (2**40, 3), (3, 2**40)]
    keys = stream_keys(seeds)
    assert len(set(keys.tolist())) == len(seeds)
    assert stream_keys([(-1,)])[0] == stream_keys([(2**64 - 1,)])[0]
    assert [stream_keys([seed])[0] for seed in seeds] == keys.tolist()
    assert stream_keys([(0,)], base=1)[0] != keys[0]
    with pytest.raises(ValueError, match=r"give Prompt\(seed="):
        stream_keys([()])


def test_scripted_generator(tokens: ChatTokenizer) -> None:
    plain: Generator = ScriptedGenerator(lambda prompt: prompt.legal_actions[-1])
    assert plain.generate([ask("w1")]) == [Completion("check")]
    real = ScriptedGenerator(lambda prompt: "check", tokens)
    [first] = real.generate([ask("w1 w2")])
    assert tokens.tokenizer.decode(first.prompt_ids + first.ids) == "<bos> w1 w2 check"
    assert tokens.decode(first.legal_ids) == "bet check"
    [second] = real.generate([go_on(ask("w1 w2"), first, "w3", 1)])
    assert second.prompt_ids[: len(first.prompt_ids) + 1] == first.prompt_ids + first.ids


def test_lock_step_keeps_order_and_marks_overflow_and_truncation(tokens: ChatTokenizer) -> None:
    eos, sent = tokens.tokenizer.eos_token_id, []

    def generate_ids(prompts: list[list[int]]) -> tuple[list[list[int]], list[list[float]]]:
        sent.append(prompts)
        replies = [[prompt[-1], eos] if len(prompt) == 2 else [prompt[-1]] * 3 for prompt in prompts]
        return replies, [[-0.5] * len(reply) for reply in replies]

    backend = LockStepGenerator(tokens, generate_ids, max_prompt_length=3, max_new_tokens=3)
    asked = [ask("w1"), ask("w1 w2 w3"), ask("w1 w2"), ask("w1")]
    one, long, cut, twin = backend.generate(asked)
    assert (one.text, one.truncated, one.logprobs) == ("w1", False, (-0.5, -0.5))
    assert one == twin
    assert long == Completion("", overflow=True)
    assert (cut.text, cut.truncated, cut.legal_ids) == ("w2 w2 w2", True, ())
    assert [len(prompts) for prompts in sent] == [3]
    assert backend.generate([]) == []
    assert backend.generate(asked[1:2]) == [long]
    assert len(sent) == 1


def test_lock_step_collective_sends_a_filler(tokens: ChatTokenizer) -> None:
    sent: list[int] = []

    def generate_ids(prompts: list[list[int]]) -> tuple[list[list[int]], None]:
        sent.append(len(prompts))
        return [[5] for _ in prompts], None

    backend = LockStepGenerator(tokens, generate_ids, max_prompt_length=2, collective=True)
    assert backend.generate([]) == []
    assert backend.generate([ask("w1 w2 w3")])[0].overflow
    [answer] = backend.generate([ask("w1")])
    assert (answer.logprobs, answer.truncated, len(answer.legal_ids)) == (None, False, 2)
    assert sent == [1, 1, 1]
    with pytest.raises(ValueError, match="2 replies for 1 prompts"):
        LockStepGenerator(tokens, lambda prompts: ([[1], [2]], None)).generate([ask("w1")])


def reference_logprobs(model: Any, tokens: ChatTokenizer, answer: Completion, sampling: Sampling) -> list[float]:
    with torch.no_grad():
        logits = model(torch.tensor([answer.prompt_ids + answer.ids])).logits[0].double() / sampling.temperature
    if sampling.constrained and answer.legal_ids:
        illegal = [i for i in range(logits.shape[1]) if i not in answer.legal_ids]
        logits[:, illegal] = -torch.inf
    known, start = logits.log_softmax(1), len(answer.prompt_ids) - 1
    return [float(known[start + index, i]) for index, i in enumerate(answer.ids)]


SAMPLINGS = [
    Sampling(),
    Sampling(constrained=True, temperature=0.7),
    Sampling(max_new_tokens=5, temperature=1.3),
    Sampling(max_new_tokens=5, constrained=True),
]


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("subset", [1.0, 0.6])
def test_cached_equals_from_scratch_for_ragged_conversations(
    model: Any, tokens: ChatTokenizer, sampling: Sampling, subset: float
) -> None:
    rng = np.random.default_rng(3)
    cached = CachedGenerator(model, tokens, sampling)
    scratch = HFGenerator(model, tokens, sampling, batch_size=2)
    prompts = [ask(say(rng, 9), slot) for slot in range(6)]
    for call in range(1, 9):
        rows = [int(row) for row in rng.permutation(6) if rng.random() < subset]  # any order, some absent
        answers = cached.generate([prompts[row] for row in rows])
        expected = scratch.generate([prompts[row] for row in rows])
        for row, answer, wanted in zip(rows, answers, expected, strict=True):
            assert replace(answer, logprobs=None) == replace(wanted, logprobs=None)
            assert answer.logprobs == pytest.approx(reference_logprobs(model, tokens, answer, sampling), abs=1e-4)
            assert answer.logprobs == pytest.approx(wanted.logprobs, abs=1e-4)
            legal = LEGAL if rng.random() < 0.7 else ()  # plays and reflections mixed
            restart = rng.random() < 0.15
            after = ask(say(rng, 20), row, call) if restart else go_on(prompts[row], answer, say(rng), call)
            prompts[row] = after._replace(legal_actions=legal)


def test_cached_forwards_only_new_tokens(model: Any, tokens: ChatTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    widths: list[int] = []
    append = RaggedCache.append

    def counted(cache: RaggedCache, new: Sequence[Sequence[int]]) -> Any:
        widths.append(max(map(len, new)))
        return append(cache, new)

    monkeypatch.setattr(RaggedCache, "append", counted)
    backend = CachedGenerator(model, tokens)
    prompts = [ask("w1 w2 w3 w4 w5", slot) for slot in range(3)]
    for call in range(1, 4):
        answers = backend.generate(prompts)
        prompts = [go_on(prompt, answer, "w6 w7", call) for prompt, answer in zip(prompts, answers, strict=True)]
    assert widths == [6, 3, 3]  # the last answer and two words
    forged = prompts[0]._replace(previous=replace(answers[0], prompt_ids=answers[0].prompt_ids[1:]))
    backend.generate([forged, prompts[1]])
    assert widths[-1] == 14  # another past: the row is rebuilt
    backend.generate([ask("w1 w2", 4)])
    backend.generate([ask("w1 w2 w3", 4, 1)])
    assert widths[-1] == 4  # without `previous` the row starts anew, though it holds a prefix
    backend.reset()
    backend.generate(prompts[1:])
    assert widths[-1] == 15


def test_cache_columns_are_compacted(model: Any, tokens: ChatTokenizer) -> None:
    backend = CachedGenerator(model, tokens)
    steady, answer = ask("w1"), Completion("")
    for call in range(1, 30):  # slot 1 restarts with a long prompt at every call
        answer = backend.generate([steady, ask("w2 " * 20, 1, call)])[0]
        steady = go_on(steady, answer, "w3", call)
        assert backend._cache is not None
        assert backend._cache.mask.shape[1] <= 150
    [alone] = HFGenerator(model, tokens, Sampling()).generate([steady._replace(seed=(1,))])
    assert backend.generate([steady._replace(seed=(1,))])[0].ids == alone.ids


def test_replies_do_not_depend_on_the_batch(model: Any, tokens: ChatTokenizer) -> None:
    rng = np.random.default_rng(0)
    prompts = [ask(say(rng, 15), slot) for slot in range(12)]
    sampling = Sampling(max_new_tokens=4, temperature=0.9, top_p=0.9, top_k=8)
    one = HFGenerator(model, tokens, sampling, batch_size=1).generate(prompts)
    assert [a.ids for a in HFGenerator(model, tokens, sampling, batch_size=5).generate(prompts)] == [a.ids for a in one]
    other = HFGenerator(model, tokens, replace(sampling, seed=1)).generate(prompts)
    assert [a.ids for a in other] != [a.ids for a in one]


def test_greedy_limits_and_modes(model: Any, tokens: ChatTokenizer) -> None:
    backend = HFGenerator(model, tokens, Sampling(max_new_tokens=3, temperature=0), max_prompt_length=4)
    model.train()
    fits, long = backend.generate([ask("w1 w2")._replace(seed=()), ask("w1 w2 w3 w4")])
    assert model.training
    model.eval()
    assert long == Completion("", overflow=True)
    ids = list(fits.prompt_ids)
    for i in fits.ids:
        with torch.no_grad():
            assert int(model(torch.tensor([ids])).logits[0, -1].argmax()) == i
        ids.append(i)
    cached = CachedGenerator(model, tokens, max_prompt_length=4)
    assert cached.generate([ask("w1 w2 w3 w4")]) == [long]
    assert cached.generate([]) == []
    with pytest.raises(ValueError, match="same slot"):
        cached.generate([ask("w1"), ask("w2")])
    with pytest.raises(ValueError, match="it needs max_new_tokens >= 1"):
        Sampling(max_new_tokens=0)


def test_sampling_follows_the_distribution(model: Any, tokens: ChatTokenizer) -> None:
    backend = HFGenerator(model, tokens, Sampling(constrained=True), batch_size=1000)
    answers = backend.generate([ask("w1 w5", 0, key) for key in range(2000)])
    share = np.mean([answer.text == "bet" for answer in answers])
    logprobs = {answer.text: answer.logprobs for answer in answers}
    bet = float(np.exp(np.array(logprobs["bet"])[0]))
    assert bet + float(np.exp(np.array(logprobs["check"])[0])) == pytest.approx(1, abs=1e-5)
    assert share == pytest.approx(bet, abs=4 * (bet * (1 - bet) / 2000) ** 0.5)


# vLLM, against stand-ins with the real signatures (vllm needs a GPU)


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
        for request_id, (ids, params, done) in list(self.requests.items()):
            done.append(ids[-1] if len(done) + 1 < len(ids) else params.stop_token_ids[0])
            reason = (
                "stop" if done[-1] in params.stop_token_ids else "length" if len(done) == params.max_tokens else None
            )
            if reason:
                del self.requests[request_id]
                known = [{i: types.SimpleNamespace(logprob=-0.25, rank=1, decoded_token=None)} for i in done]
                reply = types.SimpleNamespace(index=0, token_ids=done, logprobs=known, finish_reason=reason, text="")
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
    assert backend.poll() == [(4, Completion("", overflow=True))]  # it was never sent
    engine.turns.release(100)
    found: dict[int, Completion] = {}
    while len(found) < 4:
        found.update(backend.poll())
    assert found[3].error == "vllm refused: The decoder prompt is longer than the maximum model length"
    assert len(engine.seeds) == 3
    assert (found[1].text, found[1].logprobs, found[1].truncated) == ("w3", (-0.25, -0.25), False)
    assert found[1].ids[-1] in tokens.end_ids
    assert found[2].truncated
    assert backend.poll() == []
    assert [answer.text for answer in backend.generate([ask("w1 w2", 7), ask("w3", 7)])] == ["w2 w2", "w3"]
    assert engine.threads == {"mage-vllm"}


@pytest.mark.usefixtures("fake_vllm")
def test_a_vllm_engine_works_while_nobody_waits_for_it(tokens: ChatTokenizer) -> None:
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
def test_what_was_given_up_is_aborted_and_the_engine_asked_anew(tokens: ChatTokenizer) -> None:
    engine = FakeEngine(turns=0)
    backend = StreamingVLLMGenerator(engine, tokens, RequestSettings(max_new_tokens=4))
    backend.submit(ask("w1 w2", 0))
    assert backend.poll(0.0) == backend.poll(0.01) == []
    threading.Timer(0.05, engine.turns.release).start()  # the step that it is in goes on to its end
    backend.cancel()
    assert (engine.aborted, backend.poll(0.0)) == (["mage-0"], [])
    engine.turns.release(100)
    assert [answer.text for answer in backend.generate([ask("w3", 0)])] == ["w3"]


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
    assert [answer.text for answer in backend.generate([ask("w3", 0)])] == ["w3"]
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
    good, broken, idless, long = backend.generate([ask(text) for text in texts])
    assert (good.text, good.logprobs, good.truncated, len(good.prompt_ids)) == ("w3 w3", (-0.5, -0.5), True, 4)
    assert broken == Completion("", error="vllm HTTP 500 Internal Server Error")
    assert idless.error == "vllm reply without token ids or log-probabilities: KeyError('token_ids')"
    assert long == Completion("", overflow=True)
    assert backend.poll() == []
    backend.close()
    gone = StreamingServerGenerator("http://127.0.0.1:9", "m", tokens, RequestSettings(max_new_tokens=2), concurrency=1)
    assert "vllm connection" in str(gone.generate([ask("w1")])[0].error)
    gone.close()
    with pytest.raises(ValueError, match="starts with http:// or https:// and a host, got 'host:8000'"):
        StreamingServerGenerator("host:8000", "m", tokens, RequestSettings(max_new_tokens=2))


def test_an_answer_that_trickles_is_late_and_its_thread_ends(tokens: ChatTokenizer, server: str) -> None:
    settings = RequestSettings(max_new_tokens=2, timeout=0.4)
    backend = StreamingServerGenerator(server, "m", tokens, settings, concurrency=1)
    slow, queued = ask("w1 w2 w3 w4 w5 w6 w7 w8 w9", 0), ask("w1 w2 w3", 1)
    backend.submit(slow)
    backend.submit(queued)  # waits for the one thread, and has its own time from then on
    assert backend.poll() == [(0, Completion("", error="vllm timeout after 0.4 s"))]
    [(slot, answer)] = backend.poll()
    assert (slot, answer.text) == (1, "w3 w3")
    backend.submit(slow)
    backend.submit(queued)
    backend.cancel()
    assert backend.poll() == []
    assert [reply.text for reply in backend.generate([queued])] == ["w3 w3"]
    backend.close()
