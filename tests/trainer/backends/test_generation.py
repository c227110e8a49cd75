"""Backends: scripted, lock-step, local with and without a kept cache; and the keyed randomness."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from mage_envs.core import Task
from mage_envs.random.streams import UInt64s
from mage_envs.text.generation import Completion, Generator, Message, Prompt
from mage_envs.trainer.backends.cached import CachedGenerator
from mage_envs.trainer.backends.generation import LockStepGenerator, stream_keys
from mage_envs.trainer.backends.local_model import HFGenerator, Sampling, has_answer, reply
from mage_envs.trainer.backends.rows import RaggedCache
from mage_envs.trainer.backends.tiny import byte_tokenizer, tiny_model
from mage_envs.trainer.backends.tokens import ChatTokenizer
from mage_envs.wrappers.rollout.loop import RolloutSpec, collect
from mage_envs.wrappers.rollout.scripted import ScriptedGenerator
from tests.trainer.asking import LEGAL, WORDS, ask, word_tokens


@pytest.fixture(scope="module")
def tokens() -> ChatTokenizer:
    return word_tokens()


@pytest.fixture(scope="module")
def model(tokens: ChatTokenizer) -> Any:
    return tiny_model(len(tokens.tokenizer), hidden=16, layers=2, heads=2, initializer_range=0.3)


def go_on(prompt: Prompt, answer: Completion, text: str, key: int) -> Prompt:
    messages = (*prompt.messages, Message("assistant", answer.text), Message("user", text))
    return prompt._replace(messages=messages, seed=(5, prompt.slot, key, 0), previous=answer)


def say(rng: np.random.Generator, limit: int = 6) -> str:
    return " ".join(rng.choice(WORDS, int(rng.integers(1, limit))))


def test_stream_keys_tell_seeds_apart() -> None:
    seeds = [(0,), (0, 0), (0, 0, 0), (1,), (-1,), (2**64 - 2,), (2**40, 3), (3, 2**40)]
    keys = stream_keys(seeds)
    assert len(set(keys.tolist())) == len(seeds)
    assert stream_keys([(-1,)])[0] == stream_keys([(2**64 - 1,)])[0]
    assert [stream_keys([seed])[0] for seed in seeds] == keys.tolist()
    assert stream_keys([(0,)], base=1)[0] != keys[0]
    with pytest.raises(ValueError, match=r"Pass Prompt\(seed="):
        stream_keys([()])


def test_scripted_generator(tokens: ChatTokenizer) -> None:
    plain: Generator = ScriptedGenerator(lambda prompt: prompt.legal_actions[-1])
    assert plain.generate([ask("w1")]) == [Completion("check")]
    real = ScriptedGenerator(lambda prompt: "check", tokens)
    [first_reply] = real.generate([ask("w1 w2")])
    assert tokens.tokenizer.decode(first_reply.prompt_ids + first_reply.ids) == "<bos> w1 w2 check"
    assert [tokens.decode(ids) for ids in first_reply.legal_ids] == ["bet check"]
    [second_reply] = real.generate([go_on(ask("w1 w2"), first_reply, "w3", 1)])
    assert second_reply.prompt_ids[: len(first_reply.prompt_ids) + 1] == first_reply.prompt_ids + first_reply.ids


def test_lock_step_keeps_order_and_marks_overflow_and_truncation(tokens: ChatTokenizer) -> None:
    eos, sent = tokens.tokenizer.eos_token_id, []

    def generate_ids(prompts: list[list[int]], keys: UInt64s) -> tuple[list[list[int]], list[list[float]]]:
        assert len(keys) == len(prompts)
        sent.append(prompts)
        replies = [[prompt[-1], eos] if len(prompt) == 2 else [prompt[-1]] * 3 for prompt in prompts]
        return replies, [[-0.5] * len(reply) for reply in replies]

    backend = LockStepGenerator(tokens, generate_ids, max_prompt_length=3, max_new_tokens=3)
    requests = [ask("w1"), ask("w1 w2 w3"), ask("w1 w2"), ask("w1")]
    short_reply, long, cut, twin = backend.generate(requests)
    assert (short_reply.text, short_reply.truncated, short_reply.logprobs) == ("w1", False, (-0.5, -0.5))
    assert short_reply == twin
    assert long == Completion("", overflow=True)
    assert (cut.text, cut.truncated, cut.legal_ids) == ("w2 w2 w2", True, ())
    assert [len(prompts) for prompts in sent] == [3]
    assert backend.generate([]) == []
    assert backend.generate(requests[1:2]) == [long]
    assert len(sent) == 1


def test_lock_step_collective_sends_a_filler(tokens: ChatTokenizer) -> None:
    sent: list[int] = []

    def generate_ids(prompts: list[list[int]], keys: UInt64s) -> tuple[list[list[int]], None]:
        assert len(keys) == len(prompts)
        sent.append(len(prompts))
        return [[5] for _ in prompts], None

    backend = LockStepGenerator(tokens, generate_ids, max_prompt_length=2, collective=True)
    assert backend.generate([]) == []
    assert backend.generate([ask("w1 w2 w3")])[0].overflow
    [answer] = backend.generate([ask("w1")])
    assert (answer.logprobs, answer.truncated, len(answer.legal_ids[0])) == (None, False, 2)
    assert sent == [1, 1, 1]
    with pytest.raises(ValueError, match="2 replies for 1 prompts"):
        LockStepGenerator(tokens, lambda prompts, keys: ([[1], [2]], None)).generate([ask("w1")])


def reference_logprobs(model: Any, tokens: ChatTokenizer, answer: Completion, sampling: Sampling) -> list[float]:
    with torch.no_grad():
        logits = model(torch.tensor([answer.prompt_ids + answer.ids])).logits[0].double() / sampling.temperature
    start = len(answer.prompt_ids) - 1
    for index, legal in enumerate(answer.legal_ids if sampling.constrained else ()):
        illegal = [i for i in range(logits.shape[1]) if i not in legal]
        logits[start + index, illegal] = -torch.inf
    log_probs = logits.log_softmax(1)
    return [float(log_probs[start + index, i]) for index, i in enumerate(answer.ids)]


SAMPLINGS = [
    Sampling(),
    Sampling(constrained=True, temperature=0.7),
    Sampling(max_new_tokens=5, temperature=1.3),
    Sampling(max_new_tokens=5, constrained=True),
]


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("subset", [1.0, 0.6])
def test_cached_equals_from_scratch_for_ragged_conversations(
    model: Any, tokens: ChatTokenizer, sampling: Sampling, subset: float
) -> None:
    rng = np.random.default_rng(3)
    cached = CachedGenerator(model, tokens, sampling)
    scratch = HFGenerator(model, tokens, sampling, batch_size=2)
    prompts = [ask(say(rng, 9), slot) for slot in range(6)]
    for call in range(1, 9):
        rows = [int(row) for row in rng.permutation(6) if rng.random() < subset]  # any order, some absent
        answers = cached.generate([prompts[row] for row in rows])
        expected = scratch.generate([prompts[row] for row in rows])
        for row, answer, expected_answer in zip(rows, answers, expected, strict=True):
            assert replace(answer, logprobs=None) == replace(expected_answer, logprobs=None)
            assert answer.logprobs == pytest.approx(reference_logprobs(model, tokens, answer, sampling), abs=1e-4)
            assert answer.logprobs == pytest.approx(expected_answer.logprobs, abs=1e-4)
            legal = LEGAL if rng.random() < 0.7 else ()  # plays and reflections mixed
            restart = rng.random() < 0.15
            next_prompt = ask(say(rng, 20), row, call) if restart else go_on(prompts[row], answer, say(rng), call)
            prompts[row] = next_prompt._replace(legal_actions=legal)


def test_cached_forwards_only_new_tokens(model: Any, tokens: ChatTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    widths: list[int] = []
    append = RaggedCache.append

    def count_append(cache: RaggedCache, new: Sequence[Sequence[int]]) -> Any:
        widths.append(max(map(len, new)))
        return append(cache, new)

    monkeypatch.setattr(RaggedCache, "append", count_append)
    backend = CachedGenerator(model, tokens)
    prompts = [ask("w1 w2 w3 w4 w5", slot) for slot in range(3)]
    for call in range(1, 4):
        answers = backend.generate(prompts)
        prompts = [go_on(prompt, answer, "w6 w7", call) for prompt, answer in zip(prompts, answers, strict=True)]
    assert widths == [6, 3, 3]  # the last answer and two words
    forged = prompts[0]._replace(previous=replace(answers[0], prompt_ids=answers[0].prompt_ids[1:]))
    backend.generate([forged, prompts[1]])
    assert widths[-1] == 14  # another past: the row is rebuilt
    backend.generate([ask("w1 w2", 4)])
    backend.generate([ask("w1 w2 w3", 4, 1)])
    assert widths[-1] == 4  # without `previous` the row is rebuilt, though it holds a prefix
    backend.reset()
    backend.generate(prompts[1:])
    assert widths[-1] == 15


def test_cache_columns_are_compacted(model: Any, tokens: ChatTokenizer) -> None:
    backend = CachedGenerator(model, tokens)
    steady, answer = ask("w1"), Completion("")
    for call in range(1, 30):  # slot 1 restarts with a long prompt at every call
        answer = backend.generate([steady, ask("w2 " * 20, 1, call)])[0]
        steady = go_on(steady, answer, "w3", call)
        assert backend._cache is not None
        assert backend._cache.mask.shape[1] <= 150
    [single_reply] = HFGenerator(model, tokens, Sampling()).generate([steady._replace(seed=(1,))])
    assert backend.generate([steady._replace(seed=(1,))])[0].ids == single_reply.ids


def test_replies_do_not_depend_on_the_batch(model: Any, tokens: ChatTokenizer) -> None:
    rng = np.random.default_rng(0)
    prompts = [ask(say(rng, 15), slot) for slot in range(12)]
    sampling = Sampling(max_new_tokens=4, temperature=0.9, top_p=0.9, top_k=8)
    unbatched = HFGenerator(model, tokens, sampling, batch_size=1).generate(prompts)
    assert [a.ids for a in HFGenerator(model, tokens, sampling, batch_size=5).generate(prompts)] == [
        a.ids for a in unbatched
    ]
    other_seed = HFGenerator(model, tokens, replace(sampling, seed=1)).generate(prompts)
    assert [a.ids for a in other_seed] != [a.ids for a in unbatched]


def test_greedy_limits_and_modes(model: Any, tokens: ChatTokenizer) -> None:
    backend = HFGenerator(model, tokens, Sampling(max_new_tokens=3, temperature=0), max_prompt_length=4)
    model.train()
    fits, long = backend.generate([ask("w1 w2")._replace(seed=()), ask("w1 w2 w3 w4")])
    assert model.training
    model.eval()
    assert long == Completion("", overflow=True)
    ids = list(fits.prompt_ids)
    for i in fits.ids:
        with torch.no_grad():
            assert int(model(torch.tensor([ids])).logits[0, -1].argmax()) == i
        ids.append(i)
    cached = CachedGenerator(model, tokens, max_prompt_length=4)
    assert cached.generate([ask("w1 w2 w3 w4")]) == [long]
    assert cached.generate([]) == []
    with pytest.raises(ValueError, match="same slot"):
        cached.generate([ask("w1"), ask("w2")])
    with pytest.raises(ValueError, match="expected max_new_tokens >= 1"):
        Sampling(max_new_tokens=0)


def test_the_cached_backend_scores_replies_from_what_they_were_drawn_from(
    model: Any, tokens: ChatTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Constrained replies of the last call from their kept rows, all else as the plain backend does."""
    cached, plain = (kind(model, tokens, Sampling(constrained=True)) for kind in (CachedGenerator, HFGenerator))
    prompts = [ask("w1 w5", 0, 1), ask("w2 w3 w4", 1, 2)]
    replies = [list(prompt.legal_actions) for prompt in prompts]
    probabilities = [np.exp(scores) / np.exp(scores).sum() for scores in plain.score(prompts, replies)]
    assert np.array(cached.score(prompts, replies)) == pytest.approx(np.array(plain.score(prompts, replies))), "as yet"
    for _ in range(2):
        answers = cached.generate(prompts)
        with monkeypatch.context() as patch:
            patch.setattr(HFGenerator, "score", lambda self, prompts, replies: [[]] * len(prompts))
            cached_scores = cached.score(prompts, replies)
        for row, mine, answer, legal_replies in zip(cached_scores, probabilities, answers, replies, strict=True):
            assert np.exp(row) == pytest.approx(mine, abs=1e-5)
            assert row[legal_replies.index(answer.text)] == pytest.approx((answer.logprobs or ())[0], abs=1e-6)
        prompts = [go_on(last_prompt, answer, "w3", 1) for last_prompt, answer in zip(prompts, answers, strict=True)]
        probabilities = [np.exp(scores) / np.exp(scores).sum() for scores in plain.score(prompts, replies)]
    assert cached.score(prompts[:1], [["w1"]]) == [pytest.approx(plain.score(prompts[:1], [["w1"]])[0])]


