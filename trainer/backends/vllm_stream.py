"""A streaming backend over a colocated vLLM: each meta-episode continues as soon as its own reply has arrived.

The engine is `vllm.LLM(...).llm_engine` (`add_request`, `step`, `abort_request`; vLLM 0.22 to 0.31), one process per
engine. Create it with `logprobs_mode="processed_logprobs"`. Otherwise vLLM returns log-probabilities that ignore the
temperature.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from mage_envs.text.generation import Completion, Prompt
from mage_envs.trainer.backends.generation import fits, stream_keys
from mage_envs.trainer.backends.tokens import ChatTokenizer, Ids, make_completion

SlotReply = tuple[int, Completion]


class VLLMEngine(Protocol):
    """The part of `vllm.LLMEngine` that this backend uses."""

    def add_request(self, request_id: str, prompt: Any, params: Any) -> Any: ...

    def step(self) -> Sequence[Any]: ...

    def abort_request(self, request_ids: list[str]) -> None: ...


class _Request(NamedTuple):
    prompt: Prompt
    ids: Ids
    deadline: float


@dataclass(frozen=True, kw_only=True)
class RequestSettings:
    """Settings of a vLLM request, colocated or over HTTP."""

    max_new_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    """Number of most probable tokens to sample from; 0 samples from all."""
    max_prompt_length: int | None = None
    """Prompt limit in tokens; a longer prompt overflows and is not sent."""
    timeout: float = 1800.0
    """Timeout of one request in seconds."""
    seed: int = 0
    """Part of the key of each request's sampling stream, with `Prompt.seed`."""

    def parameters(self, prompt: Prompt, tokens: ChatTokenizer) -> dict[str, Any]:
        """Return the sampling parameters that both interfaces share.

        The seed is None (vLLM's choice) if the prompt has no key. Log-probabilities are those of the sampled token
        only.
        """
        return {
            "max_tokens": self.max_new_tokens,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
            # vLLM seeds are signed 64-bit integers, and keys are unsigned: drop a bit.
            "seed": int(stream_keys([prompt.seed], self.seed)[0] >> 1) if prompt.seed else None,
            "stop_token_ids": sorted(tokens.end_ids),
            "logprobs": 0,
        }


