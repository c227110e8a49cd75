"""The measuring scripts: token counts by hand, and every script at a toy size; no test looks at a clock."""

import importlib.util
import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch

from dev.gpu import measure as gpu
from dev.gpu import numerics
from dev.gpu import vllm as vllm_check
from dev.speed import measure as speed
from dev.speed import overlap, tokens, updates
from dev.speed.measure import Effort, Figure
from dev.speed.tokens import Call, TokenCounts
from mage_envs.trainer.cli.estimate import estimate
from mage_envs.trainer.config.hardware import USABLE, hardware
from mage_envs.trainer.config.model_shapes import KNOWN, LINEAR, ModelShape
from tests.trainer.tiny_runs import step, trajectory

TOY = ModelShape(vocab=300, hidden=32, layers=1, heads=2, kv_heads=1, head_dim=16, intermediate=64, tied=True)
CPU = torch.device("cpu")
ONE_OF_EACH = Effort(repeats=1, steps=40, games=1, meta_episodes=2, rollouts=2, groups=1)


@pytest.fixture
def rollout():
    """Two calls that extend each other, one that does not, one without a reply, and a failed meta-episode."""
    steps = [step([1, 2], [3]), step([1, 2, 3, 5], [6, 7]), step([9], [8]), step([9, 9, 9, 9, 9], [])]
    return [trajectory(steps), trajectory([step([1] * 50, [2])], failure="opponent: x")]


def test_the_measuring_scripts_load_no_torch():
    names = "dev.speed.measure, dev.speed.tokens, dev.speed.updates, dev.gpu.measure"
    names += ", dev.gpu.vllm"
    script = f"import sys, {names}; print({{'torch', 'trl', 'transformers'}} & set(sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "set()\n"
    )


class Noting:
    """Wrap pyspiel's game and its states, and note each move and each observation."""

    def __init__(self, real, noted):
        self.real, self.noted = real, noted

    def __getattr__(self, name):
        return getattr(self.real, name)

    def new_initial_state(self):
        self.noted.append("deal")
        return Noting(self.real.new_initial_state(), self.noted)

    def apply_action(self, action):
        self.noted.append(self.real.current_player())
        self.real.apply_action(action)

    def observation_string(self, seat):
        assert self.real.is_terminal() or self.real.current_player() == seat
        self.noted.append(f"{seat} looks")
        return self.real.observation_string(seat)


@pytest.mark.parametrize("name", ["kuhn_poker", "tic_tac_toe"])
def test_pyspiels_state_plays_what_a_base_id_plays(name, monkeypatch):
    import pyspiel

    noted = []
    game = Noting(pyspiel.load_game(name), noted)
    monkeypatch.setattr(pyspiel, "load_game", lambda _: game)
    assert speed.spiel_replied(name, 60)() == 60
    first_part, *hands = " ".join(map(str, noted)).split("deal")
    assert first_part == ""
    learners = 0
    for number, hand in enumerate(filter(str.strip, hands)):
        seat, moves = number % 2, hand.replace("looks", "").split()
        looks = hand.count("looks")
        assert hand.count(f"{seat} looks") == looks
        learners += looks - 1  # one at the deal, one after each move of the learner
        assert moves.count(str(seat)) == looks + looks - 1
        assert len(moves) > looks  # the other, or chance, moves too
    assert learners == 60


# -- tokens ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "expected"), [(100, 4 * 8), (16, 2 * 8 + 2 * 6), (8, 8 + 7 + 6 + 6), (1, 8 + 7 + 6 + 6)]
)
def test_forwarded_tokens_are_rows_times_the_longest(budget, expected):
    assert tokens.count_forwarded([6, 8, 6, 7], budget) == expected


def test_a_much_shorter_row_is_not_padded_to_a_longer_one():
    assert tokens.count_forwarded([8, 5], 100) == 8 + 5


def test_trl_pads_prompts_and_replies_apart():
    assert tokens.trl_forwarded([Call(2, 1), Call(4, 2), Call(1, 5)]) == 3 * (4 + 5)
    assert tokens.trl_forwarded([]) == 0


def test_counts_of_a_rollout_by_hand(rollout):
    assert tokens.calls_of(rollout) == [Call(2, 1), Call(4, 2), Call(1, 1)]
    assert tokens.row_lengths(rollout, merge=True) == [6, 2]
    assert tokens.row_lengths(rollout, merge=False) == [3, 6, 2]
    assert tokens.rollout_counts(rollout, 1, 100) == TokenCounts(
        updates=1, useful=6 + 2, merged=6 + 2, unmerged=6 + 3 + 2, trl=3 * (4 + 2)
    )


