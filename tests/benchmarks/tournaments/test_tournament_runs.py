"""Tournaments as runs: the same with any executor, resumed after a stop, and where policies fail."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from mage_envs.benchmarks.executors.on_this_machine import Local, Processes
from mage_envs.benchmarks.tournaments import report
from mage_envs.benchmarks.tournaments.pairing import PairingFailure
from mage_envs.benchmarks.tournaments.pairing_store import OtherTournament, Store
from mage_envs.benchmarks.tournaments.results import score
from mage_envs.benchmarks.tournaments.schedule import play_all
from mage_envs.benchmarks.tournaments.tournament_settings import Settings
from mage_envs.cli.program import main
from tests.benchmarks.tournament_policies import GATE, HERE, outcome_of

# -- the same with any executor and after any number of stops ----------------------------------------------------


def test_executors_and_the_order_of_names_change_nothing():
    settings = Settings("TicTacToe", ("uniform", "mcts:10", "minimax"), games=20, seed=7)
    local_result = outcome_of(settings).to_json()
    assert outcome_of(settings, executor=Processes(2)).to_json() == local_result
    other_result = outcome_of(Settings("TicTacToe", ("minimax", "mcts:10", "uniform"), games=20, seed=7))
    assert (
        other_result.cells["mcts:10", "uniform", "both"].played
        == outcome_of(settings).cells["mcts:10", "uniform", "both"].played
    )
    seeded = outcome_of(Settings("TicTacToe", ("uniform", "mcts:10", "minimax"), games=20, seed=8)).to_json()
    assert seeded["payoffs"] != local_result["payoffs"]


GATED = ["tournament", "KuhnPoker", "--opponents", f"uniform,kuhn/nash,cfr,{HERE}:Gated", "--games", "20", "--out"]


@pytest.fixture(scope="module")
def complete_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tournament")
    (folder / "gate").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(GATE, str(folder / "gate"))
        assert main([*GATED, str(folder / "whole"), "--executor", "local"]) == 0
    return folder / "whole"


@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGKILL])
def test_a_rerun_continues_where_it_stopped(tmp_path, complete_folder, kill, monkeypatch, capfd):
    gate, folder = tmp_path / "gate", tmp_path / "stopped"
    monkeypatch.setenv(GATE, str(gate))
    command = [sys.executable, "-m", "mage_envs", *GATED, str(folder), "--executor", "processes:2"]
    stopped = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 100
        while len(list((folder / "pairings").glob("*.json"))) < 6:
            assert stopped.poll() is None, "it ended by itself"
            assert time.monotonic() < deadline, "six pairings should be played without the gate"
            time.sleep(0.05)
        stopped.send_signal(kill)
        _, error = stopped.communicate(timeout=60)
    finally:
        gate.touch()
        stopped.kill()
        stopped.communicate()
    assert stopped.returncode == (130 if kill == signal.SIGINT else -kill)
    assert "Traceback" not in error
    if kill == signal.SIGINT:
        assert "Interrupted: 6 of 10 pairings are played; run the same command to resume." in error
    assert not (folder / "tournament.json").exists()
    assert main([*GATED, str(folder), "--executor", "local"]) == 0
    assert "6 of them from before" in capfd.readouterr().err
    files = sorted(path.relative_to(complete_folder) for path in complete_folder.rglob("*.*"))
    assert len(files) == 5 + 10
    for file in files:
        assert (folder / file).read_bytes() == (complete_folder / file).read_bytes(), file


def test_a_folder_refuses_other_settings_and_takes_further_policies(tmp_path):
    def settings(*names, **changes):
        return Settings("KuhnPoker", names, **{"games": 10, **changes})

    small = settings("kuhn/nash", "uniform")
    play_all(small, store=Store(tmp_path, small))
    with pytest.raises(OtherTournament, match="other settings .games 10 there, 20 now."):
        Store(tmp_path, settings("kuhn/nash", "uniform", games=20))
    with pytest.raises(OtherTournament, match="seed 0 there, 1 now"):
        Store(tmp_path, settings("kuhn/nash", "uniform", seed=1))
    with pytest.raises(OtherTournament, match="with uniform too"):
        Store(tmp_path, settings("kuhn/nash", "cfr"))
    large = settings("kuhn/nash", "cfr", "uniform")
    counts_seen = []
    grown = play_all(large, store=Store(tmp_path, large), on_finished=lambda *counts: counts_seen.append(counts))
    assert counts_seen[0] == (3, 6, 3)
    assert score(large, grown).to_json() == outcome_of(large).to_json()


def test_a_damaged_file_is_named(tmp_path):
    settings = Settings("KuhnPoker", ("kuhn/nash", "uniform"), games=2)
    store = Store(tmp_path, settings)
    play_all(settings, store=store)
    (tmp_path / "pairings").joinpath(sorted(os.listdir(tmp_path / "pairings"))[0]).write_text("{")
    with pytest.raises(ValueError, match="delete it to play it again"):
        play_all(settings, store=store)


# -- failures --------------------------------------------------------------------------------------------------


def test_a_policy_that_fails_costs_the_others_nothing(tmp_path):
    names = ("uniform", f"{HERE}:Broken", f"{HERE}:Illegal", "kuhn/nash")
    settings = Settings("KuhnPoker", names, games=10)
    outcomes = play_all(settings, store=Store(tmp_path, settings))
    results = score(settings, outcomes)
    assert [s.policy for s in results.standings] == ["kuhn/nash", "uniform"]
    assert (
        results.cells["kuhn/nash", "uniform", "both"]
        == outcome_of(Settings("KuhnPoker", ("kuhn/nash", "uniform"), games=10)).cells["kuhn/nash", "uniform", "both"]
    )
    assert outcomes["kuhn/nash", f"{HERE}:Broken"] == PairingFailure(
        (f"{HERE}:Broken",), "ArithmeticError", "out of numbers"
    )
    assert len(results.failures) == 7
    text = report.text(results)
    assert f"ArithmeticError of '{HERE}:Broken': out of numbers (3 pairings)" in text
    assert f"IllegalAction of '{HERE}:Illegal': 'dance' is not legal; choose one of: check, bet. (" in text
    report.save(tmp_path, results)
    assert len(json.loads((tmp_path / "tournament.json").read_text())["failures"]) == 7
    assert len(list((tmp_path / "pairings").glob("*.json"))) == 3
    assert (tmp_path / "payoffs.png").exists()


def test_a_policy_that_fails_before_the_first_hand_is_named_in_either_place():
    unready = f"{HERE}:Unready"
    failures = outcome_of(Settings("KuhnPoker", ("uniform", unready, "kuhn/nash"), games=4)).failures
    assert sorted(failures) == sorted([("kuhn/nash", unready), (unready, "uniform"), (unready, unready)])
    assert set(failures.values()) == {PairingFailure((unready,), "RuntimeError", "not yet")}


def test_a_worker_that_dies_fails_its_pairing_alone():
    deadly = f"{HERE}:Deadly"
    results = outcome_of(Settings("KuhnPoker", ("uniform", deadly, "kuhn/nash"), games=10), executor=Processes(2))
    assert sorted(results.failures) == sorted([("kuhn/nash", deadly), (deadly, "uniform"), (deadly, deadly)])
    failure = results.failures[deadly, deadly]
    assert failure.error == "WorkerDied"
    assert failure.message == "its process died: exit code 3"
    assert [s.policy for s in results.standings] == ["kuhn/nash", "uniform"]


@pytest.mark.parametrize("executor", [Local(), Processes(2)])
def test_a_policy_that_hangs_fails_its_pairings_alone(executor, caplog):
    sleeper = f"{HERE}:Sleeper"
    settings = Settings("KuhnPoker", ("uniform", sleeper, "kuhn/nash"), games=2)
    results = outcome_of(settings, executor=executor, deadline=0.5, slow_after=0.2)
    hang = PairingFailure((sleeper,), "Hang", "no answer within 0.5 s")
    assert results.failures == {names: hang for names in settings.pairings() if sleeper in names}
    assert [s.policy for s in results.standings] == ["kuhn/nash", "uniform"]
    warnings = [
        record.getMessage() for record in caplog.records if record.name == "mage_envs.benchmarks.tournaments.schedule"
    ]
    pairings = {line.split(" s so far for ")[1] for line in warnings}
    assert {f"{' against '.join(names)}." for names in settings.pairings() if sleeper in names} <= pairings


def test_a_policy_that_cannot_be_interrupted_is_killed_with_its_worker():
    stopped = f"{HERE}:Stopped"
    outcomes = play_all(Settings("KuhnPoker", ("uniform", stopped), games=2), executor=Processes(2), deadline=0.3)
    assert outcomes[stopped, stopped] == PairingFailure((stopped,), "Hang", "no answer within 0.3 s")
    assert outcomes[stopped, "uniform"] == PairingFailure((stopped, "uniform"), "Hang", "no answer within 0.3 s")
    assert not isinstance(outcomes["uniform", "uniform"], PairingFailure)


def test_a_deadline_is_a_number_of_seconds(capfd):
    assert main(["tournament", "KuhnPoker", "--opponents", "uniform,kuhn/nash", "--timeout", "-1"]) == 2
    assert "deadline=-1.0 must be a number of seconds, or 0 to disable it." in capfd.readouterr().err


def test_the_command_reports_failures_after_everything_else(tmp_path, capfd):
    arguments = ["--opponents", f"uniform,kuhn/nash,{HERE}:Illegal", "--games", "4", "--executor", "local"]
    assert main(["tournament", "KuhnPoker", *arguments, "--out", str(tmp_path)]) == 2
    out, err = capfd.readouterr()
    assert "1 kuhn/nash" in out
    assert err.endswith("mage: 3 of 6 pairings failed, as listed above; the others count.\n")
    assert (tmp_path / "tournament.json").exists()
