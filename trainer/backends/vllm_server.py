"""A streaming backend over `vllm serve`: concurrent `/v1/completions` with token ids in and out (`return_token_ids`).

Start the server with `--logprobs-mode processed_logprobs`. Otherwise log-probabilities ignore the temperature.
"""

from __future__ import annotations

import json
import math
import weakref
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

from mage_envs.opponents.llm.budget import Budget
from mage_envs.opponents.llm.calls import Connection
from mage_envs.opponents.llm.endpoint import check_url
from mage_envs.opponents.llm.failures import GARBAGE, CallFailed
from mage_envs.opponents.llm.pending import PendingCalls
from mage_envs.opponents.llm.reading import UNREADABLE, printable_line
from mage_envs.text.generation import Completion, Prompt
from mage_envs.trainer.backends.generation import fits
from mage_envs.trainer.backends.tokens import ChatTokenizer, Ids, make_completion
from mage_envs.trainer.backends.vllm_stream import RequestSettings, SlotReply


class _Reply(NamedTuple):
    """Tokens that the server sampled."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]


class StreamingServerGenerator:
    """A `vllm serve` with up to `concurrency` requests under way.

    A request that fails or times out, however slowly its answer arrives, returns a completion with `error`. Redirects
    are not followed.
    """

    def __init__(
        self, url: str, model: str, tokens: ChatTokenizer, settings: RequestSettings, concurrency: int = 256
    ) -> None:
        """Connect to a server; the first request is the first contact.

        Args:
            url: Address of the server, without `/v1`.
            model: Name of the model on the server.
            settings: Sampling parameters, prompt limit and timeout.
            concurrency: Most requests under way at once.

        Raises:
            ValueError: If `url` is not an address of a server.
        """
        check_url(url)
        self.model = model
        self.tokens = tokens
        self.sampling = settings
        self._connection = Connection(
            f"{url.rstrip('/')}/v1/completions",
            _read,
            # No limit: the user's own server has no budget.
            budget=Budget(),
            deadline=settings.timeout,
            # No retry inside the connection: the rollout plays the meta-episode again, and counts the failure.
            attempts=1,
            concurrency=concurrency,
        )
        # Ends the connection's threads if the user drops the generator without `close`.
        weakref.finalize(self, self._connection.close)
        self._pending = PendingCalls()

    def submit(self, prompt: Prompt) -> None:
        ids = self.tokens.encode(prompt)
        if not fits(ids, self.sampling.max_prompt_length):
            self._pending.add_answer(prompt.slot, Completion("", overflow=True))
            return
        body = {
            "model": self.model,
            "prompt": list(ids),
            **self.sampling.parameters(prompt, self.tokens),
            "return_token_ids": True,
        }
        call = Future[_Reply]()
        # Stored before it starts, so that Ctrl-C at any moment finds and cancels it.
        self._pending.add(prompt.slot, call, partial(self._completion, call, prompt, ids))
        self._connection.start(call, json.dumps(body).encode(), "0")

    def poll(self, timeout: float | None = None) -> list[SlotReply]:
        """Wait until at least one reply is ready or late, if requests are under way, and return all that are ready."""
        return self._pending.poll(timeout)

    def cancel(self) -> None:
        """Cancel all requests. The server accepts new ones afterwards."""
        self._pending.cancel()

    def close(self) -> None:
        """End the requests and the connections."""
        self.cancel()
        self._connection.close()

    def _completion(self, future: Future[_Reply], prompt: Prompt, ids: Ids) -> Completion:
        try:
            reply = future.result()
            self._check(reply)
        except CallFailed as failure:
            return Completion("", error=f"vllm {failure}")
        return make_completion(prompt, self.tokens, ids, reply.ids, reply.logprobs, self.sampling.max_new_tokens)

    def _check(self, reply: _Reply) -> None:
        """Raise CallFailed if the server returned unknown ids, or more ids than requested."""
        vocabulary_size, limit = len(self.tokens.tokenizer), self.sampling.max_new_tokens
        if len(reply.ids) > limit or any(not 0 <= token_id < vocabulary_size for token_id in reply.ids):
            raise CallFailed(
                GARBAGE, f"{len(reply.ids)} token ids, expected at most {limit} from 0 to {vocabulary_size - 1}"
            )


def _read(content: bytes, sent: int) -> _Reply:
    """Return the reply in the body of a completion. Raises CallFailed for any other body."""
    try:
        choice = json.loads(content)["choices"][0]
        reason = choice["finish_reason"]
        # Ids from the server, not text: the trained tokens must be exactly those that were sampled.
        ids = tuple(int(i) for i in choice["token_ids"])
        logprobs = tuple(float(value) for value in choice["logprobs"]["token_logprobs"])
    except UNREADABLE as error:
        raise CallFailed(
            GARBAGE, f"a reply without token ids or log-probabilities: {printable_line(repr(error))}"
        ) from None
    if reason not in ("stop", "length"):
        raise CallFailed(GARBAGE, f"finished with {printable_line(repr(reason))}")
    if len(logprobs) != len(ids) or not all(map(math.isfinite, logprobs)):
        count = sum(map(math.isfinite, logprobs))
        raise CallFailed(GARBAGE, f"{len(ids)} token ids, expected as many finite log-probabilities, got {count}")
    return _Reply(ids, logprobs)
