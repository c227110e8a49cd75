"""Replies among legal actions of several tokens: the trie, sampling, scores, and the same distribution in training."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from mage_envs.text.generation import Message, Prompt
from mage_envs.trainer.backends.cached import CachedGenerator
from mage_envs.trainer.backends.local_model import HFGenerator, Sampling
from mage_envs.trainer.backends.tiny import byte_tokenizer, tiny_model, tiny_tokenizer
from mage_envs.trainer.backends.tokens import ActionTrie, ChatTokenizer
from mage_envs.trainer.method.batch import build_rows, collate
from mage_envs.trainer.method.loss import score_logits
from tests.trainer.tiny_runs import step, trajectory

ACTIONS = ("go to drawer 1", "go to drawer 12", "go to fridge 1", "open drawer 1", "look", "look in")
WORDS = ["<what>", "now", "go", "to", "drawer", "1", "12", "fridge", "open", "look", "in"]


@pytest.fixture(scope="module")
def tokens() -> ChatTokenizer:
    return ChatTokenizer(tiny_tokenizer(WORDS))


def make_model(tokens: ChatTokenizer) -> torch.nn.Module:
    return tiny_model(len(tokens.tokenizer), hidden=16, layers=2, heads=2, initializer_range=0.4, max_positions=8192)


def ask(actions: tuple[str, ...], seed: int, tag: str | None = None, slot: int = 0) -> Prompt:
    return Prompt((Message("user", "what now"),), slot, (seed, 0, 0, 0), actions, info={"answer_tag": tag})


def test_a_prefix_allows_the_next_ids_and_a_whole_reply_none() -> None:
    trie = ActionTrie({"a b": (1, 2), "a c": (1, 3), "d": (4,)}, end_id=None)
    assert trie.allowed(()) == (1, 4)
    assert trie.allowed((1,)) == (2, 3)
    assert trie.allowed((1, 2)) == trie.allowed((4,)) == trie.allowed((7,)) == ()
    assert [trie.reply(ids) for ids in ((1, 3), (4,), (1,))] == ["a c", "d", None]
    assert trie.legal_ids((1, 3)) == ((1, 4), (2, 3))
    assert (trie.depth, trie.ids("a c"), trie.ids("e")) == (2, (1, 3), ())


def test_only_an_action_that_begins_another_one_has_an_end() -> None:
    trie = ActionTrie({"look": (1,), "look in": (1, 2), "go": (3,)}, end_id=9)
    assert trie.allowed((1,)) == (2, 9)
    assert [trie.reply(ids) for ids in ((1, 9), (1, 2), (3,), (1,))] == ["look", "look in", "go", None]
    with pytest.raises(ValueError, match="'look' begins another one, and the model has no end token"):
        ActionTrie({"look": (1,), "look in": (1, 2)}, end_id=None)
    with pytest.raises(ValueError, match="'look' has no tokens"):
        ActionTrie({"look": ()}, end_id=9)


def test_of_actions_with_equal_ids_the_first_is_played() -> None:
    trie = ActionTrie({"take lamp": (1, 0), "take vase": (1, 0)}, end_id=None)
    assert trie.reply((1, 0)) == "take lamp"
    assert trie.ids("take vase") == ()


@pytest.mark.parametrize("kind", [HFGenerator, CachedGenerator])
def test_the_probabilities_of_all_actions_sum_to_one_and_are_those_of_the_samples(
    kind: type[HFGenerator], tokens: ChatTokenizer
) -> None:
    # "look" begins "look in", so it ends with the tokenizer's end token, although the words end no turn.
    actions = ACTIONS
    backend = kind(make_model(tokens), tokens, Sampling(max_new_tokens=6, constrained=True))
    [scores] = backend.score([ask(actions, 0)], [actions])
    assert np.exp(scores).sum() == pytest.approx(1, abs=1e-6)
    replies = backend.generate([ask(actions, seed, slot=seed) for seed in range(2000)])
    assert {reply.text for reply in replies} <= set(actions)
    assert not any(reply.truncated for reply in replies)
    for action, score in zip(actions, scores, strict=True):
        share = np.mean([reply.text == action for reply in replies])
        assert abs(share - np.exp(score)) < 5 * np.sqrt(np.exp(score) * (1 - np.exp(score)) / 2000) + 1e-9
    for reply in replies[:50]:
        assert reply.logprobs is not None
        assert sum(reply.logprobs) == pytest.approx(scores[actions.index(reply.text)], abs=1e-5)
        assert len(reply.legal_ids) == len(reply.ids)


def test_training_scores_the_tokens_as_they_were_sampled(tokens: ChatTokenizer) -> None:
    model = make_model(tokens)
    backend = HFGenerator(model, tokens, Sampling(max_new_tokens=6, temperature=0.7, constrained=True))
    asked = [
        ask(actions, seed) for seed, actions in product(range(10), (ACTIONS[:4], ACTIONS[2:4], ("open drawer 1",)))
    ]
    replies = backend.generate(asked)
    steps = [step(reply.prompt_ids, reply.ids, logprobs=reply.logprobs, legal=reply.legal_ids) for reply in replies]
    batch = collate(build_rows([trajectory([one]) for one in steps], [[1.0] for _ in steps]), tokens.pad_id)
    logits = model(input_ids=batch.ids, attention_mask=batch.attention, position_ids=batch.positions).logits
    scores = score_logits(logits[batch.rows, batch.columns - 1], batch, 0.7, constrained=True)
    assert batch.sampling is not None
    torch.testing.assert_close(scores.logps, batch.sampling, atol=1e-5, rtol=1e-5)
    # The single action was certain, token by token.
    assert [sum(reply.logprobs or ()) for reply in replies[2::3]] == [0.0] * 10


def test_a_model_with_turns_and_tags_replies_with_a_whole_answer() -> None:
    tokens = ChatTokenizer(byte_tokenizer())
    sampling = Sampling(max_new_tokens=64, constrained=True)
    replies = HFGenerator(make_model(tokens), tokens, sampling).generate([ask(ACTIONS, n, "action") for n in range(40)])
    assert {reply.text for reply in replies} <= {f"<action>{action}</action>" for action in ACTIONS}
    assert len({reply.text for reply in replies}) > 1
    bare = HFGenerator(make_model(tokens), tokens, sampling).generate([ask(ACTIONS[4:], n) for n in range(40)])
    # "look" begins "look in", so it has an end token, which is no part of its text.
    assert {reply.text for reply in bare} == {"look", "look in"}
    assert {reply.ids[-1] in tokens.end_ids for reply in bare if reply.text == "look"} == {True}


def test_a_constrained_model_never_gives_another_reply(tokens: ChatTokenizer) -> None:
    """An illegal word, a part of an action, and an action with more behind it."""
    backend = HFGenerator(make_model(tokens), tokens, Sampling(max_new_tokens=6, constrained=True))
    [scores] = backend.score([ask(ACTIONS[:4], 0)], [["what", "go to", "open drawer 1 now", "open drawer 1"]])
    assert scores[:3] == [-np.inf] * 3
    assert np.isfinite(scores[3])


def test_actions_of_unknown_words_alone_are_one_clear_error(tokens: ChatTokenizer) -> None:
    """They would all be the same token, of which the first action is played."""
    with pytest.raises(ValueError, match="None of the actions is in this model's vocabulary: what, whatever"):
        tokens.action_trie(("what", "whatever"), None, ())
    with pytest.raises(ValueError, match="None of the actions is in this model's vocabulary: what, whatever"):
        tokens.single_ids(("what", "whatever"))


def test_an_action_beyond_the_limit_is_one_clear_error(tokens: ChatTokenizer) -> None:
    backend = HFGenerator(make_model(tokens), tokens, Sampling(max_new_tokens=3, constrained=True))
    with pytest.raises(ValueError, match="needs replies of 4 tokens .* use --max_completion_length 4 or more"):
        backend.generate([ask(ACTIONS[:3], 0)])
