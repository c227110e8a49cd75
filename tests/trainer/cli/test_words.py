"""`--model words`: a model over a game's own words, and the settings that it comes with."""

import json
import os
import re

os.environ["HF_HUB_OFFLINE"] = "1"

from pathlib import Path

import gymnasium as gym
import pytest
import torch
from transformers import AutoModelForCausalLM

from mage_envs.cli.program import main as run_mage
from mage_envs.text.generation import Message, Prompt
from mage_envs.trainer.backends.local_model import HFGenerator, Sampling
from mage_envs.trainer.backends.play_settings import PlaySettings
from mage_envs.trainer.backends.tiny import byte_tokenizer, general_tiny
from mage_envs.trainer.backends.tokens import ChatTokenizer
from mage_envs.trainer.backends.weights import load_model
from mage_envs.trainer.cli.imitation import RANDOM, Imitation, imitating_copy
from mage_envs.trainer.cli.words_model import words_model
from mage_envs.trainer.config.mage_config import MAGEConfig
from mage_envs.trainer.config.presets import WORDS as DEFAULTS
from mage_envs.trainer.config.presets import small_models
from mage_envs.trainer.config.run_settings import RunSettings
from mage_envs.trainer.trl import setup
from mage_envs.trainer.trl.setup import exact_critic_settings, words_limit
from mage_envs.wrappers.rollout.training_log import metric_rows
from tests.programs import train as main
from tests.trainer.tiny_runs import flags

SHORT = flags(max_rollouts=1, groups_per_rollout=1, num_generations=2, updates_per_rollout=1, disable_tqdm="true")


def config(env_id: str, folder: Path, **changes: object) -> MAGEConfig:
    return MAGEConfig(**{**DEFAULTS, "env_id": env_id, "output_dir": str(folder), **changes})  # type: ignore[arg-type]


