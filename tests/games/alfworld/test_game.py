"""The rules, the text, the rewards and the limits of ALFWorld, and its place in the environments."""

from __future__ import annotations

import copy
import gc
import pickle
from operator import attrgetter

import gymnasium as gym
import numpy as np
import pytest

from dev.alfworld_data import write_dataset
from mage_envs import IllegalAction
from mage_envs.env import TextGameEnv
from mage_envs.games.alfworld.game import BANNER, ALFWorld
from mage_envs.games.alfworld.scenes import TASK_TYPES
from mage_envs.games.alfworld.store import POOL
from mage_envs.opponents import SeatedOpponents
from tests.contract import GARBAGE
from tests.games.alfworld.started import SIMPLE, plan, start_task


def test_a_game_from_start_to_end():
    state = start_task()
    assert state.observation(0).startswith("You are in the middle of a room. Looking quickly around you, you see a ")
    assert "\n\nYour task is to: put " in state.observation(0)
    assert state.player == 0
    for number, command in enumerate(plan()):
        assert state.metrics() == {"commands": number, "plan_length": len(plan())}
        assert state.returns == (0.0,)
        assert not state.won(0)
        state = state.after(command)
    assert state.player is None
    assert state.observation(0).endswith("\nThe task is done.")
    assert (state.returns, state.won(0), state.legal_actions) == ((1.0,), True, ())
    with pytest.raises(IllegalAction):
        state.after("look")


def test_legal_actions_are_the_admissible_commands_and_help_is_hidden():
    state = start_task()
    legal = state.legal_actions
    assert list(legal) == sorted(set(legal))
    assert {"look", "inventory"} < set(legal)
    assert "help" not in legal
    for action in legal:
        assert start_task().after(action).metrics()["commands"] == 1
    assert state.after("help").observation(0).startswith("Available commands:")


@pytest.mark.parametrize("text", ["LOOK", " look ", "\tLook\n", "look"])
def test_case_and_blanks_around_do_not_matter(text):
    command, state = start_task().move(text)
    assert command == start_task().canonical(text) == "look"
    assert "you see nothing" in state.observation(0)


def test_a_move_is_spelt_as_the_state_before_it_spells_it():
    """Accept a command in any case if it is legal before the move, even if it is illegal after it."""
    go = next(action for action in start_task().legal_actions if action.startswith("go to "))
    command, state = start_task().move(go.upper())
    assert command == go
    assert go not in state.legal_actions


@pytest.mark.parametrize(
    "text", [*GARBAGE, "look around", "look look", "go  to fridge 1", "Nothing happens.", "go to", "lοok", "l\x00ook"]
)
def test_any_other_text_is_illegal_and_changes_nothing(text):
    state = start_task()
    views_before = (state.observation(0), state.legal_actions, state.information_state(0), state.metrics())
    with pytest.raises(IllegalAction, match="is not legal; choose one of: "):
        state.after(text)
    assert (state.observation(0), state.legal_actions, state.information_state(0), state.metrics()) == views_before


def test_ten_megabytes_of_text_are_one_illegal_action():
    state = start_task()
    for text in ("look " * 2_000_000, " " * 10_000_000 + "look"):
        with pytest.raises(IllegalAction):
            state.after(text)


def test_banner():
    assert start_task(banner=True).observation(0) == BANNER + start_task().observation(0)


def test_commands_can_be_kept_out_of_the_prompt():
    with_commands = gym.make("mage/ALFWorld-Meta-v0", size="tiny").reset(seed=1)
    without_commands = gym.make("mage/ALFWorld-Meta-v0", size="tiny", show_commands=False).reset(seed=1)
    assert "Legal actions: go to" in with_commands[0]
    assert "Legal actions" not in without_commands[0]
    assert with_commands[1]["legal_actions"] == without_commands[1]["private"]["legal_actions"]
    assert without_commands[1]["legal_actions"] == ()
    assert "open PLACE" in without_commands[0]


def test_tasks_are_drawn_by_the_stream_and_can_be_chosen():
    game = ALFWorld(size="tiny")
    task_ids = []
    for seed in range(30):
        state = game.initial_state(np.random.default_rng(seed))
        task_ids.append(state.task_id)
        assert state.category == state.task_id.split("/")[2]
    assert {task.split("/")[2] for task in task_ids} == set(TASK_TYPES)
    assert len(set(task_ids)) > 25
    for seed in range(3):
        assert game.task_state(SIMPLE, np.random.default_rng(seed)).task_id == SIMPLE
    assert [game.initial_state(np.random.default_rng(seed)).task_id for seed in range(30)] == task_ids


