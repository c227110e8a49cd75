"""A-MEM (Xu et al. 2025, arXiv 2502.12110): notes that the model writes, links, and revises when it adds new ones.

A-MEM was designed for dialogues, with one note per utterance. Here a note is a finished episode. docs/baselines.md
lists the other differences.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from mage_envs.loading.options import check_choice, check_positive
from mage_envs.text.prompts import answer_text
from mage_envs.wrappers.baselines.baseline import Baseline, episode_text, state, task_line
from mage_envs.wrappers.baselines.memory_bank import Bank, bank_text
from mage_envs.wrappers.memory import Answer, MemoryView, Request
from mage_envs.wrappers.retrieval import Encoder, make_encoder, nearest

TRACE = 3_000
"""Maximum number of characters of an episode's turns in a note."""
ANSWER = 20_000
"""Maximum number of characters of a JSON answer."""
MAX_ITEMS = 20
"""Maximum number of entries of a list in it; the rest is ignored."""
LONGEST = 500
"""Maximum number of characters of a string in it; the rest is ignored."""
GENERIC = "An episode of this task."
"""Context of a note if the model's description could not be parsed."""
_NOTE = """Describe the following memory for a store of notes. Answer with one JSON object and nothing else:
{{"keywords": [at least three words or phrases, the most important first; no names of speakers, no times],
 "context": "one sentence: the topic, the main points, what it is good for",
 "tags": [at least three broad classes]}}

# Memory
{content}"""
_LINK = """A new note enters a store of notes. Decide whether it belongs with some of its nearest neighbours, and
whether it changes what they mean. Answer with one JSON object and nothing else:
{{"links": [labels of the neighbours to link the new note to; may be empty],
 "tags": [tags of the new note, perhaps better ones],
 "update": [{{"label": a neighbour's label, "context": "its new sentence", "tags": [its new tags]}}; may be empty]}}

# New note
{note}

# Neighbours
{neighbours}"""
_QUERY = """You will look for notes that help with the task below. Answer with a few keywords, separated by commas.

# Task
{state}"""


@dataclass(frozen=True)
class Note:
    """One note. A stored note is replaced, never changed, because the bank's committed copy shares it."""

    id: int
    time: int
    """Index of the episode in its meta-episode."""
    content: str
    keywords: tuple[str, ...] = ()
    context: str = GENERIC
    tags: tuple[str, ...] = ()
    links: tuple[int, ...] = ()
    """Ids of linked notes."""

    @property
    def encoded(self) -> str:
        """Text for the encoder."""
        return "\n".join([self.content, ", ".join(self.keywords), ", ".join(self.tags), self.context])

    @property
    def shown(self) -> str:
        """Text in a prompt."""
        return (
            f"[episode {self.time + 1}] {self.context}\nKeywords: {', '.join(self.keywords) or '-'}. "
            f"Tags: {', '.join(self.tags) or '-'}.\n{self.content}"
        )