def test_updates_share_the_rows_evenly():
    parts = tokens.into_updates([1, 2, 3, 4, 5], 2)
    assert [len(part) for part in parts] == [3, 2]
    assert sorted(parts[0] + parts[1]) == [1, 2, 3, 4, 5]


def test_fresh_prompts_are_not_merged():
    counts = tokens.paper_counts([Call(2, 1), Call(4, 4), Call(1, 6)], per_update=2, max_tokens=1)
    assert counts == TokenCounts(updates=2, useful=3 + 8 + 7, merged=3 + 8 + 7, unmerged=3 + 8 + 7, trl=3 * (4 + 6))


def test_the_papers_spread_keeps_its_limits():
    calls = tokens.paper_calls()
    assert calls == tokens.paper_calls()
    assert len(calls) == 1408
    assert {min(c.prompt for c in calls) >= 300, max(c.prompt for c in calls) <= 4096} == {True}
    assert {min(c.reply for c in calls) >= 1, max(c.reply for c in calls)} == {True, 4096}
    counts = tokens.paper_counts(calls)
    assert counts.updates == 22
    assert counts.useful == sum(c.prompt + c.reply for c in calls)
    assert counts.useful <= counts.merged == counts.unmerged < 1.1 * counts.useful
    assert counts.trl == 1408 * (max(c.prompt for c in calls) + 4096)


# -- speed -----------------------------------------------------------------------------------------------------


def test_rates_take_turns():
    turns = []

    def work(name, units):
        return lambda: turns.append(name) or units

    measured = speed.rates({"a": work("a", 1000), "b": work("b", 1)}, repeats=3)
    assert turns == ["a", "b"] * 4
    assert measured.keys() == {"a", "b"}


def test_shares_of_a_training_step():
    metrics = {"time/environment": 1.0, "time/generate": 4.0, "time/score": 1.0, "time/update": 2.0}
    figures = speed.training_figures(metrics | {"updates_per_rollout": 2.0}, total=20.0)
    assert [(figure.value, figure.ratio) for figure in figures] == [(1, 0.05), (4, 0.2), (1, 0.05), (4, 0.2), (10, 0.5)]


def test_token_figures_are_means_per_update(rollout):
    demo = [figure for figure in speed.token_figures([rollout, rollout]) if figure.name.startswith("demo")]
    assert [figure.value for figure in demo] == [8 / 4, 11 / 4, 18 / 4]
    assert [figure.ratio for figure in demo] == [1, 11 / 8, 18 / 8]


def test_the_table_groups_by_section():
    text = speed.table(
        [
            Figure(section="one", name="a", value=1234567, beside="b", reference=2469134),
            Figure(section="two", name="long name", value=0.012345),
        ]
    )
    assert [line.split() for line in text.splitlines()] == [
        ["one", "beside", "ratio"],
        ["a", "1,234,567", "b", "2,469,134", "0.500"],
        [],
        ["two", "beside", "ratio"],
        ["long", "name", "0.0123"],
    ]


