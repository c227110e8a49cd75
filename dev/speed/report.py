"""Size and opening time of a report with many long transcripts: `python -m dev.speed.report`.

A script plays WebShop at K = 10 and writes a hundred random words before each action. The run is recorded and reported,
and a real Chromium opens the file. Times of the page are wall-clock times, which are meaningless on a busy machine. The
load is therefore printed, too. Memory is read on Linux only.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from selenium.webdriver.support.ui import WebDriverWait

from dev.speed.chromium import open_chromium
from mage_envs.benchmarks.evaluation.run.agents import GeneratorAgent, make_agent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.suites.environments import game_of
from mage_envs.benchmarks.evaluation.suites.panels import named_panel
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.records.about import about_run
from mage_envs.benchmarks.records.record_store import Writer
from mage_envs.cli.program import main as bench
from mage_envs.text.generation import Completion, Generator, Prompt

PANEL, EPISODES = "webshop-ood-catalogue", 10
VOCABULARY, THOUGHT = 5000, 100
"""Number of different words, and number of words of a thought. Words are as frequent as in a language (Zipf)."""
VIEWS, TRANSCRIPTS = 5, 40
"""Number of new browsers that open the file, and number of transcripts opened in the last one."""
PAINT = "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
OPEN = """
const [index, done] = arguments, started = performance.now();
location.hash = `#run/${index}`;
const look = () => {
  const title = document.querySelector('#transcript h3')?.textContent ?? '';
  if (title.startsWith(`run/${index} `) && document.querySelector('#transcript .call'))
    requestAnimationFrame(() => done(performance.now() - started));
  else setTimeout(look, 0);
};
look();
"""


class Thinker:
    """Generator that adds a random thought before each answer of another generator."""

    def __init__(self, answers: Generator, rng: np.random.Generator) -> None:
        self._answers, self._rng = answers, rng
        letters = rng.integers(97, 123, (VOCABULARY, 6), np.uint8)
        self._words = [bytes(word).decode() for word in letters]
        # Zipf's law. Uniform words would compress worse than a model's text.
        self._chances = 1 / np.arange(1, VOCABULARY + 1)
        self._chances /= self._chances.sum()

    def generate(self, prompts: Sequence[Prompt]) -> list[Completion]:
        """Return one completion per prompt, in order."""
        words = self._rng.choice(VOCABULARY, (len(prompts), THOUGHT), p=self._chances)
        thoughts = [" ".join(self._words[word] for word in row) for row in words]
        answers = self._answers.generate(prompts)
        return [replace(answer, text=f"{thought} {answer.text}") for thought, answer in zip(thoughts, answers)]


def record(folder: Path, setting: Setting) -> int:
    """Play and record the panel. Return the number of characters of the replies and of new text in the prompts."""
    game = game_of(setting.panel.env_id, setting.options)
    thinker = Thinker(make_agent("policy:webshop/next").generator(game), np.random.default_rng(0))
    agent = GeneratorAgent(thinker, "thinker")
    writer = Writer(folder, about_run(agent, setting), resume=False)
    trajectories = evaluate(agent, setting.tasks, setting.options, on_finished=writer.add)
    writer.close()
    steps = [step for trajectory in trajectories for step in trajectory.steps]
    return sum(len(step.text) + sum(len(message.content) for message in step.messages) for step in steps)


def page_memory(driver: Any) -> float:
    """Return the peak memory in MiB of the largest page process of the browser."""
    # In the order of process ids, a parent usually precedes its children, so one pass finds the whole family.
    family, peak = {driver.service.process.pid}, 0.0
    for status in sorted(Path("/proc").glob("[0-9]*/status"), key=lambda path: int(path.parent.name)):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines())
            command = (status.parent / "cmdline").read_bytes()
        # The process has ended since the folder was listed.
        except OSError:
            continue
        if int(fields["PPid"]) in family:
            family.add(int(fields["Pid"]))
            if b"--type=renderer" in command:
                peak = max(peak, int(fields["VmHWM"].split()[0]) / 1024)
    return peak


def read(page: Path, meta_episodes: int) -> tuple[list[float], list[float], float]:
    """Return milliseconds to the first paint and to open a transcript, and the page's memory in MiB."""
    paints = []
    # A new browser for each view, because a browser would cache the page.
    for _ in range(VIEWS - 1):
        with open_chromium() as driver:
            paints.append(paint(driver, page))
    with open_chromium() as driver:
        paints.append(paint(driver, page))
        indices = np.random.default_rng(1).permutation(meta_episodes)[:TRANSCRIPTS].tolist()
        opened = [float(driver.execute_async_script(OPEN, index)) for index in indices]
        return paints, opened, page_memory(driver)


def paint(driver: Any, page: Path) -> float:
    """Open the page and return the milliseconds to its first paint."""
    driver.get(page.as_uri())
    return float(WebDriverWait(driver, 20).until(lambda browser: browser.execute_script(PAINT)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print one line per figure."""
    parser = argparse.ArgumentParser(prog="python -m dev.speed.report", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--panel", default=PANEL, metavar="NAME", help=f"panel to play (default: {PANEL})")
    panel = parser.parse_args(arguments).panel
    with tempfile.TemporaryDirectory() as folder:
        run, page = Path(folder) / "run", Path(folder) / "report.html"
        setting = Setting(named_panel(panel), panel, {"num_episodes": EPISODES})
        characters = record(run, setting)
        start_time = time.process_time()
        if bench(["report", str(run), "--out", str(page)]):
            raise RuntimeError("mage report failed.")
        report = time.process_time() - start_time
        paints, opened, memory = read(page, len(setting.tasks))
        megabytes = page.stat().st_size / 1e6
    say = sys.stdout.write
    say(f"{panel} at K = {EPISODES}, {characters / 1e6:.0f} MB of text; load {os.getloadavg()[0]:.1f}\n")
    say(f"mage report                       {report:6.1f} CPU s   (at most 20)\n")
    say(f"file                              {megabytes:6.1f} MB      (at most 20)\n")
    say(f"first contentful paint            {statistics.median(paints):6.0f} ms      (at most 1000)\n")
    say(f"a transcript, median of {TRANSCRIPTS}        {statistics.median(opened):6.0f} ms      (at most 100)\n")
    say(f"memory of the page at most        {memory:6.0f} MiB     (at most 300)\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
