"""The arena's pages without a browser: forms, visits, the table at the end, the watched agent, attacks."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.evaluation.suites.panels import weights_of
from mage_envs.benchmarks.exact.regret import regret
from mage_envs.benchmarks.play import arena
from mage_envs.benchmarks.play.end_table import ExactSetting, end_table
from mage_envs.benchmarks.play.sitting import HANDS, Sitting
from mage_envs.benchmarks.play.watched import WatchedAgent
from mage_envs.core import Task
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.registry import explain_unavailable
from mage_envs.web.visits import Visits
from tests.benchmarks.play.arena_visitor import ArenaVisitor, Replies, watch_agent
from tests.processes import ROOT
from tests.untrusted.harmless import ATTACKS, assert_harmless

META = "mage/KuhnPoker-Meta-v0"


def test_a_meta_episode_against_a_hidden_opponent() -> None:
    visitor = ArenaVisitor().start()
    pages_before = len(visitor.pages)
    assert "KuhnPoker, hidden, drawn from pool:kuhn/paper" in visitor.text
    visitor.to_the_end(note="It bets\r\nwith anything")
    names = weights_of("pool:kuhn/paper")
    for page in visitor.pages[pages_before:-1]:
        assert not [name for name in names if name in page]
    assert "It bets\nwith anything" in visitor.pages[-3]

    seed = int(np.random.default_rng(0).integers(2**31))
    env = gym.make(META, disable_env_checker=True, opponent="pool:kuhn/paper", hands_per_episode=HANDS)
    sitting = Sitting(env, Task(META, seed=seed))
    while not sitting.over:
        sitting.play("It bets\nwith anything" if sitting.reflects else sitting.prompt.legal_actions[0])
    table = end_table(ExactSetting(KuhnPoker(), names), [sitting])
    assert f"The opponent was {sitting.trajectory.opponent} ." in visitor.text
    assert "Share of the way" not in visitor.text
    assert table.remarks
    assert all(remark in visitor.text for remark in table.remarks)
    cells = re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", visitor.page)
    assert cells == [cell for row in (table.columns, *table.rows) for cell in row]


def test_a_chosen_opponent_typed_answers_and_another_round() -> None:
    visitor = ArenaVisitor().start(opponent="kuhn/rock", episodes="1")
    assert "Episode 1 of 1" in visitor.text
    visitor.answer("")
    assert "Type an action or its number first." in visitor.text
    visitor.answer("raise")
    assert "That is not a legal action; it spent one of your 6 turns." in visitor.text
    while "again" not in visitor.page:
        visitor.answer("1")
    assert "The opponent was kuhn/rock ." in visitor.text
    assert "Too few hands for a level of play: 3. It is printed from 20 on." in visitor.text
    visitor.post("/sittings")
    assert "Episode 1 of 1" in visitor.text


def test_a_board_is_a_grid_of_buttons() -> None:
    visitor = ArenaVisitor().start("TicTacToe", "first", "1")
    assert len(re.findall('<button name="answer"', visitor.page)) == 9
    assert 'class="choices board columns-3"' in visitor.page
    cell = visitor.buttons()[-1]
    visitor.answer(cell)
    assert cell not in visitor.buttons()
    assert re.search(rf'value="{re.escape(cell)}" disabled aria-label="{re.escape(cell)}, [XO]"', visitor.page)
    visitor.to_the_end()
    assert "The opponent was first ." in visitor.text
    assert "It is printed from 20 on." in visitor.text


@pytest.mark.parametrize(
    ("form", "status", "text"),
    [
        ({"game": "Chess"}, 404, "There is no such game."),
        ({"opponent": "kuhn/nobody"}, 400, "There is no such opponent."),
        ({"opponent": ""}, 400, "There is no such opponent."),
        ({"opponent": "mcts:99999999"}, 400, "There is no such opponent."),
        ({"opponent": "os:system"}, 400, "There is no such opponent."),
        ({"episodes": "10"}, 400, "A meta-episode has 1 to 9 episodes."),
        ({"episodes": "\u0663"}, 400, "A meta-episode has 1 to 9 episodes."),
        ({"form_key": "x"}, 403, "This form was not made for you"),
    ],
)
def test_forms_that_no_page_offers(form: dict[str, str], status: int, text: str) -> None:
    visitor = ArenaVisitor().get("/games/KuhnPoker")
    visitor.post("/sittings", **{"game": "KuhnPoker", "opponent": "kuhn/rock", "episodes": "3", **form})
    assert (visitor.status, text in visitor.text) == (status, True)


def test_old_forms_and_ended_visits_play_nothing() -> None:
    visitor = ArenaVisitor(visits=Visits(1)).start()
    page_text = visitor.text
    visitor.post("/play", answer="1", step="7")
    assert "nothing was played" in visitor.text
    assert visitor.text.replace("That page was out of date, so nothing was played.", "").split() == page_text.split()
    second_visitor = ArenaVisitor()
    second_visitor.client = visitor.client.application.test_client()
    second_visitor.start()
    # There is room for one meta-episode, which is the newest.
    assert "That meta-episode is gone." in visitor.get("/play").text
    assert second_visitor.get("/healthz").response.get_json() == {"status": "ok", "sittings": 1}
    assert second_visitor.get("/nowhere").status == 404
    assert ArenaVisitor().get("/watch").status == 404


def test_the_end_does_not_wait_for_slow_values(monkeypatch: pytest.MonkeyPatch) -> None:
    solved = threading.Event()
    monkeypatch.setattr(arena, "SOLVED_WITHIN_S", 0.05)
    monkeypatch.setattr(arena, "end_table", lambda *arguments: solved.wait(60) and end_table(*arguments))
    visitor = ArenaVisitor().start(episodes="1").to_the_end()
    assert "The game is being solved exactly." in visitor.text
    assert "The opponent was" not in visitor.text
    assert 'http-equiv="refresh"' in visitor.page
    solved.set()
    monkeypatch.setattr(arena, "SOLVED_WITHIN_S", 60)
    assert "The opponent was" in visitor.get("/play").text
    assert 'http-equiv="refresh"' not in visitor.page


def test_the_default_games_are_enumerable() -> None:
    games = arena.games_to_play()
    assert {"KuhnPoker", "LeducPoker"} <= set(games)
    assert not {"Negotiation", "ConnectFour", "Sokoban", "WebShop"} & set(games)


def test_lists_of_games_build_no_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a new machine that took the first page of the arena a minute."""
    monkeypatch.setenv("MAGE_ENVS_CACHE", str(tmp_path))
    assert {explain_unavailable(name) for name in ("WebShop", "WebShopCustomer")} == {""}
    arena.games_to_play()
    assert list(tmp_path.iterdir()) == []


