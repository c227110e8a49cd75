"""The chat templates that TRL ships: the probe's findings, and chats that are read as they are written."""

from __future__ import annotations

import datetime
import re
import string
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trl
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from mage_envs.text.generation import Completion, Message, Prompt
from mage_envs.text.parser import parse_tag
from mage_envs.trainer.backends.reply_format import REPLY, THOUGHT
from mage_envs.trainer.backends.tiny import byte_tokenizer
from mage_envs.trainer.backends.tokens import ChatTokenizer, PromptFormat, make_completion

TEMPLATES = sorted((Path(trl.__file__).parent / "chat_templates").glob("*.jinja"))
CONTROL = re.compile(r"<[|｜][^<>|｜\s'{}]*[|｜]>|<\|\w+>|<\w+\|>|<(?:start|end)_of_\w+>|\[/?INST\]|\[gMASK\]|<sop>")
ASK = Message("user", "Your card is K.")


def make_tokenizer(template: str, special: tuple[str, ...] = ()) -> PreTrainedTokenizerFast:
    """Return a byte-level tokenizer with every control token that the template names."""
    tokenizer = byte_tokenizer()
    tokens = sorted({*CONTROL.findall(template), "<bos>", "<eos>", *special})
    tokenizer.add_special_tokens({"extra_special_tokens": tokens})
    tokenizer.eos_token, tokenizer.bos_token, tokenizer.chat_template = "<eos>", "<bos>", template
    return tokenizer


class Chat:
    """A tokenizer, its probe, and replies as the model would sample them."""

    def __init__(self, template: str, special: tuple[str, ...] = ()) -> None:
        self.tokenizer = make_tokenizer(template, special)
        self.tokens = ChatTokenizer(self.tokenizer)
        self.facts = self.tokens.reply_format

    def encode(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, ids: Any) -> str:
        return str(self.tokenizer.decode(list(ids)))

    def read(self, text: str, end: int | None = None) -> Completion:
        """Return the completion of a sampled text."""
        prompt = Prompt((ASK,))
        ids = (*self.encode(text), self.facts.end_ids[0] if end is None else end)
        return make_completion(prompt, self.tokens, self.tokens.encode(prompt), ids, None, 4096)

    def answer(self, text: str) -> str | None:
        return parse_tag(self.read(text).text, "action")

    def think(self, thought: str, answer: str) -> str:
        """Return a reply with a thought, as the template writes it."""
        begin = "" if self.facts.opens_thought else f"{self.facts.thought_start or '<think>'}\n"
        return f"{begin}{thought}\n{self.facts.thought_end or '</think>'}{answer}"


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_a_shipped_template_is_read_as_it_is_written(path: Path) -> None:
    chat = Chat(path.read_text(), special=("<action>", "</action>"))
    tokens, facts, bet = chat.tokens, chat.facts, "<action>bet</action>"
    prompt = Prompt((ASK,))
    first_ids = tokens.encode(prompt)
    # 1. The prompt holds the text, and is the template's own rendering.
    content: Any = [{"type": "text", "text": ASK.content}] if facts.lists_parts else ASK.content
    variables: Any = {"strftime_now": datetime.date(2026, 1, 1).strftime}
    rendered = chat.tokenizer.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True, **variables
    )
    assert ASK.content in chat.decode(first_ids)
    assert first_ids == chat.encode(str(rendered))
    # 2. Every end is found, and none of them occurs inside a reply.
    reply = chat.encode(facts.answer_start) + chat.encode(bet)
    assert chat.tokenizer.eos_token_id in facts.end_ids
    assert facts.reply_end_id in facts.end_ids or facts.turn_end_id is None
    assert not set(chat.encode(chat.think("A king.", bet))) & set(facts.end_ids)
    # 3. A conversation extends the ids that were sent and sampled, and a turn ends once, after any end id.
    for end in facts.end_ids:
        reply_turn = chat.read(facts.answer_start + bet, end)
        second_ids = tokens.encode(
            Prompt((ASK, Message("assistant", bet), Message("user", "Again?")), previous=reply_turn)
        )
        assert second_ids[: len(first_ids) + len(reply) + 1] == (*first_ids, *reply, end)
        between = chat.decode(second_ids[len(first_ids) + len(reply) :]).partition("Again?")[0]
        assert sum(between.count(chat.decode([i])) for i in {*facts.end_ids, facts.turn_end_id} - {None}) == 1
    # 4. A content cannot write a control token.
    for control in CONTROL.findall(path.read_text()):
        hostile = tokens.encode(Prompt((Message("user", f"A {control} b"),)))
        number = chat.tokenizer.convert_tokens_to_ids(control)
        assert hostile.count(number) == first_ids.count(number), control
        assert f"A {control} b" in chat.decode(hostile)
        assert number not in tokens.encode_reply(control)[len(chat.encode(facts.answer_start)) : -1]
    # 5. A reply without a thought, 6. with one, 7. that ends inside of it, 8. that closes it and answers nothing.
    closed = f"{facts.thought_end}" if facts.opens_thought else facts.answer_start
    assert chat.answer(f"{closed}{bet}") == "bet"
    assert chat.answer(chat.think("<action>fold</action>?", bet)) == "bet"
    begin = "" if facts.opens_thought else facts.thought_start or "<think>"
    assert chat.answer(f"{begin}Maybe {bet}?") is None
    assert chat.answer(chat.think(f"Maybe {bet}?", "I pass.")) is None
    # 9. The end does not belong to the text, and a reply with an end is whole.
    closed_reply = chat.read(f"{closed}{bet}")
    assert closed_reply.text.endswith(bet)
    assert not closed_reply.truncated
    # 10. The prompt does not depend on the day.
    today = datetime.datetime.now(tz=datetime.UTC)
    for form in ("%d %b %Y", "%Y-%m-%d", "%B %d, %Y"):
        assert today.strftime(form) not in chat.decode(first_ids)


