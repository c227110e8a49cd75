"""Calls that are allowed or refused, and Gymnasium's own vector environments with our ids."""

import copy
import re

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from hypothesis import given, settings
from hypothesis import strategies as st

import mage_envs
from mage_envs.vector import LoopVectorEnv
from mage_envs.vector.text_vector import batch_infos
from mage_envs.wrappers import EpisodicMemory
from mage_envs.wrappers.make_vec import make_envs, make_meta_envs
from tests.vector.compare import assert_same, ours

NUMBERS = st.one_of(st.booleans(), st.integers(-5, 5), st.floats(-2, 2), st.none())


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.fixed_dictionaries(
                {},
                optional={
                    "a": NUMBERS,
                    "b": st.text("ab"),
                    "c": st.one_of(st.none(), st.just(("x", "y")), st.just([{"role": "user"}])),
                    "metrics": st.fixed_dictionaries({}, optional={"d": st.floats(0, 1), "e": st.just(np.arange(3))}),
                    "final_obs": st.text("ab"),
                    "final_info": st.fixed_dictionaries({}, optional={"a": NUMBERS}),
                },
            ),
        )
    )
)
@settings(max_examples=200)
def test_infos_are_batched_as_gymnasium_does(row_infos):
    """Types of first values, conversions of later ones, nesting, rows that come twice."""
    plain = gym.vector.VectorEnv()
    plain.num_envs = 4
    expected: dict = {}
    error = None
    try:
        for row, info in row_infos:
            expected = plain._add_info(expected, info, row)
    except (TypeError, ValueError) as raised:
        error = type(raised)
    if error is None:
        assert_same(batch_infos(4, row_infos), expected)
    else:
        with pytest.raises(error):
            batch_infos(4, row_infos)


@pytest.mark.parametrize("game", mage_envs.list_games())
@pytest.mark.parametrize("kind", ["v0", "Meta-v0"])
def test_every_id_has_a_vector_form(game, kind):
    spec = gym.spec(f"mage/{game}-{kind}")
    assert spec.vector_entry_point
    assert gym.envs.registration.EnvSpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_made_by_id_spec_and_mode(mode):
    envs = gym.make_vec("mage/KuhnPoker-v0", num_envs=2, autoreset_mode=mode, opponent="cfr:50")
    assert envs.metadata["autoreset_mode"] is mode
    second_envs = gym.make_vec(envs.spec)
    assert (second_envs.num_envs, second_envs.autoreset_mode) == (2, mode)
    assert_same(envs.reset(seed=1), second_envs.reset(seed=1))
    assert_same(envs.step(["bet", "check"]), second_envs.step(["bet", "check"]))
    entry_point_envs = gym.make_vec(
        "mage/KuhnPoker-v0", num_envs=2, vectorization_mode="vector_entry_point", opponent="cfr:50"
    )
    assert entry_point_envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP


def test_spaces_contain_the_observations():
    envs = ours("mage/TicTacToe-v0", 3, "NextStep", opponent="minimax")
    texts, _ = envs.reset(seed=0)
    assert texts in envs.observation_space
    assert envs.action_space.sample() in envs.action_space
    assert envs.step(envs.action_space.sample())[4]["invalid_reason"].tolist() == ["invalid"] * 3
    arrays = [np.array(["2 2", "(1, 1)", "nine"]), np.array(["2 2", "(1, 1)", "nine"], dtype=object)]
    for actions in arrays:
        envs.reset(seed=0)
        assert envs.step(actions)[4]["invalid_reason"].tolist() == [None, None, "invalid"]


@pytest.mark.parametrize("opponent", ["kuhn/nash", "uniform"])
def test_what_is_refused(opponent):
    envs = ours("mage/KuhnPoker-v0", 2, "Disabled", opponent=opponent)
    with pytest.raises(gym.error.ResetNeeded, match="Nothing was started"):
        envs.step(["bet", "bet"])
    with pytest.raises(gym.error.ResetNeeded, match="The first reset must be one of all environments"):
        envs.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(ValueError, match="seed must be an int or a list of 2, one per environment, not of 3"):
        envs.reset(seed=[1, 2, 3])
    envs.reset(seed=0)
    with pytest.raises(ValueError, match="one action per environment: 2, not 1"):
        envs.step(["bet"])
    for mask, kind in (
        ([True, False], TypeError),
        (np.array([1, 0]), TypeError),
        (np.array([True]), ValueError),
        (np.array([False, False]), ValueError),
    ):
        with pytest.raises(kind, match="options\\['reset_mask'\\] must"):
            envs.reset(options={"reset_mask": mask})
    with pytest.raises(ValueError, match=re.escape("unknown keys ['sead']")):
        envs.reset(options={"sead": 1})
    any_over = np.zeros(2, dtype=bool)
    envs.reset(seed=0)
    while not any_over.any():
        _, _, any_over, _, _ = envs.step(["check", "nonsense"])
    over = ", ".join(map(str, np.flatnonzero(any_over)))
    with pytest.raises(gym.error.ResetNeeded, match=f"Environments {over} are over and autoreset is disabled"):
        envs.step(["check", "check"])
    envs.close()
    with pytest.raises(gym.error.ClosedEnvironmentError):
        envs.step(["check", "check"])


