"""Memories by name: registration, options, errors, plug-ins; and that each environment has its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

from mage_envs.benchmarks import GeneratorAgent, evaluate, panel
from mage_envs.loading import plugins
from mage_envs.wrappers import EpisodicMemory, as_memory, list_memories, memories, memory_settings, register_memory
from mage_envs.wrappers.rollout.loop import RolloutSpec, collect
from mage_envs.wrappers.rollout.scripted import ScriptedGenerator
from tests.wrappers.memory_players import KUHN, good, make, play


@pytest.fixture(autouse=True)
def restore_registry():
    """Puts the registry back after each test."""
    registry_before = dict(memories._REGISTRY)
    yield
    memories._REGISTRY.clear()
    memories._REGISTRY.update(registry_before)


class Counting(EpisodicMemory):
    """A memory with options."""

    def __init__(self, limit: int = 3, share: float = 0.5, loud: bool = False, word: str = "x") -> None:
        super().__init__(reflections=True, transcripts=False)
        self.given = (limit, share, loud, word)


def test_names_are_listed_the_methods_own_first():
    names = list_memories()
    assert names[:4] == ("reflection", "history", "both", "none")
    assert names[4:] == tuple(sorted(names[4:]))
    assert {"react", "reflexion", "amem", "memento", "memento_trace", "memento_q"} <= set(names)


def test_options_follow_a_colon_and_are_converted():
    register_memory("counting")(Counting)
    assert as_memory("counting").given == (3, 0.5, False, "x")
    assert as_memory("counting:limit=7, loud=true,share=.25,word=a=b").given == (7, 0.25, True, "a=b")
    assert as_memory(f"{__name__}:Counting:limit=2").given[0] == 2
    assert as_memory(Counting).given == as_memory(lambda: Counting()).given
    assert make(memory="counting:limit=9").memory.given[0] == 9


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("reflexio", "memory='reflexio' is unknown; Did you mean 'reflexion'? choose one of: reflection, history"),
        ("amme:k_read=3", "memory='amme:k_read=3' is unknown; Did you mean 'amem'?"),
        ("reflexion:windw=3", "there is no option 'windw'. Did you mean 'window'? Options: window, reflect_on"),
        ("reflexion:window=many", "window must be a whole number, got 'many'"),
        ("reflexion:window", "window needs a value, as in 'window=3'"),
        ("reflexion:window=1,window=2", "window is given twice"),
        ("reflexion:window=0", "window=0 must be a whole number of at least 1"),
        ("reflexion:reflect_on=draws", "reflect_on='draws' is unknown; choose one of: 'failure', 'always'"),
        ("reflexion:failure_if=reward", "failure_if='reward' is unknown; choose 'no_success' or e.g. 'score<0.5'"),
        ("react:think_action=yes", "think_action must be true or false, got 'yes'"),
        ("amem:encoder=hsh", "encoder='hsh' is unknown; Did you mean 'hash'? choose one of: hash, bm25, minilm"),
        ("amem:encoder=hash:3", "encoder='hash:3' takes no arguments after the colon"),
        ("amem:granularity=hand", "granularity='hand' is unknown"),
        ("memento:scope=all", "scope='all' is unknown; choose one of: 'meta', 'run', 'fill'"),
        ("memento:scope=run", "scope=run and bank=FILE require each other. Create a bank with mage eval --fill"),
        ("memento_q:scope=meta", "memory=memento_q needs scope=run and bank=FILE"),
        ("none:a=1", "memory='none:a=1' takes no arguments after the colon, got 1."),
    ],
)
def test_a_mistake_is_one_line_with_the_nearest_name(spec, says):
    with pytest.raises(ValueError, match=re.escape(says)) as caught:
        as_memory(spec)
    assert "\n" not in str(caught.value)


def test_a_value_that_is_no_memory_is_refused():
    with pytest.raises(TypeError, match="expected a mage_envs.Memory, got int"):
        as_memory(lambda: 3)
    with pytest.raises(TypeError, match="expected a mage_envs.Memory, got dict"):
        as_memory({"memory": "amem"})


def test_a_taken_or_bad_name_is_refused():
    with pytest.raises(ValueError, match="already registered, by mage_envs.wrappers.baselines.amem:AMem"):
        register_memory("amem")(Counting)
    for name in ("", "a:b", "a,b", "a b", "a=b"):
        with pytest.raises(ValueError, match="is invalid; it must not be empty"):
            register_memory(name)
    register_memory("amem", entry_point="mage_envs.wrappers.baselines.amem:AMem")


def test_a_plug_in_announces_its_memories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "my_memories.py").write_text(
        "from mage_envs.wrappers import EpisodicMemory, register_memory\n"
        "@register_memory('mine')\n"
        "class Mine(EpisodicMemory):\n"
        "    def __init__(self): super().__init__(reflections=False, transcripts=True)\n"
    )
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[mage_envs.memories]\nmine = my_memories\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "_begun", set())
    plugins.find_entry_points.cache_clear()
    try:
        assert type(as_memory("mine")).__name__ == "Mine"
        assert "mine" in list_memories()
    finally:
        plugins.find_entry_points.cache_clear()


def test_settings_hold_every_option_and_the_hash_of_a_bank(tmp_path: Path):
    assert memory_settings("history") == {"memory": "history"}
    settings = memory_settings("amem:k_read=4")
    assert (settings["memory"], settings["k_read"], settings["k_write"], settings["encoder"]) == ("amem", 4, 5, "hash")
    assert memory_settings("amem") == memory_settings("amem:k_read=10")
    for content in ("one", "two"):
        (tmp_path / "bank.json").write_text(content)
        settings = memory_settings(f"memento:scope=run,bank={tmp_path / 'bank.json'}")
        assert len(settings["bank"]) == 64
    assert settings["bank"] == "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3"


def test_the_defaults_of_the_published_methods_are_those_of_their_page():
    """docs/baselines.md; a changed default changes every fingerprint and score."""
    read = {"encoder": "hash", "bank": None, "max_tokens": 4000}
    case = {"k": 4, "show_cases": False, **read}
    assert [memory_settings(name) for name in ("react", "reflexion", "amem", "memento", "memento_q")] == [
        {"memory": "react", "think_action": False, "max_in_a_row": 2, "max_tokens": 1000},
        {"memory": "reflexion", "window": 3, "reflect_on": "failure", "failure_if": "no_success", "max_tokens": 2000},
        {
            "memory": "amem",
            "k_write": 5,
            "k_read": 10,
            "query_llm": False,
            "granularity": "episode",
            "scope": "meta",
            **read,
        },
        {"memory": "memento", "scope": "meta", **case},
        {"memory": "memento_q", "scope": "run", **case},
    ]


def test_the_command_lines_know_them():
    listed = subprocess.run([sys.executable, "-m", "mage_envs", "list"], capture_output=True, text=True, check=True)
    assert "memories   reflection  history  both  none  amem" in listed.stdout


# -- each environment has its own --------------------------------------------------------------------------------


class Secretive(EpisodicMemory):
    """Reflects, and shows all of its input."""

    def __init__(self) -> None:
        super().__init__(reflections=True, transcripts=False)


def tell_the_seed(prompt):
    """A learner that writes the seed of its meta-episode into every text that it gives."""
    return good(dict(prompt.info), f"secret-{prompt.seed[0]}!")


def foreign_secrets(memory, **options):
    """How many prompts held another meta-episode's secret, of how many that held their own."""
    num_own = num_others = 0

    def watch(prompt):
        nonlocal num_own, num_others
        text = "\n".join(message.content for message in prompt.messages if message.role == "user")
        secrets = set(re.findall(r"secret-(\d+)!", text))
        num_own += str(prompt.seed[0]) in secrets
        num_others += bool(secrets - {str(prompt.seed[0])})
        return tell_the_seed(prompt)

    tasks = panel(KUHN, ["kuhn/nash"], 32, 0)
    tasks = tuple(task for task in tasks if task.seat == 0)
    trajectories = evaluate(GeneratorAgent(ScriptedGenerator(watch), "secrets"), tasks, {"memory": memory, **options})
    assert all(trajectory.failure is None for trajectory in trajectories)
    return num_own, num_others


