"""Tiny models: exact ids, a function of their seed, loadable by TRL."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from mage_envs.text.generation import Message, Prompt
from mage_envs.trainer.backends.local_model import HFGenerator, Sampling
from mage_envs.trainer.backends.tiny import byte_tokenizer, general_tiny, save_tiny, tiny_model, tiny_tokenizer
from mage_envs.trainer.backends.tokens import ChatTokenizer, PromptFormat

WORDS = ["bet", "check", "J:", "(2,", "2)"]


def test_word_tokenizer_is_one_id_per_word() -> None:
    tokenizer = tiny_tokenizer(WORDS)
    assert len(tokenizer) == 4 + len(WORDS)
    ids = tokenizer.encode("J: bet (2, 2) raise", add_special_tokens=False)
    assert len(ids) == 5
    assert tokenizer.decode(ids) == "J: bet (2, 2) <unk>"
    assert tokenizer.pad_token_id == 0
    assert len({tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id}) == 3


def test_an_action_of_several_words_is_one_id(tmp_path: Path) -> None:
    new_tokenizer = tiny_tokenizer(["offer 1", "offer 10", "offer-1", "accept", "(2, 2)", "2-2"])
    new_tokenizer.save_pretrained(tmp_path)
    for tokenizer in (new_tokenizer, AutoTokenizer.from_pretrained(tmp_path)):
        assert len(tokenizer) == 4 + 6
        ids = tokenizer.encode(" offer-1 offer 10 accept offer 1 (2, 2) 2-2 offer 2", add_special_tokens=False)
        words = [tokenizer.decode([i]) for i in ids]
        assert words == ["offer-1", "offer 10", "accept", "offer 1", "(2, 2)", "2-2", "<unk>", "<unk>"]
        assert ChatTokenizer(tokenizer).single_ids(("offer 10", "(2, 2)")) == (ids[1], ids[4])


@pytest.mark.parametrize("word", ["", " all", "all  in", "all\nin"])
def test_word_tokenizer_refuses_what_it_could_not_find_again(word: str) -> None:
    with pytest.raises(ValueError, match="single spaces"):
        tiny_tokenizer([word])


@pytest.mark.parametrize("text", ["", "plain", "é 你好 🙂\n\t<think>", "\x00\x7f  two  spaces ", "don't I'll"])
def test_byte_tokenizer_reads_any_text(text: str) -> None:
    tokenizer = byte_tokenizer()
    ids = tokenizer.encode(text, add_special_tokens=False)
    assert len(ids) == len(text.encode())
    assert tokenizer.decode(ids, clean_up_tokenization_spaces=False) == text


def test_model_is_a_function_of_its_seed_and_leaves_global_randomness_alone() -> None:
    state_before = torch.random.get_rng_state()
    a, b, c = tiny_model(83, seed=1), tiny_model(83, seed=1), tiny_model(83, seed=2)
    assert torch.equal(state_before, torch.random.get_rng_state())
    assert sum(p.numel() for p in a.parameters()) == 87_616
    pairs = list(zip(a.parameters(), b.parameters(), c.parameters(), strict=True))
    assert all(torch.equal(x, y) for x, y, _ in pairs)
    assert not all(torch.equal(x, z) for x, _, z in pairs)
    assert a.lm_head.weight is a.model.embed_tokens.weight
    assert float(a.lm_head.weight.detach().std()) == pytest.approx(0.1, rel=0.05)


def test_saved_model_loads_again(tmp_path: Path) -> None:
    tokenizer = tiny_tokenizer(WORDS)
    model = tiny_model(len(tokenizer), hidden=16, layers=1, heads=2)
    folder = save_tiny(tmp_path / "tiny", model, tokenizer)
    assert model.config.name_or_path == folder
    loaded_model, words = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    assert type(loaded_model) is type(model)
    assert loaded_model.config.eos_token_id == loaded_model.generation_config.eos_token_id == tokenizer.eos_token_id
    assert words.chat_template == tokenizer.chat_template
    chat = Prompt((Message("user", "J: bet"),))
    ids = ChatTokenizer(words).encode(chat)
    assert ids == ChatTokenizer(tokenizer).encode(chat)
    with torch.no_grad():
        assert torch.equal(loaded_model(torch.tensor([ids])).logits, model(torch.tensor([ids])).logits)


def test_general_model_takes_a_full_prompt(tmp_path: Path) -> None:
    folder = general_tiny(tmp_path / "general")
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokens = ChatTokenizer(AutoTokenizer.from_pretrained(folder), PromptFormat({"enable_thinking": False}))
    assert tokens.tokenizer.decode([tokens.turn_end_id]) == "<|im_end|>"
    prompt = Prompt((Message("user", "Rules of the game, in English. " * 70),), seed=(0,))
    [answer] = HFGenerator(model, tokens, Sampling(max_new_tokens=8)).generate([prompt])
    assert len(answer.prompt_ids) > 2000
    assert 1 <= len(answer.ids) <= 8
