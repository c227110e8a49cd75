"""Tokens in, tokens out: the ids that were sent and sampled are never tokenised again."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import subprocess
import sys
from typing import Any

import pytest

from mage_envs.text.generation import Completion, Message, Prompt
from mage_envs.trainer.backends.tiny import byte_tokenizer, tiny_tokenizer
from mage_envs.trainer.backends.tokens import ChatTokenizer, PromptFormat, make_completion

QWEN3_LIKE = """\
{%- set ns = namespace(last=0) %}
{%- for m in messages %}{% if m['role'] == 'user' %}{% set ns.last = loop.index0 %}{% endif %}{% endfor %}
{%- for m in messages %}
{%- if m.role == 'assistant' and '</think>' in m.content and loop.index0 < ns.last %}
{{- '<|im_start|>assistant\\n' + m.content.split('</think>')[-1].lstrip('\\n') + '<|im_end|>\\n' }}
{%- else %}
{{- '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{% endif %}
{%- endif %}"""


def qwen(**kwargs: Any) -> ChatTokenizer:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = QWEN3_LIKE
    return ChatTokenizer(tokenizer, PromptFormat(kwargs))


def raw(tokens: ChatTokenizer, text: str) -> tuple[int, ...]:
    return tuple(tokens.tokenizer.encode(text, add_special_tokens=False))


def chat(*contents: str) -> tuple[Message, ...]:
    return tuple(Message("assistant" if index % 2 else "user", content) for index, content in enumerate(contents))


def turn(prompt_ids: tuple[int, ...], ids: tuple[int, ...]) -> Completion:
    return Completion("", prompt_ids, ids)


def test_first_prompt_is_the_rendered_chat() -> None:
    tokens = qwen()
    text = "<|im_start|>user\nYou hold: J<|im_end|>\n<|im_start|>assistant\n"
    assert tokens.encode(Prompt(chat("You hold: J"))) == raw(tokens, text)
    assert tokens.tokenizer.decode(tokens.encode(Prompt(chat("You hold: J")))) == text


@pytest.mark.parametrize("has_end", [True, False])
@pytest.mark.parametrize("reply", ["bet", "<think>\nhm\n</think>\n\nbet", ""])
def test_conversation_extends_the_sent_and_sampled_ids(reply: str, has_end: bool) -> None:
    tokens = qwen()
    first_ids = tokens.encode(Prompt(chat("one")))
    sampled = raw(tokens, reply) + ((tokens.turn_end_id,) if has_end else ())
    prompt = Prompt(chat("one", reply, " two\n"), previous=turn(first_ids, sampled))
    ids = tokens.encode(prompt)
    assert ids[: len(first_ids) + len(sampled)] == first_ids + sampled
    assert tokens.tokenizer.decode(ids) == (
        f"<|im_start|>user\none<|im_end|>\n<|im_start|>assistant\n{reply}<|im_end|>\n"
        "<|im_start|>user\n two\n<|im_end|>\n<|im_start|>assistant\n"
    )
    rendered = tokens.encode(Prompt(chat("one", reply, " two\n")))
    assert (ids == rendered) == ("think" not in reply)  # a re-rendered chat would lose the thinking


def test_three_turns_and_another_end_token() -> None:
    tokens = qwen()
    assert tokens.tokenizer.eos_token_id == tokens.turn_end_id
    first_ids = tokens.encode(Prompt(chat("one")))
    second_ids = tokens.encode(Prompt(chat("one", "a", "two"), previous=turn(first_ids, raw(tokens, "a<|im_end|>"))))
    third = tokens.encode(
        Prompt(chat("one", "a", "two", "b", "three"), previous=turn(second_ids, raw(tokens, "b<|endoftext|>")))
    )
    assert third[: len(second_ids)] == second_ids
    assert tokens.tokenizer.decode(third[len(second_ids) :]) == (
        "b<|endoftext|><|im_end|>\n<|im_start|>user\nthree<|im_end|>\n<|im_start|>assistant\n"
    )


def test_template_arguments_reach_first_prompt_and_suffix() -> None:
    tokens = qwen(enable_thinking=False)
    first_ids = tokens.encode(Prompt(chat("one")))
    assert tokens.tokenizer.decode(first_ids).endswith("assistant\n<think>\n\n</think>\n\n")
    ids = tokens.encode(Prompt(chat("one", "a", "two"), previous=turn(first_ids, raw(tokens, "a<|im_end|>"))))
    assert tokens.tokenizer.decode(ids).count("<think>\n\n</think>\n\n") == 2


@pytest.mark.parametrize("content", ["@@", "a @@@ b", "", "é 你好 \x00\x1f", "@@ <think> </think>"])
def test_any_content_is_kept(content: str) -> None:
    tokens = qwen()
    first_ids = tokens.encode(Prompt(chat("one")))
    ids = tokens.encode(Prompt(chat("one", "a", content), previous=turn(first_ids, raw(tokens, "a<|im_end|>"))))
    assert ids == tokens.encode(Prompt(chat("one", "a", content)))


@pytest.mark.parametrize("turn_end", [False, True])
def test_concatenating_template(turn_end: bool) -> None:
    tokens = ChatTokenizer(tiny_tokenizer(["deal", "J", "bet", "you", "win"], turn_end))
    first_ids = tokens.encode(Prompt(chat("deal J")))
    assert tokens.tokenizer.decode(first_ids) == "<bos> deal J"
    assert (tokens.turn_end_id == tokens.tokenizer.eos_token_id) == turn_end
    answer = raw(tokens, "bet")
    assert len(answer) == 1
    ids = tokens.encode(Prompt(chat("deal J", "bet", "you win"), previous=turn(first_ids, answer)))
    assert ids == tokens.encode(Prompt(chat("deal J", "bet", "you win")))
    assert tokens.tokenizer.decode(ids) == f"<bos> deal J bet{' <eos>' * turn_end} you win"
    assert tokens.encode_reply("bet") == ((*answer, tokens.tokenizer.eos_token_id) if turn_end else answer)


def test_errors_say_what_where_and_what_to_do() -> None:
    tokenizer = tiny_tokenizer(["a"])
    tokenizer.chat_template = None
    with pytest.raises(ValueError, match=r"no chat template; use an instruction-tuned model"):
        ChatTokenizer(tokenizer)
    tokens = qwen()
    with pytest.raises(ValueError, match=r"slot 3 continues a reply without token ids"):
        tokens.encode(Prompt(chat("one", "a", "two"), slot=3, previous=Completion("a")))
    with pytest.raises(ValueError, match=r"ends with a message of role 'assistant'"):
        tokens.encode(Prompt(chat("one", "a"), previous=turn((1,), (2,))))


def test_legal_ids_only_where_each_action_is_one_token() -> None:
    words = ChatTokenizer(tiny_tokenizer(["bet", "check"]))
    legal = words.single_ids(("check", "bet"))
    assert [words.decode([i]) for i in legal] == ["check", "bet"]
    assert words.single_ids(()) == ()
    assert qwen().single_ids(("b", "ch")) == ()


def test_decode_drops_ends_and_keeps_the_rest() -> None:
    tokens = qwen()
    assert tokens.decode(raw(tokens, "<think>\n</think>  é<|im_end|>")) == "<think>\n</think>  é"
    assert tokens.decode(()) == ""
    extra = ChatTokenizer(tokens.tokenizer, PromptFormat(end_ids=(7,)))
    assert extra.end_ids == {7, tokens.turn_end_id}


def test_truncated_means_cut_without_an_end() -> None:
    tokens = qwen()
    end = tokens.turn_end_id
    assert end is not None
    cases = [((1, 2), 2), ((1, end), 2), ((1,), 2), ((1,), 1)]  # a one-token answer is whole
    prompt = Prompt((Message("user", "."),))
    cut = [make_completion(prompt, tokens, (), ids, None, limit).truncated for ids, limit in cases]
    assert cut == [True, False, False, False]


def test_groups_share_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = qwen()
    calls: list[str] = []
    encode = tokens.tokenizer.encode

    def count_encoding(text: str, **kwargs: Any) -> Any:
        calls.append(text)
        return encode(text, **kwargs)

    monkeypatch.setattr(tokens.tokenizer, "encode", count_encoding)
    first_ids = [tokens.encode(Prompt(chat("one"), slot)) for slot in range(8)]
    for slot in range(8):
        tokens.encode(Prompt(chat("one", str(slot), "two"), slot, previous=turn(first_ids[slot], (slot,))))
    assert len(calls) == 2


def test_tokens_and_generation_load_no_torch() -> None:
    code = "import sys; from mage_envs.trainer.backends import generation, tokens; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
