"""Panels and settings: balanced, repeatable, stable, and with a fingerprint of everything that decides the play."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from mage_envs.benchmarks import SUITES, Panel, Setting, named_panel, panel
from mage_envs.benchmarks.evaluation.suites.environments import game_of, seats_of
from mage_envs.benchmarks.evaluation.suites.panels import SIZES, base_panels, full_name, panel_names
from mage_envs.benchmarks.evaluation.suites.paper import (
    EPISODES,
    PROTOCOLS,
    load_reported_scores,
    named_suite,
    setting_for,
)
from mage_envs.cli.program import main
from mage_envs.games.alfworld.scenes import is_installed
from mage_envs.games.webshop.catalogue_maker.make import SPLITS, _role, family_of, seed_of
from mage_envs.opponents import make_opponent
from mage_envs.opponents.splits import list_splits
from mage_envs.text.styles import DEFAULT_STYLE
from tests.packages import mark_params, needs_alfworld

KUHN = "mage/KuhnPoker-Meta-v0"
GOLDEN = json.loads((Path(__file__).parent / "fingerprints.json").read_text())
"""Panel with its size to protocol and K to fingerprint, in the default style; a change of any needs a new
name."""
PANELS = base_panels()
DRAWN = [name for name, suite_panel in PANELS.items() if "official" not in name and not suite_panel.variable]
"""Panels that need no data of the user's own."""


def settings_of_panel(base):
    return {
        f"{base}-{size}": {
            f"{protocol} {episodes}": setting_for(
                f"{base}-{size}", protocol=protocol, num_episodes=episodes, style=DEFAULT_STYLE
            ).fingerprint
            for protocol in PROTOCOLS
            for episodes in EPISODES
        }
        for size in PANELS[base].sizes
    }


def test_the_opponents_of_every_panel_play_its_game():
    for base, setting_panel in PANELS.items():
        for name in setting_panel.weights():
            if not name.startswith("cfr"):  # which solves the game at once
                assert make_opponent(name, game_of(setting_panel.env_id, setting_panel.env_kwargs)), base


def test_every_cell_has_the_same_deals():
    tasks = panel(KUHN, ["cfr", "uniform", "kuhn/rock"], 10, 5)
    assert len(tasks) == len(set(tasks)) == 60
    assert set(Counter((t.opponent, t.seat) for t in tasks).values()) == {10}
    seeds = {
        cell: [t.seed for t in tasks if (t.opponent, t.seat) == cell] for cell in {(t.opponent, t.seat) for t in tasks}
    }
    assert len({tuple(s) for s in seeds.values()}) == 1
    assert len(set(next(iter(seeds.values())))) == 10
    assert all(0 <= t.seed < 2**53 for t in tasks)


def test_longer_panels_continue_shorter_ones_and_seeds_differ():
    short, long = panel(KUHN, ["cfr"], 4, 5), panel(KUHN, ["cfr"], 9, 5)
    assert long[: len(short)] == short
    assert not {t.seed for t in long} & {t.seed for t in panel(KUHN, ["cfr"], 9, 6)}


@pytest.mark.parametrize("base", mark_params(DRAWN))
def test_the_smaller_size_begins_the_larger_and_cells_are_equal(base):
    sizes = PANELS[base].sizes
    small, large = (named_panel(f"{base}-{size}").tasks() for size in (min(sizes), max(sizes)))
    assert large[: len(small)] == small
    assert len(set(large)) == len(large) >= len(small) >= 128
    assert len(large) >= max(sizes) or named_panel(base).ids is not None
    for tasks in (small, large) if not PANELS[base].by_weight else ():
        assert len(set(Counter((t.opponent, t.seat) for t in tasks).values())) == 1
    assert named_panel(base) == named_panel(f"{base}-{max(sizes)}")
    assert full_name(base) == f"{base}-{max(sizes)}"


@pytest.mark.parametrize("base", mark_params(DRAWN))
def test_fingerprints_never_change(base):
    assert settings_of_panel(base) == {f"{base}-{size}": GOLDEN[f"{base}-{size}"] for size in PANELS[base].sizes}


def test_every_setting_that_changes_play_or_prompts_is_in_the_fingerprint():
    plain = setting_for("kuhn-paper-128")
    changes = [
        {"num_episodes": 10},
        {"protocol": "paper"},
        {"memory": "none"},
        {"context": "conversation", "memory": "history"},
        {"reveal": "always"},
        {"hands_per_episode": 2},
        {"max_turns": 3},
        {"on_invalid": "forfeit"},
        {"invalid_penalty": 1.0},
        {"deal": "replay"},
        {"reward": "sign"},
        {"style": "words"},
    ]
    fingerprints = [setting_for("kuhn-paper-128", **change).fingerprint for change in changes]
    assert len({plain.fingerprint, *fingerprints}) == len(changes) + 1
    defaults = {"num_episodes": 3, "protocol": "adaptive", "memory": "reflection", "reveal": "showdown"}
    assert setting_for("kuhn-paper-128", **defaults).fingerprint == plain.fingerprint
    other_setting = Setting(replace(plain.panel, seed=99), plain.name)
    assert other_setting.fingerprint != plain.fingerprint
    assert Setting(plain.panel, "another name").fingerprint == plain.fingerprint


