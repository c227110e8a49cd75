"""Servers on this machine answer its own programs and pages, and one visitor does not end the visits of others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mage_envs.benchmarks.commands.serve import openenv
from mage_envs.web.security import OriginGuard, host_names
from mage_envs.web.server_options import ServerOptions
from mage_envs.web.visits import Visit, Visits


def answer(kind: str, headers: dict[str, str]) -> list[Any]:
    """Return the messages of a guarded application that sends `inner`."""
    sent: list[Any] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "inner"})

    async def receive() -> dict[str, Any]:
        return {}

    async def send(message: Any) -> None:
        sent.append(message)

    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    guard = OriginGuard(inner, host_names(8000))
    asyncio.run(guard({"type": kind, "headers": pairs}, receive, send))
    return sent


@pytest.mark.parametrize("kind", ["http", "websocket"])
@pytest.mark.parametrize(
    ("headers", "served"),
    [
        ({"host": "127.0.0.1:8000"}, True),
        ({"host": "LOCALHOST:8000", "origin": "http://localhost:8000"}, True),
        ({"host": "[::1]:8000"}, True),
        ({}, False),
        ({"host": "evil.example:8000"}, False),
        ({"host": "127.0.0.1"}, False),
        ({"host": "127.0.0.1:8000", "origin": "http://evil.example"}, False),
        ({"host": "127.0.0.1:8000", "origin": "http://localhost:8000"}, False),
        ({"host": "127.0.0.1:8000", "origin": "null"}, False),
    ],
)
def test_the_guard_checks_host_and_origin(kind: str, headers: dict[str, str], served: bool) -> None:
    sent = answer(kind, headers)
    assert (sent == [{"type": "inner"}]) is served
    assert served or sent[0] == (
        {"type": "websocket.close", "code": 1008}
        if kind == "websocket"
        else {
            "type": "http.response.start",
            "status": 403,
            "headers": [(b"content-type", b"text/plain; charset=utf-8")],
        }
    )


def test_the_guard_passes_the_start_of_the_server_on() -> None:
    assert answer("lifespan", {}) == [{"type": "inner"}]


def test_a_visitor_of_many_visits_ends_only_their_own() -> None:
    visits: Visits[str] = Visits(limit=8)
    visits.add("person", Visit("person"), "10.0.0.1")
    visits.add("other", Visit("other"), "10.0.0.2")
    for number in range(70):
        visits.add(f"bot {number}", Visit("bot"), "10.0.0.3")
    assert len(visits) == 8
    assert None not in (visits.find("person"), visits.find("other"), visits.find("bot 69"))


def test_a_visit_without_an_action_ends_first() -> None:
    visits: Visits[str] = Visits(limit=4)
    played_visit = Visit("played")
    played_visit.actions = 1
    visits.add("played", played_visit)
    for number in range(70):
        visits.add(f"bot {number}", Visit("bot"))
    assert visits.find("played") is played_visit


def test_serving_other_machines_must_be_allowed() -> None:
    with pytest.raises(ValueError, match=r"host='0\.0\.0\.0' can be reached from other machines"):
        openenv(server=ServerOptions(host="0.0.0.0"))
