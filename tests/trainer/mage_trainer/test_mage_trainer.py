"""Whole training runs with a tiny model: loop, resume, LoRA, evaluation, failures."""

import ast
import gc
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import GRPOTrainer

from mage_envs.core import Task
from mage_envs.text.generation import Completion, Prompt
from mage_envs.trainer import MAGETrainer, Trajectory
from mage_envs.trainer.backends.tokens import ChatTokenizer
from mage_envs.trainer.trl import trl_compat
from mage_envs.trainer.trl.trl_compat import check_trl
from mage_envs.wrappers.rollout.scripted import ScriptedGenerator
from mage_envs.wrappers.rollout.training_log import metric_rows
from tests.interruptions import run_in_fork, run_ranks
from tests.trainer import rank_worker
from tests.trainer.tiny_runs import make_cached_generator, make_config, make_env, make_trainer, save_model

TASKS = [Task("mage/KuhnPoker-Meta-v0", name, seed=seed) for name in ("kuhn/rock", "kuhn/maniac") for seed in (1, 2)]


def weights(model: Any) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in model.named_parameters()}


class Saves(TrainerCallback):
    """Notes the steps at which checkpoints are written."""

    def __init__(self) -> None:
        self.saved: list[int] = []

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.saved.append(state.global_step)


@pytest.mark.parametrize("updates", [2, "auto"])
def test_a_run_trains_and_logs(model_path: str, tmp_path: Path, updates: int | str) -> None:
    rollouts: list[list[Trajectory]] = []
    trainer = make_trainer(
        model_path,
        tmp_path,
        updates_per_rollout=updates,
        minibatch_size=8,
        beta=0.1,
        on_rollout_end=lambda _, trajectories: rollouts.append(list(trajectories)),
    )
    weights_before = weights(trainer.model)
    result = trainer.train()
    assert len(rollouts) == 2
    assert [len(trajectories) for trajectories in rollouts] == [6, 6]
    for trajectories in rollouts:
        for group in range(3):
            members = [t for t in trajectories if t.group == group]
            assert len({(t.opponent, t.task.seed) for t in members}) == 1
            assert [t.member for t in members] == [0, 1]
    assert len({t.task.seed for trajectories in rollouts for t in trajectories}) == 6
    history = [log for log in trainer.state.log_history if "rollout" in log]
    per_rollout = [log["updates_per_rollout"] for log in history]
    assert result.global_step == sum(per_rollout) == trainer.state.max_steps
    assert per_rollout == [-(-log["steps"] // 8) if updates == "auto" else 2 for log in history]
    assert any(not torch.equal(p, weights_before[name]) for name, p in trainer.model.named_parameters())
    expected = {
        "loss",
        "kl",
        "entropy",
        "clip_ratio/any",
        "reward",
        "value/episode_1",
        "value/episode_2",
        "success/episode_2",
        "invalid",
        "length",
        "overflow",
        "groups/zero_variance",
        "tokens/padding_factor",
        "tokens/forwarded",
        "failures",
        "time/generate",
        "time/environment",
        "time/update",
    }
    assert expected <= set(history[0])
    assert any(key.startswith("value/episode_1/kuhn/soft-") for key in history[0])
    rows = metric_rows(tmp_path, "update")
    logs = [log for log in trainer.state.log_history if "grad_norm" in log]
    assert len(rows) == len(logs) == result.global_step
    for row, log in zip(rows, logs, strict=True):
        assert row["loss"] == pytest.approx(log["loss"], abs=1e-7)
        assert (row["grad_norm"], row["learning_rate"]) == (pytest.approx(log["grad_norm"]), log["learning_rate"])
        assert row["grad_norm"] > 0
    assert history[0]["tokens/padding_factor"] < 1.34
    assert history[0]["ratio/log_abs"] < 1e-5, "the first update is on-policy"


def test_reused_sampling_logprobs_equal_recomputed_ones(model_path: str, tmp_path: Path) -> None:
    final = []
    for reuse in (False, True):
        trainer = make_trainer(
            model_path,
            tmp_path,
            None,
            backend="cached",
            constrained=True,
            uniform_legal_coef=0.06,
            reuse_sampling_logprobs=reuse,
            max_rollouts=1,
        )
        trainer.train()
        final.append(weights(trainer.model))
    for name, value in final[0].items():
        torch.testing.assert_close(value, final[1][name], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("limit", "reused"), [(0.02, [0.0, 1.0, 1.0]), (0.0, [0.0, 0.0, 0.0])])
def test_a_close_sampler_spares_the_scoring_pass(
    model_path: str, tmp_path: Path, limit: float, reused: list[float]
) -> None:
    """The mismatch is measured in each rollout's first update, before any weight has changed."""
    options: dict[str, Any] = {"reuse_sampling_logprobs": True, "reuse_mismatch": limit, "max_rollouts": 3}
    trainer = make_trainer(model_path, tmp_path, **options)
    trainer.args.use_vllm = True  # what corrects for the sampler; the generator stays
    scored: list[int] = []
    score = trainer.updates._log_probabilities

    def count_scoring(model: Any, rows: Any) -> Any:
        scored.append(trainer.progress.rollouts)
        return score(model, rows)

    trainer.updates._log_probabilities = count_scoring  # type: ignore[method-assign]
    trainer.train()
    logs = [log for log in trainer.state.log_history if "sampling/reused" in log]
    assert [log["sampling/reused"] for log in logs] == reused
    assert all(log["sampling/log_abs"] < 1e-5 for log in logs)
    assert {rollout for rollout in range(3) if not reused[rollout]} == set(scored)
    assert trainer.progress.state()["attributes"]["mismatch"] == trainer.progress.mismatch < 1e-5


def by_group(trainer: MAGETrainer, originals: int) -> ScriptedGenerator:
    """Members of a rollout's first `originals` tasks play alike; of later ones each as its own key says."""
    task_order: dict[int, None] = {}

    def answer(prompt: Prompt) -> str:
        task, member, call = prompt.seed[:3]
        task_order.setdefault(task)
        alike = list(task_order).index(task) < originals
        return prompt.legal_actions[0 if alike else (member + call) % len(prompt.legal_actions)]

    return ScriptedGenerator(answer, ChatTokenizer(trainer.processing_class))  # type: ignore[arg-type]


def test_groups_without_variance_are_redrawn(model_path: str, tmp_path: Path) -> None:
    """Three groups of four; the opponents stay, so that each is met as often as it was drawn."""
    options: dict[str, Any] = {"num_generations": 4, "dynamic_sampling": 5, "max_rollouts": 1}
    trainer = make_trainer(model_path, tmp_path, partial(by_group, originals=3), **options)
    trainer.train()
    log = trainer.state.log_history[0]
    assert log["groups/dropped"] >= 0.5
    assert log["groups/zero_variance"] == log["groups/dropped"]
    assert log["groups/count"] == 3.0
    assert log["rows"] == 12.0


def test_redrawing_is_bounded(model_path: str, tmp_path: Path) -> None:
    all_trajectories: list[Any] = []
    trainer = make_trainer(
        model_path,
        tmp_path,
        partial(by_group, originals=100),
        dynamic_sampling=2,
        max_rollouts=1,
        on_rollout_end=lambda _, trajectories: all_trajectories.extend(trajectories),
    )
    trainer.train()
    log = trainer.state.log_history[0]
    assert (log["groups/dropped"], log["groups/zero_variance"], log["groups/count"]) == (pytest.approx(2 / 3), 1.0, 3.0)
    tasks = {(trajectory.group, trajectory.task.seed, trajectory.opponent) for trajectory in all_trajectories}
    assert len(all_trajectories) == 18
    assert len({seed for _, seed, _ in tasks}) == len({group for group, _, _ in tasks}) == 9
    opponents = [opponent for _, _, opponent in sorted(tasks)]
    assert opponents[:3] == opponents[3:6] == opponents[6:]


def test_resuming_equals_an_uninterrupted_run(model_path: str, tmp_path: Path) -> None:
    """TRL's own generation, so the global random state counts too; a save within a rollout waits for its end."""
    saves = Saves()
    settings: dict[str, Any] = {"max_rollouts": 4, "save_strategy": "steps", "save_steps": 3, "beta": 0.1}
    unbroken = make_trainer(model_path, tmp_path / "whole", None, callbacks=[saves], **settings)
    unbroken.train()
    assert saves.saved == [4, 6, 8]
    resumed = make_trainer(model_path, tmp_path / "again", None, **settings)
    resumed.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-4"))
    assert resumed.progress.rollouts == 4
    assert resumed.state.global_step == 8
    for name, value in weights(unbroken.model).items():
        assert torch.equal(value, resumed.model.get_parameter(name)), name


def test_a_finished_run_does_not_start_another_rollout(model_path: str, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"updates_per_rollout": "auto", "save_strategy": "steps", "save_steps": 1}
    trainer = make_trainer(model_path, tmp_path, **settings)
    last_step = trainer.train().global_step
    resumed = make_trainer(model_path, tmp_path, **settings)
    assert resumed.train(resume_from_checkpoint=True).global_step == last_step
    assert resumed.progress.rollouts == 2
    for name, value in weights(trainer.model).items():
        assert torch.equal(value, resumed.model.get_parameter(name)), name
    longer = make_trainer(model_path, tmp_path, **settings | {"max_rollouts": 3})
    assert longer.train(resume_from_checkpoint=True).global_step > last_step


def test_lora_trains_only_the_adapter(model_path: str, tmp_path: Path) -> None:
    adapter = LoraConfig(r=2, target_modules=["q_proj", "v_proj"], lora_dropout=0.1, task_type="CAUSAL_LM")
    trainer = make_trainer(model_path, tmp_path, None, peft_config=adapter, beta=0.1, max_rollouts=2)
    weights_before = weights(trainer.model)
    trainer.train()
    changed = {name for name, value in weights(trainer.model).items() if not torch.equal(value, weights_before[name])}
    assert changed
    assert all("lora_" in name for name in changed)
    logs = [log for log in trainer.state.log_history if "kl" in log]
    assert logs[0]["kl"] == pytest.approx(0.0, abs=1e-9), "the reference is the model without its fresh adapter"
    assert logs[-1]["kl"] > 0
    assert logs[0]["ratio/log_abs"] < 1e-6


def test_attention_without_dropout_keeps_the_ratio_at_1(tmp_path: Path) -> None:
    """TRL's option leaves the attention's own probability, which a config sets."""
    path = Path(save_model(tmp_path / "model"))
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, "attention_dropout": 0.5}))
    trainer = make_trainer(str(path), tmp_path, None, max_rollouts=1)
    trainer.train()
    assert {layer.self_attn.attention_dropout for layer in trainer.model.model.layers} == {0.0}
    [log] = [log for log in trainer.state.log_history if "ratio/log_abs" in log][:1]
    assert log["ratio/log_abs"] < 1e-6


