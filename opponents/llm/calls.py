"""Calls to a model's server over `httpx2`, with timeouts, size limits, retries and typed failures."""

from __future__ import annotations

import asyncio
import logging
import math
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from http.cookiejar import CookieJar
from ipaddress import ip_address
from threading import Thread, current_thread
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import numpy as np

from mage_envs.opponents.llm.budget import Budget
from mage_envs.opponents.llm.failures import (
    CONNECTION,
    GARBAGE,
    HTTP,
    REDIRECT,
    REFUSED,
    TIMEOUT,
    CallFailed,
    NotReached,
    PromptTooLong,
)
from mage_envs.opponents.llm.reading import printable_line, read_error, retry_after

if TYPE_CHECKING:
    import httpx2

FIRST_WAIT = 0.5
"""Seconds before the second attempt. Each further wait is twice as long, and jitter shortens each by up to half."""
PASSING = frozenset({408, 409, 425, 429})
"""Statuses below 500 that are retried, because the same call may succeed later."""
TOO_LONG = ("context_length_exceeded", "context length", "context size", "context window", "maximum model length")
"""Marks of a prompt that is too long, in code or message of a 400 or 413 of OpenAI, vLLM, SGLang and llama.cpp."""
_LOG = logging.getLogger(__name__)
CHAT = "/chat/completions"
CLOSING_SECONDS = 5.0
"""Timeout in seconds for running calls, and again for the thread, when a connection is closed."""
CONNECT_SECONDS = 3.0
"""Timeout in seconds of one attempt to connect."""
DOWN_SECONDS = 10.0
"""Timeout in seconds of all attempts to connect; a prompt to an endpoint that is down fails within this time."""
MOST_BYTES = 8 * 2**20
"""Maximum size of a server's answer in bytes; 100,000 tokens are about half a megabyte."""


Answer = TypeVar("Answer")
Read = TypeVar("Read")


class NoCookies(CookieJar):
    """A cookie jar that stores nothing, so that a server's cookie is not sent with later prompts."""

    def extract_cookies(self, response: Any, request: Any) -> None:
        """Ignore the cookies of an answer."""


