"""Playing with the fast engine."""

from __future__ import annotations

import gc
import threading

import pytest

from mage_envs.games.alfworld import library
from mage_envs.games.alfworld.engine import NOTHING, FastEngine
from mage_envs.games.alfworld.scenes import TASK_TYPES
from mage_envs.games.alfworld.store import POOL, STORE
from tests.games.alfworld.engine.games import NONSENSE, needs_engine, plan, tiny, transcript

pytestmark = needs_engine


@pytest.fixture
def engine():
    engine = FastEngine()
    yield engine
    engine.close()


@pytest.mark.parametrize("task_type", TASK_TYPES)
def test_the_plan_wins_and_only_its_last_step_does(engine, task_type):
    game = tiny(task_type)
    engine.load(game)
    state = engine.reset()
    assert "Your task is to: " in state.feedback
    for command in plan(game):
        assert not state.won
        assert command in state.admissible_commands
        state = engine.step(command)
        assert state.accepted
    assert state.won


@pytest.mark.parametrize("command", [*NONSENSE, "look" * 2_500_000], ids=lambda text: repr(text[:20]))
def test_nonsense_changes_nothing(engine, command):
    engine.load(tiny())
    first_state = engine.reset()
    state = engine.step(command)
    assert state == (NOTHING, first_state.admissible_commands, False, False)
    assert (
        engine.step("look").feedback == "You are in the middle of a room. Looking quickly around you, you see nothing."
    )


def test_blanks_around_a_command_do_not_count(engine):
    engine.load(tiny())
    engine.reset()
    assert engine.step(" \n look\t\n").accepted


@pytest.mark.parametrize("command", [None, 3, b"look", ["look"]])
def test_only_text_is_a_command(engine, command):
    engine.load(tiny())
    engine.reset()
    with pytest.raises(TypeError, match=f"A command must be a string, got {type(command).__name__}."):
        engine.step(command)
    assert engine.step("look").accepted


def test_the_order_of_calls_is_checked(engine):
    with pytest.raises(RuntimeError, match="call load first"):
        engine.reset()
    engine.load(tiny())
    with pytest.raises(RuntimeError, match="call reset first"):
        engine.step("look")
    engine.reset()
    engine.load(tiny(TASK_TYPES[1]))
    with pytest.raises(RuntimeError, match="call reset first"):
        engine.step("look")


def test_a_restart_forgets_everything(engine):
    engine.load(tiny())
    first_state = engine.reset()
    for command in plan(tiny()):
        won = engine.step(command)
    assert won.won
    second_state = engine.reset()
    assert second_state == first_state
    assert [engine.step(command) for command in plan(tiny())][-1] == won


def test_a_game_plays_the_same_after_others_in_the_same_library(engine):
    expected = transcript(tiny())
    for task_type in TASK_TYPES:
        engine.load(tiny(task_type))
        engine.reset()
        engine.step("go to nowhere")
    engine.close()
    assert transcript(tiny()) == expected


def test_a_library_forgets_old_states_unseen(engine, monkeypatch):
    expected = transcript(tiny(), 12)
    monkeypatch.setattr(library, "_MOVES_PER_LOAD", 5)
    assert [transcript(tiny(), 12) for _ in range(3)] == [expected] * 3


def test_engines_in_the_same_game_do_not_disturb_each_other():
    game = tiny()
    first_engine, second_engine = FastEngine(), FastEngine()
    for each_engine in (first_engine, second_engine):
        each_engine.load(game)
        each_engine.reset()
    assert first_engine.game is second_engine.game
    state_before = second_engine.step("look")
    for command in plan(game):
        state = first_engine.step(command)
    assert state.won
    assert second_engine.step("look") == state_before
    first_engine.close()
    second_engine.close()


def test_libraries_are_used_again_over_400_episodes():
    games = [tiny(task_type) for task_type in TASK_TYPES]
    for game in games:
        transcript(game, 2)
    num_made = POOL.made
    for episode in range(400):
        engine = FastEngine()
        engine.load(games[episode % len(games)])
        engine.reset()
        engine.step("look")
        if episode % 2:
            engine.close()
        del engine  # an engine that was never closed gives its library back, too
    gc.collect()
    assert POOL.made == num_made


def test_a_closed_engine_can_load_again(engine):
    engine.close()
    engine.load(tiny())
    engine.reset()
    engine.close()
    engine.close()
    with pytest.raises(RuntimeError, match="call reset first"):
        engine.step("look")
    assert engine.reset().admissible_commands


def test_threads_may_step_different_engines():
    games = [tiny(task_type, index) for index in range(2) for task_type in TASK_TYPES[:4]]
    expected = [transcript(game) for game in games]
    transcripts: dict[int, list[tuple[object, ...]]] = {}

    def play(number: int) -> None:
        transcripts[number] = transcript(games[number])

    threads = [threading.Thread(target=play, args=(number,)) for number in range(len(games))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [transcripts[number] for number in range(len(games))] == expected


def test_compiled_games_are_shared():
    assert STORE.load(tiny()) is STORE.load(dict(tiny()))