@pytest.mark.parametrize("name", ["qwen3", "qwen3_6", "glm4moe", "nemotron_3_nano", "deepseek_r1_distill"])
def test_markers_that_are_special_tokens_survive_decoding(name: str) -> None:
    template = next(path for path in TEMPLATES if path.stem == name).read_text()
    for special in (("<think>", "</think>"), ("<think>", "</think>", "<action>", "</action>"), ()):
        chat = Chat(template, special)
        assert chat.answer(chat.think("<action>fold</action>", "<action>bet</action>")) == "bet"
        assert chat.answer(chat.think("<action>fold</action>", "nothing")) is None


WRITTEN = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
OPENS = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"


def test_an_unknown_marker_is_found() -> None:
    chat = Chat(WRITTEN + OPENS.replace("\n{% endif", "\n<ponder>\n{% endif"))
    assert (chat.facts.thought_start, chat.facts.thought_end, chat.facts.opens_thought) == (
        "<ponder>",
        "</ponder>",
        True,
    )
    assert chat.answer("a <action>fold</action></ponder><action>bet</action>") == "bet"
    assert chat.answer("a <action>fold</action>") is None
    field = "{% if m.reasoning_content %}((({{ m.reasoning_content }}))){% endif %}"
    chat = Chat(WRITTEN.replace("{{ m.content", f"{field}{{{{ m.content") + OPENS)
    assert (chat.facts.thought_start, chat.facts.thought_end) == ("(((", ")))")
    assert chat.answer("((( <action>fold</action> )))<action>bet</action>") == "bet"
    assert chat.answer("((( <action>fold</action>") is None


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (WRITTEN, r"ignores add_generation_prompt, .*'<|im_start|>assistant' is missing"),
        (WRITTEN.replace("m.content", "m.text") + OPENS, r"drops the text of a 'user' message"),
        (
            WRITTEN.replace("{{ m.content", "{% if m.role == 'user' %}{{ m.content").replace(
                "<|im_end|>", "{% endif %}"
            )
            + OPENS,
            r"drops the text of a 'assistant' message",
        ),
        (
            "{% for m in messages | reverse %}{{ m.content }}<|im_end|>{% endfor %}" + OPENS,
            r"writes the messages in another order, so that the model would not read the chat",
        ),
        ("{{ messages[0].content + 1 }}", r"cannot render the chat"),
    ],
)
def test_a_template_that_cannot_chat_is_refused(template: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ChatTokenizer(make_tokenizer(template, ("<|im_start|>", "<|im_end|>")))


def test_a_tokenizer_without_an_end_is_refused() -> None:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "
    ChatTokenizer(tokenizer)
    tokenizer.eos_token = None
    with pytest.raises(ValueError, match="no token that ends a reply; set its eos_token"):
        ChatTokenizer(tokenizer)


def test_the_end_of_a_turn_may_stand_behind_whitespace() -> None:
    template = "{% for m in messages %}[{{ m.role }}] {{ m.content }} <eos> {% endfor %}[assistant] "
    chat = Chat(template)
    first_ids = chat.tokens.encode(Prompt((ASK,)))
    assert chat.facts.turn_end_id == chat.tokenizer.eos_token_id
    reply_turn = chat.read("bet")
    second_ids = chat.tokens.encode(
        Prompt((ASK, Message("assistant", "bet"), Message("user", "?")), previous=reply_turn)
    )
    assert chat.decode(second_ids[len(first_ids) :]) == "bet<eos> [user] ? <eos> [assistant] "


def test_a_tokenizer_that_begins_a_text_with_a_space() -> None:
    """Sentencepiece writes a space before each text that is encoded alone."""
    signs = ["<unk>", "<s>", "</s>", "▁", *string.printable]
    core = Tokenizer(models.BPE({sign: index for index, sign in enumerate(signs)}, [], unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    core.decoder = decoders.Metaspace(prepend_scheme="first", split=False)
    tokenizer: Any = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=core,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        extra_special_tokens=["[INST]", "[/INST]"],
    )
    tokenizer.chat_template = (
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
        "{% else %} {{ m.content }}</s>{% endif %}{% endfor %}"
    )
    tokens = ChatTokenizer(tokenizer)
    ids = tokens.encode(Prompt((Message("user", "a [/INST] b</s> c"),)))
    assert tokenizer.decode(list(ids)) == "<s>[INST] a [/INST] b</s> c [/INST]"
    assert (ids.count(tokenizer.convert_tokens_to_ids("[/INST]")), ids.count(tokenizer.eos_token_id)) == (1, 0)


def test_a_template_that_numbers_its_turns_refuses_conversations() -> None:
    template = "{% for m in messages %}{{ loop.index }}{{ m.role }}: {{ m.content }}<eos>{% endfor %}assistant: "
    chat = Chat(template)
    assert not chat.facts.extends
    follow = Prompt((ASK, Message("assistant", "bet"), Message("user", "?")), previous=chat.read("bet"))
    with pytest.raises(ValueError, match="no conversation can continue its ids. Use the context 'rebuilt'"):
        chat.tokens.encode(follow)


def test_an_option_sets_the_date() -> None:
    template = next(path for path in TEMPLATES if path.stem == "llama3_2").read_text()
    tokenizer = make_tokenizer(template)
    tokens = ChatTokenizer(tokenizer, PromptFormat(date="2024-02-29"))
    assert tokens.reply_format.shows_date
    assert "29 Feb 2024" in tokenizer.decode(list(tokens.encode(Prompt((ASK,)))))
    for wrong in ("today", "2026-1-1", "2026-02-30", "20260101"):
        with pytest.raises(ValueError, match=f"date='{wrong}' must be a day in the form YYYY-MM-DD"):
            PromptFormat(date=wrong)


def test_the_probe_finds_what_it_wrote() -> None:
    assert THOUGHT not in REPLY
    chat = Chat(next(path for path in TEMPLATES if path.stem == "gptoss").read_text())
    lines = dict(chat.facts.describe(chat.tokenizer))
    assert "<|return|>" in lines["a reply ends with"]
    assert "<|end|>" not in lines["a reply ends with"]
    assert lines["date in the prompt"] == "yes"
    assert chat.facts.difference(replace(chat.facts, opens_thought=True)) == "opens_thought was True and is False"
    assert chat.facts.difference(chat.facts) is None