class Connection(Generic[Answer]):
    """An HTTP client on an event loop in its own thread, so that a call can be cancelled at any moment.

    It belongs to one process. It must not hold a reference to its generator, because the generator's finalizer closes
    it.
    """

    def __init__(
        self,
        url: str,
        read: Callable[[bytes, int], Answer],
        *,
        budget: Budget,
        deadline: float,
        attempts: int,
        concurrency: int,
        api_key: str | None = None,
    ) -> None:
        """Start the thread; no connection is made before the first call.

        Args:
            url: Full URL for POST requests.
            read: Function from (body, number of bytes sent) to an answer; may raise CallFailed.
            budget: Budget that counts every attempt as a call; `read` adds the tokens.
            deadline: Timeout of one attempt in seconds.
            attempts: Maximum number of attempts per request.
            concurrency: Maximum number of simultaneous requests.
            api_key: Bearer token, or None.
        """
        import httpx2

        self.pid = os.getpid()
        self.api_key = api_key
        parts = urlsplit(url)
        self._url, self._base_url = url, parts._replace(path=parts.path.removesuffix(CHAT)).geturl()
        self._proxy = proxy_variable(url)
        self._read = read
        self._budget = budget
        self._deadline = deadline
        self._attempts = attempts
        self._slots = asyncio.Semaphore(concurrency)
        self._unreached_since = math.inf
        """Start time of the first attempt in the present series of failed connections, or infinity."""
        self._logged: set[str] = set()
        """Kinds of the failures that are about an address and were logged with it."""
        self._last_outage = (-math.inf, NotReached(CONNECTION, ""))
        """Time and failure of the last prompt that failed because it could not connect."""
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {api_key}"} if api_key else {})
        # Azure, which requires a version in the URL, reads the key from a header of its own.
        if api_key and parts.query:
            headers["api-key"] = api_key
        limits = httpx2.Limits(max_connections=concurrency)
        self._client = httpx2.AsyncClient(
            headers=headers, cookies=NoCookies(), limits=limits, trust_env=not is_loopback(url)
        )
        self._loop = asyncio.new_event_loop()
        # A daemon thread, so that a forgotten generator does not keep the process alive.
        self._thread = Thread(target=self._loop.run_forever, name="mage-llm", daemon=True)
        self._thread.start()

    def start(self, call: Future[Answer], body: bytes, key: str) -> None:
        """Start a call, whose answer or CallFailed `call` receives. To cancel `call` at any time ends the call.

        Args:
            call: New future, which the caller stores first. If this function returned one, Ctrl-C could come before
                the caller has it, and nothing could cancel the call.
            key: Seed of the waits between attempts, hexadecimal.
        """
        self._loop.call_soon_threadsafe(self._begin, call, body, key)

    def _begin(self, call: Future[Answer], body: bytes, key: str) -> None:
        """Begin a call in the thread of the loop, unless it was cancelled before."""
        if call.cancelled():
            return
        task = self._loop.create_task(self._answer(body, key))
        task.add_done_callback(partial(_deliver, call))
        call.add_done_callback(partial(self._stop, task))

    def _stop(self, task: asyncio.Task[Answer], call: Future[Answer]) -> None:
        """Cancel the task of a cancelled call, from any thread."""
        if call.cancelled() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(task.cancel)

    def get(self, path: str) -> Future[bytes]:
        """Start one GET request below the base URL and return the future of its body, which may raise CallFailed.

        It is no call of the model, so it neither counts in the budget nor waits for a slot.
        """
        deadline = min(self._deadline, DOWN_SECONDS)
        attempt = self._attempt("GET", at_path(self._base_url, path), b"", deadline, lambda content, sent: content)
        return asyncio.run_coroutine_threadsafe(attempt, self._loop)

    def close(self) -> None:
        """Cancel all running calls and stop the thread."""
        # A forked process has no copy of the thread, so it has nothing to stop.
        if os.getpid() != self.pid or self._loop.is_closed():
            return
        # The garbage collector may run the finalizer in this very thread, which must not wait for itself.
        if current_thread() is self._thread:
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
        await self._client.aclose()

    async def _answer(self, body: bytes, key: str) -> Answer:
        """Return the answer after as many attempts as needed; raise the last attempt's CallFailed.

        All attempts end within `deadline * attempts` seconds after the call got its slot.
        """
        clock = asyncio.get_running_loop().time
        request_time = clock()
        async with self._slots:
            outage_time, failure = self._last_outage
            # Another prompt found the endpoint down while this one waited for its slot. Without this check a queue of
            # prompts would fail one batch after another, each after its own timeout.
            if outage_time > request_time:
                raise NotReached(failure.kind, failure.detail)
            end = clock() + self._deadline * self._attempts
            attempt = 1
            while True:
                # Outside of the `try`: a spent budget ends the prompt and is not retried.
                self._budget.take_call()
                try:
                    remaining = min(self._deadline, end - clock())
                    answer = await self._attempt("POST", self._url, body, remaining, self._read)
                except CallFailed as failed:
                    if self._proxy:
                        failed = failed.with_note(f"sent through the proxy in {self._proxy}, which may have answered")
                    # The texts of failures are recorded, and a server may write its address into any message.
                    await self._wait(failed.without_address(self._base_url), key, attempt, end)
                else:
                    self._unreached_since = math.inf
                    return answer
                attempt += 1

    async def _wait(self, failure: CallFailed, key: str, attempt: int, end: float) -> None:
        """Wait until the next attempt; raise `failure` if there is none."""
        clock = asyncio.get_running_loop().time
        # After any other failure the endpoint does not count as down, because the call may have reached it.
        if not isinstance(failure, NotReached):
            self._unreached_since = math.inf
        # A server's own `Retry-After` has priority over the exponential wait.
        # A wait of 0 (or a date in the past) would meet the connection that the server is still closing.
        wait = failure.wait or back_off(key, attempt)
        can_retry = failure.passing and attempt < self._attempts
        if can_retry and clock() + wait < min(end, self._unreached_since + DOWN_SECONDS):
            await asyncio.sleep(wait)
            # A busy machine may sleep longer, and no attempt starts after the end.
            if clock() < end:
                return
        if can_retry:
            detail = f"{failure.detail} (another attempt after {round(wait, 2):g} s would be too late)"
            failure = type(failure)(failure.kind, detail, address=failure.address)
        if isinstance(failure, NotReached):
            # Log once per outage, not once per prompt.
            if self._last_outage[0] < self._unreached_since:
                _LOG.warning("The language model's endpoint is down: %s (%s)", failure, failure.address)
            self._last_outage = clock(), failure
        elif failure.address and failure.kind not in self._logged:
            self._logged.add(failure.kind)
            _LOG.warning("A call to the language model failed: %s (%s)", failure, failure.address)
        raise failure from None

    async def _attempt(
        self, method: str, url: str, body: bytes, deadline: float, read: Callable[[bytes, int], Read]
    ) -> Read:
        """Make one attempt within `deadline` seconds, even if the parts of the answer arrive slowly.

        Raises CallFailed for every failure that the server may cause.
        """
        import httpx2

        start_time = asyncio.get_running_loop().time()
        # The timeout to connect shrinks with the time left until the endpoint counts as down, but not below 1 s.
        remaining = max(self._unreached_since + DOWN_SECONDS - start_time, CONNECT_SECONDS / 3)
        timeout = httpx2.Timeout(None, connect=min(CONNECT_SECONDS, remaining))
        try:
            async with asyncio.timeout(deadline):
                reply, content = await self._exchange(method, url, body, timeout)
            if reply.status_code >= 300:
                self._refuse(reply.status_code, reply.headers, content)
            return read(content, len(body))
        except CallFailed:
            raise
        except TimeoutError:
            raise CallFailed(TIMEOUT, f"no answer within {round(deadline, 2):g} s", passing=True) from None
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            self._unreached_since = min(self._unreached_since, start_time)
            raise self._connection_failure(error, timeout) from None
        except (httpx2.RequestError, httpx2.StreamError) as error:
            reason = printable_line(str(error)) or type(error).__name__
            raise CallFailed(CONNECTION, f"no answer ({reason})", passing=True, address=self._base_url) from None
        # A server may send anything, and httpx2 may fail on it in any way. That must fail this prompt, not the run.
        except Exception as error:
            reason = f"{type(error).__name__}: {printable_line(str(error))}"
            raise CallFailed(GARBAGE, f"the server's answer could not be read ({reason})", passing=True) from error

    async def _exchange(
        self, method: str, url: str, body: bytes, timeout: httpx2.Timeout
    ) -> tuple[httpx2.Response, bytes]:
        """Send a request and return the response with its content.

        A server may close a kept connection at any time. If that happens before the first byte of the response, the
        request is sent again on another connection, without counting as an attempt.
        """
        import httpx2

        while True:
            events: list[str] = []

            async def trace(name: str, _: Mapping[str, Any], events: list[str] = events) -> None:
                events.append(name)

            try:
                async with self._client.stream(
                    method, url, content=body, timeout=timeout, extensions={"trace": trace}
                ) as reply:
                    content = bytearray()
                    # Streamed, so that an endless answer is cut before it fills the memory.
                    async for part in reply.aiter_bytes():
                        content += part
                        if len(content) > MOST_BYTES:
                            raise CallFailed(GARBAGE, f"the server's answer is longer than {MOST_BYTES} bytes")
                    return reply, bytes(content)
            except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
                is_new = "connection.connect_tcp.started" in events
                # The loop ends, because a closed connection leaves the pool.
                if is_new or "http11.receive_response_headers.complete" in events:
                    raise

    def _connection_failure(
        self, error: httpx2.ConnectError | httpx2.ConnectTimeout, timeout: httpx2.Timeout
    ) -> NotReached:
        import httpx2

        causes = list(_causes(error))
        if any(isinstance(cause, ConnectionRefusedError) for cause in causes):
            detail = "nothing listens at the server's address"
            return NotReached(REFUSED, detail, passing=True, address=self._base_url)
        if isinstance(error, httpx2.ConnectTimeout):
            detail = f"no connection within {timeout.connect:.1f} s"
        else:
            detail = f"no connection ({printable_line(str(causes[-1])) or type(error).__name__})"
        return NotReached(CONNECTION, detail, passing=True, address=self._base_url)

    def _refuse(self, status: int, headers: Mapping[str, str], content: bytes) -> NoReturn:
        """Raise the failure for a status of 300 or more."""
        # Redirects are not followed: the key and the prompt must not reach an address that the user did not name.
        target = headers.get("location")
        if status < 400 and target:
            detail = f"the server answers with status {status} and sends on to another address"
            raise CallFailed(
                REDIRECT,
                f"{detail}; nothing was sent there. Name that address if it is the right one.",
                address=f"{self._base_url} sends on to {printable_line(target)}",
            )
        message, code = read_error(content)
        if status in (400, 413) and any(mark in f"{code} {message}".lower() for mark in TOO_LONG):
            raise PromptTooLong(f"{HTTP} {status}", message)
        if status == 404 and not urlsplit(self._base_url).path:
            message += " (the url has no path: most servers answer under /v1)"
        if status == 401 and not self.api_key:
            message += " (no API key was sent: put this server's into MAGE_LLM_API_KEY, or name another key_variable)"
        raise CallFailed(f"{HTTP} {status}", message, status in PASSING or status >= 500, retry_after(headers))


