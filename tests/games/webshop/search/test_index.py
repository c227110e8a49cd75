"""The index: pruning changes nothing, files, odd queries, ties, and agreement with the formula written out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mage_envs.games.webshop.search import build, index
from mage_envs.games.webshop.search.bm25 import LENGTHS, length_codes
from mage_envs.games.webshop.search.build import write_index
from mage_envs.games.webshop.search.index import MAX_QUERY, Index
from tests.games.webshop.search.indexes import index_of
from tests.games.webshop.search.terms import terms

WORDS = ["red", "blue", "shoe", "shirt", "size", "men", "lamp", "oil"]
SHOES = [("b", "red shoes size 9"), ("a", "red shoes size 9"), ("c", "blue shirt for men"), ("d", "...")]


def by_the_formula(documents: Sequence[tuple[str, str]], query: str, k: int) -> list[tuple[int, float]]:
    """Every document scored in 64 bits, with lengths kept exactly as the one-byte code keeps them."""
    bags = [Counter(terms(text)) for _, text in documents]
    lengths = [sum(bag.values()) for bag in bags]
    counted = sum(map(bool, lengths))
    mean = sum(lengths) / max(counted, 1)
    scored_documents = []
    for number, bag in enumerate(bags):
        score = 0.0
        for term, count in Counter(terms(query)).items():
            having = sum(term in bag_terms for bag_terms in bags)
            if bag[term]:
                idf = math.log(1 + (counted - having + 0.5) / (having + 0.5))
                coded_length = int(LENGTHS[length_codes(np.array([lengths[number]]))[0]])
                score += count * idf * bag[term] / (bag[term] + 0.9 * (0.6 + 0.4 * coded_length / mean))
        if score:
            scored_documents.append((number, score))
    return sorted(scored_documents, key=lambda pair: (-pair[1], documents[pair[0]][0]))[:k]


@settings(max_examples=150)
@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=40), max_size=60),
    st.lists(st.sampled_from([*WORDS, "zebra"]), min_size=1, max_size=8),
    st.integers(1, 12),
)
def test_the_best_are_those_of_the_formula(bags: list[list[str]], query: list[str], k: int) -> None:
    documents = [(f"{number * 37 % 101:03d}", " ".join(bag)) for number, bag in enumerate(bags)]
    index = index_of(documents)
    hits = index.hits(" ".join(query), k)
    expected = by_the_formula(documents, " ".join(query), k)
    np.testing.assert_allclose([hit.score for hit in hits], [score for _, score in expected], rtol=1e-5)
    everything = index.hits(" ".join(query), 1000)
    assert hits == everything[:k]  # k decides how much is pruned
    assert everything == sorted(everything, key=lambda hit: (-hit.score, documents[hit.document][0]))


def test_pruning_changes_nothing_in_a_large_index() -> None:
    rng = np.random.default_rng(0)
    names = np.array([f"w{number}" for number in range(400)])
    ranks = np.minimum(rng.geometric(0.02, (3000, 40)) - 1, 399)
    built = index_of((f"{row_number:05d}", " ".join(names[row])) for row_number, row in enumerate(ranks))
    for _ in range(100):
        query = " ".join(names[np.minimum(rng.geometric(0.01, 8) - 1, 399)])
        assert built.hits(query, 7) == built.hits(query, 3000)[:7]


@pytest.mark.parametrize("block", [1, 16, 1000, 2999])
def test_blocks_of_documents_change_nothing(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    rng = np.random.default_rng(1)
    names = np.array([f"w{number}" for number in range(300)])
    ranks = np.minimum(rng.geometric(0.03, (3000 if block > 1 else 80, 30)) - 1, 299)
    built = index_of((f"{row_number * 7919 % 3001:05d}", " ".join(names[row])) for row_number, row in enumerate(ranks))
    queries = [" ".join(names[np.minimum(rng.geometric(0.02, 7) - 1, 299)]) for _ in range(60)]
    expected = [built.hits(query, 9) for query in queries]
    monkeypatch.setattr(index, "_BLOCK", block)
    assert [built.hits(query, 9) for query in queries] == expected


@pytest.mark.parametrize("part", [1, 7, 500])
def test_parts_of_postings_change_nothing(monkeypatch: pytest.MonkeyPatch, part: int) -> None:
    rng = np.random.default_rng(2)
    names = np.array([f"w{number}" for number in range(200)])
    ranks = np.minimum(rng.geometric(0.03, (600, 30)) - 1, 199)
    built = index_of((f"{row_number:03d}", " ".join(names[row])) for row_number, row in enumerate(ranks))
    queries = [" ".join(names[np.minimum(rng.geometric(0.02, 7) - 1, 199)]) for _ in range(40)]
    expected = [built.hits(query, 9) for query in queries]
    monkeypatch.setattr(index, "_PART", part)
    assert [built.hits(query, 9) for query in queries] == expected


def test_threads_do_not_disturb_one_another() -> None:
    rng = np.random.default_rng(3)
    names = np.array([f"w{number}" for number in range(300)])
    ranks = np.minimum(rng.geometric(0.02, (20_000, 20)) - 1, 299)
    built = index_of((f"{row_number:05d}", " ".join(names[row])) for row_number, row in enumerate(ranks))
    queries = [" ".join(names[np.minimum(rng.geometric(0.02, 6) - 1, 299)]) for _ in range(150)]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(built.hits, queries)) == [built.hits(query) for query in queries]


def test_lengths_are_kept_in_one_byte_as_lucene_keeps_them() -> None:
    assert LENGTHS[:42].tolist() == [*range(40), 40, 42]
    assert (np.diff(LENGTHS) > 0).all()
    assert LENGTHS[255] == 24 + (15 << 27)
    assert LENGTHS[length_codes(np.array([0, 23, 24, 41, 57, 1000]))].tolist() == [0, 23, 24, 40, 56, 984]


def test_equal_scores_are_in_the_order_of_ids() -> None:
    assert index_of(SHOES).search("red shoe") == (1, 0)


def test_ids_that_end_in_zeros_have_their_order() -> None:
    assert index_of([("a\0\0", "red"), ("a\0", "red"), ("b", "red"), ("", "red"), ("a", "red")]).search("red") == (
        3,
        4,
        1,
        0,
        2,
    )


def test_repeated_words_count_each_time() -> None:
    index = index_of(SHOES)
    once, twice = index.hits("red blue")[0], index.hits("red blue blue")[0]
    assert (once.document, twice.document) == (2, 2)
    assert twice.score == np.float32(2) * once.score


@pytest.mark.parametrize("query", ["", "the of", "...", "zebra", "\ud800", "\x00"])
def test_nothing_found(query: str) -> None:
    assert index_of(SHOES).search(query) == ()


def test_counts_above_255_and_above_65535() -> None:
    documents = [("x", "red " * 70_000), ("y", "red"), ("z", "red blue " + "green " * 300), ("w", "blue")]
    index = index_of(documents)
    for query in ("red", "green", "red blue"):
        expected = by_the_formula(documents, query, 4)
        assert index.search(query) == tuple(number for number, _ in expected)
        np.testing.assert_allclose(
            [hit.score for hit in index.hits(query)], [score for _, score in expected], rtol=1e-5
        )


def test_no_documents() -> None:
    nothing = index_of([])
    assert nothing.search("red") == ()
    assert len(nothing) == 0
    assert index_of([("a", "..."), ("b", "")]).search("...") == ()


def test_huge_queries_are_read_up_to_a_bound() -> None:
    index = index_of(SHOES)
    assert index.search("red shoe " + "zebra " * 2_000_000) == (1, 0)
    assert index.search("x " * MAX_QUERY + "red") == ()
    assert index.search("_" * 10_000_000) == ()


def test_asking_for_no_document_is_an_error() -> None:
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        index_of(SHOES).search("red", 0)


def test_written_and_opened_again(tmp_path: Path) -> None:
    write_index(SHOES, tmp_path / "new" / "index")
    opened = Index.open(tmp_path / "new" / "index")
    assert opened.hits("red shoes for men") == index_of(SHOES).hits("red shoes for men")
    assert len(opened) == 4
    assert not any(values.flags.writeable for values in opened.arrays.__dict__.values() if values.size)
    for name, documents in (("none", []), ("empty", [("a", "")])):
        write_index(documents, tmp_path / name)
        assert Index.open(tmp_path / name).search("red") == ()
        assert sorted(path.suffix for path in (tmp_path / name).iterdir()) == [".json"] + [".npy"] * 9


def test_the_same_bytes_each_time(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_index(SHOES, tmp_path / name)
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_an_interrupted_build_is_not_an_index(tmp_path: Path) -> None:
    def failing():  # type: ignore[no-untyped-def]
        yield from SHOES
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        write_index(failing(), tmp_path, shard_terms=2)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError, match="has no complete search index"):
        Index.open(tmp_path)


def test_another_format_is_refused(tmp_path: Path) -> None:
    write_index(SHOES, tmp_path)
    (tmp_path / "index.json").write_text('{"format": 0}')
    with pytest.raises(ValueError, match="has format 0, expected 1: build it again"):
        Index.open(tmp_path)


def test_many_different_pairs_are_stored_wider(monkeypatch: pytest.MonkeyPatch) -> None:
    narrow = index_of(SHOES)
    monkeypatch.setattr(build, "NARROW", 1)
    wide = index_of(SHOES)
    assert (narrow.arrays.pairs.dtype, wide.arrays.pairs.dtype) == (np.uint16, np.uint32)
    assert wide.hits("red shoes") == narrow.hits("red shoes")
