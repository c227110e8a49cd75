"""A server with a tiny model for every test, and a cache of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mage_envs.opponents.llm import AnswerCache, EndpointGenerator
from tests.opponents.llm.server import Server, TinyModel


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    return TinyModel(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGE_ENVS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("OPENAI_API_KEY", "MAGE_LLM_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server(tiny_model: TinyModel) -> Iterator[Server]:
    running = Server(tiny_model)
    yield running
    running.stop()


@pytest.fixture
def cache(tmp_path: Any) -> Iterator[AnswerCache]:
    answer_cache = AnswerCache(tmp_path / "answers.sqlite")
    yield answer_cache
    answer_cache.close()


Connect = Callable[..., EndpointGenerator]


@pytest.fixture
def connect(server: Server) -> Iterator[Connect]:
    """Makes endpoints on the server, which end with the test."""
    endpoints: list[EndpointGenerator] = []

    def make(model: str = "tiny", url: str | None = None, **options: Any) -> EndpointGenerator:
        endpoints.append(EndpointGenerator(model, url or server.url, **{"max_tokens": 8, **options}))
        return endpoints[-1]

    yield make
    for endpoint in endpoints:
        endpoint.close()