def test_a_run_says_what_it_sets_and_flags_win(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "run"
    common = ["--model", "words", "--env_id", "mage/Ultimatum-Meta-v0", "--output_dir", str(out), "--gamma_step", "1"]
    common += ["--horizon", "hand"]
    assert main([*common, *SHORT, "--imitate", RANDOM, "--imitate_steps", "1", "--learning_rate", "0.01"]) == 0
    captured = capsys.readouterr()
    assert "Finished after 1 updates" in captured.out
    line = next(line for line in captured.err.splitlines() if line.startswith("mage: --model words sets"))
    assert "backend=cached constrained=True" in line
    assert "advantage=exact" in line
    assert "learning_rate" not in line
    assert "horizon" not in line
    settings = PlaySettings.load(out)
    assert (settings.env_kwargs["style"], settings.max_new_tokens, settings.constrained) == ("words", 1, True)
    size = sum(weight.numel() for weight in AutoModelForCausalLM.from_pretrained(out).parameters())
    assert 80_000 < size < 100_000


@pytest.mark.parametrize(
    ("env_id", "opponents", "exact"),
    [
        ("mage/KuhnPoker-Meta-v0", None, True),
        ("mage/TicTacToe-Meta-v0", "pool:tictactoe/patterns", True),
        ("mage/TicTacToe-Meta-v0", None, False),
        ("mage/Negotiation-Meta-v0", None, False),
    ],
)
def test_the_critic_is_asked_in_small_games_against_exact_opponents(
    env_id: str, opponents: str | None, exact: bool, tmp_path: Path
) -> None:
    run_config = config(env_id, tmp_path, opponents=opponents)
    settings_before = dict(vars(run_config))
    expected = {"advantage": "exact", "statistics": "pooled"} if exact else {}
    assert exact_critic_settings(run_config) == expected
    assert vars(run_config) == settings_before


@pytest.mark.parametrize(("critic_limit", "exact"), [(54, True), (53, False)])
def test_a_game_of_more_positions_is_learned_without_the_critic(
    critic_limit: int, exact: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kuhn Poker has 54."""
    monkeypatch.setattr(setup, "CRITIC", critic_limit)
    assert bool(exact_critic_settings(config("mage/KuhnPoker-Meta-v0", tmp_path))) == exact


def test_a_warm_start_is_a_function_of_the_seed(tmp_path: Path) -> None:
    """Two steps of language modelling move the weights, equally in two runs."""
    run_config = config("mage/KuhnPoker-Meta-v0", tmp_path)
    players: tuple[list[str], ...] = ([], [RANDOM], [RANDOM])
    folders = [
        words_model(tmp_path / str(number), run_config, Imitation(policies, 2))
        for number, policies in enumerate(players)
    ]
    weights = [AutoModelForCausalLM.from_pretrained(folder).lm_head.weight for folder in folders]
    assert not weights[0].equal(weights[1])
    assert weights[1].equal(weights[2])


@pytest.mark.parametrize("style", ["plain", "words"])
def test_a_saved_model_learns_the_form_of_legal_answers(style: str, tmp_path: Path) -> None:
    """Other legal play of the run's own prompts becomes more likely, and the run trains the warm model."""
    out = tmp_path / "run"
    common = flags(env_id="mage/KuhnPoker-Meta-v0", prompt_style=style, memory="history", context="conversation")
    common += flags(num_episodes=1, seat="first", max_completion_length=2, use_cpu="true", output_dir=out)
    assert main(["--model", "tiny", *common, *SHORT, "--imitate", RANDOM, "--imitate_steps", "4"]) == 0
    tokens, sampling = ChatTokenizer(byte_tokenizer()), Sampling(30)
    generators = [HFGenerator(load_model(out / name), tokens, sampling) for name in ("tiny", "warm")]
    env = gym.make("mage/KuhnPoker-Meta-v0", style=style, num_episodes=1, seat="first")
    _, info = env.reset(seed=12345)
    prompt = Prompt(tuple(Message(**message) for message in info["messages"]))
    answers = ["<action>bet</action>", "<action>check</action>"] if style == "plain" else ["bet", "check"]
    cold, warm = (generator.score([prompt], [answers])[0] for generator in generators)
    assert all(warm_share > cold_share for cold_share, warm_share in zip(cold, warm, strict=True)), (cold, warm)


def test_a_model_in_bfloat16_learns_as_in_float32(tmp_path: Path) -> None:
    run_settings = RunSettings(env_id="mage/KuhnPoker-Meta-v0", prompt_style="words", memory="history", num_episodes=1)
    tokens, prompt = ChatTokenizer(byte_tokenizer()), Prompt((Message("user", "episode 1 first jack"),))
    gains = {}
    for kind in (torch.float32, torch.bfloat16):
        start = tmp_path / str(kind)
        load_model(Path(general_tiny(start))).to(kind).save_pretrained(start)
        warm = Path(imitating_copy(str(start), tmp_path / f"warm-{kind}", run_settings, Imitation([RANDOM], 12)))
        cold, warm_scores = (
            HFGenerator(load_model(f).float(), tokens, Sampling(30)).score([prompt], [["bet"]]) for f in (start, warm)
        )
        assert load_model(warm).dtype is kind
        gains[kind] = warm_scores[0][0] - cold[0][0]
    assert gains[torch.float32] > 0.1
    assert gains[torch.bfloat16] == pytest.approx(gains[torch.float32], rel=0.1)


def test_a_resumed_run_keeps_its_warm_start(tmp_path: Path) -> None:
    run_settings = RunSettings(env_id="mage/KuhnPoker-Meta-v0", memory="history", num_episodes=1)
    start, folder = general_tiny(tmp_path / "tiny"), tmp_path / "warm"

    def weights(resumes: bool) -> bytes:
        assert imitating_copy(start, folder, run_settings, Imitation([RANDOM], 1), resumes=resumes) == str(folder)
        return (folder / "model.safetensors").read_bytes()

    first_weights = weights(resumes=True)
    assert first_weights != (tmp_path / "tiny" / "model.safetensors").read_bytes()
    # Other settings of the same run would give other weights.
    run_settings.seed = 1
    assert weights(resumes=True) == first_weights
    assert weights(resumes=False) != first_weights


def test_the_name_sets_the_size_of_the_model(tmp_path: Path) -> None:
    small = config("mage/KuhnPoker-Meta-v0", tmp_path)
    shapes = []
    for name in ("words", "words:hidden=24,layers=3,heads=2"):
        folder = Path(words_model(tmp_path / str(len(shapes)), small, name=name))
        stored = json.loads((folder / "config.json").read_text())
        shapes.append(tuple(stored[key] for key in ("hidden_size", "num_hidden_layers", "num_attention_heads")))
    assert shapes == [(64, 2, 4), (24, 3, 2)]


def test_replies_of_several_words_have_a_longer_limit(tmp_path: Path) -> None:
    assert words_limit(config("mage/KuhnPoker-Meta-v0", tmp_path)) == {}
    assert words_limit(config("mage/ALFWorld-Meta-v0", tmp_path)) == {"max_completion_length": 16}


@pytest.mark.parametrize("name", sorted(small_models()))
def test_a_preset_of_a_small_model_needs_no_other_option(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--preset", name, "--dry-run", "--output_dir", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert f"env_id: {small_models()[name]['env_id']}" in printed
    assert "prompt_style: words" in printed


@pytest.mark.parametrize(
    ("game", "verbs"),
    [
        ("sokoban", {"up", "down", "left", "right"}),
        ("webshop", {"search", "click"}),
        pytest.param(
            *("alfworld", {"go", "open", "close", "take", "move", "examine", "look", "inventory", "use", "clean"}),
            marks=pytest.mark.more,
        ),
    ],
)
def test_a_small_model_trains_on_boards_and_texts_and_is_evaluated_from_its_folder(
    game: str, verbs: set[str], tmp_path: Path
) -> None:
    """Two steps of imitation and one rollout, through the same commands as the preset's."""
    out = tmp_path / "run"
    short = ["--imitate_steps=2", "--imitate_rows=4", "--imitate_episodes=4"]
    short += ["--max_rollouts=1", "--groups_per_rollout=2", "--num_generations=2"]
    assert main(["--preset", f"mini-{game}", *short, "--output_dir", str(out)]) == 0
    assert run_mage(["eval", str(out), "--rows", "2", "--out", str(tmp_path / "eval")]) == 0
    lines = [json.loads(line) for line in (out / "transcripts.jsonl").read_text().splitlines()]
    actions = {step["action"] for line in lines for step in line.get("steps", []) if step.get("phase") == "play"}
    assert {re.match("[a-z]+", action)[0] for action in actions} <= verbs  # type: ignore[index]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--model", "words", "--prompt_style", "plain"), "reads prompts of prompt_style=words, not 'plain'"),
        (
            ("--model", "words", "--env_id", "mage/WebShop-Meta-v0", "--env_kwargs", '{"mode": "html"}'),
            "style='words' needs a fixed set of actions",
        ),
        (("--model", "words:hidden=30"), "hidden=30 must be a multiple of heads=4"),
        (("--model", "words:layers=0"), "layers"),
        (("--model", "words:wide=8"), "wide"),
        (("--model", "words", "--imitate", RANDOM, "--imitate_steps", "0"), "imitate_steps=0 must be at least 1"),
        (("--model", "words", "--imitate_rows", "0"), "imitate_rows=0 must be at least 1"),
        (("--model", "words", "--imitate_episodes", "-3"), "imitate_episodes=-3 must be at least 1"),
        (("--model", "words", "--imitate_rate", "nan"), "imitate_rate=nan must be a finite number above 0"),
        (("--model", "words", "--imitate_rate", "0"), "imitate_rate=0 must be a finite number above 0"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: tuple[str, ...], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, *SHORT, "--use_cpu", "true", "--output_dir", str(tmp_path / "x")]) == 2
    assert says in capsys.readouterr().err.splitlines()[-1]


LIGHTS = """
import gymnasium as gym
from mage_envs import FreeText, MetaEpisode

ACTIONS = ("press red", "press green")


class Lights(gym.Env):
    observation_space = FreeText()
    action_space = FreeText()
    facts = {"legal_actions": ACTIONS}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.light = ("red", "green")[int(self.np_random.integers(2))]
        return f"the light is {self.light}", dict(self.facts)

    def step(self, action):
        right = action == f"press {self.light}"
        return f"the light was {self.light}", float(right), True, False, dict(self.facts)


class Bare(Lights):
    facts = {}


def make(**options):
    return MetaEpisode(Lights(), rules="Press.", deal="replay", max_turns=3, **options)


for name, entry_point in (("Lights", Lights), ("Bare", Bare), ("Lights-Meta", make)):
    gym.register(f"words/{name}-v0", entry_point=entry_point)
"""


@pytest.fixture
def lights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module of another project in reach."""
    (tmp_path / "lights_of_words.py").write_text(LIGHTS)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("lights")
def test_an_environment_of_another_project_is_learned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its legal actions and observations are the words."""
    out = tmp_path / "run"
    common = flags(env_id="lights_of_words:words/Lights-v0", max_rollouts=12, disable_tqdm="true", output_dir=out)
    assert main(["--model", "words", *common]) == 0
    line = next(line for line in capsys.readouterr().err.splitlines() if "--model words sets" in line)
    assert "on_invalid" not in line
    successes = [row["success/episode_1"] for row in metric_rows(out, "rollout")]
    assert successes[-1] > 0.9 > successes[0]


@pytest.mark.usefixtures("lights")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Bare", "--model words needs info['legal_actions'] with every observation of words/Bare-v0."),
        ("Lights-Meta", "words/Lights-Meta-v0 expects them in <action> tags. Train on the environment without"),
    ],
)
def test_an_environment_that_words_cannot_play_is_one_line(
    name: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = flags(env_id=f"lights_of_words:words/{name}-v0", output_dir=tmp_path / "run")
    assert main(["--model", "words", *common]) == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert message in line
    assert "--model tiny" in line
