"""The contents of a report, without a browser, and the errors of its command."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import sys
from base64 import b64decode
from collections import Counter
from dataclasses import astuple
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from jinja2 import UndefinedError

from mage_envs.benchmarks.comparison.paired_runs import compare
from mage_envs.benchmarks.evaluation.scoring.scores import Estimate
from mage_envs.benchmarks.records.record_store import Records
from mage_envs.benchmarks.report.blocks import pack
from mage_envs.benchmarks.report.bubbles import measure_choices
from mage_envs.benchmarks.report.charts import Chart, Reference, Series, difference_by_episode
from mage_envs.benchmarks.report.document import templates
from mage_envs.benchmarks.report.runs import read_runs
from mage_envs.benchmarks.report.trained import read_trained
from mage_envs.benchmarks.report.transcripts import pack_transcript, split_reply
from mage_envs.cli.program import main
from mage_envs.text.visible import visible
from mage_envs.trainer.runs.run_log import RunLog
from tests.benchmarks.report.conftest import EVAL

EXPORT = ["export", "--to", "markdown"]


def unpack_prompts(page):
    """The texts of the prompts, as the page makes them."""
    prompt_lines, all_texts = [], []
    for call in page["calls"]:
        texts = []
        for _, first_count, last_count, between in call["prompt"]:
            prompt_lines = [*prompt_lines[:first_count], *between, *prompt_lines[len(prompt_lines) - last_count :]]
            texts.append("\n".join(page["lines"][line_index] for line_index in prompt_lines))
        all_texts.append(texts)
    return all_texts


@pytest.mark.parametrize("name", ["random", "attack"])
def test_a_page_holds_every_text_of_its_record(runs, name):
    for line in Records(runs / name).lines.values():
        page = json.loads(pack_transcript(line))
        assert unpack_prompts(page) == [[message["content"] for message in call["messages"]] for call in line["calls"]]
        for call, page_call in zip(line["calls"], page["calls"], strict=True):
            reply = "".join(page_call.get(part, "") for part in ("thinking", "answer", "rest"))
            assert reply == call["reply"]
            assert page_call.get("action") == call["action"]


def test_parts_of_a_reply():
    assert split_reply("<think>a</think>b") == ("<think>a</think>", "b", "")
    assert split_reply("b<think>a") == ("", "b", "<think>a")
    assert split_reply("<think>a</think>b<think>c") == ("<think>a</think>", "b", "<think>c")
    assert split_reply("b") == ("", "b", "")


def test_blocks_hold_all_or_an_even_part():
    rng = np.random.default_rng(0)
    runs = [{i: json.dumps({"i": i, "x": rng.bytes(600).hex()}).encode() for i in range(n)} for n in (300, 100)]
    blocks = pack(runs, 10**9)
    assert blocks.left_out == 0
    opened = [json.loads(gzip.decompress(b64decode(text))) for text in blocks.texts]
    for run, places in zip(runs, blocks.places, strict=True):
        assert all(json.loads(page) in opened[places[index]] for index, page in run.items())
    fewer = pack(runs, blocks.size // 4)
    assert blocks.size // 5 < fewer.size <= blocks.size // 4
    assert fewer.left_out == 400 - sum(map(len, fewer.places))
    kept_places = sorted(fewer.places[0])
    assert {b - a for a, b in pairwise(kept_places)} <= {4, 5}
    assert pack(runs, 100).left_out == 400


def test_bubbles_by_hand():
    first_counter = Counter({("s", "a"): 2, ("s", "b"): 2, ("t", "a"): 4})
    second_counter = Counter({("s", "a"): 4, ("u", "c"): 12})
    measured_chart = measure_choices([first_counter, second_counter])
    assert measured_chart.states == ("s", "u", "t")  # in both episodes, then by frequency
    assert measured_chart.actions == ("c", "a", "b")
    assert (measured_chart.shared, measured_chart.all_states, measured_chart.all_actions) == (1, 3, 3)
    assert measured_chart.entropy == (0.5, 0.0)
    assert measured_chart.overlap == (None, 0.25)


def draw_chart(chart):
    """The SVG of a chart."""
    return templates().from_string('{% from "chart.html" import draw %}{{ draw(chart) }}').render(chart=chart)


def test_a_chart_describes_each_point_and_its_n():
    points = [Estimate(0.5, 0.25, 0.75, 12), Estimate(1.0, None, None, 11)]
    reference = Reference("best response", "ceiling", [1.5, None])
    svg = draw_chart(Chart("<a>", [Series("x & y", 0, points)], [reference]))
    assert "<title>x &amp; y, episode 1: 0.500 [0.250, 0.750], n = 12</title>" in svg
    assert "episode 2: 1.000, n = 11" in svg
    assert 'aria-label="&lt;a&gt;"' in svg
    assert "best response: 1.500, n/a" in svg


def test_positions_in_a_chart():
    two = [Estimate(0.0, 0.0, 0.5, 9), Estimate(1.0, 0.5, 1.0, 9)]
    chart = Chart("", [Series("a", 0, two), Series("b", 1, two)], [], limits=(0.0, 1.0))
    assert [chart.y(value) for value in (0, 0.5, 1)] == [276, 145, 14]  # 14 pixels above and 34 below, of 310
    assert [chart.x(k) for k in range(2)] == [158.5, 383.5]  # 46 pixels on the left and 104 on the right, of 600
    assert [chart.x(0, number) for number in range(2)] == [155, 162]  # 7 pixels apart
    assert chart.ticks == [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert chart.band(0) == "155.0,145.0 380.0,14.0 380.0,145.0 155.0,276.0"
    assert chart.dashes([None, 0.5]) == "316.0,145.0 383.5,145.0 451.0,145.0"


def test_text_is_data():
    assert visible("a\x1b[1m\u202e\ud800\0\n") == "a[U+001B][1m[U+202E][U+D800][U+0000]\n"
    assert visible("√ 汉字 👩\u200d👧") == "√ 汉字 👩\u200d👧"
    embedded = templates().from_string("{{ value|tojson }}").render(value={"</script>": "<!--\u202e"})
    assert "<" not in embedded
    assert embedded.isascii()
    assert json.loads(embedded) == {"</script>": "<!--\u202e"}
    page = templates().from_string("<p title='{{ text }}'>{{ text }}</p>")
    assert page.render(text="'<\u202e&") == "<p title='&#39;&lt;[U+202E]&amp;'>&#39;&lt;[U+202E]&amp;</p>"
    with pytest.raises(UndefinedError):
        page.render()


class Page(HTMLParser):
    """The scripts of a page, by kind, and the text of its tables."""

    def __init__(self, text):
        super().__init__()
        self.scripts, self.tables, self.inside = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.inside.append(tag)
        if tag == "script":
            self.scripts.append(dict(attributes).get("type"))
        assert not [name for name, _ in attributes if name.startswith("on") or name == "style"]

    def handle_endtag(self, tag):
        if tag in self.inside:
            del self.inside[len(self.inside) - 1 - self.inside[::-1].index(tag) :]

    def handle_data(self, data):
        if "table" in self.inside and data.strip():
            self.tables.append(data.strip())


@pytest.fixture(scope="module")
def report(runs, tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    png = path.with_name("bubbles.png")
    assert main(["report", str(runs), "--out", str(path), "--sample", "2", "--bubbles", str(png)]) == 0
    assert png.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    return path


def test_the_file_has_scores_and_records(report, runs):
    page = Page(report.read_text())
    assert page.scripts[:2] == ["application/json", None]
    assert set(page.scripts[2:]) == {"application/gzip"}
    for text in ("scripted:random + amem", "scripted:last", "knows the opponent", "best learner", "blind"):
        assert text in page.tables
    assert "12 digests and root agree; 2 executed again, all as recorded" in page.tables
    assert "</script><script>window.ran=(window.ran||0)+1</script> + reflection" in page.tables
    runs_by_name = {run.folder.name: run for run in read_runs([runs])}
    mean = runs_by_name["last"].summary.overall.episodes[-1].returns.estimate.mean
    assert f"{mean:.3f}" in page.tables
    assert runs_by_name["last"].group == runs_by_name["random"].group != runs_by_name["attack"].group
    assert 0 < runs_by_name["attack"].failed < 8


def test_reported_results_stand_beside_their_own_setting_alone(tmp_path, capsys):
    texts = []
    # A trial of the paper's panel, its other seat, and the panel itself: any other option changes the fingerprint, too.
    for panel in ("paper-kuhn-16", "paper-kuhn-cfr", "paper-kuhn"):
        run = str(tmp_path / panel)
        assert main(["eval", "scripted:last", "--panel", panel, "--memory", "react", "--out", run]) == 0
        assert main(["report", run, "--out", str(tmp_path / "a.html"), "--sample", "1"]) == 0
        texts.append((tmp_path / "a.html").read_text())
    assert all("(paper)</th>" not in text for text in texts[:2])
    text = texts[2]
    row = re.search(r'<tr class="paper"><th scope="row">LaMer \(paper\)</th>(.*?)</tr>', text)[1]
    assert "<b>0.594</b>" in row
    assert "± 0.043" in row


def test_paired_differences(runs):
    last_run, random_run = sorted(
        (run for run in read_runs([runs / "last", runs / "random"])), key=lambda run: run.method
    )
    assert all(point.mean == 0 for point in difference_by_episode(last_run, last_run))
    means = [[row.returns.estimate.mean for row in run.summary.overall.episodes] for run in (last_run, random_run)]
    assert [point.mean for point in difference_by_episode(last_run, random_run)] == pytest.approx(
        [b - a for a, b in zip(*means)]
    )
    (same,) = compare([random_run.folder, last_run.folder])
    rows = [row for row in same.rows if row.measure.startswith("episode")]
    assert [astuple(point) for point in difference_by_episode(last_run, random_run)] == [
        (r.mean, r.low, r.high, r.n) for r in rows
    ]


def test_a_training_and_its_transcripts(runs, tmp_path, capsys):
    """Show a training beside an evaluation and by itself: curves over the rollouts, and the advantage of each call."""
    log = RunLog(tmp_path / "trained", transcripts=2)
    trajectories = Records(runs / "random").trajectories()[:4]
    advantages = [[0.25] * len(trajectory.steps) for trajectory in trajectories]
    for rollout in range(23):
        log.on_rollout_end(
            rollout, rollout, trajectories, advantages, {"success/episode_1": rollout / 23, "success/episode_2": 1.0}
        )
        log.on_update(rollout, {"kl": 0.1}, 0)
    (training,) = read_trained([tmp_path], 2)
    assert (training.key, len(training.meta_episodes), len(training.pages)) == ("run3", 46, 46)
    page = json.loads(training.pages[45])
    assert (page["rollout"], {call["advantage"] for call in page["calls"]}) == (22, {0.25})
    assert unpack_prompts(page) == [
        [trajectory.content for trajectory in step.messages] for step in trajectories[2].steps
    ]
    assert training.meta_episodes[45].outcomes == read_runs([runs / "random"])[0].meta_episodes[2].outcomes
    capsys.readouterr()
    assert main([*EXPORT, str(tmp_path / "trained"), "--index", "45", "--episode", "1"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("# Transcript 45 of training `trained`\n\n- rollout: `22`\n- opponent: ")
    assert out.count("advantage +0.250") == sum(step.episode == 0 for step in trajectories[2].steps)
    assert main([*EXPORT, str(tmp_path / "trained"), "--index", "46"]) == 2
    assert "has no transcript 46; it has 46, up to 45." in capsys.readouterr().err
    for kind, paths in (("trained", [tmp_path / "trained"]), ("both", [tmp_path / "trained", runs / "last"])):
        out = tmp_path / f"{kind}.html"
        assert main(["report", *map(str, paths), "--out", str(out)]) == 0
        text = out.read_text()
        assert f'<body class="{kind}">' in text
        assert "of 23 rollouts kept 46 transcripts." in text
        assert [*re.findall(r'<text class="tick" x="[^"]*" y="[^"]*">(\d+-\d+)<', text)][:2] == ["1-2", "3-4"]
        assert "Success of training trained" in text
    assert "2 runs, " in capsys.readouterr().err
    (tmp_path / "trained" / "transcripts.jsonl").write_text('{"step": 0, "steps": []}\n')
    assert main(["report", str(tmp_path / "trained")]) == 2
    assert "is not of this version or was changed" in capsys.readouterr().err
    assert main([*EXPORT, str(tmp_path / "trained")]) == 2
    assert "is not of this version or was changed" in capsys.readouterr().err


def test_thinned(runs, tmp_path, capsys):
    out = tmp_path / "thin.html"
    assert main(["report", str(runs), "--out", str(out)]) == 0
    full_size = out.stat().st_size
    assert main(["report", str(runs), "--out", str(out), "--max-mb", str((full_size - 4000) / 1e6)]) == 0
    assert out.stat().st_size <= full_size - 4000
    num_left_out = re.search(r"(\d+) transcripts are left out", capsys.readouterr().err)[1]
    assert f"{num_left_out} of 32 transcripts, evenly spread, are left out" in out.read_text()


def test_a_judged_run_has_the_same_verdict_in_a_later_report(tmp_path, capsys):
    out, later_report = tmp_path / "run", tmp_path / "later.html"
    words = ["eval", "policy:bayes:kuhn/paper,3,1,sum", "--panel", "kuhn-paper-16", "--no-baselines"]
    assert main([*words, "--out", str(out)]) == 0
    sentence = capsys.readouterr().out.splitlines()[0]
    assert re.match(r"policy:bayes:kuhn/paper,3,1,sum .* level, adaptation by its own memory", sentence)
    assert main(["report", str(out), "--out", str(later_report)]) == 0
    for page in (later_report.read_text(), (out / "report.html").read_text()):
        text = unescape(page)
        assert f"<h1>{sentence} " in text
        assert re.search(r"^  without its memory .*\n  with another's memory .*\nno memory ", text, re.M)
    # Leave the controls out of the runs, and drop the level if they are removed.
    assert main(["report", str(tmp_path), "--out", str(later_report)]) == 0
    assert "1 run," in capsys.readouterr().err
    shutil.rmtree(out / "controls")
    assert main(["report", str(out), "--out", str(later_report)]) == 0
    assert re.search("<h1>policy:bayes:kuhn/paper,3,1,sum: level .*, no verdict", later_report.read_text())


def test_bad_input_is_one_line_and_writes_nothing(runs, tmp_path, capsys):
    def refuse_report(*words):
        out = tmp_path / "none.html"
        assert main(["report", *map(str, words), "--out", str(out)]) == 2
        assert not out.exists()
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        return error

    assert "holds no run" in refuse_report(tmp_path / "nowhere")
    newer = tmp_path / "newer"
    shutil.copytree(runs / "last", newer)
    about = json.loads((newer / "run.json").read_text())
    (newer / "run.json").write_text(json.dumps(about | {"schema": 99}))
    assert "has schema 99" in refuse_report(newer)
    empty = tmp_path / "empty"
    shutil.copytree(runs / "last", empty)
    shutil.rmtree(empty / "episodes")
    assert "has no record yet" in refuse_report(empty)
    assert "--max-mb must be above 0" in refuse_report(runs, "--max-mb", "0")
    assert "raise --max-mb 0.01" in refuse_report(runs / "last", "--max-mb", "0.01")
    assert main(["report", str(runs / "last"), "--out", str(tmp_path / "empty" / "run.json" / "a.html")]) == 2
    assert "run.json" in capsys.readouterr().err


def test_runs_that_are_not_whole(runs, tmp_path):
    """One of its meta-episodes alone, and then that one failed."""
    folder = tmp_path / "part"
    shutil.copytree(runs / "attack", folder)
    records = Records(folder)
    failed = next(line for line in records.lines.values() if line["failure"])
    shard = folder / "episodes" / "00000.jsonl.gz"
    shard.write_bytes(gzip.compress(json.dumps(failed).encode() + b"\n"))
    assert main(["report", str(folder), "--out", str(tmp_path / "a.html")]) == 0
    text = (tmp_path / "a.html").read_text()
    assert "1 of 8" in text
    assert "root.json DISAGREES" in text


def test_the_commands_of_the_document_run_as_printed(runs, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, of in (("a", "random"), ("b", "last"), ("suite/c", "last")):
        shutil.copytree(runs / of, tmp_path / "runs" / name)
    page = (Path(__file__).parents[3] / "docs" / "report.md").read_text()
    for line in re.search(r"```bash\n(.*?)```", page, re.DOTALL)[1].splitlines():
        assert main(line.removeprefix("mage ").split()) == 0, line
    assert "## Episode 2: " in capsys.readouterr().out
    assert (tmp_path / "bubbles.png").exists()
    options = re.findall(r"^\| `(--[a-z-]+)", page, re.MULTILINE)
    assert main(["report", "--help"]) == 0
    output = capsys.readouterr().out
    of_all = ("--import", "--allow-path", "--help")
    assert options == [option for option in re.findall(r"^  (--[a-z-]+)", output, re.MULTILINE) if option not in of_all]


# -- Markdown --------------------------------------------------------------------------------------------------


def test_one_transcript_as_markdown(runs, capsys):
    line = Records(runs / "random").lines[3]
    assert main([*EXPORT, str(runs / "random"), "--index", "3", "--episode", "2"]) == 0
    out = capsys.readouterr().out
    call = next(call for call in line["calls"] if call["episode"] == 1 and call["phase"] == "play")
    assert f"```text\n{call['observation']}\n```" in out
    assert f"action `{call['action']}`" in out
    assert "## Episode 2: " in out
    assert "## Episode 1: " not in out
    assert "### r1, `note`" in out
    assert main([*EXPORT, str(runs / "random"), "--index", "3", "--prompts"]) == 0
    out = capsys.readouterr().out
    assert "## Episode 1: " in out
    assert call["messages"][0]["content"] in out


def test_all_transcripts_as_markdown(runs, tmp_path, capsys):
    one_by_one = []
    for index in sorted(Records(runs / "random").lines):
        assert main([*EXPORT, str(runs / "random"), "--index", str(index)]) == 0
        one_by_one.append(capsys.readouterr().out)
    assert main([*EXPORT, str(runs / "random"), "--out", str(tmp_path / "a.md")]) == 0
    assert capsys.readouterr() == ("", f"wrote {tmp_path / 'a.md'}\n")
    assert (tmp_path / "a.md").read_text() == "\n".join(one_by_one)


def test_an_attack_as_markdown_ends_no_block_and_reaches_no_terminal(runs, capsys):
    assert main([*EXPORT, str(runs / "attack")]) == 0
    out = capsys.readouterr().out
    assert "[U+001B][31mred" in out
    assert not set(out) & {"\x1b", "\0", "\u202e", "\ud800"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--index", "99"], "has no transcript 99; it has 12, up to 11."),
        (["--index", "0", "--episode", "3"], "has episodes 1 to 2, and no 3."),
        (["--episode", "1"], "Name that with --index."),
        (["--index", "0", "--to", "csv"], "--index, --episode and --prompts require --to markdown."),
    ],
)
def test_what_cannot_be_exported(runs, tmp_path, monkeypatch, capsys, words, expected):
    monkeypatch.chdir(tmp_path)
    assert main([*EXPORT, str(runs / "random"), *words]) == 2
    error = capsys.readouterr().err
    assert expected in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


# -- without Jinja ---------------------------------------------------------------------------------------------


@pytest.fixture
def no_jinja(monkeypatch):
    templates.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    yield
    templates.cache_clear()


@pytest.mark.usefixtures("no_jinja")
def test_without_jinja_an_evaluation_has_no_report(tmp_path, capsys):
    folder = tmp_path / "run"
    assert main(["eval", "scripted:last", *EVAL, "--out", str(folder)]) == 0
    assert not (folder / "report.html").exists()
    assert "report.html" not in capsys.readouterr().err
    assert main(["report", str(folder), "--out", str(tmp_path / "a.html")]) == 2
    assert capsys.readouterr().err.endswith(
        'The report requires jinja2. Install it with: pip install "mage-envs[report]"\n'
    )
    assert not (tmp_path / "a.html").exists()
