"""docs/tour.md: plays one answer, records the named functions on its way, and writes their values.

`python -m dev.tour` rewrites the page. With `--check` it exits with 1 if the page differs from a new one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from textwrap import fill

import gymnasium as gym
import torch

import mage_envs  # noqa: F401  (registers the ids)
from dev.tour.hops import ANSWER, TRAINING
from dev.tour.recorder import ROOT, WIDTH, Hop, RecordedCall, Recorder
from mage_envs.core import Task
from mage_envs.opponents.seating import _table_of
from mage_envs.text.generation import Prompt
from mage_envs.trainer.backends.tiny import byte_tokenizer, tiny_model
from mage_envs.trainer.backends.tokens import ChatTokenizer
from mage_envs.trainer.method.advantages import CreditConfig, compute_advantages
from mage_envs.trainer.method.batch import build_rows, collate
from mage_envs.trainer.method.loss import LossTerms, policy_loss, score_logits
from mage_envs.wrappers.rollout.loop import RolloutSpec, collect
from mage_envs.wrappers.rollout.scripted import ScriptedGenerator

PAGE = ROOT / "docs" / "tour.md"
ENV_ID, OPPONENT, NUM_EPISODES, SEED = "mage/KuhnPoker-Meta-v0", "kuhn/aggressive", 2, 0
REPLY = "A bet may win the pot at once. <action>bet</action>"
REMARK = "<remark>They call with a king. Bet kings, check queens.</remark>"


def play_answer() -> Recorder:
    """Play the first answer of a meta-episode."""
    # Another game in this process may have filled the cache of this opponent's replies.
    _table_of.cache_clear()
    env = gym.make(ENV_ID, opponent=OPPONENT, num_episodes=NUM_EPISODES)
    env.reset(seed=SEED)
    # `reset` calls some of the same functions, so only `step` is recorded.
    with Recorder(ANSWER) as recorder:
        env.step(REPLY)
    return recorder


def reply_of_member(prompt: Prompt) -> str:
    """Return the reply of a member: member 0 bets and calls, member 1 checks and folds."""
    _, member, *_ = prompt.seed
    if prompt.phase == "reflect":
        return REMARK
    passive, active = prompt.legal_actions
    # The first answer of member 0 is the one that part 1 follows.
    action = passive if member else active
    return REPLY.replace("bet</", f"{action}</")


def train_group() -> Recorder:
    """Play a group of two meta-episodes to their ends, and compute the loss of a tiny model."""
    tokenizer = byte_tokenizer()
    tokens = ChatTokenizer(tokenizer)
    model = tiny_model(len(tokenizer), hidden=32, layers=1, heads=2, max_positions=4096)
    env = gym.make(ENV_ID, opponent=OPPONENT, num_episodes=NUM_EPISODES)
    specs = [RolloutSpec(Task(ENV_ID, seed=SEED), member=member) for member in range(2)]
    with Recorder(TRAINING) as recorder:
        trajectories = collect([env], ScriptedGenerator(reply_of_member, tokens), specs)
        advantages, _ = compute_advantages(trajectories, CreditConfig())
        rows = build_rows(trajectories, advantages)
        batch = collate(rows, tokens.pad_id)
        with torch.no_grad():
            output = model(input_ids=batch.ids, attention_mask=batch.attention, position_ids=batch.positions)
        # The logits before a token predict it.
        logits = output.logits[batch.rows, batch.columns - 1]
        policy_loss(score_logits(logits, batch, temperature=1.0, constrained=False), batch, LossTerms())
    return recorder


INTRODUCTION = f"""\
# A tour of the code: one answer, from `step` to the next prompt

Read this page to understand the code. It follows one answer in Kuhn Poker through the files, with the real values at
each function. It is generated: `python -m dev.tour` plays, records and writes it. A test compares the page with the
code, so values, files and function names are never out of date.

A block shows values at the call (`in`) and at the return (`out`), as expressions of the function's variables.
`returned` is the returned value. A block already shows the results of the functions that its function calls. Long
values end with `...`.

## Part 1: the answer

```python
import gymnasium as gym
import mage_envs  # registers the ids

env = gym.make("{ENV_ID}", opponent="{OPPONENT}", num_episodes={NUM_EPISODES})
prompt, info = env.reset(seed={SEED})
prompt, reward, terminated, truncated, info = env.step("{REPLY}")
```

The last line makes these calls. Functions between them are left out. The numbers are those of the sections below.
"""
SECOND_PART = """\
## Part 2: from meta-episodes to a loss

Two members of a group play the same meta-episode to its end. Member 0 gives the answer of part 1 and calls later.
Member 1 checks and folds. Their trajectories become returns, advantages, rows and the loss of a tiny model.
[docs/method.md](method.md) has the equations.
"""
NEXT = """\
## Next

* [docs/environments.md](environments.md): the keys of `info`, and all options.
* [docs/extending.md](extending.md): your own game, opponent, memory and prompts.
* [docs/method.md](method.md): the algorithm.
"""


def section(number: int, hop: Hop, calls: Sequence[RecordedCall]) -> str:
    """Return the section of a hop: its heading, its explanation, and the values of its calls."""
    blocks = []
    for call in calls:
        rows = [("in" if index == 0 else "", line) for index, line in enumerate(call.arguments)]
        rows += [("out" if index == 0 else "", line) for index, line in enumerate(call.results)]
        blocks.append("\n".join(f"{label:<5}{line}" for label, line in rows))
    values = "\n\n".join(blocks)
    return f"### {number}. {hop.name} ({hop.file})\n\n{fill(hop.text, WIDTH)}\n\n```text\n{values}\n```\n"


def part(recorder: Recorder, hops: Sequence[Hop], first_number: int) -> tuple[str, str]:
    """Return the map of the recorded calls, and the sections of the hops in the order of their first calls.

    Args:
        first_number: Number of the part's first section.
    """
    calls = {hop: recorder.calls_of(hop) for hop in hops}
    order = dict.fromkeys(call.hop for call in recorder.calls)
    numbers = {hop: number for number, hop in enumerate(order, start=first_number)}
    tree = "\n".join(f"{'    ' * call.depth}{numbers[call.hop]}. {call.hop.name}" for call in recorder.calls)
    sections = "\n".join(section(number, hop, calls[hop]) for hop, number in numbers.items())
    return f"```text\n{tree}\n```\n", sections


def page() -> str:
    """Play, and return the text of the page."""
    answer_map, answer = part(play_answer(), ANSWER, 1)
    _, training = part(train_group(), TRAINING, len(ANSWER) + 1)
    return "\n".join([INTRODUCTION, answer_map, answer, SECOND_PART, training, NEXT])


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(prog="python -m dev.tour", description="Rewrite docs/tour.md.")
    parser.add_argument("--check", action="store_true", help="exit with 1 if the page differs; write nothing")
    checks, text = parser.parse_args(arguments).check, page()
    if not checks:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    sys.stderr.write(f"{PAGE} differs from the code. Run `python -m dev.tour` to rewrite it.\n")
    return 1