def test_the_whole_script_runs(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(speed, "QUICK", ONE_OF_EACH)
    assert speed.main(["--quick", "--json", str(tmp_path / "speed.json")]) == 0
    written = json.loads((tmp_path / "speed.json").read_text())
    sections = list(dict.fromkeys(figure["section"] for figure in written["figures"]))
    assert sections == [speed.STEPS, speed.SEARCHES, speed.TRAINING, speed.TOKENS]
    counts = [figure for figure in written["figures"] if figure["section"] == speed.TOKENS]
    assert all(figure["value"] > 0 and figure["reference"] > 0 for figure in counts)  # the others are times
    printed = capsys.readouterr().out
    assert all(figure["name"] in printed for figure in written["figures"])


# -- overlap ---------------------------------------------------------------------------------------------------


def test_a_model_generates_while_opponents_think():
    """64 slots, 2 s a move; on a counted clock, so that the figures are the same everywhere."""
    no_opponents, *_, with_opponents = (overlap.play(setting) for setting in overlap.SETTINGS)
    assert no_opponents.generating < 0.3
    assert with_opponents.generating >= overlap.LEAST_SHARE
    assert with_opponents.seconds < no_opponents.seconds / 5


# -- updates ---------------------------------------------------------------------------------------------------


def test_an_update_has_the_gradient_of_trls_loss(tmp_path):
    """Five calls of different lengths in micro-batches of both kinds; another row has another gradient."""
    trainer = updates.make_trainer(tmp_path)
    rows = updates.rows_of(updates.scale_calls(5, scale=64), updates.VOCABULARY)
    assert len({row.length for row in rows}) > 2
    ours, theirs, difference = updates.compare(rows, 256, trainer, rounds=1)
    assert min(ours, theirs) > 0
    assert difference < updates.MOST_DIFFERENCE
    rows[0].advantages = -rows[0].advantages
    changed = updates.time_update(trainer, lambda: updates.ours(trainer, rows, 256)).gradient
    rows[0].advantages = -rows[0].advantages
    same = updates.time_update(trainer, lambda: updates.trls(trainer, rows, 256)).gradient
    assert float((changed - same).abs().max() / same.abs().max()) > 100 * updates.MOST_DIFFERENCE


# -- gpu -------------------------------------------------------------------------------------------------------


def test_the_gpu_model_has_the_size_of_qwen3_06b():
    size = KNOWN[gpu.SIZES["0.6B"].model]
    attention = size.hidden * size.head_dim * 2 * (size.heads + size.kv_heads)
    layer = attention + 3 * size.hidden * size.intermediate + 2 * size.hidden + 2 * size.head_dim
    assert size.vocab * size.hidden + size.layers * layer + size.hidden == 596_049_920


def test_random_models_are_reproducible_and_leave_torch_alone():
    state = torch.get_rng_state()
    first_weights, second_weights = (numerics.random_model(TOY).state_dict() for _ in range(2))
    assert all(torch.equal(first_weights[name], second_weights[name]) for name in first_weights)
    assert torch.equal(torch.get_rng_state(), state)


def test_precision_on_a_toy():
    rows = numerics.random_rows(TOY.vocab, (10, 7))
    assert [row.targets.tolist() for row in rows] == [[5, 6, 7, 8, 9], [3, 4, 5, 6]]
    differences = numerics.precision(TOY, CPU, (10, 7))
    assert [part.tokens for part in differences] == [9, 9]
    assert all(0 < part.mean <= part.largest < 0.1 for part in differences)


def test_the_score_path_is_the_plain_softmax():
    rows = numerics.random_rows(TOY.vocab, (10, 7))
    model = numerics.random_model(TOY)
    log_probs = numerics.log_probabilities(model, rows, CPU)
    expected = []
    for row in rows:
        ids = torch.from_numpy(row.ids)
        with torch.no_grad():
            logps = model(ids[None]).logits[0].log_softmax(-1)
        expected += [float(logps[at - 1, ids[at]]) for at in row.targets]
    torch.testing.assert_close(log_probs, torch.tensor(expected))


def test_an_updates_operations_are_those_of_its_products():
    """Of the toy a layer's weights: 32 x 32 twice, 32 x 16 twice, 32 x 64 thrice."""
    assert numerics.token_operations(TOY, adapted=False) == 6 * 9216
    assert numerics.token_operations(TOY, adapted=True) == 4 * 9216
    assert numerics.matrix_rate(8, CPU, rounds=1) > 0


def test_three_updates_under_two_budgets_on_a_toy():
    small, large = gpu.train_under((64, 65_536), TOY, CPU, gpu.SIZES["tiny"].load)
    assert small.updates == large.updates == gpu.UPDATES == len(small.losses)
    assert min(small.generation_rate, small.update_rate, large.generation_rate, large.update_rate) > 0
    assert small.losses == pytest.approx(large.losses, rel=1e-3)
    assert small.operations == pytest.approx(small.update_rate * 6 * 9216)
    parameters = TOY.parameters * 4
    assert small.estimated_resting == 3 * parameters  # weights and both moments of Adam
    assert 4 * parameters < small.estimated_bytes <= large.estimated_bytes


def test_an_adapter_is_estimated_as_a_dry_run_does_it():
    (cost,) = gpu.train_under((65_536,), TOY, CPU, gpu.SIZES["tiny"].load, adapted=True)
    adapter = 4 * TOY.adapter(32, [*LINEAR])
    assert cost.estimated_resting == 2 * TOY.parameters + 3 * adapter


@pytest.mark.parametrize("size", ["0.6B", "4B"])
def test_the_measured_sizes_fit_a_card_by_the_estimate(size, tmp_path):
    """Neither budget would end a run on 80 GB out of memory; the settings are those that the run has."""
    gpu_size, machine = gpu.SIZES[size], hardware("1x80gb")
    for adapted in gpu_size.adapted:
        settings = gpu.model_settings(adapted)
        for budget in gpu.BUDGETS:
            needs = estimate(
                gpu.run_settings(CPU, budget, gpu_size.load, tmp_path), settings, KNOWN[gpu_size.model], machine, 0
            )
            assert max(needs.update, needs.rollout) < USABLE * machine.memory


def test_the_whole_command_without_a_gpu(monkeypatch, tmp_path, capsys):
    """Both ways of training; the second runs out of memory, and its line says so."""
    monkeypatch.setattr(gpu, "BUDGETS", (4096,))
    train = gpu.train_updates

    def first_alone(size, device, budget, load, folder, adapted):
        if adapted:
            raise torch.OutOfMemoryError
        return train(size, device, budget, load, folder, adapted)

    monkeypatch.setattr(gpu, "train_updates", first_alone)
    assert gpu.main(["--device", "cpu", "--sizes", "tiny", "--out", str(tmp_path / "gpu.md")]) == 0
    printed = capsys.readouterr().out
    assert (tmp_path / "gpu.md").read_text() == printed
    assert printed.startswith("# GPU: CPU, torch ")
    *_, full_row, adapted = printed.splitlines()
    assert full_row.startswith("| tiny, all weights, float32 | 4096 | 3 | 0.00 | 0.01 | - | 0.00 | 0.00 | ")
    assert full_row.count("|") == 12
    assert adapted == "| tiny, adapter on bf16 weights | 4096 | out of memory |"


def test_an_estimate_below_the_peak_is_reported():
    cost = gpu.Cost(
        updates=3,
        generation_rate=100.0,
        update_rate=200.0,
        operations=3e12,
        peak_bytes=10 * 2**30,
        estimated_bytes=12 * 2**30,
        resting_bytes=7 * 2**30,
        estimated_resting=8 * 2**30,
        losses=(),
    )
    assert gpu.cost_cells(cost, 12e12) == " 3 | 10.00 | 12.00 | 1.20 | 7.00 | 8.00 | 100 | 200 | 25.0% |"
    assert "| 15.00 | 12.00 | 0.80 (TOO LOW) |" in gpu.cost_cells(replace(cost, peak_bytes=15 * 2**30), 12e12)


def test_without_cuda_one_line(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu.main(["--out", str(tmp_path / "gpu.md")]) == 0
    message = "dev.gpu: no CUDA device here, so nothing was measured; try --device cpu --sizes tiny.\n"
    assert capsys.readouterr().out == message
    assert not (tmp_path / "gpu.md").exists()


def test_a_missing_package_is_reported_before_anything_is_measured(monkeypatch, capsys):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in ("trl", "datasets") else find(name))
    with pytest.raises(SystemExit, match="2"):
        gpu.main([])
    assert "datasets, trl are missing; install mage-envs[train]." in capsys.readouterr().err


# -- vllm ------------------------------------------------------------------------------------------------------


def test_without_vllm_one_line(monkeypatch, capsys):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "vllm" else find(name))
    assert vllm_check.main([]) == 0
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    assert "vllm is missing" in printed


