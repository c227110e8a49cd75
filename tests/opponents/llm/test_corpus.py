"""One prompt, one failure: for any response of a server, only its own prompt fails, with a kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mage_envs.opponents.llm import AnswerCache, EndpointGenerator
from mage_envs.opponents.llm import calls as bounds
from mage_envs.opponents.llm.cache import MOST_TOKENS
from mage_envs.text.generation import Completion, Message, Prompt
from tests.opponents.llm.hostile_modes import ANSWER, MODES, NO_TEXT, OVERFLOW, TEXT, Mode
from tests.opponents.llm.hostile_server import HOSTILE, HostileServer
from tests.packages import mark_params


@pytest.fixture(scope="module")
def hostile() -> Iterator[HostileServer]:
    running = HostileServer()
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def _small_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST_BYTES", 500_000)
    monkeypatch.setattr(bounds, "FIRST_WAIT", 0.01)


def came_of(completion: Completion) -> str:
    """Return the outcome of a prompt: a failure's kind, `overflow`, the reason for a missing text, or `answer`."""
    if completion.error is not None:
        assert completion.text == ""
        return completion.error.partition(":")[0]
    if completion.overflow:
        return OVERFLOW
    return completion.no_text or ANSWER


def prompts() -> list[Prompt]:
    texts = ["a", HOSTILE, "b", "c"]
    return [Prompt((Message("user", text),), slot=slot, seed=(slot, 1)) for slot, text in enumerate(texts)]


def test_the_corpus_is_large() -> None:
    assert len(MODES) == len({mode.name for mode in MODES}) >= 200
    assert {mode.kind.partition(" ")[0] for mode in MODES} == {
        *("answer", "overflow", "empty", "refusal", "tool_calls"),
        *("timeout", "connection", "garbage", "http", "redirect"),
    }


@pytest.mark.parametrize("mode", mark_params(MODES, step=4), ids=lambda mode: mode.name)
def test_only_the_prompt_that_met_it_fails(hostile: HostileServer, mode: Mode, tmp_path: Path) -> None:
    cache = AnswerCache(tmp_path / "answers.sqlite")
    # A busy machine may take seconds for an honest answer, so only the modes that must time out get a short deadline.
    deadline = 1.0 if mode.kind == "timeout" else 60.0
    endpoint = EndpointGenerator("m", hostile.url(mode.name), deadline=deadline, attempts=2, cache=cache)
    try:
        answers = endpoint.generate(prompts())
        assert [came_of(answer) for answer in answers] == [ANSWER, mode.kind, ANSWER, ANSWER]
        assert (TEXT in answers[1].text) == (mode.kind == ANSWER)
        failed = mode.kind not in (ANSWER, OVERFLOW, *(kind for kind, _ in NO_TEXT.values()))
        assert endpoint.failures == ({mode.kind: 1} if failed else {})
        assert len(cache) == 4 - (mode.kind != ANSWER), "an answer is kept, and nothing else"
        assert endpoint.budget.tokens <= 8 * MOST_TOKENS
        # Nothing of it is left in the connections: the next prompt is answered.
        [next_answer] = endpoint.generate([Prompt((Message("user", "after"),), seed=(9,))])
        assert came_of(next_answer) == ANSWER
        assert not any(name == "cookie" for name, _ in hostile.told), "no server's cookie is sent to anyone"
    finally:
        endpoint.close()
        cache.close()
