"""`mage headroom`: its output, its files and its errors."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from mage_envs.benchmarks.evaluation.run import baselines
from mage_envs.benchmarks.exact import headroom_table
from mage_envs.benchmarks.exact.headroom_table import Setup, blocks, setups, solve_rows
from mage_envs.cli.program import main
from mage_envs.cli.tables import as_text
from mage_envs.opponents import OpponentPool, list_pools, pools
from mage_envs.registry import list_games, load_game, settings_of


def run_headroom(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["headroom", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_the_values_of_one_pool(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    figure = tmp_path / "new" / "demo.png"
    options = ("KuhnPoker", "--opponents", "pool:kuhn/demo", "--weights", ".2,.3,.5")
    lines = run_headroom(capsys, *options, "--plot", str(figure))
    assert lines[0] == "KuhnPoker against pool:kuhn/demo: chips per hand, 3 episodes of 1 hand, seat alternate"
    rows = {line.split()[0]: line.split()[1:4] for line in lines[3:10]}
    assert rows["blind"] == ["0.121"] * 3
    assert rows["known"] == ["0.273"] * 3
    assert rows["myopic"] == ["0.121", "0.161", "0.188"]
    assert rows["sum"] == ["0.117", "0.168", "0.191"]
    assert rows["mage"][2] == "0.192"
    assert rows["last"][2] == "0.200"
    assert lines[10] == "adaptation headroom 0.152 (known - blind)"
    assert lines[11] == "reachable headroom 0.079 (last - no memory, in the last episode)"
    assert lines[12] == "exploration headroom 0.012 (last - myopic, in the last episode)"
    data = json.loads("\n".join(run_headroom(capsys, *options, "--json")))
    assert [round(value, 3) for value in data["per_episode"]["sum"]] == [0.117, 0.168, 0.191]
    assert len(data["per_episode"]["own"]) == 3
    assert data["adaptation"] == pytest.approx(data["known"] - data["blind"])
    assert data["reachable"] == pytest.approx(data["per_episode"]["last"][-1] - data["no_memory"])
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_one_episode_leaves_nothing_to_remember(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(
        "\n".join(run_headroom(capsys, "KuhnPoker", "--opponents", "pool:kuhn/paper", "--episodes", "1", "--json"))
    )
    assert data["blind"] == pytest.approx(0.125, abs=1e-3)
    assert data["per_episode"]["sum"] == pytest.approx([data["blind"]])


def test_learners_have_their_table_for_every_objective(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing of single hands is computed there, so no row says that it remembers no hand."""
    options = ("PrisonersDilemma", "--opponents", "pool:pd/forgiving", "--game-option", "rounds=2")
    lines = run_headroom(capsys, *options, "--objective", "success")
    assert [line[:9].strip() for line in lines[3:5]] == ["no memory", "known"]
    assert "second-order headroom n/a: stationary play is computed for returns alone" in lines
    lines = run_headroom(capsys, *options, "--hands", "2")
    assert [line.split()[0] for line in lines[3:5]] == ["stationary", "known"]
    assert not [line for line in lines if line.startswith("no memory")]
    data = json.loads("\n".join(run_headroom(capsys, *options, "--objective", "success", "--json")))
    assert (data["learns"], data["second_order"]) == (True, None)


def test_what_an_option_is_worth(capsys: pytest.CaptureFixture[str]) -> None:
    # A learner that hears an honest speaker gets 3 or 1, and one that does not gets 1.5.
    options = ("Promises", "--game-option", "rounds=1", "--opponents", "promises/honest")
    lines = run_headroom(capsys, *options, "--compared-with", "heard=false")
    assert lines[-1] == "0.500 more than with heard=false (sum, mean of all episodes)"
    data = json.loads("\n".join(run_headroom(capsys, *options, "--compared-with", "heard=false", "--json")))
    assert (data["compared_with"], data["difference"]) == ("heard=false", pytest.approx(0.5))
    for arguments, message in (
        (("Promises", "--compared-with", "heard"), "--compared-with 'heard' must have the form NAME=VALUE"),
        (("--all", "--compared-with", "heard=false"), "--compared-with applies to the values of one game"),
    ):
        assert main(["headroom", *arguments]) == 2
        assert message in capsys.readouterr().err


def test_options_seats_lengths_and_the_games_own_pool(capsys: pytest.CaptureFixture[str]) -> None:
    lengths = ("--episodes", "2", "--hands", "2")
    lines = run_headroom(capsys, "KuhnPoker", "--game-option", "reveal=always", "--seat", "first", *lengths)
    assert lines[0] == "KuhnPoker against pool:kuhn/paper: chips per hand, 2 episodes of 2 hands, seat first"
    assert lines[1].split() == ["episode", "1", "episode", "2"]
    lines = run_headroom(capsys, "KuhnPoker", "--objective", "success", "--gt", "1")
    assert "success per hand" in lines[0]
    assert "best for differential credit at gt 1" in lines[7]