@pytest.mark.parametrize(
    "task",
    [
        "",
        "x",
        SIMPLE + "0" * 9,
        SIMPLE.replace("tiny", "small"),
        SIMPLE[:-1] + "600",
        SIMPLE[:-1] + "00",
        SIMPLE[:-1] + "²",
        "valid_seen" + SIMPLE[5:],
        SIMPLE + "/",
        "a" * 100_000,
    ],
)
def test_unknown_tasks(task):
    with pytest.raises(ValueError, match="has no task .* ids run from 'train/tiny/pick_and_place_simple/0' to"):
        ALFWorld(size="tiny").task_state(task, np.random.default_rng(0))


def test_a_task_of_another_type_is_unknown():
    with pytest.raises(ValueError, match="has no task"):
        start_task(task_types="look_at_obj_in_light")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "test"}, "split='test' is unknown; choose one of: train, eval_in_distribution, .* valid_unseen"),
        ({"size": "big"}, "size='big' is unknown; choose one of: official-like, small, tiny"),
        ({"task_types": "pick"}, "task_types='pick' is unknown; choose one or several of: pick_and_place_simple"),
        ({"task_types": ()}, "choose one or several of"),
        ({"engine": "slow"}, "engine='slow' is unknown; choose one of: fast, stock"),
        ({"data": "official", "size": "tiny"}, 'is for data="generated". Remove it'),
        ({"data": "/nowhere"}, r"There is no folder /nowhere.json_2\.1\.1.train"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        ALFWorld(**options)


@pytest.mark.parametrize(
    ("alias", "split"), [("valid_seen", "eval_in_distribution"), ("valid_unseen", "eval_out_of_distribution")]
)
def test_official_names_of_splits(alias, split):
    game = ALFWorld(alias, size="tiny")
    assert game.split == split
    assert game.initial_state(np.random.default_rng(0)).task_id.startswith(f"{split}/tiny/")


def test_both_engines_say_the_same():
    task = "train/tiny/pick_two_obj_and_place/0"
    states = [start_task(task, engine=engine) for engine in ("fast", "stock")]
    for command in ("look", "nonsense", *plan(task)):
        views = []
        for state in states:
            try:
                state.after(command)
            except IllegalAction as error:
                views.append(str(error))
            views.append((state.observation(0), state.legal_actions, state.won(0)))
        assert views[: len(views) // 2] == views[len(views) // 2 :]
    assert states[0].won(0)


# -- engines ----------------------------------------------------------------------------------------------------


COPIES = [copy.copy, copy.deepcopy, lambda engine_state: pickle.loads(pickle.dumps(engine_state))]


def views_of(state):
    return (
        state.observation(0),
        state.legal_actions,
        state.information_state(0),
        state.metrics(),
        state.returns,
        state.player,
        state.task_id,
        state.category,
    )


@pytest.mark.parametrize("engine", ["fast", "stock"])
@pytest.mark.parametrize("copied", COPIES)
def test_a_copy_in_the_middle_of_a_game_continues_as_the_original_and_apart_from_it(copied, engine):
    state = start_task(engine=engine)
    for command in ("Look ", *plan()[:2], "help"):
        state.after(command)
    copied_state = copied(state)
    views_before = views_of(state)
    assert views_of(copied_state) == views_before
    for command in plan()[2:]:
        copied_state.after(command)
    assert copied_state.won(0)
    assert views_of(state) == views_before
    for command in plan()[2:]:
        state.after(command)
    assert views_of(state) == views_of(copied_state)


@pytest.mark.parametrize("copied", COPIES)
def test_a_copy_of_a_game_has_its_options(copied):
    game = copied(ALFWorld(size="tiny", show_commands=False, banner=True, task_types=[TASK_TYPES[0]]))
    assert not game.spec.shows_legal_actions
    assert ALFWorld.spec.shows_legal_actions
    state = game.initial_state(np.random.default_rng(0))
    assert state.category == TASK_TYPES[0]
    assert state.observation(0).startswith(BANNER)
    assert copy.deepcopy(game) is game


def test_environments_that_share_a_game_do_not_disturb_each_other():
    """Two with the same task, one with another, and copies of them, in turn."""
    game, others = ALFWorld(size="tiny"), "train/tiny/pick_heat_then_place_in_recep/0"
    envs = [TextGameEnv(game, SeatedOpponents(None, game)) for _ in range(3)]
    tasks = [SIMPLE, SIMPLE, others]
    expected = [list(transcript(TextGameEnv(game, SeatedOpponents(None, game)), task)) for task in tasks]
    for _ in range(2):
        runs = [transcript(env, task) for env, task in zip(envs, tasks)]
        steps = [[next(run)] for run in runs]
        copies = [copy.deepcopy(env) for env in envs]
        for number in range(1, max(map(len, expected))):
            for index, task in enumerate(tasks):
                if number < len(expected[index]):
                    steps[index].append(next(runs[index]))
                    assert copies[index].step(plan(task)[number - 1]) == steps[index][-1]
        assert steps == expected


def transcript(env, task):
    """Yield the output of an environment from reset to the end of the plan."""
    yield env.reset(seed=0, options={"task": task})
    for command in plan(task):
        yield env.step(command)


def test_a_forgotten_state_returns_its_engine():
    gc.collect()
    state = start_task()
    num_before = POOL.made
    for number in range(9):
        del state
        state = start_task(f"train/tiny/pick_and_place_simple/{number % 3}")
        state.after("look")
    assert POOL.made == num_before


def test_the_episodes_of_a_meta_episode_are_played_on_one_library():
    gc.collect()
    env = gym.make("mage/ALFWorld-Meta-v0", size="tiny", max_turns=2, memory="none")
    env.reset(seed=0)
    made_so_far = POOL.made
    for seed in range(3):
        env.reset(seed=seed)
        library, terminated = env.unwrapped.hand.state._engine._library, False
        while not terminated:
            _, _, terminated, _, _ = env.step("<action>look</action>")
            state = attrgetter("hand.state.at" if terminated else "hand.state")(env.unwrapped)
            assert state._engine._library is library
            del state  # the next episode gets the library when the last reference to the state is gone
    assert POOL.made == made_so_far


def test_hundreds_of_environments_in_one_process():
    envs = [gym.make("mage/ALFWorld-v0", size="tiny", disable_env_checker=True) for _ in range(200)]
    expected = {}
    for number, env in enumerate(envs):
        _, info = env.reset(seed=0, options={"task": f"train/tiny/pick_and_place_simple/{number % 4}"})
        expected[number] = plan(info["private"]["task"])
    for step in range(max(map(len, expected.values()))):
        for number, env in enumerate(envs):
            if step < len(expected[number]):
                _, reward, terminated, _, _ = env.step(expected[number][step])
                assert (reward, terminated) == (
                    float(step + 1 == len(expected[number])),
                    step + 1 == len(expected[number]),
                )


def test_a_reset_in_the_middle_starts_the_game_again():
    env = gym.make("mage/ALFWorld-v0", size="tiny")
    first_reset = env.reset(seed=0, options={"task": SIMPLE})
    for command in plan()[:3]:
        env.step(command)
    assert env.reset(seed=0, options={"task": SIMPLE}) == first_reset


def test_asynchronous_environments():
    """Each worker process has an engine of its own."""
    envs = gym.make_vec(
        "mage/ALFWorld-v0", num_envs=2, vectorization_mode="async", size="tiny", vector_kwargs={"shared_memory": False}
    )
    try:
        observations, _ = envs.reset(seed=[0, 1])
        single, _ = gym.make("mage/ALFWorld-v0", size="tiny").reset(seed=1)
        assert observations[1] == single
        observations, rewards, *_ = envs.step(("look", "inventory"))
        assert "You are not carrying anything." in observations[1]
        assert rewards.tolist() == [0.0, 0.0]
    finally:
        envs.close()


def test_written_games_play_the_same(tmp_path):
    write_dataset(tmp_path, size="tiny", games_per_task=1, splits=("train",))
    state = ALFWorld(data=tmp_path, task_types="pick_and_place_simple").initial_state(np.random.default_rng(0))
    assert state.observation(0) == start_task().observation(0)
    for command in plan():
        state = state.after(command)
    assert state.won(0)
    assert state.metrics()["plan_length"] == len(plan())
