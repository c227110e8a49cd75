"""Generator of answers from a chat endpoint, with a deadline, a budget and a cache."""

from __future__ import annotations

import json
import math
import os
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from mage_envs.opponents.llm.budget import Budget
from mage_envs.opponents.llm.cache import AnswerCache, ServerAnswer
from mage_envs.opponents.llm.calls import CHAT, Connection, at_path
from mage_envs.opponents.llm.failures import PROMPT, CallFailed, PromptTooLong
from mage_envs.opponents.llm.pending import PendingCalls
from mage_envs.opponents.llm.reading import read_answer, read_models
from mage_envs.secrets import add_secret
from mage_envs.text.generation import Completion, Prompt

OPENAI = "https://api.openai.com"
OPENAI_KEY, KEY = "OPENAI_API_KEY", "MAGE_LLM_API_KEY"
"""Environment variables with the API key. The first is used for `OPENAI` only and has priority there."""
MODELS = "/models"
"""Path that lists the models of a server, below the base URL."""
NO_ANSWER = "(no answer)"
"""Content of an assistant's message without a text. Strict servers refuse an empty one, with the whole chat."""
API_VERSION = "api-version"
"""The one variable that a URL's query may have, which Azure requires."""
_ENDS = (CHAT, "/completions", "/responses", MODELS)
"""Paths of single calls, which do not belong to a server's URL."""
KEY_VERSION = 1
"""Version in every cache key; increase it if an equal request gets another meaning."""


class ServerRequest(NamedTuple):
    """One call: the cache key of its answer, and the body of the request."""

    key: str
    body: dict[str, Any]