def test_sampling_follows_the_distribution(model: Any, tokens: ChatTokenizer) -> None:
    backend = HFGenerator(model, tokens, Sampling(constrained=True), batch_size=1000)
    answers = backend.generate([ask("w1 w5", 0, key) for key in range(2000)])
    share = np.mean([answer.text == "bet" for answer in answers])
    logprobs = {answer.text: answer.logprobs for answer in answers}
    bet = float(np.exp(np.array(logprobs["bet"])[0]))
    assert bet + float(np.exp(np.array(logprobs["check"])[0])) == pytest.approx(1, abs=1e-5)
    assert share == pytest.approx(bet, abs=4 * (bet * (1 - bet) / 2000) ** 0.5)


def test_lock_step_cuts_a_reply_after_its_first_end(tokens: ChatTokenizer) -> None:
    """Cut the ids after the end of the turn, if a backend returns an invented next turn."""
    end = int(tokens.tokenizer.eos_token_id)
    [bet], [check] = tokens.single_ids(("bet",)), tokens.single_ids(("check",))

    def generate_ids(prompts: list[list[int]], keys: UInt64s) -> tuple[list[list[int]], list[list[float]]]:
        return [[bet, end, check, end], [bet, check, bet, check]], [[-0.1, -0.2, -0.3, -0.4]] * 2

    complete, cut = LockStepGenerator(tokens, generate_ids, max_new_tokens=4).generate([ask("w1"), ask("w2")])
    assert (complete.text, complete.ids, complete.logprobs, complete.truncated) == (
        "bet",
        (bet, end),
        (-0.1, -0.2),
        False,
    )
    assert (cut.ids, cut.truncated) == ((bet, check, bet, check), True)


