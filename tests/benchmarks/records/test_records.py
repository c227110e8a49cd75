"""Records of runs: the root depends on the results only, damage is found, and every run is replayed."""

from __future__ import annotations

import gc
import gzip
import json
import os
import signal
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mage_envs.benchmarks import GeneratorAgent, Setting, evaluate, make_agent, named_panel
from mage_envs.benchmarks.canonical import canonical, root_of
from mage_envs.benchmarks.evaluation.suites.paper import setting_for
from mage_envs.benchmarks.records import record_store
from mage_envs.benchmarks.records.about import about_run, setting_of
from mage_envs.benchmarks.records.lines import chats, digest, encode_line
from mage_envs.benchmarks.records.record_store import Records, Writer
from mage_envs.benchmarks.records.replay import replay
from mage_envs.benchmarks.records.schema import LineRecord
from mage_envs.benchmarks.records.validate import problems
from mage_envs.cli.program import main
from mage_envs.files.atomic import draft_beside, drafts_of
from mage_envs.wrappers.rollout.line_schema import problems_of
from mage_envs.wrappers.rollout.scripted import ScriptedGenerator
from mage_envs.wrappers.rollout.trajectory_json import plain, trajectory_from_json
from tests.packages import mark_params

PANEL = "kuhn-paper-128"
EVAL = ["eval", "scripted:random", "--env", "mage/KuhnPoker-Meta-v0", "--rows", "12"]


def record_run(folder, agent="scripted:random", setting=None, indices=None, resume=False, **options):
    """A run in `folder`, without scores; `indices`: the order of play."""
    setting = setting or setting_for(PANEL)
    made_agent = make_agent(agent) if isinstance(agent, str) else agent
    writer = Writer(folder, about_run(made_agent, setting), resume)
    order = list(writer.todo if indices is None else indices)
    if order:
        tasks = [setting.tasks[index] for index in order]
        evaluate(
            made_agent,
            tasks,
            setting.options,
            on_finished=lambda position, trajectory: writer.add(order[position], trajectory),
            **options,
        )
    writer.close()
    return Records(folder)


def read_stored(folder):
    """The lines of each shard without their times, and their indices in the order of the files."""
    shards = [gzip.decompress(path.read_bytes()) for path in sorted((folder / "episodes").iterdir())]
    lines = [json.loads(line) for shard in shards for line in shard.splitlines()]
    return [len(shard.splitlines()) for shard in shards], [line | {"seconds": []} for line in lines]


@pytest.mark.parametrize("batch", [1, 7, 256])
def test_the_stored_order_is_the_panels_in_any_order_of_play(unbroken, tmp_path, monkeypatch, batch):
    monkeypatch.setattr(record_store, "SHARD", 10)
    backwards = list(range(100, -1, -1)) + list(range(101, 132))
    record_run(tmp_path / "run", indices=backwards, batch=batch)
    counts, lines = read_stored(tmp_path / "run")
    assert counts == [10] * 13 + [2]
    assert [line["index"] for line in lines] == list(range(132))
    assert [line["digest"] for line in lines] == [line["digest"] for _, line in sorted(unbroken.lines.items())]


def test_a_resumed_run_is_sorted_and_has_each_index_once(unbroken, tmp_path, monkeypatch):
    monkeypatch.setattr(record_store, "SHARD", 10)
    record_run(tmp_path / "run", indices=[131, 5, 3, 3, 70])
    record_run(tmp_path / "run", resume=True)
    counts, lines = read_stored(tmp_path / "run")
    assert sum(counts) == 132
    assert [line["index"] for line in lines] == list(range(132))
    times_before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run" / "episodes").iterdir()}
    record_run(tmp_path / "run", resume=True)
    times_after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run" / "episodes").iterdir()}
    assert times_before == times_after, "what is in order is not written again"


def test_an_open_shard_is_on_the_disk_before_it_is_full(unbroken, tmp_path, monkeypatch):
    monkeypatch.setattr(record_store, "SAVE_INTERVAL_S", 0.0)
    writer = Writer(tmp_path / "run", unbroken.about, False)
    for index, trajectory in enumerate(unbroken.trajectories()[:5]):
        writer.add(index, trajectory)
        assert writer.safe == len(Records(tmp_path / "run").lines) == index + 1
    assert [path.name for path in (tmp_path / "run" / "episodes").iterdir()] == ["00000.jsonl.gz"]
    writer.give_up()


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """The run that others are compared with."""
    folder = tmp_path_factory.mktemp("unbroken") / "run"
    return record_run(folder)


