"""Runs to report on: two agents on the same tasks, and one whose every reply is an attack."""

from __future__ import annotations

import pytest

from mage_envs.benchmarks.evaluation.run.agents import GeneratorAgent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.suites.panels import Panel
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.records.about import about_run
from mage_envs.benchmarks.records.record_store import Writer
from mage_envs.cli.program import main
from mage_envs.text.generation import Completion

EVAL = ["--env", "mage/KuhnPoker-Meta-v0", "--rows", "2", "--episodes", "2"]
RAN = "window.ran=(window.ran||0)+1"
ATTACKS = (
    f"<script>{RAN}</script>",
    f"</script><script>{RAN}</script>",
    f"]]><img src=x onerror={RAN}>",
    f"<!--<script>{RAN}//--></script>",
    f"</pre></article></title></textarea><svg onload={RAN}>",
    f'"><a href="javascript:{RAN}" autofocus onfocus={RAN}>x</a>',
    f"%%SCRIPT%% ${{{RAN}}} {{{{constructor.constructor('{RAN}')()}}}} &lt;script&gt;{RAN}",
    "\u202eright to left\u202c \u2066isolated\u2069 \u200emarks",
    "\x1b[31mred\x1b[0m \x1b]8;;http://evil.example\x07link\x1b]8;;\x07",
    "NUL \0 in the middle, \ud800 alone, \u2028 and \u2029",
    "A" * 1_000_000,
)


class Attacker:
    """Answers with one attack after the other, in play and in remarks, and fails with one in some third episodes."""

    def __init__(self) -> None:
        self.said = 0
        self.failing: tuple[int, ...] = ()

    def generate(self, prompts):
        return [self._answer(prompt) for prompt in prompts]

    def _answer(self, prompt):
        self.said += 1
        text = ATTACKS[self.said % len(ATTACKS)]
        if "Episode 3 of 3." in prompt.messages[0].content and self.said % 4 == 0:
            self.failing = prompt.seed[:2]
        if prompt.seed[:2] == self.failing:
            return Completion("", error=ATTACKS[1])
        wrapped = (f"<think>{text}</think>", text, f"<remark>{text[:1500]}</remark><action>bet</action>")
        return Completion(wrapped[self.said % 3])


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """A folder with the runs `random` and `last`, of the same tasks, and `attack`."""
    folder = tmp_path_factory.mktemp("reported")
    assert main(["eval", "scripted:random", *EVAL, "--memory", "amem", "--out", str(folder / "random")]) == 0
    assert main(["eval", "scripted:last", *EVAL, "--memory", "none", "--out", str(folder / "last")]) == 0
    agent = GeneratorAgent(Attacker(), ATTACKS[1])
    panel = Panel(
        env_id="mage/KuhnPoker-Meta-v0",
        about="",
        seed=1,
        rows_per_cell=2,
        opponents={"kuhn/aggressive": 1.0, "kuhn/conservative": 1.0},
        seats=(0, 1),
        size=0,
    )
    setting = Setting(panel, "attacks", {"num_episodes": 3})
    writer = Writer(folder / "attack", about_run(agent, setting), resume=False)
    evaluate(agent, setting.tasks, setting.options, on_finished=writer.add)
    writer.close()
    return folder