def test_what_is_too_large_to_solve_has_its_bound(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run_headroom(capsys, "KuhnPoker", "--opponents", "pool:kuhn/demo", "--limit", "20")
    assert [line.split()[0] for line in lines[3:5]] == ["blind", "known"]
    assert lines[6].startswith(
        "reachable and exploration headroom at most that much: The pool of 4 has more than 20 states"
    )


def test_sampled_moves_show_a_lower_and_an_upper_value(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A small game of perfect information, in which search policies read the history; TicTacToe takes 8 CPU seconds.
    monkeypatch.setitem(pools._POOLS, "nim/two", OpponentPool({"mcts:2": 1.0, "uniform": 1.0}))
    options = ("--game-option", "game=nim(pile_sizes=1;2;3)", "--samples", "10", "--seat", "first", "--limit", "20")
    lines = run_headroom(capsys, "OpenSpiel", "--opponents", "pool:nim/two", *options)
    assert [line.split()[0] for line in lines[3:5]] == ["blind", "known"]
    for line in lines[3:5]:
        low, high = map(float, line.split()[1].split(".."))
        assert 0.3 < low < high < 1.1
    head, low, upper = re.fullmatch(
        r"(adaptation headroom) (\d\.\d+)\.\.(\d\.\d+) \(known - blind\)", lines[5]
    ).groups()  # type: ignore[union-attr]
    assert 0 <= float(low) < float(upper), head
    assert lines[6].startswith("reachable and exploration headroom at most the upper value")


@pytest.mark.parametrize(
    ("game", "options", "rows"),
    [
        ("PrisonersDilemma", (), {"myopic": (2.88, 2.92, 2.92), "sum": (2.72, 3.24, 3.24), "known": (3.24,) * 3}),
        ("PrisonersDilemma", ("rounds=3",), {"myopic": (3.067, 3.133, 3.133), "sum": (2.867, 3.4, 3.4)}),
        (
            "PrisonersDilemma",
            ("rounds=2", "noise=0.1"),
            {"myopic": (3.058, 3.143, 3.168), "sum": (3.032, 3.269, 3.296)},
        ),
        ("Ultimatum", (), {"blind": (0.312,) * 3, "myopic": (0.312, 0.388, 0.412), "last": (0.3, 0.3, 0.5)}),
        ("Ultimatum", ("offers=2",), {"myopic": (0.356, 0.444, 0.5), "mage": (0.331, 0.456, 0.537)}),
    ],
)
def test_games_with_room_to_explore(capsys: pytest.CaptureFixture[str], game, options, rows) -> None:
    """The same values as those of small games with the same rules, from the shipped games and their default pools."""
    lines = run_headroom(capsys, game, *(word for option in options for word in ("--game-option", option)))
    assert lines[0].endswith("seat first")
    columns = {line.split()[0]: line.split()[1:4] for line in lines[3:9]}
    for name, values in rows.items():
        assert [float(value) for value in columns[name]] == pytest.approx(values, abs=1e-9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Sokoban"], "Sokoban has no enumerable tree with opponents, so it has no exact headroom."),
        (["ConnectFour"], "ConnectFour has no enumerable tree with opponents"),
        (["TicTacToe"], "'mcts:100' has no distribution(turn): exact values against it are not available. Sampled"),
        (["KuhnPoker", "--episodes", "0"], "Input should be greater than or equal to 1"),
        (["KuhnPoker", "--hands", "0"], "Input should be greater than or equal to 1"),
        (["KuhnPoker", "--weights", ".5,.5,.5"], "The weights must sum to 1, got (0.5, 0.5, 0.5), which sum to 1.5."),
        (["KuhnPoker", "--weights", "1,0"], "The weights must be 3 numbers, one for each episode"),
        (["KuhnPoker", "--weights", "a,b"], "--weights 'a,b' must be numbers with commas between them"),
        (["KuhnPoker", "--gt", "1.5"], "gt must be between 0 and 1, got 1.5."),
        (["KuhnPoker", "--opponents", "pool:kuhn/dem"], "Unknown pool 'kuhn/dem'. Did you mean 'kuhn/demo'?"),
        (["KuhnPoker", "--opponents", "pool:tictactoe/balanced"], "not KuhnPoker"),
        (["KuhnPoker", "--game-option", "reveal"], "--game-option 'reveal' must have the form NAME=VALUE"),
        (["KuhnPoker", "--game-option", "revael=always"], "KuhnPoker does not take these options"),
        (["KunhPoker"], "Did you mean 'KuhnPoker'?"),
        (["KuhnPoker", "--all"], "--all already includes every game"),
        (["--all", "--episodes", "5"], "--all has rows with numbers of episodes of their own"),
        (["KuhnPoker", "--wide"], "--wide applies only to the table of --all"),
        ([], "GAME is missing. Name one, as in mage headroom KuhnPoker, or use --all."),
    ],
)
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["headroom", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith(("mage: ", "mage headroom: "))
    assert message in error
    assert error.count("\n") == 1


def test_the_table_is_of_every_game_and_pool() -> None:
    rows = list(setups())
    assert {row.game for row in rows} == set(list_games()) - {"OpenSpiel"}
    assert {row.pool for row in rows} - {""} == set(list_pools())
    assert {row.game for row in rows if row.panel} == {
        name for name in list_games() if settings_of(name).references and load_game(name).spec.players == 1
    }
    for game in ("SokobanControls", "Encounters", "WebShopCustomer"):
        assert {row.episodes for row in rows if row.game == game} == {3, 5}
    quick_games = {"KuhnPoker", "Ultimatum", "ConnectFour", "Encounters"}
    quick = [row for row in rows if row.game in quick_games and row.hands == 1]
    solved = list(solve_rows(lambda *_: None, quick))
    paper = next(row.values for row in solved if row.setup == Setup(game="KuhnPoker", pool="kuhn/paper"))
    assert paper is not None
    assert paper.adaptation == pytest.approx(0.150, abs=1e-9)
    narrow = as_text(blocks(solved)).splitlines()
    worth, third = (
        narrow.index(next(line for line in narrow if line.startswith(title))) for title in ("What m", "What t")
    )
    (success,) = (line.split() for line in narrow[worth:third] if line.startswith("KuhnPoker, success: kuhn/paper"))
    assert success[-5:] == ["0.583", "0.583", "0.000", "0.000", "0.000"]
    (demo,) = (line.split() for line in narrow[worth:third] if line.startswith("KuhnPoker: kuhn/demo"))
    assert demo[-5:] == ["0.121", "0.273", "0.152", "0.079", "0.012"]
    (five,) = (line.split() for line in narrow[worth:third] if line.startswith("Encounters, 5 episodes"))
    assert five[-5:] == ["0.467", "0.592", "0.125", "0.125", "0.010"]
    (explored,) = (line.split() for line in narrow[third:] if line.startswith("Ultimatum: ultimatum/reserves"))
    assert explored[-4:] == ["0.412", "0.463", "0.487", "0.500"]
    assert ["ConnectFour", *["n/a"] * 5] in [line.split() for line in narrow]
    wide = as_text(blocks(solved, wide=True)).splitlines()
    assert any(line.startswith("KuhnPoker, success") and " 0.583 0.583 0.583 " in line for line in wide)
    assert any(line.startswith("ConnectFour") and " not enumerable " in line for line in wide)


def test_games_that_repeat_a_task_show_their_floors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those that `mage eval` prints."""
    monkeypatch.setattr(baselines, "cache_root", lambda: tmp_path)
    row, *_ = rows = list(solve_rows(lambda *_: None, [Setup(game="Sokoban", pool="", panel="sokoban-eval-1box-16")]))
    assert [floor.opponent for floor in row.floors] == list(settings_of("Sokoban").references)
    floors = row.to_json()["floors"]
    assert [floor["name"] for floor in floors] == list(settings_of("Sokoban").references)
    assert [estimate["mean"] for estimate in floors[1]["success"]] == [1.0, 1.0, 1.0]
    for wide in (False, True):
        text = as_text(blocks(rows, wide)).splitlines()
        at = text.index("Sokoban: sokoban-eval-1box-16")
        assert text[at + 2].split() == ["expert,", "who", "needs", "no", "memory", *["1.000"] * 4, "16"]


def test_floors_that_cannot_be_played_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def evaluate(agent, *_: object, **__: object) -> None:
        raise RuntimeError(f"All 16 meta-episodes of {agent.name} failed; the first: ALFWorld needs textworld.")

    monkeypatch.setattr(baselines, "cache_root", lambda: tmp_path)
    monkeypatch.setattr(headroom_table, "evaluate", evaluate)
    rows = list(solve_rows(lambda *_: None, [Setup(game="Sokoban", pool="", panel="sokoban-eval-1box-16")]))
    text = as_text(blocks(rows)).splitlines()
    assert ["Sokoban:", "sokoban-eval-1box-16", *["n/a"] * 5] in [line.split() for line in text]
    (missing,) = (line for line in text if line.startswith("Sokoban: not enumerable; no floors: "))
    assert missing.endswith("failed; the first: ALFWorld needs textworld.")


def test_a_figure_that_could_not_be_saved_is_refused_before_anything_is_solved(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["headroom", "KuhnPoker", "--plot", str(tmp_path / "values.bmp")]) == 2
    assert "must end with .png, .pdf, .svg" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