@pytest.mark.more
def test_the_vllm_run_without_vllm(tmp_path):
    """All but the engine: the same model and settings with TRL's own generation."""
    logs = vllm_check.train(vllm_check.make_config("trl", tmp_path, use_vllm=False), tmp_path)
    assert len(logs) == 2
    assert vllm_check.verdict(logs) == "vLLM returned no log-probabilities"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, None),
        ({"sampling/log_abs": 0.2}, "mean |log p - log q| to vLLM is 0.200 in update 1, not below 0.05"),
        ({"sampling/log_abs": float("nan")}, "is nan in update 1"),
        ({"failures": 2.0}, "2 meta-episodes failed in rollout 1"),
    ],
)
def test_verdicts(change, expected):
    good = {"failures": 0.0, "retries": 0.0, "sampling/log_abs": 0.01}
    verdict = vllm_check.verdict([good | change, good])
    assert verdict is None if expected is None else expected in verdict
    assert vllm_check.verdict([good]) == "1 updates instead of 2"


@pytest.mark.parametrize("backend", vllm_check.BACKENDS)
def test_the_vllm_settings_are_valid(backend, tmp_path):
    config = vllm_check.make_config(backend, tmp_path)
    assert (config.backend, config.use_vllm, config.vllm_mode) == (backend, True, "colocate")
