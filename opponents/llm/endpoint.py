"""`EndpointGenerator`: prompts in, answers of a chat endpoint out, within a deadline, a budget and a cache."""

from __future__ import annotations

import json
import math
import os
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, as_completed
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from mage_envs.secrets import add_secret
from mage_envs.text.generation import Completion, Prompt
from opponents.llm.budget import Budget
from opponents.llm.cache import AnswerCache, ServerAnswer
from opponents.llm.failures import PROMPT, CallFailed, PromptTooLong
from opponents.llm.underway import Underway

if TYPE_CHECKING:
    from opponents.llm.calls import Connection

OPENAI = "https://api.openai.com"
OPENAI_KEY, KEY = "OPENAI_API_KEY", "MAGE_LLM_API_KEY"
"""Environment variables that may hold the API key: the first goes to `OPENAI` alone, before the second."""
KEY_VERSION = 1
"""Part of every cache key; raised when the same request would mean something else."""


class ServerRequest(NamedTuple):
    """One call: the key of its answer, and what is sent."""

    key: str
    body: dict[str, Any]


class EndpointGenerator:
    """A `Generator` over `POST <base_url>/chat/completions`, as vLLM, Ollama and vendors offer it; it streams too.

    A failed call is a Completion whose `error` starts with its kind (see opponents/llm/failures.py). A prompt that the
    server finds too long is an overflow. An answer without text says why in `no_text`. Answers are kept by model, url
    (or `namespace`), messages, parameters and `Prompt.seed`, so a repeated run costs nothing and is the same to the
    byte; at temperature 0 the seed is neither sent nor part of that key, so that equal prompts share one answer.
    Failures, overflows and answers without text are not kept. The API key comes from the environment at each call and
    is written nowhere.
    """

    def __init__(
        self,
        model: str,
        base_url: str,
        *,
        temperature: float = 1.0,
        max_tokens: int | None = 1024,
        parameters: Mapping[str, Any] | None = None,
        send_seed: bool = True,
        deadline: float = 60.0,
        attempts: int = 3,
        concurrency: int = 16,
        budget: Budget | None = None,
        cache: AnswerCache | None = None,
        namespace: str | None = None,
        key_variable: str | None = None,
    ) -> None:
        """`parameters`: further fields of the request. `deadline`: seconds for one attempt; all attempts at a prompt,
        waits included, end within `deadline * attempts`. `concurrency`: calls under way at once. `key_variable`: the
        environment variable with the API key, None for `MAGE_LLM_API_KEY` (at https://api.openai.com `OPENAI_API_KEY`
        first). `max_tokens=None` leaves the limit to the server.
        """
        check_url(base_url)
        if not model or temperature < 0 or not 0 < deadline < math.inf or attempts < 1 or concurrency < 1:
            raise ValueError(
                f"A language model needs a name, temperature >= 0, deadline > 0, attempts >= 1 and concurrency >= 1; "
                f"got {model!r}, {temperature:g}, {deadline:g}, {attempts} and {concurrency}."
            )
        if max_tokens is not None and max_tokens < 1:
            raise ValueError(f"A language model needs max_tokens >= 1, got {max_tokens}.")
        if find_spec("httpx2") is None:
            raise ImportError('opponents/llm needs httpx2. Install it with: pip install "mage-envs[llm]"')
        self.model = model
        self.base_url = base_url.rstrip("/")
        self.deadline = deadline
        self.attempts = attempts
        self.concurrency = concurrency
        self.budget = Budget() if budget is None else budget
        self.cache = cache
        self.cached = 0
        """Prompts answered without a call."""
        self.failures: Counter[str] = Counter()
        """Prompts that failed for good, by kind."""
        self._namespace = self.base_url if namespace is None else namespace
        self._key_variables = key_variables(self.base_url) if key_variable is None else (key_variable,)
        self._api_key()  # a secret of this process from now on, before anything is logged
        self._sampled = temperature > 0
        self._send_seed = send_seed and self._sampled
        self._parameters: dict[str, Any] = {"temperature": temperature, **(parameters or {})}
        if max_tokens is not None:
            self._parameters.setdefault("max_tokens", max_tokens)
        self._lock = Lock()
        self._session: Connection[ServerAnswer] | None = None
        self._stream: AnswerStream | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """Sampling and limits of every request."""
        return dict(self._parameters)

    def __repr__(self) -> str:
        return f"EndpointGenerator({self.model!r}, {self.base_url!r})"

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """Asks for all prompts at once, up to `concurrency`; equal requests are asked once."""
        requests = [self.request(prompt) for prompt in prompts]
        answers: dict[str, Completion] = {}
        running: dict[Future[ServerAnswer], str] = {}
        try:
            for request in {request.key: request for request in requests}.values():
                begun = self.begin(request)
                if isinstance(begun, Completion):
                    answers[request.key] = begun
                else:
                    running[begun] = request.key
            with self._lock:
                self.cached += sum(key in answers and answers[key].error is None for key, _ in requests)
            for future in as_completed(running):
                answers[running[future]] = self.finish(future, running[future])
        except BaseException:  # Ctrl-C too: nothing goes on behind the caller's back
            for future in reversed(running):  # those that still wait first, or they would take the places
                future.cancel()
            raise
        return [answers[key] for key, _ in requests]

    def submit(self, prompt: Prompt) -> None:
        """Starts answering `prompt`, as a `StreamingGenerator` does."""
        if self._stream is None:
            self._stream = AnswerStream([self])
        self._stream.submit(prompt)

    def poll(self, timeout: float | None = None) -> list[tuple[int, Completion]]:
        """Waits for at least one reply to what was submitted, at most `timeout` seconds; those there are, by slot."""
        return [] if self._stream is None else self._stream.poll(timeout)

    def cancel(self) -> None:
        """Gives up all that was submitted."""
        if self._stream is not None:
            self._stream.cancel()

    def begin(self, request: ServerRequest) -> Completion | Future[ServerAnswer]:
        """The answer where it is kept or cannot be asked for, else what `finish` takes once it is done."""
        kept = None if self.cache is None else self.cache.get(request.key)
        if kept is not None:
            return _completion(kept)
        unsendable = _lone_surrogate(request.body["messages"])
        if unsendable is not None:
            return self._failed(CallFailed(PROMPT, unsendable))
        sent = json.dumps(request.body, ensure_ascii=False, allow_nan=False).encode()
        return self._connected().start(sent, request.key)

    def close(self) -> None:
        """Ends the connections and the thread; the next call makes new ones."""
        with self._lock:
            if self._session is not None:
                self._session.close()
            self._session = None

    def request(self, prompt: Prompt) -> ServerRequest:
        """What is sent for a prompt, and the key of its answer."""
        messages = [{"role": message.role, "content": message.content} for message in prompt.messages]
        body = {"model": self.model, "messages": messages, **self._parameters}
        if self._send_seed and prompt.seed:
            body["seed"] = server_seed(prompt.seed)
        seed = prompt.seed if self._sampled else ()
        text = json.dumps([KEY_VERSION, self._namespace, body, [int(part) for part in seed]], sort_keys=True)
        return ServerRequest(sha256(text.encode()).hexdigest(), body)

    def finish(self, future: Future[ServerAnswer], key: str) -> Completion:
        """The answer to a request that is done."""
        try:
            answer = future.result()
        except PromptTooLong:
            return Completion("", overflow=True)
        except CallFailed as failure:
            return self._failed(failure)
        if self.cache is None or answer.no_text is not None:
            return _completion(answer)
        return _completion(self.cache.add(key, answer))

    def _failed(self, failure: CallFailed) -> Completion:
        with self._lock:
            self.failures[failure.kind] += 1
        return Completion("", error=str(failure))

    def _api_key(self) -> tuple[str, str | None]:
        """Return the variable that holds the API key and the key, which becomes a secret; None without a key."""
        for name in self._key_variables:
            if key := os.environ.get(name):
                add_secret(key)
                return name, key
        return "", None

    def _connected(self) -> Connection[ServerAnswer]:
        """The session of this process and the key that the environment has now."""
        from opponents.llm.calls import CHAT, Connection
        from opponents.llm.reading import read_answer

        name, api_key = self._api_key()
        if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
            raise ValueError(f"The API key in {name} holds a line break or another character that cannot be sent.")
        with self._lock:
            session = self._session
            if session is None or session.pid != os.getpid() or session.api_key != api_key:
                session = self._session = Connection(
                    self.base_url + CHAT,
                    read_answer,
                    budget=self.budget,
                    deadline=self.deadline,
                    attempts=self.attempts,
                    concurrency=self.concurrency,
                    api_key=api_key,
                )
                weakref.finalize(self, session.close)
            return session