class AMem(Baseline):
    """Strategy that writes a note after every episode except the last.

    A play prompt shows the notes that are most similar to the task and the current observation.
    """

    heading = "Notes from earlier episodes"
    no_conversation = "it sends its requests outside of the play chat and retrieves notes at each turn"

    def __init__(
        self,
        k_write: int = 5,
        k_read: int = 10,
        encoder: str | Encoder = "hash",
        query_llm: bool = False,
        granularity: str = "episode",
        scope: str = "meta",
        bank: str | None = None,
        max_tokens: int = 4000,
    ) -> None:
        """Set the retrieval and the bank.

        Args:
            k_write: Number of neighbours that the link request shows.
            k_read: Number of notes in a play prompt, linked ones included.
            query_llm: True if the model writes keywords for the query before each episode.
            granularity: `episode` for one note per episode, or `turn` for one note per turn.
            scope: Scope of the bank (wrappers/baselines/memory_bank.py).
            bank: Path of the bank's file, if the scope is `run`.
            max_tokens: Maximum length of the memory's text in a play prompt.
        """
        super().__init__(max_tokens)
        check_positive("k_write", k_write)
        check_positive("k_read", k_read)
        check_choice("granularity", granularity, ("episode", "turn"))
        self.encoder = make_encoder(encoder)
        self._k_write, self._k_read = k_write, k_read
        self._query_llm, self._by_turn = query_llm, granularity == "turn"
        self._bank: Bank[Note] = Bank("amem", scope, bank)
        self._bank.items = [_note_of(item) for item in self._bank.content.get("items", ())]
        self._keywords = ""
        self._new: Note | None = None
        self._labels: list[int] = []
        self._last = False

    def begin(self) -> None:
        super().begin()
        self._bank.begin()
        self._keywords, self._new, self._labels, self._last = "", None, [], False

    @property
    def notes(self) -> Sequence[Note]:
        """Notes of the bank, oldest first."""
        return self._bank.items

    # -- hooks ----------------------------------------------------------------------------------------------

    def before_episode(self, episode: int, view: MemoryView) -> Request | None:
        self._keywords, self._dropped = "", 0
        if not self._query_llm or not self.notes:
            return None
        text = _QUERY.format(state=state(view, view.first_observation))
        return Request("query", _with_setting(view, text), tag=None)

    def after_turn(self, view: MemoryView) -> Request | None:
        # After the last turn of the last episode, no prompt would show the note, except when a bank is filled.
        follows = view.turn is not None or view.episode + 1 < view.num_episodes or self._bank.scope == "fill"
        if not self._by_turn or not follows:
            return None
        record = view.turns[-1]
        content = f"Task: {task_line(view)}\nSeen: {record.observation}\nDone: {answer_text(record)}"
        return self._write(view, f"{content}\nThought: {record.thought[:TRACE]}" if record.thought else content)

    def after_episode(self, view: MemoryView, last: bool) -> Request | None:
        if last and self._bank.scope != "fill":
            return None
        self._last = last
        # after_turn() has already written the notes of this episode.
        if self._by_turn:
            self._close()
            return None
        return self._write(view, episode_text(view, TRACE))

    def on_answer(self, request: Request, answer: Answer, view: MemoryView) -> Request | None:
        if request.kind == "query":
            if answer.reason is not None:
                self._tell_failure(request, answer)
            else:
                self._keywords = answer.text
            return None
        # If an answer cannot be parsed, the note is stored without the part that the answer would add.
        fields = read_object(answer.text) if answer.reason is None else None
        if fields is None:
            self._tell_failure(request, answer, "json")
        if request.kind == "note":
            return self._take_note(view, fields or {})
        self._take_links(fields or {})
        self._close()
        return None

    def render(self, view: MemoryView) -> str:
        if view.turn is None:
            return ""
        notes = self._read(state(view, view.turn.observation) + f"\n{self._keywords}")
        items = [note.shown for note in notes]
        return "\n\n".join(items[: self._count_shown(items)])

    # -- writing --------------------------------------------------------------------------------------------

    def _write(self, view: MemoryView, content: str) -> Request | None:
        if not self._bank.writable:
            return None
        self._new = Note(id=len(self.notes), time=view.episode, content=content)
        return Request("note", _with_setting(view, _NOTE.format(content=content)), tag=None, limit=ANSWER)

    def _take_note(self, view: MemoryView, fields: Mapping[str, Any]) -> Request | None:
        if self._new is None:
            return None
        self._new = note = replace(
            self._new,
            keywords=texts_of(fields.get("keywords")),
            context=text_of(fields.get("context")) or GENERIC,
            tags=texts_of(fields.get("tags")),
        )
        near = nearest(self.encoder, note.encoded, [stored_note.encoded for stored_note in self.notes], self._k_write)
        if not near:
            self._bank.items.append(note)
            self._close()
            return None
        self._labels = [index for index, _ in near]
        self._tell("neighbours", ids=self._labels, scores=[score for _, score in near], encoder=self.encoder.name)
        neighbours = [f"{label}. {self.notes[at].shown}" for label, at in enumerate(self._labels, start=1)]
        text = _LINK.format(note=note.shown, neighbours="\n\n".join(neighbours))
        return Request("link", _with_setting(view, text), tag=None, limit=ANSWER)

    def _take_links(self, fields: Mapping[str, Any]) -> None:
        """Store the new note, and replace the neighbours that the model revised. Unknown labels are ignored."""
        if self._new is None:
            return
        links = [at for label in _as_list(fields.get("links")) if (at := self._index_of_label(label)) is not None]
        tags = texts_of(fields.get("tags")) or self._new.tags
        items = self._bank.items
        items.append(replace(self._new, links=tuple(dict.fromkeys(links)), tags=tags))
        for change in _as_list(fields.get("update")):
            at = self._index_of_label(change.get("label")) if isinstance(change, dict) else None
            if at is not None:
                old = items[at]
                context, tags = text_of(change.get("context")) or old.context, texts_of(change.get("tags")) or old.tags
                items[at] = replace(old, context=context, tags=tags)
                self._tell("evolved", id=at)

    def _index_of_label(self, label: object) -> int | None:
        """Return the note's index in the bank, which is its id, or None if the label was not shown."""
        # The length is limited, because int() is slow and may raise for very long digit strings.
        if isinstance(label, str) and label.strip().isdecimal() and len(label) < 9:
            label = int(label)
        # JSON's true is an int in Python.
        if isinstance(label, bool) or not isinstance(label, int) or not 1 <= label <= len(self._labels):
            return None
        return self._labels[label - 1]

    def _close(self) -> None:
        self._new, self._labels = None, []
        if self._last:
            self._bank.commit()

    # -- reading --------------------------------------------------------------------------------------------

    def _read(self, query: str) -> list[Note]:
        """Return the nearest notes, each followed by its linked notes, without duplicates, at most `k_read` in all."""
        near = nearest(self.encoder, query, [note.encoded for note in self.notes], self._k_read)
        if not near:
            return []
        order = [at for hit, _ in near for at in (hit, *self.notes[hit].links)]
        indices = list(dict.fromkeys(order))[: self._k_read]
        scores = dict(near)
        self._tell("retrieved", ids=indices, scores=[scores.get(at) for at in indices], encoder=self.encoder.name)
        return [self.notes[at] for at in indices]

    def bank_text(self) -> str:
        """Return the text of the bank's file."""
        return bank_text("amem", [asdict(note) for note in self.notes], encoder=self.encoder.name)


def _with_setting(view: MemoryView, text: str) -> str:
    """Return the text of a request with the setting behind it, if the style states it."""
    return f"{text}\n\n# Setting\n{view.setting()}" if view.states_setting else text


def _note_of(item: Mapping[str, Any]) -> Note:
    lists = {key: tuple(item[key]) for key in ("keywords", "tags", "links")}
    return Note(**{**item, **lists})


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


# -- JSON in a model's answer: invalid parts are skipped, and nothing raises ---------------------------------------


def read_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object between the first and the last brace of an answer, or None."""
    start, end = text.find("{"), text.rfind("}")
    if start < 0 or end < start:
        return None
    try:
        content = json.loads(text[start : end + 1])
    # json raises RecursionError if an answer nests thousands of brackets.
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def text_of(value: object) -> str:
    """Return the stripped value if it is a string, otherwise an empty string."""
    return value.strip()[:LONGEST] if isinstance(value, str) else ""


def texts_of(value: object) -> tuple[str, ...]:
    """Return the strings of a list without duplicates, or () if the value is not a list."""
    texts = [text_of(item) for item in value[:MAX_ITEMS]] if isinstance(value, list) else []
    return tuple(dict.fromkeys(text for text in texts if text))