# -- the watched agent -----------------------------------------------------------------------------------------


def test_a_watched_agent_has_the_regret_of_mage_regret() -> None:
    agent, weights = make_agent("scripted:first"), weights_of("pool:kuhn/demo")
    watched_agent = watch_agent(agent, opponent="pool:kuhn/demo")
    assert watched_agent.advance("end")
    scene = watched_agent.scene
    task = Task(META, opponent=scene.opponent, seed=int(np.random.default_rng(0).integers(2**31)))
    report = regret(agent, [task], weights, {"opponent": "pool:kuhn/demo", "hands_per_episode": HANDS}, scored=False)
    plays = [decision for decision in scene.decisions if decision.phase == "play"]
    for number, episode in enumerate(report.episodes, start=1):
        mine = [decision.regret for decision in plays if decision.heading.startswith(f"Episode {number} of 3, hand ")]
        assert sum(mine) / HANDS == pytest.approx(episode.regret.mean)
    assert all(sum(chance for _, chance in decision.posterior) == pytest.approx(1) for decision in plays)
    # The first decision in the first seat knows the pool alone; any later one knows more.
    assert {name for name, _ in plays[0].posterior} == set(weights)
    assert scene.table is not None
    assert scene.table.rows[0][0] == "scripted:first"


def test_the_watch_page_says_where_a_loss_pays() -> None:
    """The learner for the sum offers less than the best single offer, to learn the price for the last episode."""
    options = {"opponent": "pool:ultimatum/reserves", "hands_per_episode": 1}
    agent = make_agent("policy:bayes:ultimatum/reserves,3,1,sum")
    watched_agent = WatchedAgent(agent, "mage/Ultimatum-Meta-v0", options, np.random.default_rng(1))
    visitor = ArenaVisitor(watched=watched_agent).get("/watch").post("/watch", do="end")
    learns = [decision for decision in watched_agent.scene.decisions if decision.learns]
    assert learns
    assert all(decision.regret is not None and decision.regret > 0 for decision in learns)
    assert visitor.text.count("but it pays now to learn for later hands") == len(learns)
    blind = WatchedAgent(make_agent("scripted:first"), "mage/Ultimatum-Meta-v0", options, np.random.default_rng(1))
    assert blind.advance("end")
    # The last episode has no later hand.
    assert not blind.scene.decisions[0].learns


def test_the_watch_page_goes_step_by_step() -> None:
    visitor = ArenaVisitor(watched=watch_agent(make_agent("policy:kuhn/nash"))).get("/watch")
    assert "No answer yet." in visitor.text
    visitor.post("/watch", do="next")
    assert "Answer 1: Episode 1 of 3" in visitor.text
    assert "Posterior before the answer kuhn/conservative" in visitor.text
    assert re.search(r"Played \w+ , regret \d\.\d{3} chips", visitor.text)
    assert "&lt;action&gt;" in visitor.page
    assert "# Task Kuhn Poker." in visitor.text
    visitor.post("/watch", do="end")
    assert "The opponent was kuhn/" in visitor.text
    assert "policy:kuhn/nash -" in visitor.text or re.search(r"policy:kuhn/nash \d", visitor.text)
    assert visitor.post("/watch", do="new").text.count("No answer yet.") == 1
    assert visitor.post("/watch", do="stop").status == 400


