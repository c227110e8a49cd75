"""The loss: a ten-line reference, TRL's own, masking, merging, micro-batching."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from mage_envs.trainer.method.batch import (
    MicroBatch,
    Row,
    Update,
    build_rows,
    collate,
    dummy_row,
    micro_batches,
    rank_share,
)
from mage_envs.trainer.method.components import KL_ESTIMATORS
from mage_envs.trainer.method.loss import LossTerms, Scores, policy_loss, score_logits
from mage_envs.trainer.method.metrics import LARGEST_RATIO
from mage_envs.trainer.trl.mage_trainer import MAGETrainer
from mage_envs.trainer.trl.updating import loss_terms
from tests.trainer.tiny_runs import make_config, make_trainer, save_model, step, trajectory

TERMS = LossTerms(
    delta=3.0, beta=0.1, entropy_coef=0.01, uniform_legal_coef=0.5, correct_sampling=True, correction_max=2.0
)


@pytest.fixture(scope="module")
def trainer(tmp_path_factory: pytest.TempPathFactory) -> MAGETrainer:
    folder = tmp_path_factory.mktemp("loss")
    return make_trainer(save_model(folder / "model"), folder, beta=0.1, entropy_coef=0.0, temperature=0.7)


def random_rows(seed: int = 0, count: int = 8, merge: bool = True, uneven: bool = True) -> list[Row]:
    """Conversations of one to four short replies, with old, reference and sampling log-probabilities."""
    rng = np.random.default_rng(seed)
    trajectories, weights = [], []
    for _ in range(count):
        ids: list[int] = []
        steps = []
        for _ in range(int(rng.integers(1, 5)) if uneven else 1):
            ids = ids + rng.integers(4, 40, int(rng.integers(1, 6)) if uneven else 5).tolist()
            reply = rng.integers(4, 40, int(rng.integers(1, 4)) if uneven else 3).tolist()
            old_logprobs = tuple(float(p) for p in -rng.random(len(reply)) * 4)
            steps.append(step(ids, reply, logprobs=old_logprobs, legal=((4, 5, 6),) if len(reply) == 1 else ()))
            ids = ids + reply
        trajectories.append(trajectory(steps))
        weights.append(rng.normal(size=len(steps)).tolist())
    rows = build_rows(trajectories, weights, merge=merge)
    for row in rows:
        assert row.sampling is not None
        row.old = row.sampling + np.float32(0.1)
        row.reference = row.sampling - np.float32(0.2)
    return rows


def gradient(trainer: MAGETrainer, batches: Sequence[Sequence[Row]]) -> tuple[float, list[torch.Tensor]]:
    tokens = sum(len(row.targets) for rows in batches for row in rows)
    steps = sum(row.steps for rows in batches for row in rows)
    trainer.model.zero_grad()
    loss = trainer.updates.backward(
        trainer.model, Update([list(rows) for rows in batches], max(tokens, 1), max(steps, 1))
    )
    return loss.item(), [p.grad.clone() for p in trainer.model.parameters() if p.grad is not None]


def assert_equal(ours: list[torch.Tensor], theirs: list[torch.Tensor], tolerance: float = 2e-6) -> None:
    assert len(ours) == len(theirs) > 0
    scale = max(float(g.abs().max()) for g in theirs)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=tolerance * scale)


def test_equals_a_ten_line_reference() -> None:
    rng = np.random.default_rng(3)
    n = 400
    new, old, ref, sampled, adv = (rng.normal(size=n) for _ in range(5))
    entropy, legal = rng.random(n), rng.random(7)
    # Tokens without a log-probability of the sampler have the weight 1.
    sampled[::9] = np.nan
    total = policy_alone = 0.0
    logged: dict[str, float] = defaultdict(float)
    for i in range(n):
        ratio = np.exp(new[i] - old[i])
        gap = 0.0 if np.isnan(sampled[i]) else old[i] - sampled[i]
        low, high = ratio < 0.8 and adv[i] < 0, ratio > 1.2 and adv[i] > 0
        gain = min(ratio * adv[i], min(max(ratio, 0.8), 1.2) * adv[i])
        if adv[i] < 0:
            gain = max(gain, 3.0 * adv[i])  # the classic dual clip
        kl = np.exp(ref[i] - new[i]) - (ref[i] - new[i]) - 1
        policy_alone -= gain
        total += -gain * min(np.exp(gap), 2.0) + 0.1 * kl - 0.01 * entropy[i]
        for name, value in (
            *(("loss/policy", -gain * min(np.exp(gap), 2.0)), ("kl", kl), ("entropy", entropy[i])),
            *(("clip_ratio/low", low), ("clip_ratio/high", high), ("clip_ratio/any", low or high)),
            *(("sampling/correction", np.exp(gap)), ("sampling/log_abs", abs(gap))),
            *(("sampling/k3", np.exp(gap) - gap - 1), ("sampling/truncated", np.exp(gap) > 2.0)),
            ("ratio/log_abs", abs(new[i] - old[i])),
        ):
            logged[name] += float(value)
    total += 0.5 * legal.sum()
    logged |= {"uniform_legal": legal.sum(), LARGEST_RATIO: np.exp(np.nanmax(old - sampled))}
    tensor = torch.as_tensor
    batch = SimpleNamespace(
        advantages=tensor(adv),
        old=tensor(old),
        reference=tensor(ref),
        sampling=tensor(sampled),
        legal_at=torch.arange(7),
        lengths=torch.ones(n, dtype=torch.long),
        steps=torch.arange(n),
    )
    scores = Scores(tensor(new), tensor(entropy), tensor(legal))
    loss, sums = policy_loss(scores, batch, TERMS)  # type: ignore[arg-type]
    assert loss.item() == pytest.approx(total, rel=1e-12)
    assert {name: value.item() for name, value in sums.items()} == pytest.approx(dict(logged), rel=1e-9)
    # By default neither the reference, the entropy nor the uniform play counts, and nothing is corrected.
    plain, _ = policy_loss(scores, batch, LossTerms())  # type: ignore[arg-type]
    assert plain.item() == pytest.approx(policy_alone, rel=1e-12)


def trl_inputs(rows: Sequence[Row], batch: MicroBatch) -> dict[str, torch.Tensor]:
    """The same rows as TRL wants them: equal rows, five prompt tokens and three of a completion."""
    one_each = torch.tensor([row.advantages[0] for row in rows])
    shape = (len(rows), 3)
    assert batch.old is not None
    assert batch.reference is not None
    assert batch.sampling is not None
    return {
        "prompt_ids": batch.ids[:, :5],
        "prompt_mask": batch.attention[:, :5],
        "completion_ids": batch.ids[:, 5:],
        "completion_mask": batch.attention[:, 5:],
        "advantages": one_each,
        "old_per_token_logps": batch.old.view(shape),
        "ref_per_token_logps": batch.reference.view(shape),
        "importance_sampling_ratio": torch.exp(batch.old - batch.sampling).clamp(max=3.0).view(shape),
        "num_items_in_batch": torch.tensor(3 * len(rows)),
    }


@pytest.mark.parametrize("vllm", [False, True])
@pytest.mark.parametrize("weigh_kl", [False, True])
def test_equals_trl(trainer: MAGETrainer, monkeypatch: pytest.MonkeyPatch, vllm: bool, weigh_kl: bool) -> None:
    rows = random_rows(seed=4, uneven=False)
    monkeypatch.setattr(trainer.args, "use_vllm", vllm)
    monkeypatch.setattr(trainer, "use_vllm", vllm)
    monkeypatch.setattr(trainer.args, "use_bias_correction_kl", weigh_kl)
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    loss, ours = gradient(trainer, [rows])
    trainer.model.zero_grad()
    theirs = trainer._compute_loss(trainer.model, trl_inputs(rows, collate(rows, 0)))
    theirs.backward()
    assert loss == pytest.approx(theirs.item(), rel=2e-6, abs=1e-6)
    assert_equal(ours, [p.grad.clone() for p in trainer.model.parameters() if p.grad is not None])


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"policy": "gspo_step"}, {"importance_sampling_level": "sequence"}),
        ({"policy": "cispo"}, {"loss_type": "cispo", "epsilon_high": 1.2}),  # TRL's bounds the ratio itself
        ({"normalise": "steps"}, {"loss_type": "grpo"}),
        ({"normalise": "none"}, {"loss_type": "dr_grpo"}),
    ],
)
def test_losses_by_name_equal_trls(
    trainer: MAGETrainer, monkeypatch: pytest.MonkeyPatch, ours: dict[str, str], theirs: dict[str, object]
) -> None:
    rows = random_rows(seed=8, uneven=False)
    for name, value in ours.items():
        monkeypatch.setattr(trainer.args, name, value)
    for name, value in theirs.items():
        monkeypatch.setattr(trainer, name, value)
    trainer.current_gradient_accumulation_steps = 1
    trainer.max_completion_length = trainer.args.max_completion_length
    trainer.model.train()
    loss, gradients = gradient(trainer, [rows])
    trainer.model.zero_grad()
    expected = trainer._compute_loss(trainer.model, trl_inputs(rows, collate(rows, 0)))
    expected.backward()
    assert loss == pytest.approx(expected.item(), rel=1e-5, abs=1e-6)
    assert_equal(gradients, [p.grad.clone() for p in trainer.model.parameters() if p.grad is not None], 1e-5)


@pytest.mark.parametrize(
    ("mode", "weights"),
    [
        ("token_truncate", [2.0, 0.5, 1.5, 2.0]),
        ("token_mask", [2.0, 0.0, 1.5, 0.0]),
        ("sequence_truncate", [0.8, 0.8, 2.0, 2.0]),
        ("sequence_mask", [0.8, 0.8, 0.0, 0.0]),
    ],
)
def test_importance_weights_by_token_and_by_model_call(mode: str, weights: list[float]) -> None:
    """Two calls of two tokens, ratios 2 and .4, 1.5 and 4, between .5 and 2; on-policy, so that the loss is -w A."""
    ratios, advantages = torch.tensor([2.0, 0.4, 1.5, 4.0]), torch.tensor([1.0, 10.0, 100.0, 1000.0])
    batch: Any = SimpleNamespace(
        advantages=advantages,
        old=None,
        sampling=-torch.log(ratios),
        lengths=torch.tensor([2, 2]),
        steps=torch.tensor([0, 0, 1, 1]),
    )
    terms = LossTerms(correct_sampling=True, correction=mode, correction_min=0.5, correction_max=2.0)
    loss, sums = policy_loss(Scores(torch.zeros(4), torch.zeros(4)), batch, terms)
    assert -loss.item() == pytest.approx(float((torch.tensor(weights) * advantages).sum()), rel=1e-5)
    assert sums["sampling/log_abs"].item() == pytest.approx(ratios.log().abs().sum().item(), rel=1e-5)
    assert sums["sampling/truncated"].item() == 2


def test_rows_without_advantages_are_not_forwarded_and_leave_the_gradient_alone(
    trainer: MAGETrainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = random_rows(seed=11)
    for row in rows[::2]:
        row.advantages = np.zeros_like(row.advantages)
    assert all(map(trainer.updates._forwards, rows))  # the KL has a gradient everywhere
    monkeypatch.setattr(trainer, "beta", 0.0)
    monkeypatch.setattr(trainer.args, "beta", 0.0)
    trainer.model.train()
    full_update, sparse_update = (
        rank_share(rows, 0, 1, 40, 0, forwards) for forwards in (lambda row: True, trainer.updates._forwards)
    )
    assert sum(len(batch) for batch in sparse_update.batches) == 4
    assert (sparse_update.tokens, sparse_update.steps) == (full_update.tokens, full_update.steps)
    assert sparse_update.scored == sum(len(row.targets) for row in rows[1::2])
    gradients = []
    for update in (full_update, sparse_update):
        trainer.model.zero_grad()
        loss = trainer.updates.backward(trainer.model, update)
        gradients.append((loss.item(), [p.grad.clone() for p in trainer.model.parameters() if p.grad is not None]))
    assert gradients[0][0] == pytest.approx(gradients[1][0], rel=1e-5)
    assert_equal(gradients[1][1], gradients[0][1])
    nothing = rank_share(rows[::2], 0, 1, 40, 0, trainer.updates._forwards)
    assert [[len(row.targets) for row in batch] for batch in nothing.batches] == [[0]]
    trainer.model.zero_grad()
    assert trainer.updates.backward(trainer.model, nothing).item() == 0.0


def test_estimators_of_the_kl() -> None:
    gap = torch.tensor([0.0, 0.5, -1.0])
    expected = {"k1": [0, -0.5, 1], "k2": [0, 0.125, 0.5], "k3": [0, np.exp(0.5) - 1.5, np.exp(-1.0)]}
    for name, values in expected.items():
        torch.testing.assert_close(KL_ESTIMATORS.find(name)(gap), torch.tensor(values, dtype=torch.float32))


def test_gradients_of_the_estimators() -> None:
    """Exact expectations over a vocabulary of five: k1 and k2 have the gradient of KL(p|q), k3 that of KL(q|p)."""
    torch.manual_seed(0)
    logits, reference = torch.randn(5, dtype=torch.float64, requires_grad=True), torch.randn(5, dtype=torch.float64)
    logp, logq = logits.log_softmax(0), reference.log_softmax(0)
    p, q = logp.exp(), logq.exp()
    [forward] = torch.autograd.grad((p * (logp - logq)).sum(), logits, retain_graph=True)
    [backward] = torch.autograd.grad((q * (logq - logp)).sum(), logits, retain_graph=True)
    assert float((forward - backward).abs().max()) > 0.1
    for name, expected in {"k1": forward, "k2": forward, "k3": backward}.items():
        kl = KL_ESTIMATORS.find(name)(logq - logp)
        [computed] = torch.autograd.grad((p.detach() * kl).sum(), logits, retain_graph=True)
        torch.testing.assert_close(computed, expected)
        if name != "k2":
            torch.testing.assert_close((p * kl).sum(), (p * (logp - logq)).sum())


@pytest.mark.parametrize("name", ["policy", "kl_estimator", "normalise"])
def test_an_unknown_loss_is_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}='best' is unknown; choose one of:"):
        make_config(tmp_path, **{name: "best"})


@pytest.mark.parametrize(("policy", "normalise"), [("gspo_step", "tokens"), ("ppo", "steps"), ("cispo", "none")])
def test_a_model_call_counts_once_however_rows_are_merged(
    trainer: MAGETrainer, monkeypatch: pytest.MonkeyPatch, policy: str, normalise: str
) -> None:
    monkeypatch.setattr(trainer.args, "policy", policy)
    monkeypatch.setattr(trainer.args, "normalise", normalise)
    monkeypatch.setattr(trainer.args, "entropy_coef", 0.05)
    merged, single = random_rows(seed=1), random_rows(seed=1, merge=False)
    assert sum(row.steps for row in merged) == sum(row.steps for row in single) == len(single)
    loss, ours = gradient(trainer, [merged])
    unmerged_loss, theirs = gradient(trainer, [single])
    assert loss == pytest.approx(unmerged_loss, rel=1e-5)
    assert_equal(ours, theirs)


def test_log_probabilities_equal_trls(trainer: MAGETrainer) -> None:
    rows = random_rows(seed=5, uneven=False)
    batch = collate(rows, 0)
    with torch.no_grad():
        ours = trainer.updates.forward(trainer.model, batch)
        theirs, entropy, _ = trainer._get_per_token_logps_and_entropies(
            trainer.model, batch.ids, batch.attention, 3, compute_entropy=True
        )
    torch.testing.assert_close(ours.logps, theirs.flatten(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.entropy, entropy.flatten(), rtol=1e-5, atol=1e-5)


def test_the_two_ways_to_score_agree(trainer: MAGETrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = collate(random_rows(seed=6), 0)
    fused = trainer.updates.forward(trainer.model, batch)
    monkeypatch.setattr(trainer.args, "uniform_legal_coef", 1.0)
    plain = trainer.updates.forward(trainer.model, batch)
    torch.testing.assert_close(plain.logps, fused.logps, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(plain.entropy, fused.entropy, rtol=1e-5, atol=1e-5)
    assert plain.legal_cross_entropy is not None
    assert len(plain.legal_cross_entropy) == len(batch.legal_at) > 0


@pytest.mark.parametrize("coefficient", [0.0, 0.3])
def test_merged_and_unmerged_rows_give_equal_gradients(
    trainer: MAGETrainer, monkeypatch: pytest.MonkeyPatch, coefficient: float
) -> None:
    monkeypatch.setattr(trainer.args, "uniform_legal_coef", coefficient)
    monkeypatch.setattr(trainer.args, "entropy_coef", 0.05)
    merged, single = random_rows(seed=1), random_rows(seed=1, merge=False)
    assert len(single) > 1.5 * len(merged)
    loss, ours = gradient(trainer, [merged])
    unmerged_loss, theirs = gradient(trainer, [single])
    assert loss == pytest.approx(unmerged_loss, rel=1e-5)
    assert_equal(ours, theirs)


@pytest.mark.parametrize("budget", [1, 30, 60, 10_000])
def test_any_micro_batching_gives_equal_gradients(trainer: MAGETrainer, budget: int) -> None:
    rows = random_rows(seed=2, count=9)
    loss, whole_gradient = gradient(trainer, [rows])
    parts = micro_batches(rows, budget)
    split_loss, ours = gradient(trainer, [[dummy_row(0)], *parts])
    assert loss == pytest.approx(split_loss, rel=1e-5)
    assert_equal(ours, whole_gradient)


def test_masked_rows_contribute_exactly_nothing(trainer: MAGETrainer) -> None:
    loss, nothing = gradient(trainer, [[dummy_row(0), dummy_row(3)]])
    assert loss == 0.0
    assert all(bool((g == 0).all()) for g in nothing)
    assert len(nothing) == len(list(trainer.model.parameters())), "still every parameter takes part (DDP waits for it)"
    rows = random_rows(seed=7, uneven=False)
    masked = Row(
        ids=rows[0].ids.copy(),
        targets=rows[0].targets[:0],
        advantages=rows[0].advantages[:0],
        sampling=None,
        legal=(),
        lengths=(),
    )
    batch, wider = collate(rows, 0), collate([*rows, masked], 0)
    assert wider.rows.tolist() == batch.rows.tolist()
    embedded = torch.nn.Parameter(trainer.model.get_input_embeddings()(wider.ids).detach())
    logits = trainer.model(inputs_embeds=embedded, attention_mask=wider.attention, position_ids=wider.positions).logits
    scores = score_logits(logits[wider.rows, wider.columns - 1], wider, 1.0, constrained=False)
    policy_loss(scores, wider, LossTerms(beta=0.1, entropy_coef=0.1))[0].backward()
    assert embedded.grad is not None
    assert bool((embedded.grad[-1] == 0).all())
    assert bool((embedded.grad[:-1] != 0).any())


def test_constrained_scores_are_those_of_the_legal_words() -> None:
    steps = [
        step([1, 2], [4], legal=((4, 6),)),
        step([1, 2, 4, 7], [3, 5]),
        step([1, 2, 4, 7, 3, 5, 8], [5], legal=((5,),)),
    ]
    batch = collate(build_rows([trajectory(steps)], [[1.0] * 3]), 0)
    logits = torch.randn(4, 9, generator=torch.Generator().manual_seed(0), requires_grad=True)
    scores = score_logits(logits, batch, 0.5, constrained=True)
    pair = (logits[0, [4, 6]] / 0.5).log_softmax(0)
    assert scores.legal_cross_entropy is not None
    torch.testing.assert_close(scores.logps[0], pair[0])
    torch.testing.assert_close(scores.entropy[0], -(pair.exp() * pair).sum())
    torch.testing.assert_close(scores.legal_cross_entropy, torch.stack([-pair.mean(), torch.tensor(0.0)]))
    torch.testing.assert_close(scores.logps[1:3], (logits / 0.5).log_softmax(1)[[1, 2], [3, 5]])
    assert scores.logps[3] == 0
    (scores.logps.sum() + scores.entropy.sum() + scores.legal_cross_entropy.sum()).backward()
    assert logits.grad is not None
    assert bool(logits.grad.isfinite().all())
    assert bool((logits.grad[0, [0, 1, 2, 3, 5, 7, 8]] == 0).all())


def test_the_uniform_coefficient_falls_linearly(trainer: MAGETrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer.args, "uniform_legal_coef", 0.06)
    monkeypatch.setattr(trainer.args, "uniform_legal_coef_end", 0.006)
    assert [loss_terms(trainer.args, p).uniform_legal_coef for p in (0, 0.5, 1)] == pytest.approx([0.06, 0.033, 0.006])