def test_evaluation_plays_every_task_once(model_path: str, tmp_path: Path) -> None:
    trainer = make_trainer(
        model_path, tmp_path, eval_tasks=TASKS, per_device_eval_batch_size=3, eval_strategy="steps", eval_steps=2
    )
    weights_before = weights(trainer.model)
    metrics = trainer.evaluate()
    assert metrics["eval_steps"] > 0
    assert {"eval_value/episode_1", "eval_value/episode_2/kuhn/rock", "eval_success/episode_1/kuhn/maniac"} <= set(
        metrics
    )
    assert len(trainer.evaluator.played) == 4
    assert all(torch.equal(value, weights_before[name]) for name, value in weights(trainer.model).items())
    second_metrics = trainer.evaluate()
    assert second_metrics["eval_reward"] == metrics["eval_reward"], "fixed tasks and keyed sampling"
    trainer.train()
    assert sum("eval_reward" in log for log in trainer.state.log_history) >= 2


class Broken:
    """Fails every other call."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        completions = self.inner.generate(prompts)
        return [Completion("", error="timeout") if p.slot % 2 else c for p, c in zip(prompts, completions, strict=True)]


def test_too_many_failures_stop_the_run_with_their_count(model_path: str, tmp_path: Path) -> None:
    trainer = make_trainer(model_path, tmp_path, lambda t: Broken(make_cached_generator(t)))
    with pytest.raises(
        RuntimeError,
        match=r"^3 of 6 meta-episodes of rollout 0 failed \(3 generator\).*timeout; tracebacks: .*failures\.jsonl$",
    ):
        trainer.train()
    tolerant = make_trainer(
        model_path, tmp_path, lambda t: Broken(make_cached_generator(t)), failure_threshold=0.5, max_rollouts=1
    )
    tolerant.train()
    assert tolerant.state.log_history[0]["failures"] == 3


def test_a_model_without_chat_template_is_one_clear_line(model_path: str, tmp_path: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model_path)
    tokenizer.chat_template = None
    with pytest.raises(ValueError, match="has no chat template; use an instruction-tuned model") as error:
        make_trainer(model_path, tmp_path, None, processing_class=tokenizer)
    assert "\n" not in str(error.value)


def test_a_reference_that_cannot_be_loaded_is_one_clear_line(model_path: str, tmp_path: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(model_path)
    model.config._name_or_path = ""
    with pytest.raises(ValueError, match="save the model to a folder and pass the folder as model, or set beta=0"):
        make_trainer(model, tmp_path, None, beta=0.1, processing_class=AutoTokenizer.from_pretrained(model_path))


def test_constrained_decoding_needs_a_backend_that_constrains(model_path: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match='use backend="cached"'):
        make_trainer(model_path, tmp_path, None, constrained=True)


def test_non_stationary_groups_need_a_pool(model_path: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="pass opponents with weights"):
        MAGETrainer(model_path, make_config(tmp_path, grouping="non_stationary"), make_env)
    all_trajectories: list[Trajectory] = []
    mixed = make_trainer(
        model_path,
        tmp_path,
        grouping="non_stationary",
        statistics="opponent",
        max_rollouts=1,
        on_rollout_end=lambda _, trajectories: all_trajectories.extend(trajectories),
    )
    mixed.train()
    assert len({t.opponent for t in all_trajectories}) == 2


def test_garbage_is_collected_rarely_in_training_alone(model_path: str, tmp_path: Path) -> None:
    thresholds: list[int] = []

    def stop(*_: Any) -> None:
        thresholds.append(gc.get_threshold()[0])
        if len(thresholds) == 2:
            raise KeyboardInterrupt

    thresholds_before = gc.get_threshold()
    with pytest.raises(KeyboardInterrupt):
        make_trainer(model_path, tmp_path, on_rollout_end=stop).train()
    assert thresholds == [100_000, 100_000]
    assert gc.get_threshold() == thresholds_before
    thresholds.clear()
    gc.set_threshold(0, *thresholds_before[1:])
    try:
        with pytest.raises(KeyboardInterrupt):
            make_trainer(model_path, tmp_path, on_rollout_end=stop).train()
    finally:
        gc.set_threshold(*thresholds_before)
    assert thresholds == [0, 0]  # still off if the user switched it off


def test_the_supported_range_of_trl_is_named() -> None:
    check_trl("1.16.0")
    check_trl("1.99.0")
    for version in ("1.15.2", "2.0.0"):
        with pytest.raises(ImportError, match=rf"trl {version} is outside .* pip install 'trl>=1\.16,<2'"):
            check_trl(version)


def test_the_supported_range_of_transformers_is_named() -> None:
    with pytest.raises(ImportError, match=r"transformers 6\.0\.0 is outside .* pip install 'transformers>=5\.10,<6'"):
        check_trl("1.16.0", "6.0.0")


def test_a_lost_private_name_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trl_compat, "PRIVATE_METHODS", ("_run_epoch", "_not_there"))
    with pytest.raises(ImportError, match="does not have _not_there; install"):
        check_trl()
    monkeypatch.setattr(trl_compat, "PRIVATE_ATTRIBUTES", ("_metrics",))
    with pytest.raises(ImportError, match="does not have _metrics; install"):
        trl_compat.check_attributes(SimpleNamespace(use_vllm=False))  # type: ignore[arg-type]


def test_every_private_name_is_in_the_list() -> None:
    """A private name of TRL or transformers is called or overridden in two modules only, and is tested at start."""
    private_names = {
        name for kind in GRPOTrainer.__mro__ for name in vars(kind) if name.startswith("_") and name[1] != "_"
    }
    attributes = trl_compat.PRIVATE_ATTRIBUTES + trl_compat.PRIVATE_ATTRIBUTES_OF_VLLM
    used: dict[str, set[str]] = {}
    for path in Path("trainer").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                inherits = {ast.unparse(base) for base in node.bases} & {"GRPOTrainer", "TrainerHooks"}
                methods = (
                    {statement.name for statement in node.body if isinstance(statement, ast.FunctionDef)}
                    if inherits
                    else set()
                )
                used.setdefault(path.name, set()).update(methods & private_names)
            elif isinstance(node, ast.Attribute) and node.attr in private_names | {*attributes}:
                # `self` counts only in a subclass: classes of our own have private names, too.
                owners = ("super()", "trainer", "self._trainer", *(["self"] if path.name == "trainer_hooks.py" else []))
                used.setdefault(path.name, set()).update({node.attr} if ast.unparse(node.value) in owners else ())
    used = {name: used_names for name, used_names in used.items() if used_names}
    assert used.keys() == {"trainer_hooks.py", "trl_compat.py"}, used
    assert set().union(*used.values()) == {*trl_compat.PRIVATE_METHODS, *attributes}


def test_one_and_two_processes_give_equal_gradients(model_path: str, tmp_path: Path) -> None:
    """Rows of different lengths, mini-batches of two rows and of one, so a rank may have fewer rows or none."""
    compared = [tmp_path / "one.pt", tmp_path / "two.pt"]
    assert run_in_fork(partial(rank_worker.main, model_path, str(compared[0]))) == 0
    assert run_ranks(partial(rank_worker.main, model_path, str(compared[1]))) == [0, 0]
    one_rank, two_ranks = map(torch.load, compared)
    assert one_rank["trajectories"] == two_ranks["trajectories"]
    assert one_rank["evaluated"] == two_ranks["evaluated"]
    assert (one_rank["processes"], two_ranks["processes"]) == (1, 2)
    assert one_rank["losses"] == pytest.approx(two_ranks["losses"], rel=1e-4, abs=1e-5)
    assert len(one_rank["gradients"]) == 4
    for ours, theirs in zip(one_rank["gradients"], two_ranks["gradients"], strict=True):
        scale = max(float(g.abs().max()) for g in ours)
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5 * scale)


def test_the_trainer_is_exported() -> None:
    from mage_envs import trainer

    assert trainer.MAGETrainer is MAGETrainer
