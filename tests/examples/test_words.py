"""`python -m examples.words`, in two rollouts."""

import json
from pathlib import Path

import pytest

from examples.words import run
from examples.words.run import LESSONS, RESULTS, Lesson, config_of, learn, main
from examples.words.table import Learned, table
from mage_envs.trainer.cli.arguments import parse_args
from mage_envs.trainer.config.mage_config import MAGEConfig
from mage_envs.trainer.trl.setup import exact_critic_settings

SHORT = Lesson(game="Ultimatum", settings={"max_rollouts": 2, "groups_per_rollout": 2}, rows=1)


def read_committed() -> list[Learned]:
    return [Learned(**fields) for fields in json.loads((RESULTS / "words.json").read_text())]


def test_a_lesson_is_learned_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(run, "FOLDER", tmp_path / "runs")
    monkeypatch.setattr(run, "LESSONS", (SHORT,))
    assert main(["--out", str(tmp_path)]) == 0
    once = (tmp_path / "words.txt").read_text()
    monkeypatch.setattr(run, "learn", None)
    assert main(["Ultimatum", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "words.txt").read_text() == once
    lesson = json.loads((tmp_path / "words.json").read_text())[0]
    assert (len(lesson["curve"]), lesson["meta_episodes"], len(lesson["first"])) == (2, 16, 3)
    assert lesson["exact"]["blind"] == pytest.approx(0.3125)
    assert all(-1e-9 < point["mean"] < 0.56 for point in lesson["model"])
    assert (tmp_path / "runs" / "Ultimatum" / "mage.json").exists()
    assert "best learner" in capsys.readouterr().out


def test_a_stopped_lesson_leaves_a_model_and_is_not_done(tmp_path: Path):
    def stop(text: str, milestone: bool) -> None:
        if "rollout 1/" in text:
            raise KeyboardInterrupt

    assert learn(SHORT, tmp_path, stop) is None
    assert (tmp_path / "model.safetensors").exists()


def test_the_lessons_are_the_commands_of_the_table():
    assert [(lesson_record.game, lesson_record.command) for lesson_record in read_committed()] == [
        (lesson.game, "mage train " + " ".join(lesson.flags)) for lesson in LESSONS
    ]


def test_the_committed_table_is_that_of_its_numbers_and_shows_learning():
    lessons = read_committed()
    assert (RESULTS / "words.txt").read_text() == table(lessons)
    for lesson in lessons:
        assert lesson.model[-1]["low"] > lesson.first[-1]["high"], lesson.game
        assert lesson.cpu_seconds < 330, lesson.game
        if lesson.unit != "wins":
            assert lesson.model[-1]["low"] > lesson.exact["blind"], lesson.game


def test_a_lesson_has_the_settings_of_the_command(tmp_path: Path):
    """Compare all settings except those of checkpoints and logs."""
    lesson = LESSONS[1]
    ours = config_of(lesson, tmp_path)
    _, typed, _ = parse_args([*lesson.flags, "--output_dir", str(tmp_path)]).parse(MAGEConfig)
    vars(typed).update(exact_critic_settings(typed))
    assert typed.advantage == "exact"
    differ = {name for name, value in vars(typed).items() if str(vars(ours)[name]) != str(value)}
    assert differ <= {"save_strategy", "save_steps", "save_total_limit", "logging_strategy", "disable_tqdm"}
    assert (ours.opponents, ours.advantage) == ("pool:leduc/four", "exact")
    assert {name: vars(ours)[name] for name in lesson.settings} == lesson.settings


def test_an_unknown_game_is_one_line(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as exit_info:
        main(["Chess"])
    assert exit_info.value.code == 2
    assert "'Chess' is none of KuhnPoker" in capsys.readouterr().err
