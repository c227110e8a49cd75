"""Calls to a chat endpoint through the `openai` client: bounded in time, tried again, read, their failures sorted."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC
from email.utils import parsedate_to_datetime
from threading import Thread, current_thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from opponents.llm.budget import Budget
from opponents.llm.cache import ServerAnswer
from opponents.llm.failures import CONNECTION, GARBAGE, HTTP, REFUSED, TIMEOUT, CallFailed, PromptTooLong

if TYPE_CHECKING:
    import openai

FIRST_WAIT = 0.5
"""Seconds before the second attempt; each further wait is twice as long, and shortened by up to half at random."""
PASSING = frozenset({408, 409, 425, 429})
"""Statuses below 500 after which the same call may succeed."""
TOO_LONG = ("context_length_exceeded", "context length", "context size", "context window", "maximum model length")
"""How OpenAI, vLLM, SGLang and llama.cpp say that a prompt is too long, in the code or the message of a 400 or 413."""
SHOWN = 300
"""Characters of a server's message that are kept."""
SECRET = 8
"""Characters from which a key is one; shorter ones, as `none`, are words that local servers ask for."""
CLOSING_SECONDS = 5.0


class Connection:
    """A client on an event loop in a thread of its own, which can end a call at any moment; of one process.

    It must know nothing of its generator, which ends it when collected.
    """

    def __init__(
        self, base_url: str, api_key: str | None, budget: Budget, deadline: float, attempts: int, concurrency: int
    ) -> None:
        import openai

        self.pid = os.getpid()
        self.api_key = api_key
        self._budget = budget
        self._deadline = deadline
        self._attempts = attempts
        self._slots = asyncio.Semaphore(concurrency)
        self._client = openai.AsyncOpenAI(api_key=api_key or "none", base_url=base_url, max_retries=0, timeout=deadline)
        self._create = self._client.chat.completions.with_raw_response.create  # loads modules: in no call's deadline
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="mage-llm", daemon=True)
        self._thread.start()

    def start(self, body: Mapping[str, Any], key: str) -> Future[ServerAnswer]:
        """Begins to ask; the future raises CallFailed. `key` names the request, for its waits."""
        return asyncio.run_coroutine_threadsafe(self._answer(body, key), self._loop)

    def close(self) -> None:
        """Ends what is under way. In a forked process there is no thread to end."""
        if os.getpid() != self.pid or self._loop.is_closed():
            return
        if current_thread() is self._thread:  # where the garbage collector happened to run
            self._loop.stop()
            return
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(CLOSING_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSING_SECONDS)
        self._loop.close()

    async def _end(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._client.close()

    async def _answer(self, body: Mapping[str, Any], key: str) -> ServerAnswer:
        """All attempts, which end within `deadline * attempts`; raises the last one's CallFailed."""
        async with self._slots:
            clock = asyncio.get_running_loop().time
            end = clock() + self._deadline * self._attempts
            attempt = 1
            while True:
                self._budget.take_call()
                try:
                    answer = await self._ask(body, min(self._deadline, end - clock()))
                except CallFailed as failure:
                    wait = back_off(key, attempt) if failure.wait is None else failure.wait
                    if not failure.passing or attempt == self._attempts:
                        raise
                    if clock() + wait >= end:
                        raise CallFailed(
                            failure.kind,
                            f"{failure.detail} (another attempt after {round(wait, 2):g} s would be too late)",
                        ) from None
                else:
                    self._budget.add_tokens(answer.prompt_tokens, answer.completion_tokens)
                    return answer
                await asyncio.sleep(wait)
                attempt += 1

    async def _ask(self, body: Mapping[str, Any], deadline: float) -> ServerAnswer:
        """One attempt; `deadline` (seconds) holds for the whole of it, however slowly the parts arrive."""
        import openai

        rest = {name: value for name, value in body.items() if name not in ("model", "messages")}
        try:
            async with asyncio.timeout(deadline):
                reply = await self._create(model=body["model"], messages=body["messages"], extra_body=rest)
                content = reply.http_response.content
        except (TimeoutError, openai.APITimeoutError):
            raise CallFailed(TIMEOUT, f"no answer within {round(deadline, 2):g} s", passing=True) from None
        except openai.APIConnectionError as error:
            raise self._disconnected(error) from None
        except openai.APIStatusError as error:
            raise self._told(error) from None
        return read_answer(content, json.dumps(body["messages"]))

    def _disconnected(self, error: openai.APIConnectionError) -> CallFailed:
        url, causes = self._client.base_url, list(_causes(error))
        if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
            return CallFailed(REFUSED, f"nothing listens at {url}", passing=True)
        reason = self._shown(str(causes[-1])) or type(causes[-1]).__name__
        return CallFailed(CONNECTION, f"no answer from {url} ({reason})", passing=True)

    def _told(self, error: openai.APIStatusError) -> CallFailed:
        """What the server said is the matter."""
        status, message = error.status_code, self._shown(_message(error.body) or error.response.text)
        if status in (400, 413) and any(mark in f"{error.code} {message}".lower() for mark in TOO_LONG):
            return PromptTooLong(f"{HTTP} {status}", message)
        if status == 404 and not urlsplit(str(self._client.base_url)).path.strip("/"):
            message += " (the url has no path: most servers answer under /v1)"
        return CallFailed(
            f"{HTTP} {status}", message, status in PASSING or status >= 500, _asked_wait(error.response.headers)
        )

    def _shown(self, text: str) -> str:
        """One short line, without the key that a server may repeat."""
        if self.api_key and len(self.api_key) >= SECRET:
            text = text.replace(self.api_key, "***")
        text = " ".join(text.split())
        return text if len(text) <= SHOWN else text[:SHOWN] + "…"


def back_off(key: str, attempt: int) -> float:
    """Seconds between attempt number `attempt` (from 1) and the next; `key`, a hexadecimal number, draws the jitter."""
    stream = np.random.default_rng(np.random.SeedSequence(int(key, 16), spawn_key=(attempt,)))
    return FIRST_WAIT * 2.0 ** (attempt - 1) * float(stream.uniform(0.5, 1.0))


def read_answer(content: bytes, sent: str) -> ServerAnswer:
    """The answer in the body of a chat completion, to the messages `sent`; raises CallFailed for anything else.

    Reasoning that the server keeps apart (`reasoning_content`) is left out; inside the text it is the parser's.
    Where the server does not count, tokens are counted as bytes, which are never fewer.
    """
    try:
        data = json.loads(content)
        choice, usage = data["choices"][0], data.get("usage") or {}
        text = choice["message"].get("content") or ""
        text = text.encode("utf-8", "replace").decode("utf-8")  # JSON may hold half of a surrogate pair
        prompt, completion = usage.get("prompt_tokens"), usage.get("completion_tokens")
        return ServerAnswer(
            text,
            choice.get("finish_reason") == "length",
            prompt if isinstance(prompt, int) else len(sent),
            completion if isinstance(completion, int) else len(content),
        )
    except (ValueError, LookupError, TypeError, AttributeError):
        start = " ".join(content[:SHOWN].decode("utf-8", "replace").split())
        raise CallFailed(GARBAGE, f"no chat completion in the server's answer: {start!r}", passing=True) from None


def _message(body: object) -> str | None:
    """The text in an error's body: `{"error": {"message": ...}}` (unwrapped by the client), `{"detail": ...}`."""
    while isinstance(body, Mapping):
        body = next((body[name] for name in ("message", "error", "detail") if body.get(name)), None)
    return str(body) if body else None


def _asked_wait(headers: Mapping[str, str]) -> float | None:
    """Seconds in a Retry-After header, which holds a number or a date."""
    text = headers.get("retry-after")
    if text is None:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        at = parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() - time.time())


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error and what led to it, the first cause last."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