def test_a_conversation_whose_first_prompt_is_too_long_overflows(tokens: ChatTokenizer) -> None:
    """No reply was sampled, so that the next prompt cannot continue one; it overflows too and nothing fails."""

    def generate_ids(prompts: list[list[int]], keys: UInt64s) -> tuple[list[list[int]], list[list[float]]]:
        raise AssertionError("nothing fits")

    backend = LockStepGenerator(tokens, generate_ids, max_prompt_length=3, max_new_tokens=3)
    envs = [gym.make("mage/KuhnPoker-Meta-v0", num_episodes=2, context="conversation")]
    [trajectory] = collect(envs, backend, [RolloutSpec(Task("mage/KuhnPoker-Meta-v0", seed=1))])
    assert trajectory.failure is None
    assert {step.invalid_reason for step in trajectory.steps} == {"overflow"}


@pytest.mark.parametrize(
    ("ids", "ends"),
    [
        ("<action>bet</action>", True),
        ("Hm, <action>bet</action>", True),
        ("<action>bet</action> or", False),
        ("<action>bet</action> or <action>fold</action>", True),
        ("<think><action>bet</action>", False),
        ("<think>x</think><action>bet</action>", True),
        ("bet</action>", False),
        ("<action>bet", False),
    ],
)
def test_a_reply_has_an_answer_when_its_last_id_closes_the_tag(ids: str, ends: bool) -> None:
    tokens = ChatTokenizer(byte_tokenizer())
    spelt = tokens.encode_reply(ids)
    spelt = tuple(token_id for token_id in spelt if token_id not in tokens.end_ids)
    prompt = ask("w0")
    assert not has_answer(tokens, spelt, prompt)
    assert has_answer(tokens, spelt, prompt._replace(info={"answer_tag": "action"})) == ends