class AnswerStream:
    """Answers each prompt as soon as its own reply is there, from endpoints that serve the same model.

    A prompt goes to the endpoint with the fewest calls under way.
    """

    def __init__(self, endpoints: Sequence[EndpointGenerator]) -> None:
        self._endpoints = endpoints
        self._underway = Underway()

    def submit(self, prompt: Prompt) -> None:
        busy = self._underway.busy()
        endpoint = min(self._endpoints, key=lambda one: busy[id(one)])
        request = endpoint.request(prompt)
        begun = endpoint.begin(request)
        if isinstance(begun, Completion):
            endpoint.cached += begun.error is None
            self._underway.answered(prompt.slot, begun)
        else:
            self._underway.begun(prompt.slot, begun, partial(endpoint.finish, begun, request.key), id(endpoint))

    def poll(self, timeout: float | None = None) -> list[tuple[int, Completion]]:
        return self._underway.poll(timeout)

    def cancel(self) -> None:
        """Gives up all that was submitted."""
        self._underway.cancel()

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """Answers a batch; nothing may be under way."""
        answers: dict[int, Completion] = {}
        for row, prompt in enumerate(prompts):
            self.submit(prompt._replace(slot=row))
        try:
            while len(answers) < len(prompts):
                answers.update(self.poll())
        except BaseException:  # Ctrl-C too: nothing goes on behind the caller's back
            self.cancel()
            raise
        return [answers[row] for row in range(len(prompts))]


