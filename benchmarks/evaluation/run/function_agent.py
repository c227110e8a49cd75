"""Agents that are Python: a function from the messages of a chat to a text, or a class with such a method `reply`.

    def reply(messages):                      # [{"role": "user", "content": "You play Kuhn Poker ..."}, ...]
        return "<action>bet</action>"         # or mage_envs.Completion, with tokens and reasoning

A function may be `async`; then all meta-episodes in flight are answered at once. A class has one instance for each
meta-episode, which may keep a state between the calls.
"""

from __future__ import annotations

import asyncio
import inspect
import queue
import re
import threading
import traceback
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from typing import Any

from mage_envs.core import Game
from mage_envs.exceptions import reason_of, stops
from mage_envs.loading.imports import WrongKind, load_callable
from mage_envs.text.generation import Completion, Prompt, check_completion

FORM = "module:function"
ABOUT = (
    "a Python function from a list of messages to a text, sync or async, or a class with such a method reply, as in "
    "my_agent:reply"
)
METHOD = "reply"
"""Method of a class that answers; its only argument is the list of messages."""
_SPEC = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
_CONTROLLED = re.compile("(?:none|other@[^/]*)/")
"""Beginning of a memory under a control that replaces the agent's own memory, too."""


def names_function(spec: str) -> bool:
    """Return True if a specification has the form `module:name`."""
    return _SPEC.fullmatch(spec) is not None


class FunctionAgent:
    """A function, or a class with a method `reply`, as an agent."""

    def __init__(self, target: Callable[..., Any] | str, name: str | None = None) -> None:
        """Import the target if it is a name, and check that it can be called.

        Args:
            target: Function, class, or `module:name` of one.
            name: Name of the agent in records and tables (default: `module:name`).

        Raises:
            ImportError: If the module or the name does not exist.
            WrongKind: If the target is neither a function of one argument nor a class with a method `reply`.
        """
        function = load_callable(target) if isinstance(target, str) else target
        self.name = name or (target if isinstance(target, str) else _name_of(function))
        self._source = Source(function, self.name)

    @property
    def keeps_state(self) -> bool:
        """Return True if each meta-episode has an instance of its own."""
        return self._source.is_class

    def generator(self, game: Game, memory: object = None) -> FunctionGenerator:
        """Return a generator of its replies.

        Args:
            game: Game that is played. The function sees its messages only.
            memory: Memory of the environment. Under the controls `none` and `other`, a new instance of a class answers
                each episode, because its own memory must not remain.
        """
        forgets = isinstance(memory, str) and _CONTROLLED.match(memory) is not None
        return (AsyncFunctionGenerator if self._source.is_async else FunctionGenerator)(self._source, forgets)


class Source:
    """The checked function or class of an agent."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.function, self.name, self.is_class = function, name, isinstance(function, type)
        answer = getattr(function, METHOD, None) if self.is_class else function
        if not callable(answer):
            hint = f" Use policy:{name} for a policy." if hasattr(function, "act") else ""
            raise WrongKind(f"{name!r} must be a function, or a class with a method {METHOD}(messages).{hint}")
        if self.is_class:
            _check_call(f"{name}()", function, 0)
            _check_call(f"{name}.{METHOD}", answer, 2)
        else:
            _check_call(name, answer, 1)
        # Of an instance with `__call__`, the method shows if it is async, and in which file it is.
        code = answer if inspect.isroutine(answer) else vars(type(answer)).get("__call__", answer)
        self.is_async = inspect.iscoroutinefunction(answer) or inspect.iscoroutinefunction(code)
        self._file = getattr(getattr(inspect.unwrap(code), "__code__", None), "co_filename", "")

    def completion(self, reply: Any) -> Completion:
        """Return a reply as a completion. Raise TypeError for anything but a text."""
        if isinstance(reply, Completion):
            return check_completion(reply, self.name)
        if isinstance(reply, str):
            return Completion(reply)
        if isinstance(reply, Coroutine):
            # Otherwise Python warns that it was never awaited.
            reply.close()
            raise TypeError(f"{self.name} returned a coroutine. Define it with async def")
        raise TypeError(f"{self.name} must return a text or mage_envs.Completion, got {type(reply).__name__}")

    def failure(self, error: BaseException) -> Completion:
        """Return the failed reply of an exception, with its line in the user's file. Ctrl-C is raised."""
        if stops(error):
            raise error
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == self._file]
        place = f" ({Path(self._file).name}, line {frames[-1].lineno})" if frames else ""
        return Completion("", error=reason_of(error) + place)


