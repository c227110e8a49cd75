"""Streaming backends over vLLM: each meta-episode continues as soon as its own reply is there.

Colocated: the engine of `vllm.LLM(...).llm_engine` (`add_request`, `step`, `abort_request`; vLLM 0.22 to 0.31), one
process per engine. Server: concurrent `/v1/completions` with token ids in and out (`return_token_ids`). Create either
with `logprobs_mode="processed_logprobs"`, else vLLM reports log-probabilities that ignore the temperature.
"""

from __future__ import annotations

import http.client
import json
import math
import socket
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from mage_envs.text.generation import Completion, Prompt
from trainer.generation import StreamingGenerator, fits, stream_keys
from trainer.tokens import ChatTokenizer, Ids, make_completion

SlotReply = tuple[int, Completion]


class VLLMEngine(Protocol):
    """The part of `vllm.LLMEngine` that is used."""

    def add_request(self, request_id: str, prompt: Any, params: Any) -> Any: ...

    def step(self) -> Sequence[Any]: ...

    def abort_request(self, request_ids: list[str]) -> None: ...


class _Request(NamedTuple):
    prompt: Prompt
    ids: Ids
    deadline: float


@dataclass(frozen=True, kw_only=True)
class RequestSettings:
    """How vLLM is asked, in its process or over HTTP."""

    max_new_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    """0: all."""
    max_prompt_length: int | None = None
    """Tokens; a longer prompt overflows and is not sent."""
    timeout: float = 1800.0
    """Seconds that one request may take."""
    seed: int = 0
    """Joins `Prompt.seed` in the key of a request's own sampling stream."""

    def parameters(self, prompt: Prompt, tokens: ChatTokenizer) -> dict[str, Any]:
        """The sampling parameters that both interfaces name alike; no seed (vLLM's choice) for a prompt without a key.

        Log-probabilities are those of the sampled token only.
        """
        return {
            "max_tokens": self.max_new_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
            "seed": int(stream_keys([prompt.seed], self.seed)[0] >> 1) if prompt.seed else None,
            "stop_token_ids": sorted(tokens.end_ids),
            "logprobs": 0,
        }


def _run(generator: StreamingGenerator, prompts: Sequence[Prompt]) -> list[Completion]:
    """Answers a whole batch through a streaming backend; slots are replaced by rows, so they need not be distinct."""
    results: dict[int, Completion] = {}
    for row, prompt in enumerate(prompts):
        generator.submit(prompt._replace(slot=row))
    while len(results) < len(prompts):
        results.update(generator.poll())
    return [results[row] for row in range(len(prompts))]


class StreamingVLLMGenerator:
    """A colocated vLLM engine. A request that fails or takes too long answers with `error`."""

    def __init__(self, engine: VLLMEngine, tokens: ChatTokenizer, settings: RequestSettings) -> None:
        try:
            from vllm import SamplingParams  # heavy, and absent without a GPU
            from vllm.sampling_params import RequestOutputKind
        except ImportError as error:
            raise ImportError(
                'trainer/vllm_stream.py needs vllm. Install it with: pip install "mage-envs[vllm]"'
            ) from error
        self._params = SamplingParams
        self._final_only = RequestOutputKind.FINAL_ONLY
        self.engine = engine
        self.tokens = tokens
        self.settings = settings
        self._count = 0
        self._ready: list[SlotReply] = []
        self._running: dict[str, _Request] = {}

    def submit(self, prompt: Prompt) -> None:
        ids = self.tokens.encode(prompt)
        if not fits(ids, self.settings.max_prompt_length):
            self._ready.append((prompt.slot, Completion("", overflow=True)))
            return
        sampling = self.settings.parameters(prompt, self.tokens)
        params = self._params(**sampling, detokenize=False, output_kind=self._final_only)
        request_id = f"mage-{self._count}"
        self._count += 1
        try:
            self.engine.add_request(request_id, {"prompt_token_ids": list(ids)}, params)
        except ValueError as error:  # how vLLM refuses one request, e.g. longer than max_model_len
            self._ready.append((prompt.slot, Completion("", error=f"vllm refused: {error}")))
            return
        self._running[request_id] = _Request(prompt, ids, time.monotonic() + self.settings.timeout)

    def poll(self) -> list[SlotReply]:
        """Steps the engine until at least one reply is there, if any is under way."""
        while self._running and not self._ready:
            for output in self.engine.step():
                if output.finished and output.request_id in self._running:
                    request = self._running.pop(output.request_id)
                    self._ready.append((request.prompt.slot, self._completion(request, output.outputs[0])))
            self._abort_late()
        ready, self._ready = self._ready, []
        return ready

    def cancel(self) -> None:
        """Aborts all requests; the engine may be asked anew."""
        running = list(self._running)
        self._running.clear()
        self._ready.clear()
        self.engine.abort_request(running)

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """Lock-step use; nothing may be under way."""
        return _run(self, prompts)

    def _completion(self, request: _Request, output: Any) -> Completion:
        if output.finish_reason not in ("stop", "length"):
            return Completion("", error=f"vllm finished with {output.finish_reason!r}")
        ids = tuple(int(i) for i in output.token_ids)
        logprobs = None
        if output.logprobs is not None:
            logprobs = tuple(float(known[i].logprob) for i, known in zip(ids, output.logprobs, strict=True))
        return make_completion(request.prompt, self.tokens, request.ids, ids, logprobs, self.settings.max_new_tokens)

    def _abort_late(self) -> None:
        now = time.monotonic()
        late = [request_id for request_id, request in self._running.items() if request.deadline < now]
        if late:
            self.engine.abort_request(late)
        for request_id in late:
            slot = self._running.pop(request_id).prompt.slot
            self._ready.append((slot, Completion("", error=f"vllm timeout after {self.settings.timeout:g} s")))


