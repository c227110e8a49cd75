"""Legal actions as token sequences, so that a reply can be drawn among them token by token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Ids = tuple[int, ...]


class ActionTrie:
    """The ids that may follow a prefix of a reply, and the reply that a whole sequence is."""

    def __init__(self, sequences: Mapping[str, Ids], end_id: int | None) -> None:
        """Build the trie.

        Args:
            sequences: Ids of each reply. A reply with the ids of an earlier one is left out: the model cannot tell them
                apart.
            end_id: Id that ends a reply whose ids begin another one, or None if there is no such id.

        Raises:
            ValueError: If a reply has no ids, or if one begins another one without an id to end it.
        """
        self._replies: dict[Ids, str] = {}
        for reply, ids in sequences.items():
            if not ids:
                raise ValueError(f"The action {reply!r} has no tokens in this model's vocabulary.")
            self._replies.setdefault(ids, reply)
        self._allowed: dict[Ids, Ids] = {}
        for ids in self._replies:
            for length in range(len(ids)):
                known = self._allowed.get(ids[:length], ())
                if ids[length] not in known:
                    self._allowed[ids[:length]] = (*known, ids[length])
        for ids, reply in list(self._replies.items()):
            if ids in self._allowed:
                if end_id is None:
                    raise ValueError(f"The action {reply!r} begins another one, and the model has no end token.")
                self._allowed[ids] = (*self._allowed[ids], end_id)
                self._replies[*ids, end_id] = self._replies.pop(ids)
        self.depth = max(map(len, self._replies), default=0)
        """Number of tokens of the longest reply."""

    def allowed(self, prefix: Sequence[int]) -> Ids:
        """Return the ids that may follow a prefix, in the order of the actions; none if it is a whole reply."""
        return self._allowed.get(tuple(prefix), ())

    def reply(self, ids: Sequence[int]) -> str | None:
        """Return the reply of these ids, or None if they are not a whole one."""
        return self._replies.get(tuple(ids))

    def ids(self, reply: str) -> Ids:
        """Return the ids of a reply; none if it is not one of the trie's."""
        return next((ids for ids, known in self._replies.items() if known == reply), ())

    def legal_ids(self, ids: Sequence[int]) -> tuple[Ids, ...]:
        """Return the ids that each of these was drawn among."""
        return tuple(self.allowed(ids[:length]) for length in range(len(ids)))