def test_a_busy_agent_and_one_that_fails() -> None:
    class Slow(Replies):
        def generate(self, prompts):
            begun.set()
            go.wait(60)
            return super().generate(prompts)

    class Broken(Replies):
        def generate(self, prompts):
            [completion] = super().generate(prompts)
            return [type(completion)("", error="the server is gone")]

    begun, go = threading.Event(), threading.Event()
    from mage_envs.benchmarks.evaluation.run.agents import GeneratorAgent

    watched_agent = watch_agent(GeneratorAgent(Slow("check"), "slow"))
    thread = threading.Thread(target=watched_agent.advance, args=("next",))
    thread.start()
    assert begun.wait(60)
    visitor = ArenaVisitor(watched=watched_agent).get("/watch").post("/watch", do="next")
    assert "The agent is still thinking." in visitor.text
    go.set()
    thread.join()
    visitor = (
        ArenaVisitor(watched=watch_agent(GeneratorAgent(Broken("x"), "broken"))).get("/watch").post("/watch", do="next")
    )
    assert (visitor.status, "the server is gone" in visitor.text) == (502, True)
    # The failed answer ended this meta-episode, and another one can start.
    assert visitor.get("/watch").post("/watch", do="new").status == 200


def test_without_exact_values_the_watch_page_says_why() -> None:
    watched_agent = watch_agent(make_agent("scripted:random"), opponent="counting")
    ArenaVisitor(watched=watched_agent).get("/watch").post("/watch", do="end")
    assert "counting" in watched_agent.scene.missing
    assert {decision.regret for decision in watched_agent.scene.decisions} == {None}


def test_replayed_deals_have_no_exact_values() -> None:
    watched_agent = watch_agent(make_agent("scripted:first"), deal="replay")
    assert watched_agent.advance("end")
    assert "fresh deals" in watched_agent.scene.missing
    assert watched_agent.scene.table is not None
    assert watched_agent.scene.table.level == "n/a"


def test_no_text_is_markup() -> None:
    for attack in ATTACKS:
        visitor = ArenaVisitor(watched=watch_agent(attack)).start(opponent="kuhn/maniac")
        visitor.answer(attack).to_the_end(note=attack)
        visitor.get("/watch").post("/watch", do="end")
        visitor.get(f"/play?notice={attack}")
        assert attack in visitor.pages[-2].replace("&lt;", "<").replace("&gt;", ">").replace("&#34;", '"').replace(
            "&#39;", "'"
        )
        for page in visitor.pages:
            assert_harmless(page)


# -- the command -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([META], "The page of --browser asks for the game and its options. Remove them, or add --watch AGENT."),
        (["--watch", "policy:kuhn/nobody"], "kuhn/nobody"),
        (["--watch", "scripted:first", "mage/Sokoban-Meta-v0"], "has no opponent"),
        (["--host", "0.0.0.0"], "can be reached from other machines"),
        (["--port", "99999"], "a port must be a number from 0 to 65535"),
    ],
)
def test_errors_are_one_line(arguments: list[str], message: str) -> None:
    command = [sys.executable, "-m", "mage_envs", "play", "--browser", *arguments]
    process = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=200)
    assert (process.returncode, process.stdout, process.stderr.count("\n")) == (2, "", 1)
    assert message in process.stderr


def test_the_command_serves_until_ctrl_c() -> None:
    command = [
        sys.executable,
        "-W",
        "error",
        "-m",
        "mage_envs",
        "play",
        "--browser",
        "--port",
        "0",
        "--watch",
        "scripted:first",
    ]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "FLASK_DEBUG": "1"},
    ) as served:
        try:
            match = re.fullmatch(
                r"The arena is at (http://127\.0\.0\.1:\d+) \(Ctrl-C stops it\)\.\n", served.stdout.readline()
            )
            assert served.stdout.readline() == f"Watch scripted:first in {META} at {match[1]}/watch\n"
            with urllib.request.urlopen(f"{match[1]}/watch", timeout=60) as answer:
                assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
                assert "No answer yet." in answer.read().decode()
        finally:
            served.send_signal(signal.SIGINT)
        assert served.wait(timeout=60) == 0
        assert served.stderr.read() == ""


def test_importing_the_command_loads_no_server() -> None:
    servers = "{'flask', 'werkzeug', 'waitress'}"
    script = f"import sys, mage_envs.benchmarks.commands.play; print({servers} & set(sys.modules))"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert process.stdout == "set()\n"