def check_url(base_url: str) -> None:
    """Raises ValueError unless `base_url` is a plain http(s) address."""
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"The url of a language model starts with http:// or https:// and a host, got {base_url!r}.")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError(
            f"The url of a language model at {parts.hostname} holds a user, a query or a fragment; leave them out, "
            f"and put the API key into {KEY}."
        )


def key_variables(base_url: str) -> tuple[str, ...]:
    """Environment variables whose key may go to that address, the first one set counts."""
    parts = urlsplit(base_url)
    return (OPENAI_KEY, KEY) if f"{parts.scheme}://{parts.hostname}" == OPENAI else (KEY,)


def server_seed(seed: tuple[int, ...]) -> int:
    """31 bits of a prompt's sampling key: all that every server takes."""
    return int.from_bytes(sha256(repr(tuple(map(int, seed))).encode()).digest()[:4], "big") >> 1


def _lone_surrogate(messages: Sequence[Mapping[str, str]]) -> str | None:
    """Where there is half of a surrogate pair, which no UTF-8 has; None where there is none."""
    for number, message in enumerate(messages, start=1):
        try:
            message["content"].encode()
        except UnicodeEncodeError as error:
            return f"character {error.start + 1} of message {number} is half of a surrogate pair; it cannot be sent"
    return None


def _completion(answer: ServerAnswer) -> Completion:
    return Completion(
        answer.text,
        truncated=answer.truncated,
        no_text=answer.no_text,
        tokens=(answer.prompt_tokens, answer.completion_tokens),
    )
