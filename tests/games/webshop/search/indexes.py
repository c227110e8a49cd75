"""Indexes of a few documents."""

from __future__ import annotations

from collections.abc import Iterable
from tempfile import TemporaryDirectory

from mage_envs.games.webshop.search.build import write_index
from mage_envs.games.webshop.search.index import Index


def index_of(documents: Iterable[tuple[str, str]]) -> Index:
    """The index of documents (id, text), whose files are gone when it is."""
    with TemporaryDirectory() as folder:
        write_index(documents, folder)
        return Index.open(folder)