def test_data_that_lie_elsewhere_have_a_hash_and_no_path(tmp_path):
    (tmp_path / "levels.txt").write_text("; 0\n######\n#@$. #\n######\n")
    base = Setting(Panel(env_id="mage/Sokoban-Meta-v0", about="", seed=1, size=4), "own")
    local_levels = base.with_options(generator=str(tmp_path / "levels.txt"))
    assert str(tmp_path) not in json.dumps(local_levels.to_json())
    assert local_levels.resolved["game"]["generator"] == "local files"
    (tmp_path / "moved.txt").write_text((tmp_path / "levels.txt").read_text())
    moved = base.with_options(generator=str(tmp_path / "moved.txt"))
    assert moved.fingerprint == local_levels.fingerprint
    (tmp_path / "other.txt").write_text("; 0\n#######\n#@$.  #\n#######\n")
    assert base.with_options(generator=str(tmp_path / "other.txt")).fingerprint != local_levels.fingerprint


@needs_alfworld
def test_official_alfworld_is_a_panel_of_its_own(tmp_path, monkeypatch):
    from dev.alfworld_data import write_dataset

    write_dataset(tmp_path, games_per_task=1, splits=["eval_in_distribution"])
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    setting = setting_for("alfworld-official-in-128")
    assert len(setting.tasks) == 6
    assert all((tmp_path / "json_2.1.1" / "valid_seen" / task.task_id).is_dir() for task in setting.tasks)
    old_fingerprint = setting.fingerprint
    game = next(tmp_path.rglob("game.tw-pddl"))
    game.write_text(game.read_text() + " ")
    assert setting_for("alfworld-official-in-128").fingerprint != old_fingerprint
    with pytest.raises(ValueError, match="Panel 'alfworld-eval-in-512' fixes data='generated'. Remove the option"):
        setting_for("alfworld-eval-in", data="official")
    with pytest.raises(ValueError, match="This panel requires the original data. Use --game-option"):
        _ = setting_for("webshop-official-test").tasks


def test_held_out_opponents_are_held_out():
    train, held_out = PANELS["kuhn-train"].weights(), PANELS["kuhn-heldout"].weights()
    assert len(train) == 4
    assert not set(train) & set(held_out)
    assert list_splits()
    for name, split in list_splits().items():
        assert not set(PANELS[f"{name}-train"].weights()) & set(PANELS[f"{name}-heldout"].weights())
        assert {task.seat for task in PANELS[f"{name}-train"].tasks()} == set(split.seats)
    assert PANELS["kuhn-paper"].weights() == pytest.approx(
        {"kuhn/conservative": 0.3, "kuhn/aggressive": 0.3, "kuhn/intermediate": 0.4}
    )
    assert PANELS["tictactoe-paper"].weights()["mcts:100"] == 0.5
    assert not {"minimax", "mcts:10"} & set(PANELS["tictactoe-paper"].weights())
    seeds = [{task.seed for task in PANELS[name].tasks()} for name in DRAWN if is_installed() or "alfworld" not in name]
    assert len(set().union(*seeds)) == sum(map(len, seeds))


@pytest.mark.parametrize("base", [name for name, panel in PANELS.items() if panel.opponents])
def test_every_panel_has_the_seats_that_its_game_lets_the_learner_take(base):
    assert tuple(seats_of(PANELS[base].env_id, PANELS[base].env_kwargs)) == tuple(PANELS[base].seats)


def test_the_papers_panels_copy_the_released_evaluation():
    counts = {
        name: Counter((t.opponent, t.seat) for t in PANELS[name].tasks()) for name in DRAWN if "paper-" in name[:6]
    }
    assert {name: dict(panel_counts) for name, panel_counts in counts.items()} == {
        "paper-tictactoe-mcts100": {("mcts:100", 0): 128},
        "paper-tictactoe-mcts1000": {("mcts:1000", 0): 128},
        "paper-kuhn": {("kuhn/conservative", 0): 38, ("kuhn/aggressive", 0): 38, ("kuhn/intermediate", 0): 52},
        "paper-kuhn-cfr": {("cfr-argmax", 0): 128},
        "paper-kuhn-cfr-second": {("cfr-argmax", 1): 128},
        **{f"paper-sokoban-{boxes}box": {(None, None): 128} for boxes in (1, 2, 3)},
    }
    for name in counts:
        setting = setting_for(name)
        assert (setting.resolved["num_episodes"], setting.resolved["style"]) == (10, "paper")
        assert setting.resolved["protocol"]["early_stop"]
        # The cards of a task are those of no other task, and come again in every episode.
        assert len({task.seed for task in setting.tasks}) == 128
        assert setting.resolved["deal"] == "replay"
        with pytest.raises(ValueError, match="Unknown panel"):
            named_panel(f"{name}-512")
    assert setting_for("paper-kuhn", num_episodes=3).resolved["num_episodes"] == 3
    # A prefix is as near to the shares as it can be.
    assert Counter(t.opponent for t in named_panel("paper-kuhn-16").tasks()) == {
        "kuhn/conservative": 5,
        "kuhn/aggressive": 5,
        "kuhn/intermediate": 6,
    }


