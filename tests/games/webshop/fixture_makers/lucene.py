"""Real Lucene, as pyserini 0.17.0 drives it, the version that WebShop asks for (Anserini 0.14.3, Lucene 8.11).

Needs a Java runtime (Debian: openjdk-17-jre-headless) and, in an environment of its own beside this project,
`pip install pyjnius==1.6.1` and `pip install --no-deps pyserini==0.17.0`. Only the jar in pyserini's wheel is used,
through the calls that pyserini's LuceneSearcher makes; pyserini itself is not imported, as it would import torch.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

K1, B = 0.9, 0.4


def java_class() -> Callable[[str], Any]:
    """pyjnius' `autoclass` in a Java machine that has Anserini's jar."""
    spec = importlib.util.find_spec("pyserini")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("pyserini is not installed: pip install --no-deps pyserini==0.17.0")
    (jar,) = (Path(spec.submodule_search_locations[0]) / "resources" / "jars").glob("anserini-*-fatjar.jar")
    config = importlib.import_module("jnius_config")
    if not config.vm_running:
        config.add_classpath(str(jar))
    autoclass: Callable[[str], Any] = importlib.import_module("jnius").autoclass
    return autoclass


class Analyser:
    """Anserini's English analyser."""

    def __init__(self) -> None:
        load = java_class()
        self._analyser = load("io.anserini.analysis.DefaultEnglishAnalyzer").newDefaultInstance()
        self._tools = load("io.anserini.analysis.AnalyzerUtils")

    def terms(self, text: str) -> list[str]:
        """The terms of a text, in order."""
        tokens = self._tools.analyze(self._analyser, text)
        return [tokens.get(position) for position in range(tokens.size())]


class Searcher:
    """Documents (id, text) indexed as WebShop's run_indexing.sh does it, in a folder that must be empty."""

    def __init__(self, documents: Iterable[tuple[str, str]], folder: Path) -> None:
        load = java_class()
        source, index = folder / "documents", folder / "index"
        source.mkdir()
        lines = (json.dumps({"id": identifier, "contents": text}) for identifier, text in documents)
        (source / "documents.jsonl").write_text("\n".join(lines) + "\n", "ascii")
        flags = ["-collection", "JsonCollection", "-generator", "DefaultLuceneDocumentGenerator", "-threads", "1"]
        flags += ["-input", str(source), "-index", str(index), "-storePositions", "-storeDocvectors", "-storeRaw"]
        load("io.anserini.index.IndexCollection").main(flags)
        self._searcher = load("io.anserini.search.SimpleSearcher")(str(index))
        self._sort = load("io.anserini.search.SimpleSearcher").BREAK_SCORE_TIES_BY_DOCID
        directory = load("org.apache.lucene.store.FSDirectory").open(load("java.nio.file.Paths").get(str(index)))
        reader = load("org.apache.lucene.index.DirectoryReader").open(directory)
        cast = importlib.import_module("jnius").cast
        as_reader = cast("org.apache.lucene.index.IndexReader", reader)
        self._raw = load("org.apache.lucene.search.IndexSearcher")(as_reader)
        self._raw.setSimilarity(load("org.apache.lucene.search.similarities.BM25Similarity")(K1, B))
        self._queries = load("io.anserini.search.query.BagOfWordsQueryGenerator")()
        self._analyser = load("io.anserini.analysis.DefaultEnglishAnalyzer").newDefaultInstance()

    def hits(self, query: str, k: int) -> list[tuple[str, float]]:
        """Ids and scores. The order is that of pyserini; it rewrites tied scores, so those are Lucene's own."""
        shown_ids = [result.docid for result in self._searcher.search(query, k)]
        parsed = self._queries.buildQuery("contents", self._analyser, query)
        raw = self._raw.search(parsed, k, self._sort, True).scoreDocs
        scored_hits = [(self._raw.doc(hit.doc).get("id"), float(hit.score)) for hit in raw]
        if [identifier for identifier, _ in scored_hits] != shown_ids:
            raise RuntimeError(f"Anserini and Lucene disagree about {query!r}.")
        return scored_hits
