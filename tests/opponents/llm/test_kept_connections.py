"""A kept connection that the server has closed costs no attempt and no call of the budget."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator

import pytest

from mage_envs.opponents.llm import EndpointGenerator
from mage_envs.text.generation import Message, Prompt

PROMPT = Prompt((Message("user", "x"),))


class ClosingServer:
    """A server that answers the first `num_answers` requests of a connection, then reads one and closes."""

    def __init__(self, num_answers: int) -> None:
        self.num_answers = num_answers
        self.requests = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as file:
                for number in range(self.num_answers + 1):
                    length = 0
                    while (line := file.readline()) not in (b"\r\n", b""):
                        name, _, value = line.partition(b":")
                        length = int(value) if name.lower() == b"content-length" else length
                    if line == b"":
                        break
                    file.read(length)
                    self.requests += 1
                    if number < self.num_answers:
                        choice = {"message": {"role": "assistant", "content": "bet"}, "finish_reason": "stop"}
                        body = json.dumps({"model": "m", "choices": [choice]}).encode()
                        head = (
                            f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                        )
                        connection.sendall(head.encode() + body)

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def endpoint_of() -> Iterator[object]:
    resources: list[ClosingServer | EndpointGenerator] = []

    def make(num_answers: int) -> tuple[ClosingServer, EndpointGenerator]:
        server = ClosingServer(num_answers)
        endpoint = EndpointGenerator("m", server.url, max_tokens=8, attempts=1, concurrency=1)
        resources.extend((server, endpoint))
        return server, endpoint

    yield make
    for item in reversed(resources):
        item.close()


def test_a_closed_kept_connection_is_replaced(endpoint_of) -> None:
    server, endpoint = endpoint_of(1)
    for number in range(4):
        (completion,) = endpoint.generate([PROMPT])
        assert (completion.error, completion.text) == (None, "bet"), number
    # Every request but the first met a connection that then closed.
    assert server.requests == 7


def test_a_new_connection_that_closes_is_a_failure(endpoint_of) -> None:
    server, endpoint = endpoint_of(0)
    (completion,) = endpoint.generate([PROMPT])
    assert completion.error is not None
    assert completion.error.startswith("connection: no answer")
    assert server.requests == 1