def test_a_panel_of_original_data_names_the_variable_of_their_folder(monkeypatch, tmp_path):
    for name, setting_panel in PANELS.items():
        if setting_panel.variable:
            monkeypatch.delenv(setting_panel.variable, raising=False)
            assert setting_panel.missing() == f"{setting_panel.variable} is not set"
            with pytest.raises(ValueError, match=f"but {setting_panel.variable} is not set. Set it to their folder"):
                setting_panel.tasks()
            assert named_panel(setting_panel.stand_in).env_id == setting_panel.env_id, name
    monkeypatch.setenv("WEBSHOP_DATA", str(tmp_path))
    assert PANELS["paper-webshop"].missing() is None
    assert setting_for("paper-webshop").options["data"] == str(tmp_path)


def test_suites_are_of_panels_that_there_are_and_the_papers_numbers_are_apart():
    for name, suite in SUITES.items():
        assert all(named_panel(f"{panel}-128").size == 128 for panel in suite.panels)
        assert named_suite(name) is suite
    figures = load_reported_scores()
    assert figures["meta_episodes"] == 128
    for table in figures["tables"]:
        assert set(table["panels"]) <= set(SUITES[table["suite"]].panels)
        for row in table["rows"].values():
            assert len(row) == len(table["panels"])
            assert all(abs(128 * share - round(128 * share)) < 0.07 for share in row)  # every value is k/128
    main_table = figures["tables"][0]["rows"]
    assert len(main_table) == 8
    assert main_table["MAGE"] == [0.656, 0.672, 0.914, 0.773, 1.0]


def test_the_list_names_every_panel_with_its_fingerprint(capsys):
    assert main(["list", "panels"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in panel_names():
        line = next(line for line in lines if line.split()[:1] == [name])
        if name in GOLDEN and (is_installed() or "alfworld" not in name):
            assert line.split()[2] == setting_for(name).fingerprint[:12]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: named_panel("kuhn-trian"), "Did you mean 'kuhn-train'"),
        (lambda: named_panel("kuhn-paper-127"), "Did you mean 'kuhn-paper-"),
        (lambda: named_suite("paper-table"), "Did you mean 'paper-table1'"),
        (lambda: panel("mage/KuhnPoker-v0", ["cfr"], 1, 0), "ends with -Meta-v0"),
        (lambda: panel("mage/Nope-Meta-v0", ["cfr"], 1, 0), "Unknown environment"),
        (lambda: panel(KUHN, ["cfr"], 0, 0), "at least one row"),
        (lambda: panel(KUHN, [], 1, 0), "different opponents"),
        (lambda: panel(KUHN, ["cfr", "cfr"], 1, 0), "different opponents"),
        (lambda: setting_for("kuhn-paper", num_episodes=0).fingerprint, "num_episodes"),
        (lambda: setting_for("kuhn-paper", memory="reflektion").fingerprint, "reflektion"),
        (lambda: setting_for("kuhn-paper", nope=1).fingerprint, "nope"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("split", SPLITS[1:])
def test_panels_of_webshop_spread_over_families_and_kinds(split, size):
    held_out = split == "ood_catalogue"
    tasks = named_panel(f"webshop-{split.replace('_', '-')}-{size}").tasks()
    asins = [task.task_id.partition("-")[0] for task in tasks]
    seeds = [seed_of(asin, "small", held_out=held_out) for asin in asins]
    families = {(seed, family_of(asin, held_out=held_out, seed=seed)) for asin, seed in zip(asins, seeds, strict=True)}
    roles = [_role(seed, held_out, number) for seed, number in families]
    kinds = {kind.name for _, kind, _ in roles}
    assert set(seeds) == set(range(20))
    assert len(families) >= 40
    assert len(kinds) >= 20
    assert held_out or {role for role, _, _ in roles} == {split}
    train = {
        kind.name
        for role, kind, _ in (_role(seed, False, number) for seed in range(20) for number in range(120))
        if role == "train"
    }
    assert split != "ood_type" or not kinds & train