def at_path(base_url: str, path: str) -> str:
    """Return the URL of a path below a base URL, with the query of the base URL."""
    parts = urlsplit(base_url)
    return parts._replace(path=parts.path.rstrip("/") + path).geturl()


def is_loopback(url: str) -> bool:
    """Return True if a URL's host is this machine, which no proxy reaches."""
    host = urlsplit(url).hostname or ""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified


def proxy_variable(url: str) -> str | None:
    """Return the environment variable of the proxy through which calls to a URL go, or None without a proxy."""
    parts, proxies = urlsplit(url), getproxies()
    if is_loopback(url) or proxy_bypass(parts.hostname or ""):
        return None
    return next((f"{kind.upper()}_PROXY" for kind in (parts.scheme, "all") if proxies.get(kind)), None)


def _deliver(call: Future[Answer], task: asyncio.Task[Answer]) -> None:
    """Hand the result of a finished task to its call."""
    # Retrieved in any case, because asyncio logs exceptions that nobody retrieves.
    error = None if task.cancelled() else task.exception()
    if task.cancelled():
        call.cancel()
    # False if the call is cancelled. Otherwise it cannot be cancelled any more.
    if not call.set_running_or_notify_cancel():
        return
    if error is None:
        call.set_result(task.result())
    else:
        call.set_exception(error)


def back_off(key: str, attempt: int) -> float:
    """Return the seconds between attempt `attempt` (from 1) and the next; `key` (hexadecimal) seeds the jitter."""
    # Seeded by the request, so that a repeated run waits alike while different prompts spread out.
    stream = np.random.default_rng(np.random.SeedSequence(int(key, 16), spawn_key=(attempt,)))
    return FIRST_WAIT * 2.0 ** (attempt - 1) * float(stream.uniform(0.5, 1.0))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the error and its chain of causes, the first cause last."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
