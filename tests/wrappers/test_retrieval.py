"""Encoders: their input, the same output everywhere, and the right text first."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest

from mage_envs.wrappers.retrieval import BM25Encoder, Encoder, HashEncoder, make_encoder, nearest
from tests.processes import run_in_two_processes


def boards(count, seed=0):
    """Distinct Tic-Tac-Toe boards as (9,) letters."""
    rng = np.random.default_rng(seed)
    distinct = {"".join(row) for row in np.array(list(".XO"))[rng.integers(0, 3, (3 * count, 9))]}
    return sorted(distinct)[:count]


def board_text(board):
    return f"{board[:3]}\n{board[3:6]}\n{board[6:]}\nYou are O. Your move."


@pytest.mark.parametrize("spaced", [False, True])
def test_the_nearest_board_shares_most_cells(spaced):
    """A word bag agrees on 3.9 of 9 cells, at random it is 3.6 (docs/baselines.md)."""
    cells = boards(100)
    texts = [board_text(board) for board in cells]
    if spaced:
        texts = ["\n".join(" ".join(line) if len(line) == 3 else line for line in t.split("\n")) for t in texts]
    agreed, best = [], []
    for index, board in enumerate(cells):
        others = [at for at in range(len(cells)) if at != index]
        [(nearest_index, _)] = nearest(HashEncoder(), texts[index], [texts[at] for at in others], 1)
        same = [sum(a == b for a, b in zip(board, cells[at])) for at in others]
        agreed.append(same[nearest_index])
        best.append(max(same))
    assert np.mean(agreed) > np.mean(best) - 0.4
    assert np.mean(best) > 6


def test_a_board_differs_from_one_with_another_cell():
    board, moved = "# # # #\n# P _ #", "# # # #\n# _ P #"
    same, similarity, none = HashEncoder().similarities(
        f"Row it is:\n{board}", [f"Row it is:\n{board}", moved, "no words"]
    )
    assert same == pytest.approx(1)
    assert 0.4 < similarity < 0.9
    assert abs(none) < 0.2


TASKS = [
    f"i want {adjective} {product} in {color} for my {person}, price lower than {price}.00 dollars"
    for adjective, price in (("light", 30), ("waterproof", 90))
    for product in ("running shoes", "a desk lamp", "granola bars", "a rain jacket", "a coffee mug")
    for color, person in (
        ("red", "father"),
        ("blue", "sister"),
        ("black", "friend"),
        ("green", "son"),
        ("grey", "wife"),
    )
]


@pytest.mark.parametrize("name", ["hash", "bm25"])
@pytest.mark.parametrize("at", [0, 17, 49])
def test_the_note_of_the_matching_task_comes_first_among_50(name, at):
    assert len(TASKS) == 50
    notes = [f"[episode {n}] A visit to the shop. Task: WebShop. It began with: {task}" for n, task in enumerate(TASKS)]
    query = f"WebShop.\nWebShop [SEP] Instruction: [SEP] {TASKS[at]} [SEP] Search"
    nearest_notes = nearest(make_encoder(name), query, [*notes, "Something else entirely."], 3)
    assert nearest_notes[0][0] == at
    assert nearest_notes[0][1] > nearest_notes[1][1]


def test_equal_ones_are_ordered_by_age_the_newest_first():
    texts = ["same words", "other thing", "same words", "same words"]
    for encoder in (HashEncoder(), BM25Encoder()):
        assert [at for at, _ in nearest(encoder, "same words", texts, 3)] == [3, 2, 0]
    assert nearest(HashEncoder(), "x", [], 3) == []
    assert len(nearest(HashEncoder(), "x", texts, 9)) == 4


def test_bm25_by_hand():
    """k1 = 1.5, b = .75; mean length 2, document frequencies 2 and 1 of 3."""
    rare, often = np.log(1 + 2.5 / 1.5), np.log(1 + 1.5 / 2.5)

    def weight(count, length):
        return count * 2.5 / (count + 1.5 * (0.25 + 0.75 * length / 2))

    scores = BM25Encoder().similarities("Blue CAP", ["blue cap", "cap cap cap", "shoe"])
    assert scores == pytest.approx([(rare + often) * weight(1, 2), often * weight(3, 3), 0.0])


def test_rare_words_weigh_more_where_the_bank_is_large():
    common = [f"the shop sells item number {n}" for n in range(8)]
    texts = [*common, "the kazoo sells"]
    small = HashEncoder().similarities("the shop sells a kazoo", [texts[0], texts[-1]])
    large = HashEncoder().similarities("the shop sells a kazoo", texts)
    assert large[-1] - large[0] > small[-1] - small[0]


@pytest.mark.parametrize("text", ["", "\ud800", "x" * 200_000, "\x00\n\n", "# # #", "İıſ", "1 " * 50_000])
def test_no_text_raises(text):
    for encoder in (HashEncoder(), BM25Encoder()):
        scores = encoder.similarities(text, [text, "a b c"])
        assert len(scores) == 2
        assert all(np.isfinite(scores))


def test_the_same_numbers_in_every_process():
    code = (
        "from mage_envs.wrappers.retrieval import *\n"
        "print([e.similarities('a b\\n# P _ #', ['a', 'b a', '# P _ #']) for e in (HashEncoder(), BM25Encoder())])"
    )
    assert run_in_two_processes(code)


class Constant:
    name = "constant"

    def similarities(self, query, texts):
        return [1.0] * len(texts)


def test_encoders_by_name_by_module_and_as_objects():
    assert [make_encoder(name).name for name in ("hash", "bm25")] == ["hash", "bm25"]
    assert make_encoder(f"{__name__}:Constant").name == "constant"
    mine = Constant()
    assert make_encoder(mine) is mine
    assert isinstance(mine, Encoder)
    with pytest.raises(ValueError, match=re.escape("encoder='bm52' is unknown; Did you mean 'bm25'? choose one of: ")):
        make_encoder("bm52")


def test_minilm_needs_its_package_or_a_folder(tmp_path, monkeypatch):
    import mage_envs.trainer.backends.minilm

    monkeypatch.setattr(mage_envs.trainer.backends.minilm, "PACKAGE", "no-such-package")
    with pytest.raises(ImportError, match=r"encoder=minilm needs no-such-package. Install it with: pip install"):
        make_encoder("minilm")
    with pytest.raises(FileNotFoundError, match="holds no config.json of a sentence encoder"):
        make_encoder(f"minilm:{tmp_path}")


def test_minilm_encodes_with_a_models_own_folder(tmp_path):
    """A small BERT of random weights; with the published ones: MAGE_ENVS_MINILM."""
    pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *"abcdefgh"]
    inner = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(tmp_path)
    config = BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    BertModel(config).save_pretrained(tmp_path)
    encoder = make_encoder(f"minilm:{tmp_path}")
    same, similarity = encoder.similarities("a b c", ["a b c", "h g f e"])
    assert same == pytest.approx(1)
    assert similarity < 0.999
    assert encoder.name == f"minilm:{tmp_path}"


@pytest.mark.skipif("MAGE_ENVS_MINILM" not in os.environ, reason="MAGE_ENVS_MINILM names no folder")
def test_the_published_weights_order_sentences_as_measured():
    encoder = make_encoder(f"minilm:{os.environ['MAGE_ENVS_MINILM']}")
    texts = ["A cat was sitting on a rug.", "Dogs like to run in parks.", "Interest rates rose by half a percent."]
    paraphrase, related, unrelated = encoder.similarities("The cat sat on the mat.", texts)
    assert paraphrase > 0.6 > 0.3 > max(related, unrelated)