def child(work):
    """Runs `work` in a fork and gives its process id."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            gc.freeze()  # the parent's objects are not searched, which would copy all of their pages
            os.setpgid(0, 0)
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            work()
        finally:
            os._exit(0)
    return pid


def edit(path, change):
    """Changes the lines of a shard."""
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in change(lines)).encode()))


# -- roots -------------------------------------------------------------------------------------------------------


def test_the_root_does_not_depend_on_batch_workers_order_or_shards(unbroken, tmp_path, monkeypatch):
    root = unbroken.root()
    assert (root["count"], root["missing"], root["failed"]) == (132, [], [])
    shuffled = list(np.random.default_rng(0).permutation(132))
    roots = [
        record_run(tmp_path / "one", batch=1).root(),
        record_run(tmp_path / "processes", batch=7, workers=2).root(),
        record_run(tmp_path / "shuffled", indices=[int(index) for index in shuffled]).root(),
    ]
    monkeypatch.setattr(record_store, "SHARD", 1000)
    roots.append(record_run(tmp_path / "one shard").root())
    assert roots == [root] * 4
    assert len(list((tmp_path / "one shard" / "episodes").iterdir())) == 1
    assert len(list((tmp_path / "one" / "episodes").iterdir())) == 3


def test_another_agent_or_setting_has_another_root(unbroken, tmp_path):
    first_root = record_run(tmp_path / "first", "scripted:first").root()["root"]
    none = record_run(tmp_path / "none", setting=setting_for(PANEL, memory="none")).root()["root"]
    assert len({first_root, none, unbroken.root()["root"]}) == 3


def test_digests_are_of_canonical_json():
    assert canonical({"b": [1, 0.5], "a": "\ud800\x00é"}) == b'{"a":"\\ud800\\u0000\\u00e9","b":[1,0.5]}'
    assert plain([float("nan"), float("inf"), float("-inf"), np.float64(0.1), (True, None)]) == [
        *("NaN", "Infinity", "-Infinity"),
        0.1,
        [True, None],
    ]
    # sha256 of "ab" and of the digests in the order of their indices
    assert root_of([(1, "b"), (0, "a")]) == "fb8e20fc2e4c3f248c60c39bd652f3c1347298bb977b8b4d5903b85055620603"


def test_a_line_holds_all_of_a_meta_episode(unbroken):
    setting = setting_for(PANEL)
    trajectories = evaluate(make_agent("scripted:random"), setting.tasks, setting.options)
    assert unbroken.trajectories() == trajectories
    assert all(trajectory.seconds and min(trajectory.seconds) > 0 for trajectory in trajectories)
    line = encode_line(3, trajectories[3]).line()
    assert list(problems_of(LineRecord, line)) == []
    assert trajectory_from_json(line) == trajectories[3]
    assert digest(line | {"seconds": [7.0]}) == line["digest"] != digest(line | {"index": 4})


def test_conversations_are_recorded_by_their_new_messages(tmp_path):
    setting = setting_for(PANEL, context="conversation", memory="both")
    records = record_run(tmp_path / "run", setting=setting)
    longest = max(records.lines.values(), key=lambda line: len(line["calls"]))
    calls = longest["calls"]
    assert [call["fresh"] for call in calls] == [True] + [False] * (len(calls) - 1)
    assert [len(call["messages"]) for call in calls] == [1] * len(calls)
    conversations = chats(calls)
    assert [len(chat) for chat in conversations] == [2 * number + 1 for number in range(len(calls))]
    assert conversations[1][1].content == calls[0]["reply"]
    assert replay(list(records.lines.values()), setting) == []


# -- broken off and gone on with ---------------------------------------------------------------------------------


class Dies:
    """The random agent, whose process is killed when it is asked for the answer number `last`."""

    name = "scripted:random"

    def __init__(self, last_call):
        self.last_call = last_call

    def generator(self, game):
        inner = make_agent("scripted:random").generator(game)

        class Asked:
            calls_left = self.last_call

            def generate(self, prompts):
                Asked.calls_left -= len(prompts)
                if Asked.calls_left <= 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return inner.generate(prompts)

        return Asked()


@pytest.mark.parametrize("moments", [25, pytest.param(100, marks=pytest.mark.slow)])
def test_a_kill_at_any_moment_loses_the_open_shard_alone(moments, tmp_path, monkeypatch):
    monkeypatch.setattr(record_store, "SHARD", 4)
    base = named_panel("kuhn-paper")
    setting = Setting(replace(base, size=14), "14 of them")
    complete_run = record_run(tmp_path / "whole", setting=setting)
    calls = sum(len(line["calls"]) for line in complete_run.lines.values())
    line_counts = set()
    for number, last_call in enumerate(np.random.default_rng(1).integers(1, calls, moments)):
        folder = tmp_path / f"killed {number}"
        pid = child(
            lambda folder=folder, last_call=last_call: record_run(folder, Dies(int(last_call)), setting, batch=5)
        )
        assert os.waitpid(pid, 0)[1] == signal.SIGKILL
        if (folder / "run.json").exists():
            records = Records(folder)
            assert records.problems == []
            assert len(records.lines) % 4 == 0
            line_counts.add(len(records.lines))
        else:
            line_counts.add(0)
        assert record_run(folder, setting=setting, resume=True).root() == complete_run.root()
    assert line_counts == {0, 4, 8, 12}


def test_a_kill_before_anything_is_written_leaves_a_folder_that_can_be_resumed(unbroken, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    draft_beside(folder / "run.json").write_text("{")
    assert record_run(folder, indices=()).planned == 132


def test_a_kill_while_a_shard_is_written_leaves_no_part_of_it(unbroken, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    moved = Path.replace

    def dies(self, target):
        if target.name == "00001.jsonl.gz":
            os.kill(os.getpid(), signal.SIGKILL)
        return moved(self, target)

    def work():
        Path.replace = dies
        record_run(folder)

    pid = child(work)
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    assert [path.name for path in (folder / "episodes").glob("*.gz")] == ["00000.jsonl.gz"]
    assert len(drafts_of(folder / "episodes", "00001.jsonl.gz")) == 1
    assert len(Records(folder).lines) == 64
    assert record_run(folder, resume=True).root() == unbroken.root()


def test_resume_plays_what_failed(unbroken, tmp_path):
    def breaks(prompt):
        if prompt.seed[0] % 3 == 0:
            raise ConnectionError("lost")
        return "<action>bet</action>"

    class Breaks:
        name = "scripted:random"

        def generator(self, game):
            return _OneByOne(breaks)

    folder = tmp_path / "run"
    failed = record_run(folder, Breaks())
    assert 0 < len(failed.failed) < 132
    agent = make_agent("scripted:random")
    writer = Writer(folder, about_run(agent, setting_for(PANEL)), resume=True)
    assert writer.todo == failed.failed
    finished_lines = {index: line for index, line in failed.lines.items() if line["failure"] is None}
    resumed = record_run(folder, resume=True)
    assert resumed.failed == []
    for index, line in resumed.lines.items():
        assert line == finished_lines.get(index, line)
        assert index in finished_lines or line["digest"] == unbroken.lines[index]["digest"]


class _OneByOne:
    def __init__(self, answer):
        self.answer = answer

    def generate(self, prompts):
        from mage_envs.text.generation import Completion

        replies = []
        for prompt in prompts:
            try:
                replies.append(Completion(self.answer(prompt)))
            except ConnectionError as error:
                replies.append(Completion("", error=str(error)))
        return replies


@pytest.mark.parametrize(
    ("change", "expected"),
    mark_params(
        [
            (
                lambda lines: [*lines[:5], lines[5].replace('"penalty":0', '"penalty":9', 1), *lines[6:]],
                "it was changed",
            ),
            (lambda lines: [*lines[:5], lines[5][:200], *lines[6:]], "no record of a meta-episode"),
            (lambda lines: [*lines[:5], "[]", *lines[6:]], "no record of a meta-episode"),
        ],
        step=3,
    ),
)
def test_a_torn_or_edited_line_is_found_named_and_played_again(tmp_path, capsys, change, expected):
    folder = tmp_path / "run"
    assert main([*EVAL, "--out", str(folder)]) == 0
    root = Records(folder).root()
    edit(folder / "episodes" / "00001.jsonl.gz", change)
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit_info:
        main(["verify", str(folder)])
    assert exit_info.value.code == 1
    out = capsys.readouterr().out
    assert f"{folder}: episodes/00001.jsonl.gz, line 6: " in out
    assert expected in out
    assert "valid\n" not in out
    assert main([*EVAL, "--out", str(folder), "--resume"]) == 0
    assert "episodes/00001.jsonl.gz, line 6: " in capsys.readouterr().err
    assert Records(folder).root() == root
    assert main(["verify", str(folder)]) == 0
    count = len(Records(folder).lines)
    valid = f"{folder}: {count} of {count} meta-episodes, root {root['root'][:12]}: valid\n"
    assert capsys.readouterr().out == valid


def test_a_shard_cut_by_the_disk_is_found(unbroken, tmp_path):
    folder = tmp_path / "run"
    record_run(folder)
    path = folder / "episodes" / "00000.jsonl.gz"
    path.write_bytes(path.read_bytes()[:4000])
    damaged = Records(folder)
    assert [problem.file for problem in damaged.problems] == ["episodes/00000.jsonl.gz"]
    assert "the shard cannot be read from here" in damaged.problems[0].reason
    assert 68 <= len(damaged.lines) < 132
    assert record_run(folder, resume=True).root() == unbroken.root()


# -- executed again ----------------------------------------------------------------------------------------------

REPLAYED = [
    ("kuhn-paper-128", {"protocol": "paper"}),
    ("kuhn-heldout-128", {"memory": "history", "hands_per_episode": 2}),
    ("tictactoe-paper-128", {"num_episodes": 2}),
    ("sokoban-eval-2box-128", {"num_episodes": 2}),
    ("kuhn-paper-128", {"context": "conversation", "memory": "both", "hands_per_episode": 2}),
]


@pytest.mark.parametrize(("panel", "options"), REPLAYED)
def test_everything_is_executed_again_to_the_byte(tmp_path, panel, options):
    setting = setting_for(panel, **options)
    records = record_run(tmp_path / "run", setting=setting, indices=range(0, len(setting.tasks), 4))
    lines = [line for _, line in sorted(records.lines.items())]
    assert len(lines) == len(setting.tasks) // 4
    assert replay(lines, setting_of(records.about)) == []
    assert replay(lines[::-1], setting, batch=1) == []


def test_the_first_difference_is_shown(unbroken, tmp_path, capsys):
    setting = setting_for(PANEL)
    lines = json.loads(json.dumps([unbroken.lines[index] for index in range(12)]))
    lines[4]["calls"][1]["messages"][0]["content"] += "!"
    lines[7]["episodes"][2]["reward"] += 1
    lines[9]["calls"][0]["reply"] = "<action>nonsense</action>"
    lines = [line | {"digest": digest(line)} for line in lines]  # as a forger would do to hide the edit
    differences = replay(lines, setting)
    assert [difference.index for difference in differences] == [4, 7, 9]
    assert "call 2 (reflect, episode 2), prompt" in differences[0].place
    assert differences[0].lines()[-1].endswith("inside tags, like this: <remark>your plan</remark>")
    assert differences[1].place == "episodes[2].reward"
    assert differences[1].found == differences[1].recorded - 1


def test_replies_of_every_kind_are_recorded_and_executed_again(tmp_path):
    odd = [
        *("", "<action>bet</action>" * 3, "\ud800 \x00 <script>alert(1)</script>", "x" * 10_000_000),
        *("<action>fly</action>", "<think>no end", "<remark></remark>"),
    ]
    agent = GeneratorAgent(ScriptedGenerator(lambda prompt: odd[prompt.seed[2] % len(odd)]), "odd")
    setting = setting_for(PANEL)
    records = record_run(tmp_path / "run", agent, setting, indices=range(3))
    calls = [call for line in records.lines.values() for call in line["calls"]]
    assert {call["reply"] for call in calls} == set(odd)
    assert sum(call["invalid_reason"] == "invalid" for call in calls) > len(calls) / 2
    assert replay(list(records.lines.values()), setting) == []
    assert list(_beside_scores(tmp_path / "run")) == []


def _beside_scores(folder):
    """Problems of a run that was not played whole."""
    return (problem for problem in problems(folder) if "missing" not in problem)


class _Cut:
    """Every third reply is cut at the limit; long prompts are more than it takes."""

    def generate(self, prompts):
        from mage_envs.text.generation import Completion

        def answer(prompt):
            if len(prompt.messages[-1].content) > 1500:
                return Completion("", overflow=True)
            return Completion("<action>bet</action>", truncated=prompt.seed[2] % 3 == 2, tokens=(11, 5))

        return [answer(prompt) for prompt in prompts]


def test_cut_replies_and_shortened_prompts_are_executed_again(tmp_path):
    setting = setting_for(PANEL, memory="history", num_episodes=6)
    records = record_run(tmp_path / "run", GeneratorAgent(_Cut(), "cut"), setting, indices=range(24))
    calls = [call for line in records.lines.values() for call in line["calls"]]
    assert any(call["shortened"] for call in calls)
    assert {call["invalid_reason"] for call in calls} >= {None, "length"}
    assert {tuple(call["tokens"]) for call in calls} == {(11, 5)}
    assert replay(list(records.lines.values()), setting) == []