def test_a_reply_stops_at_its_answer_and_is_not_cut() -> None:
    tokens = ChatTokenizer(byte_tokenizer())
    spoken = [token_id for token_id in tokens.encode_reply("<action>bet</action>") if token_id not in tokens.end_ids]
    prompt = ask("w0")._replace(info={"answer_tag": "action"})

    def answer(sampling: Sampling) -> Completion:
        cache: Any = Dictated([*spoken, *spoken], len(tokens.tokenizer))
        return reply(cache, [(1,)], [prompt], [(1,)], tokens, sampling)[0]

    for limit in (len(spoken), len(spoken) + 5):
        stopped = answer(Sampling(limit, temperature=0, stops_at_answer=True))
        assert (stopped.text, stopped.ids, stopped.truncated) == ("<action>bet</action>", tuple(spoken), False)
    longer = answer(Sampling(len(spoken) + 5, temperature=0))
    assert (longer.text, longer.truncated) == ("<action>bet</action><acti", True)


class Dictated:
    """A cache of a model that writes these ids, one after the other."""

    def __init__(self, ids: Sequence[int], vocabulary: int) -> None:
        self.ids, self.vocabulary = iter(ids), vocabulary

    def append(self, new: Sequence[Sequence[int]]) -> torch.Tensor:
        logits = torch.zeros(1, self.vocabulary)
        logits[0, next(self.ids)] = 1.0
        return logits