class EndpointGenerator:
    """A `Generator` and `StreamingGenerator` over `POST <base_url>/chat/completions`, as in vLLM, Ollama and OpenAI.

    A failed call returns a Completion with an `error` that starts with the failure's kind (see
    opponents/llm/failures.py). If the server rejects a prompt as too long, the Completion is an overflow. If an answer
    has no text, `no_text` holds the reason.

    The cache key consists of model, URL (or `namespace`), messages, parameters and `Prompt.seed`, so a repeated run is
    free and byte-identical. At temperature 0 the seed is neither sent nor part of the key, so equal prompts share one
    answer. Failures, overflows and answers without text are not cached.

    The API key is read from the environment at each call and is never written anywhere.
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
        """Initialize the generator; no connection is made before the first call.

        Args:
            model: Name of the model on the server.
            base_url: URL of the server, usually with the path /v1.
            temperature: Sampling temperature; 0 is greedy.
            max_tokens: Maximum number of tokens per answer; None leaves the limit to the server.
            parameters: Further fields of the request.
            send_seed: True if requests contain a seed.
            deadline: Timeout of one attempt in seconds. All attempts with their waits end in `deadline * attempts`.
            attempts: Maximum number of attempts per prompt.
            concurrency: Maximum number of simultaneous calls.
            budget: Limit on calls and tokens; None for no limit.
            cache: Store of answers; None for no cache.
            namespace: Text that replaces the URL in cache keys, for servers that move.
            key_variable: Environment variable with the API key (default: `MAGE_LLM_API_KEY`, at
                https://api.openai.com `OPENAI_API_KEY` first).

        Raises:
            ValueError: If the URL or a number is invalid.
            ImportError: If httpx2 is not installed.
        """
        check_url(base_url)
        if not model or temperature < 0 or not 0 < deadline < math.inf or attempts < 1 or concurrency < 1:
            raise ValueError(
                "A language model requires a name, temperature >= 0, deadline > 0, attempts >= 1 and concurrency >= 1; "
                f"got {model!r}, {temperature:g}, {deadline:g}, {attempts} and {concurrency}."
            )
        if max_tokens is not None and max_tokens < 1:
            raise ValueError(f"A language model requires max_tokens >= 1, got {max_tokens}.")
        if find_spec("httpx2") is None:
            raise ImportError('opponents/llm requires httpx2. Install it with: pip install "mage-envs[endpoints]"')
        self.model = model
        self.base_url = base_url.rstrip("/")
        self.deadline = deadline
        self.attempts = attempts
        self.concurrency = concurrency
        self.budget = Budget() if budget is None else budget
        self.cache = cache
        self.cached = 0
        """Number of prompts that were answered from the cache."""
        self.failures: Counter[str] = Counter()
        """Number of prompts that failed after all attempts, by kind."""
        self.replied: str | None = None
        """Id of the model in the last answer that stated one. It may differ from the name in the requests."""
        self._namespace = self.base_url if namespace is None else namespace
        self._key_variables = key_variables(self.base_url) if key_variable is None else (key_variable,)
        # Registers the key as a secret of this process before anything can be logged.
        self._api_key()
        self._sampled = temperature > 0
        self._send_seed = send_seed and self._sampled
        self._parameters: dict[str, Any] = {"temperature": temperature, **(parameters or {})}
        if max_tokens is not None:
            self._parameters.setdefault("max_tokens", max_tokens)
        self._lock = Lock()
        self._session: Connection[ServerAnswer] | None = None
        self._pending = PendingCalls()

    @property
    def parameters(self) -> dict[str, Any]:
        """Sampling parameters and limits of every request, as a copy."""
        return dict(self._parameters)

    def __repr__(self) -> str:
        return f"EndpointGenerator({self.model!r}, {self.base_url!r})"

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """Return the answers to all prompts, with up to `concurrency` calls at once; equal requests share a call."""
        requests = [self.request(prompt) for prompt in prompts]
        times = Counter(request.key for request in requests)
        # A dictionary keeps the place of its first entry, so calls start in the order of the prompts.
        unique = {request.key: request for request in requests}
        pending = PendingCalls()
        with pending.cancelling():
            for slot, request in enumerate(unique.values()):
                self.start(pending, slot, request, times[request.key])
            answers = dict(zip(unique, pending.collect(len(unique)), strict=True))
        return [answers[request.key] for request in requests]

    def submit(self, prompt: Prompt) -> None:
        """Start the call for `prompt` (`StreamingGenerator`)."""
        self.start(self._pending, prompt.slot, self.request(prompt))

    def poll(self, timeout: float | None = None) -> list[tuple[int, Completion]]:
        """Return (slot, answer) of the finished prompts, after at most `timeout` seconds if none is finished yet."""
        return self._pending.poll(timeout)

    def cancel(self) -> None:
        """Cancel all submitted prompts."""
        self._pending.cancel()

    def start(self, pending: PendingCalls, slot: int, request: ServerRequest, times: int = 1) -> None:
        """Add the answer to a request to `pending`, from the cache or by a call.

        Args:
            pending: Receiver of the answer, or of the running call.
            times: Number of prompts with this request.
        """
        stored_answer = None if self.cache is None else self.cache.get(request.key)
        # Checked before encoding, which would raise an error without the place of the character.
        unsendable = _lone_surrogate(request.body["messages"])
        if stored_answer is not None:
            with self._lock:
                self.cached += times
            pending.add_answer(slot, self._completion(stored_answer))
        elif unsendable is not None:
            pending.add_answer(slot, self._failure_completion(CallFailed(PROMPT, unsendable)))
        else:
            sent = json.dumps(request.body, ensure_ascii=False, allow_nan=False).encode()
            connection, call = self._open_session(), Future[ServerAnswer]()
            # Stored before it starts, so that Ctrl-C at any moment finds and cancels every call that has begun.
            pending.add(slot, call, partial(self._finish, call, request.key), id(self))
            connection.start(call, sent, request.key)

    def query_model_id(self) -> str | None:
        """Return the id of the model behind the name, as `GET /models` lists it; None if the server lists none."""
        try:
            return read_models(self._open_session().get(MODELS).result(), self.model)
        except CallFailed:
            return None

    def close(self) -> None:
        """Close the connections and the thread; the next call opens new ones."""
        with self._lock:
            if self._session is not None:
                self._session.close()
            self._session = None

    def request(self, prompt: Prompt) -> ServerRequest:
        """Return the request for a prompt, with its cache key."""
        messages = [
            {"role": role, "content": content if content.strip() or role != "assistant" else NO_ANSWER}
            for role, content in prompt.messages
        ]
        body = {"model": self.model, "messages": messages, **self._parameters}
        if self._send_seed and prompt.seed:
            body["seed"] = server_seed(prompt.seed)
        # The key contains the whole seed, not only its 31 bits in the body, so collisions do not share an answer.
        seed = prompt.seed if self._sampled else ()
        text = json.dumps([KEY_VERSION, self._namespace, body, [int(part) for part in seed]], sort_keys=True)
        return ServerRequest(sha256(text.encode()).hexdigest(), body)

    def _finish(self, future: Future[ServerAnswer], key: str) -> Completion:
        """Return the answer of a finished call, after storing it in the cache."""
        try:
            answer = future.result()
        except PromptTooLong:
            return Completion("", overflow=True)
        except CallFailed as failure:
            return self._failure_completion(failure)
        if self.cache is None or answer.no_text is not None:
            return self._completion(answer)
        return self._completion(self.cache.add(key, answer))

    def _completion(self, answer: ServerAnswer) -> Completion:
        self.replied = answer.model or self.replied
        return Completion(
            answer.text,
            truncated=answer.truncated,
            no_text=answer.no_text,
            tokens=(answer.prompt_tokens, answer.completion_tokens),
            reasoning=answer.reasoning,
        )

    def _failure_completion(self, failure: CallFailed) -> Completion:
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

    def _open_session(self) -> Connection[ServerAnswer]:
        """Return the session of this process for the API key that the environment has now."""
        name, api_key = self._api_key()
        if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
            raise ValueError(f"The API key in {name} holds a line break or another character that cannot be sent.")
        # A new session after a fork, because threads do not survive it, and after a change of the key.
        with self._lock:
            session = self._session
            if session is None or session.pid != os.getpid() or session.api_key != api_key:
                session = self._session = Connection(
                    at_path(self.base_url, CHAT),
                    partial(_read, self.budget),
                    budget=self.budget,
                    deadline=self.deadline,
                    attempts=self.attempts,
                    concurrency=self.concurrency,
                    api_key=api_key,
                )
                weakref.finalize(self, session.close)
            return session


class AnswerStream:
    """A `StreamingGenerator` over several endpoints that serve the same model.

    Each prompt is sent to the endpoint with the fewest running calls.
    """

    def __init__(self, endpoints: Sequence[EndpointGenerator]) -> None:
        self._endpoints = endpoints
        self._pending = PendingCalls()

    def submit(self, prompt: Prompt) -> None:
        busy = self._pending.busy()
        endpoint = min(self._endpoints, key=lambda candidate: busy[id(candidate)])
        endpoint.start(self._pending, prompt.slot, endpoint.request(prompt))

    def poll(self, timeout: float | None = None) -> list[tuple[int, Completion]]:
        return self._pending.poll(timeout)

    def cancel(self) -> None:
        """Cancel all submitted prompts."""
        self._pending.cancel()

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """Return the answers to a batch; no other prompt may be running."""
        with self._pending.cancelling():
            for row, prompt in enumerate(prompts):
                self.submit(prompt._replace(slot=row))
            return self._pending.collect(len(prompts))


def check_url(base_url: str) -> None:
    """Raise ValueError unless `base_url` is a plain http(s) address."""
    parts = urlsplit(base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(
            f"The URL of a language model must start with http:// or https:// and a host, got {base_url!r}."
        )
    # A user or a query may contain a secret, so the message shows the host alone.
    queried = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    if parts.username is not None or queried not in ([], [API_VERSION]) or parts.fragment:
        raise ValueError(
            f"The URL of a language model at {parts.hostname} must not contain a user, a fragment, or a query other "
            f"than ?{API_VERSION}=. Remove them, and set the API key in {KEY}."
        )
    if end := next((end for end in _ENDS if parts.path.rstrip("/").endswith(end)), None):
        raise ValueError(
            f"The URL of a language model at {parts.hostname} must be its base, which usually ends in /v1. "
            f"Remove {end}, which each call adds."
        )


def key_variables(base_url: str) -> tuple[str, ...]:
    """Return the environment variables with a key for that address, in order of priority."""
    # The OpenAI key is a secret between the user and OpenAI; it is never sent to another server.
    parts = urlsplit(base_url)
    return (OPENAI_KEY, KEY) if f"{parts.scheme}://{parts.hostname}" == OPENAI else (KEY,)


def server_seed(seed: tuple[int, ...]) -> int:
    """Return 31 bits of a prompt's sampling key, the largest seed that every server accepts."""
    return int.from_bytes(sha256(repr(tuple(map(int, seed))).encode()).digest()[:4], "big") >> 1


def _lone_surrogate(messages: Sequence[Mapping[str, str]]) -> str | None:
    """Return the place of half a surrogate pair, which UTF-8 cannot encode, or None if there is none."""
    for number, message in enumerate(messages, start=1):
        try:
            message["content"].encode()
        except UnicodeEncodeError as error:
            return f"character {error.start + 1} of message {number} is half of a surrogate pair; it cannot be sent"
    return None


def _read(budget: Budget, content: bytes, sent: int) -> ServerAnswer:
    answer = read_answer(content, sent)
    budget.add_tokens(answer.prompt_tokens, answer.completion_tokens)
    return answer