class _Call:
    """One request to a server, which another thread may end."""

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.ends = math.inf
        """When it is late; known once it was sent."""
        self.connection: http.client.HTTPConnection | None = None

    def stop(self) -> None:
        """Ends it wherever it is: its thread's next word with the server is an OSError."""
        self.ends = -math.inf
        if self.connection is not None and self.connection.sock is not None:
            with suppress(OSError):  # it has ended by itself
                self.connection.sock.shutdown(socket.SHUT_RDWR)


class StreamingServerGenerator:
    """A `vllm serve` asked over HTTP by up to `concurrency` threads.

    A request that fails or takes too long, however slowly its answer arrives, answers with `error`. Redirects are not
    followed.
    """

    def __init__(
        self,
        url: str,
        model: str,
        tokens: ChatTokenizer,
        settings: RequestSettings,
        concurrency: int = 256,
    ) -> None:
        parts = urlsplit(url.rstrip("/") + "/v1/completions")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"The url of a vLLM server starts with http:// or https:// and a host, got {url!r}.")
        self._kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._address, self._path = parts.netloc, parts.path
        self.model = model
        self.tokens = tokens
        self.settings = settings
        self._pool = ThreadPoolExecutor(concurrency, thread_name_prefix="mage-vllm")
        self._running: dict[Future[Completion], _Call] = {}

    def submit(self, prompt: Prompt) -> None:
        call = _Call(prompt.slot)
        self._running[self._pool.submit(self._answer, call, prompt, self.tokens.encode(prompt))] = call

    def poll(self) -> list[SlotReply]:
        """Waits until at least one reply is there, if any is under way, or late."""
        ready: list[SlotReply] = []
        while self._running and not ready:
            now, limit = time.monotonic(), self.settings.timeout
            ends = min(now + limit, *(call.ends for call in self._running.values()))  # one sent meanwhile ends later
            done = wait(self._running, max(ends - now, 0.0), FIRST_COMPLETED).done
            ready = [(self._running.pop(future).slot, future.result()) for future in done]
            now = time.monotonic()
            for future in [future for future, call in self._running.items() if call.ends <= now]:
                call = self._running.pop(future)
                call.stop()
                ready.append((call.slot, Completion("", error=f"vllm timeout after {limit:g} s")))
        return ready

    def cancel(self) -> None:
        """Ends all requests; the server may be asked anew."""
        running, self._running = self._running, {}
        for future, call in running.items():
            future.cancel()
            call.stop()

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """Lock-step use; nothing may be under way."""
        return _run(self, prompts)

    def close(self) -> None:
        """Ends the requests and the threads."""
        self.cancel()
        self._pool.shutdown(cancel_futures=True)

    def _answer(self, call: _Call, prompt: Prompt, ids: Ids) -> Completion:
        if not fits(ids, self.settings.max_prompt_length):
            return Completion("", overflow=True)
        body = {
            "model": self.model,
            "prompt": list(ids),
            **self.settings.parameters(prompt, self.tokens),
            "return_token_ids": True,
        }
        try:
            status, data = self._post(call, json.dumps(body).encode())
            if status != http.client.OK:
                return Completion("", error=f"vllm HTTP {status} {http.client.responses.get(status, '')}")
            choice = json.loads(data)["choices"][0]
            if choice["finish_reason"] not in ("stop", "length"):
                return Completion("", error=f"vllm finished with {choice['finish_reason']!r}")
            reply = tuple(int(i) for i in choice["token_ids"])
            logprobs = tuple(float(value) for value in choice["logprobs"]["token_logprobs"])
        except (OSError, http.client.HTTPException) as error:
            return Completion("", error=f"vllm connection: {error}")
        except (KeyError, IndexError, TypeError, ValueError) as error:
            return Completion("", error=f"vllm reply without token ids or log-probabilities: {error!r}")
        return make_completion(prompt, self.tokens, ids, reply, logprobs, self.settings.max_new_tokens)

    def _post(self, call: _Call, body: bytes) -> tuple[int, bytes]:
        connection = self._kind(self._address, timeout=self.settings.timeout)
        with closing(connection):
            connection.connect()
            call.connection = connection
            if call.ends < 0:
                raise OSError("given up")
            call.ends = time.monotonic() + self.settings.timeout
            connection.request("POST", self._path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