class StreamingVLLMGenerator:
    """A colocated vLLM engine. A request that fails or times out returns a completion with `error`.

    A thread steps the engine while requests are under way, so that the caller can do other work. No other thread calls
    the engine then. When no request is under way, the thread has ended, and weights may be pushed.
    """

    def __init__(self, engine: VLLMEngine, tokens: ChatTokenizer, settings: RequestSettings) -> None:
        try:
            # Imported here: heavy, and missing without a GPU.
            from vllm import SamplingParams
            from vllm.sampling_params import RequestOutputKind
        except ImportError as error:
            raise ImportError(
                'trainer/backends/vllm_stream.py needs vllm. Install it with: pip install "mage-envs[vllm]"'
            ) from error
        self._params = SamplingParams
        self._final_only = RequestOutputKind.FINAL_ONLY
        self.engine = engine
        self.tokens = tokens
        self.sampling = settings
        self._count = 0
        self._news = threading.Condition()
        """Guards the attributes below except `_running`, and is notified of every change."""
        self._asked: list[tuple[str, Any]] = []
        """Requests that the engine has not received yet, with their parameters."""
        self._open: dict[str, _Request] = {}
        """Requests without an answer."""
        self._ready: list[tuple[_Request, Any]] = []
        """Requests with vLLM's output, or with the Completion that reports an overflow or an error."""
        self._broken: BaseException | None = None
        self._stepping = False
        self._running: set[str] = set()
        """Requests inside the engine. Only the thread uses it."""

    def submit(self, prompt: Prompt) -> None:
        ids = self.tokens.encode(prompt)
        request = _Request(prompt, ids, time.monotonic() + self.sampling.timeout)
        if not fits(ids, self.sampling.max_prompt_length):
            with self._news:
                self._ready.append((request, Completion("", overflow=True)))
            return
        parameters = self.sampling.parameters(prompt, self.tokens)
        # The tokenizer decodes the final ids once. Partial outputs would be discarded.
        params = self._params(**parameters, detokenize=False, output_kind=self._final_only)
        with self._news:
            request_id = f"mage-{self._count}"
            self._count += 1
            self._open[request_id] = request
            self._asked.append((request_id, params))
            # The thread ends when it has no requests, so each burst of requests starts a new one.
            if not self._stepping:
                self._stepping = True
                threading.Thread(target=self._step_while_asked, daemon=True, name="mage-vllm").start()

    def poll(self, timeout: float | None = None) -> list[SlotReply]:
        """Wait until at least one reply is ready, if requests are under way, and return all that are ready.

        Raises the engine's exception if its thread failed.
        """
        with self._news:
            self._news.wait_for(lambda: self._ready or self._broken or not self._open, timeout)
            # Cleared, because a further request may succeed.
            broken, self._broken = self._broken, None
            if broken is not None:
                raise broken
            ready, self._ready = self._ready, []
        return [(request.prompt.slot, self._completion(request, output)) for request, output in ready]

    def cancel(self) -> None:
        """Abort all requests. The engine accepts new ones afterwards."""
        with self._news:
            self._open.clear()
            self._ready.clear()
            # The thread aborts the requests itself, because it alone may call the engine. Then a caller may push
            # weights.
            self._news.wait_for(lambda: not self._stepping)
            self._broken = None

    def _completion(self, request: _Request, output: Any) -> Completion:
        if isinstance(output, Completion):
            return output
        if output.finish_reason not in ("stop", "length"):
            return Completion("", error=f"vllm finished with {output.finish_reason!r}")
        ids = tuple(int(i) for i in output.token_ids)
        logprobs = None
        if output.logprobs is not None:
            logprobs = tuple(float(candidates[i].logprob) for i, candidates in zip(ids, output.logprobs, strict=True))
        return make_completion(request.prompt, self.tokens, request.ids, ids, logprobs, self.sampling.max_new_tokens)

    # -- the thread -----------------------------------------------------------------------------------------

    def _step_while_asked(self) -> None:
        try:
            while self._take_requests():
                self._answer({output.request_id: output.outputs[0] for output in self.engine.step() if output.finished})
                self._abort_late()
        except BaseException as error:
            # Stored for the thread that polls, which raises it.
            with self._news:
                self._broken, self._stepping = error, False
                self._open.clear()
                self._asked.clear()
                self._news.notify_all()

    def _take_requests(self) -> bool:
        """Pass new requests to the engine and abort cancelled ones; return True if requests are under way."""
        while True:
            with self._news:
                # Copies under the lock. The engine's calls below are slow, and `submit` must not wait for them.
                requests, self._asked = [(name, params) for name, params in self._asked if name in self._open], []
                open_ = dict(self._open)
            given_up = self._running - open_.keys()
            if given_up:
                self._running -= given_up
                self.engine.abort_request(sorted(given_up))
            for name, params in requests:
                try:
                    self.engine.add_request(name, {"prompt_token_ids": list(open_[name].ids)}, params)
                    self._running.add(name)
                except ValueError as error:
                    # vLLM refuses a single request this way, for example if it is longer than max_model_len.
                    self._answer({name: Completion("", error=f"vllm refused: {error}")})
            if self._running:
                return True
            with self._news:
                # Checked and cleared under one lock: a request that arrives later finds `_stepping` False and starts a
                # thread.
                if not self._asked:
                    self._stepping = False
                    self._news.notify_all()
                    return False

    def _answer(self, outputs: Mapping[str, Any]) -> None:
        self._running -= outputs.keys()
        with self._news:
            # A cancelled request is not open any more. Its output is dropped.
            self._ready += [(self._open.pop(name), output) for name, output in outputs.items() if name in self._open]
            self._news.notify_all()

    def _abort_late(self) -> None:
        current_time = time.monotonic()
        with self._news:
            late = [
                name
                for name, request in self._open.items()
                if name in self._running and request.deadline < current_time
            ]
        if late:
            self.engine.abort_request(late)
            error = Completion("", error=f"vllm timeout after {self.sampling.timeout:g} s")
            self._answer(dict.fromkeys(late, error))