def test_a_factory_and_a_name_give_each_environment_its_own():
    for memory in (Secretive, lambda: Secretive(), f"{__name__}:Secretive", "reflection"):
        num_own, num_others = foreign_secrets(memory)
        assert num_own > 32
        assert num_others == 0


@pytest.mark.parametrize(
    "memory", ["react:think_action=true", "reflexion", "reflexion:reflect_on=always", "amem", "memento", "both"]
)
def test_no_secret_of_a_meta_episode_reaches_another(memory):
    num_own, num_others = foreign_secrets(memory, num_episodes=3, hands_per_episode=2)
    assert num_others == 0
    assert num_own > 0


def test_one_object_for_several_environments_is_refused_with_the_remedy():
    remedy = r"one object, but each environment needs its own. .*memory=Secretive, or memory=lambda: Secretive"
    with pytest.raises(ValueError, match=remedy):
        foreign_secrets(Secretive())
    with pytest.raises(ValueError, match=remedy):
        gym.make_vec(KUHN, num_envs=2, memory=Secretive())
    shared_env = make(memory=Secretive(), opponent="kuhn/nash")
    assert len(play(shared_env)) == len(play(shared_env))


def test_two_meta_episodes_at_once_on_one_object_are_refused():
    shared = Secretive()
    first_env, second_env = make(memory=shared), make(memory=lambda: shared)
    first_env.reset(seed=0)
    with pytest.raises(RuntimeError, match="One Secretive is used by two meta-episodes at once. Pass memory= a name"):
        second_env.reset(seed=1)
    play(first_env)
    play(second_env)
    specs = [RolloutSpec(task) for task in panel(KUHN, ["kuhn/nash"], 2, 0)]
    trajectories = collect([first_env, second_env], ScriptedGenerator(tell_the_seed), specs, retries=0)
    assert any("is used by two meta-episodes at once" in (trajectory.failure or "") for trajectory in trajectories)


def test_vectors_make_one_each():
    envs = gym.make_vec(KUHN, num_envs=3, memory=Secretive)
    envs.reset(seed=0)
    assert len({id(env.memory) for env in envs.envs}) == 3
