"""A streaming backend over a colocated vLLM: each meta-episode continues as soon as its own reply is there.

The engine is that of `vllm.LLM(...).llm_engine` (`add_request`, `step`, `abort_request`; vLLM 0.22 to 0.31), one
process per engine. Create it with `logprobs_mode="processed_logprobs"`, else vLLM reports log-probabilities that ignore
the temperature.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from mage_envs.text.generation import Completion, Prompt
from trainer.generation import answer_all, fits, stream_keys
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


class StreamingVLLMGenerator:
    """A colocated vLLM engine. A request that fails or takes too long answers with `error`.

    A thread steps the engine as long as requests are under way, so that whoever asks can do other things meanwhile. No
    other thread calls the engine then; when nothing is under way, the thread has ended, and weights may be pushed.
    """

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
        self._news = threading.Condition()
        """Guards all that follows but `_running`, and tells of every change."""
        self._asked: list[tuple[str, Any]] = []
        """Requests that the engine has not seen yet, with their parameters."""
        self._open: dict[str, _Request] = {}
        """Requests that are not answered yet."""
        self._ready: list[tuple[_Request, Any]] = []
        """Requests with vLLM's output, or with the Completion that says why there is none."""
        self._broken: BaseException | None = None
        self._stepping = False
        self._running: set[str] = set()
        """Requests that the engine has; of the thread alone."""

    def submit(self, prompt: Prompt) -> None:
        ids = self.tokens.encode(prompt)
        request = _Request(prompt, ids, time.monotonic() + self.settings.timeout)
        if not fits(ids, self.settings.max_prompt_length):
            with self._news:
                self._ready.append((request, Completion("", overflow=True)))
            return
        sampling = self.settings.parameters(prompt, self.tokens)
        params = self._params(**sampling, detokenize=False, output_kind=self._final_only)
        with self._news:
            request_id = f"mage-{self._count}"
            self._count += 1
            self._open[request_id] = request
            self._asked.append((request_id, params))
            if not self._stepping:
                self._stepping = True
                threading.Thread(target=self._step_while_asked, daemon=True, name="mage-vllm").start()

    def poll(self, timeout: float | None = None) -> list[SlotReply]:
        """Waits until at least one reply is there, if any is under way. Raises what the engine raised."""
        with self._news:
            self._news.wait_for(lambda: self._ready or self._broken or not self._open, timeout)
            broken, self._broken = self._broken, None
            if broken is not None:
                raise broken
            ready, self._ready = self._ready, []
        return [(request.prompt.slot, self._completion(request, output)) for request, output in ready]

    def cancel(self) -> None:
        """Aborts all requests; the engine may be asked anew."""
        with self._news:
            self._open.clear()
            self._ready.clear()
            self._news.wait_for(lambda: not self._stepping)
            self._broken = None

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """Lock-step use; nothing may be under way."""
        return answer_all(self, prompts)

    def _completion(self, request: _Request, output: Any) -> Completion:
        if isinstance(output, Completion):
            return output
        if output.finish_reason not in ("stop", "length"):
            return Completion("", error=f"vllm finished with {output.finish_reason!r}")
        ids = tuple(int(i) for i in output.token_ids)
        logprobs = None
        if output.logprobs is not None:
            logprobs = tuple(float(known[i].logprob) for i, known in zip(ids, output.logprobs, strict=True))
        return make_completion(request.prompt, self.tokens, request.ids, ids, logprobs, self.settings.max_new_tokens)

    # -- the thread -----------------------------------------------------------------------------------------

    def _step_while_asked(self) -> None:
        try:
            while self._take_requests():
                self._answer({output.request_id: output.outputs[0] for output in self.engine.step() if output.finished})
                self._abort_late()
        except BaseException as error:  # whoever polls raises it
            with self._news:
                self._broken, self._stepping = error, False
                self._open.clear()
                self._asked.clear()
                self._news.notify_all()

    def _take_requests(self) -> bool:
        """Gives the engine what was asked and takes from it what was given up; whether anything is under way."""
        while True:
            with self._news:
                asked, self._asked = [(name, params) for name, params in self._asked if name in self._open], []
                open_ = dict(self._open)
            given_up = self._running - open_.keys()
            if given_up:
                self._running -= given_up
                self.engine.abort_request(sorted(given_up))
            for name, params in asked:
                try:
                    self.engine.add_request(name, {"prompt_token_ids": list(open_[name].ids)}, params)
                    self._running.add(name)
                except ValueError as error:  # how vLLM refuses one request, e.g. longer than max_model_len
                    self._answer({name: Completion("", error=f"vllm refused: {error}")})
            if self._running:
                return True
            with self._news:
                if not self._asked:
                    self._stepping = False
                    self._news.notify_all()
                    return False

    def _answer(self, outputs: Mapping[str, Any]) -> None:
        self._running -= outputs.keys()
        with self._news:
            self._ready += [(self._open.pop(name), output) for name, output in outputs.items() if name in self._open]
            self._news.notify_all()

    def _abort_late(self) -> None:
        now = time.monotonic()
        with self._news:
            late = [name for name, request in self._open.items() if name in self._running and request.deadline < now]
        if late:
            self.engine.abort_request(late)
            error = Completion("", error=f"vllm timeout after {self.settings.timeout:g} s")
            self._answer(dict.fromkeys(late, error))