class FunctionGenerator:
    """Replies of a function or of instances of a class, one after the other."""

    def __init__(self, source: Source, forgets: bool) -> None:
        """Prepare the calls.

        Args:
            source: Function or class.
            forgets: True if a new instance answers each episode.
        """
        self._source, self._forgets = source, forgets
        self._instances: dict[int, tuple[int, Callable[..., Any]]] = {}
        """Episode of the last call, and method of the instance, by slot."""

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        return [self._answer(prompt) for prompt in prompts]

    def _answer(self, prompt: Prompt) -> Completion:
        # The function is a user's code. Its failure is counted and masked, and must not end the evaluation.
        try:
            return self._source.completion(self._method(prompt)(_messages(prompt)))
        except BaseException as error:
            return self._source.failure(error)

    def _method(self, prompt: Prompt) -> Callable[..., Any]:
        """Return the function, or the method of the instance that answers the meta-episode."""
        if not self._source.is_class:
            return self._source.function
        episode = prompt.info.get("episode_index", 0)
        last_episode, method = self._instances.get(prompt.slot, (-1, None))
        # The third part of the seed numbers the calls of a meta-episode.
        if method is None or prompt.seed[2] == 0 or (self._forgets and episode != last_episode):
            method = getattr(self._source.function(), METHOD)
        self._instances[prompt.slot] = episode, method
        return method


class AsyncFunctionGenerator(FunctionGenerator):
    """Replies of an async function: all meta-episodes in flight wait for their replies at the same time."""

    def __init__(self, source: Source, forgets: bool) -> None:
        super().__init__(source, forgets)
        self._calls: dict[int, Future[Completion]] = {}
        self._finished: queue.SimpleQueue[tuple[int, Future[Completion]]] = queue.SimpleQueue()

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        calls = [asyncio.run_coroutine_threadsafe(self._await_answer(prompt), _event_loop()) for prompt in prompts]
        return [call.result() for call in calls]

    def submit(self, prompt: Prompt) -> None:
        call = asyncio.run_coroutine_threadsafe(self._await_answer(prompt), _event_loop())
        self._calls[prompt.slot] = call
        call.add_done_callback(lambda done: self._finished.put((prompt.slot, done)))

    def poll(self, timeout: float | None = None) -> list[tuple[int, Completion]]:
        replies: list[tuple[int, Completion]] = []
        while self._calls:
            try:
                slot, call = self._finished.get(not replies, timeout)
            except queue.Empty:
                break
            # A cancelled call may end later. Its slot has another call by then, or none.
            if self._calls.get(slot) is call:
                del self._calls[slot]
                replies.append((slot, call.result()))
        return replies

    def cancel(self) -> None:
        calls, self._calls = list(self._calls.values()), {}
        for call in calls:
            call.cancel()

    async def _await_answer(self, prompt: Prompt) -> Completion:
        try:
            return self._source.completion(await self._method(prompt)(_messages(prompt)))
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            return self._source.failure(error)


@cache
def _event_loop() -> asyncio.AbstractEventLoop:
    """Return the loop of all async agents of this process, which runs in a thread of its own.

    There is one, because a user's client belongs to the loop that used it first, and runs follow each other.
    """
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="mage-async-agents", daemon=True).start()
    return loop


def _messages(prompt: Prompt) -> list[dict[str, str]]:
    return [message._asdict() for message in prompt.messages]


def _name_of(function: Callable[..., Any]) -> str:
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}:{named.__qualname__}"


def _check_call(label: str, function: Callable[..., Any], count: int) -> None:
    """Raise WrongKind unless a function can be called with `count` arguments."""
    try:
        signature = inspect.signature(function)
    except ValueError:
        # A function of an extension may have no signature. Its first call shows what it accepts.
        return
    try:
        signature.bind(*[None] * count)
    except TypeError as error:
        arguments = "one argument, the list of messages" if count else "no arguments"
        raise WrongKind(f"{label} must accept {arguments}: {error}.") from None
