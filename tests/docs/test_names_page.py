"""docs/names.md: every name with arguments in README.md and docs/*.md fits the function that it calls."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from mage_envs import make_game
from mage_envs.benchmarks.evaluation.run.agents import split_memory
from mage_envs.benchmarks.evaluation.run.hugging_face import HuggingFaceOptions
from mage_envs.benchmarks.evaluation.suites.adapt import NAMED
from mage_envs.benchmarks.evaluation.suites.sampling import PAPER, read_sampling
from mage_envs.benchmarks.executors.naming import _BUILDERS as EXECUTORS
from mage_envs.loading.arguments import SpecError, bind, parse
from mage_envs.loading.imports import load_entry
from mage_envs.opponents import as_pool, make_opponent, split_names
from mage_envs.opponents.llm.names import read_endpoint
from mage_envs.opponents.registry import _find, _load
from mage_envs.wrappers.controls import CONTROLS
from mage_envs.wrappers.memories import _REGISTRY as MEMORIES
from mage_envs.wrappers.retrieval import ENCODERS
from tests.test_readme import PAGES

TEXT = "\n".join(page.read_text() for page in PAGES)
PLACEHOLDERS = {"N": "1000", "K": "3", "H": "1"}
OWN = ("wfw/", "pool:wfw/", "my_games:", "my_memory:", "results", "checklist", "kuhn/coward")
"""Names that the pages register themselves."""
VALUE = r"""["' ]?["']?([^\s"'`|\\)}\]]+)"""


def find_texts(*patterns: str) -> list[str]:
    """Return the matches of the patterns' groups in the pages, without the names that the pages define."""
    texts = {match[1].rstrip(".,;") for pattern in patterns for match in re.finditer(pattern, TEXT)}
    return sorted(text for text in texts if "…" not in text and "{" not in text and not text.startswith(OWN))


def fill_placeholders(text: str) -> str:
    """Replace the placeholders of a form such as `bayes:POOL,K,H` by values."""
    return re.sub(r"\b[NKH]\b", lambda match: PLACEHOLDERS[match[0]], text)


def opponent_texts() -> Iterator[str]:
    spans = [text for text in find_texts(r"`([^`\s]+:[^`\s]+)`") if _find(parse(text).name) is not None]
    options = find_texts(rf"--opponents[= ]{VALUE}", rf"\bopponent={VALUE}", rf"\bpolicy:{VALUE}")
    for text in (*spans, *options):
        yield from split_names(fill_placeholders(text.partition("+")[0]))


# `mage adapt policy:NAME` takes names of references, of which each cell makes its own policy.
OPPONENTS = sorted(
    {
        text
        for text in opponent_texts()
        if not text.startswith(("model", "NAME", "pool:NAME", *OWN)) and text not in NAMED
    }
)
MEMORY_TEXTS = find_texts(
    rf"--memory[= ]{VALUE}",
    rf"\bmemory=[\"']{VALUE}",
    r'"memory": "([^"]+)"',
    rf"`((?:[a-z]+/)?(?:{'|'.join(MEMORIES)}):[^`]+)`",
)
EXECUTOR_TEXTS = find_texts(rf"--executor[= ]{VALUE}", rf"`((?:{'|'.join(EXECUTORS)})(?::[^`]+)?)`")
ENDPOINT_TEXTS = [text for text in find_texts(r"\bllm:([^\s`\"'|]+)") if "@http" in text]
HUGGING_FACE_TEXTS = find_texts(r"`(hf:[^`\s]+)`", r"\beval (hf:\S+)")


def test_the_pages_show_many_names() -> None:
    assert len(HUGGING_FACE_TEXTS) > 1
    assert len(OPPONENTS) > 25
    assert len(MEMORY_TEXTS) > 8
    assert len(EXECUTOR_TEXTS) > 6
    assert len(ENDPOINT_TEXTS) > 2


@pytest.mark.parametrize("text", OPPONENTS)
def test_an_opponent_fits_its_builder(text: str) -> None:
    if text.startswith("pool:"):
        as_pool(text)
        return
    spec = parse(text)
    info = _find(spec.name)
    assert info is not None, text
    bind(text, spec, _load(info), *(["game"] if info.needs_game else []))


@pytest.mark.parametrize("text", MEMORY_TEXTS)
def test_a_memory_fits_its_class(text: str) -> None:
    head, slash, main_part = text.partition("/")
    control = slash and (head in CONTROLS or "@" in head)
    spec = parse(main_part if control else text)
    builder = MEMORIES[spec.name]
    arguments = bind(text, spec, load_entry(builder) if isinstance(builder, str) else builder).arguments
    if "encoder" in arguments:
        assert parse(arguments["encoder"]).name in ENCODERS


@pytest.mark.parametrize("text", EXECUTOR_TEXTS)
def test_an_executor_fits_its_class(text: str) -> None:
    spec = parse(fill_placeholders(text))
    bind(text, spec, EXECUTORS[spec.name])


@pytest.mark.parametrize("text", HUGGING_FACE_TEXTS)
def test_a_hugging_face_model_fits_its_options(text: str) -> None:
    assert bind(text, parse(text), HuggingFaceOptions).arguments["model"]


@pytest.mark.parametrize("text", ENDPOINT_TEXTS)
def test_an_endpoint_has_a_model_and_a_url(text: str) -> None:
    model, urls, _ = read_endpoint(text)
    assert model
    assert urls


def test_the_other_examples_of_the_page() -> None:
    assert read_sampling("paper") == read_sampling("temperature=0.7,top_p=0.8,top_k=20") == PAPER
    assert split_memory("policy:kuhn/nash+history") == ("policy:kuhn/nash", "history")
    with pytest.raises(SpecError) as caught:
        make_opponent("mcts:simulation=9", make_game("TicTacToe"))
    # The page breaks the line.
    assert str(caught.value).partition(" Options")[0] in " ".join(TEXT.split())
