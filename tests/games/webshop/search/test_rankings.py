"""300 searches x 50 hits, twice: the order and the 32-bit scores of real Lucene."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mage_envs.games.webshop.search.build import write_index
from mage_envs.games.webshop.search.index import Index
from tests.games.webshop.search.golden import golden
from tests.games.webshop.search.indexes import index_of


@pytest.mark.parametrize("name", ["rankings_catalogue", "rankings_odd"])
def test_order_and_scores_are_lucenes(name: str) -> None:
    expected = golden(name)
    assert len(expected["documents"]) == 1000
    assert len(expected["queries"]) == 300
    assert sum(map(len, expected["hits"])) > 14_000
    index = index_of(expected["documents"])
    for query, documents, bits in zip(expected["queries"], expected["hits"], expected["scores"], strict=True):
        hits = index.hits(query, 50)
        assert [hit.document for hit in hits] == documents, query
        assert [int(hit.score.view(np.uint32)) for hit in hits] == bits, query
        assert index.search(query) == tuple(documents)


def test_the_same_from_shards_on_disk(tmp_path: Path) -> None:
    expected = golden("rankings_odd")
    write_index(expected["documents"], tmp_path, shard_terms=3_000)
    in_memory, merged = index_of(expected["documents"]), Index.open(tmp_path)
    for name, values in in_memory.arrays.__dict__.items():
        np.testing.assert_array_equal(values, getattr(merged.arrays, name), err_msg=name)
    assert [merged.search(query) for query in expected["queries"]] == [tuple(hits) for hits in expected["hits"]]