class OneHand:
    """An opponent that remembers within a hand, so that it cannot play two at once."""

    def __init__(self):
        self.seen = 0

    def reset(self, rng):
        self.seen = 0

    def act(self, turn):
        self.seen += 1
        return turn.legal_actions[self.seen % len(turn.legal_actions)]


class NoCopies(OneHand):
    def __deepcopy__(self, memo):
        raise TypeError("there is only one")


def test_an_opponent_given_as_an_object_is_copied():
    mine = OneHand()
    envs = ours("mage/TicTacToe-v0", 3, "NextStep", opponent=mine, seat="first")
    assert isinstance(envs, LoopVectorEnv)
    single = gym.make("mage/TicTacToe-v0", opponent=copy.deepcopy(mine), seat="first")
    texts, infos = envs.reset(seed=0)
    assert (texts[1], infos["legal_actions"][1]) == (single.reset(seed=1)[0], single.reset(seed=1)[1]["legal_actions"])
    for action in ("(1, 1)", "(2, 2)"):
        assert set(envs.step([action] * 3)[0]) == {single.step(action)[0]}
    assert mine.seen == single.unwrapped.seated.others[0].policy.seen  # the first environment holds the object itself
    with pytest.raises(
        TypeError, match="there is only one.*Make one per environment, or pass it by name or as 'module:Class'"
    ):
        ours("mage/TicTacToe-v0", 2, "NextStep", opponent=NoCopies())


class Counts(EpisodicMemory):
    """A memory that counts its meta-episodes."""

    def __init__(self):
        super().__init__(reflections=False, transcripts=True)
        self.begun = 0

    def begin(self):
        super().begin()
        self.begun += 1


def test_each_environment_makes_its_own_memory_and_an_object_is_refused():
    envs = ours("mage/KuhnPoker-Meta-v0", 3, "NextStep", memory=Counts)
    envs.reset(seed=0)
    assert [env.memory.begun for env in envs.envs] == [1, 1, 1]
    with pytest.raises(ValueError, match=r"memory=Counts\(...\) is one object, but each environment needs its own"):
        ours("mage/KuhnPoker-Meta-v0", 3, "NextStep", memory=Counts())


def test_render():
    envs = ours("mage/KuhnPoker-v0", 2, "NextStep", render_mode="ansi")
    assert envs.render_mode == "ansi"
    assert envs.reset(seed=0)[0] == envs.render()


@pytest.mark.parametrize("env_id", ["mage/KuhnPoker-v0", "mage/Sokoban-v0", "mage/KuhnPoker-Meta-v0"])
def test_gymnasiums_vector_wrappers(env_id):
    vector = gym.wrappers.vector
    envs = gym.make_vec(env_id, num_envs=3, max_turns=2)
    envs = vector.DictInfoToList(vector.RecordEpisodeStatistics(envs))
    envs.reset(seed=0)
    lengths = []
    for _ in range(12):
        infos = envs.step(["up"] * 3)[4]
        lengths += [int(info["episode"]["l"]) for info in infos if "episode" in info]
    assert lengths
    assert set(lengths) == ({2} if "Meta" not in env_id else {8})


# -- Gymnasium's AsyncVectorEnv --------------------------------------------------------------------------------


def asynchronous(**options):
    return gym.make_vec(
        "mage/KuhnPoker-v0",
        num_envs=2,
        vectorization_mode="async",
        opponent="kuhn/soft-station",
        vector_kwargs={"context": "spawn", **options},
    )


def test_shared_memory_is_refused_with_the_remedy():
    """Text of any length has no place in shared memory. Gymnasium's own `Text` space would show constant text."""
    with pytest.raises(ValueError, match=r'Add vector_kwargs=\{"shared_memory": False\}, or use gym.make_vec'):
        asynchronous()


def test_without_shared_memory_it_shows_the_same():
    envs = asynchronous(shared_memory=False)
    mine = ours("mage/KuhnPoker-v0", 2, "NextStep", opponent="kuhn/soft-station")
    try:
        assert_same(envs.reset(seed=3), mine.reset(seed=3))
        for action in ("bet", "call", "check"):
            assert_same(envs.step([action] * 2), mine.step([action] * 2))
    finally:
        envs.close()


def test_one_environment_is_the_default() -> None:
    assert make_envs("KuhnPoker").num_envs == make_meta_envs("KuhnPoker").num_envs == 1
