"""Expected calls, tokens, hours and price of a run, and the preflight of a model behind an endpoint."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

from mage_envs.benchmarks.evaluation.scoring.call_stats import REPLY_PROBLEMS, reply_problems_of, without_texts
from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate, estimate
from mage_envs.text.visible import one_line
from mage_envs.wrappers.rollout.trajectory import GENERATOR, Trajectory

PREFLIGHT = 16
"""Number of meta-episodes after which a run is judged. They are part of the run."""
MAX_CUT = 0.2
"""Share of cut replies above which a run stops after its preflight."""


class Price(NamedTuple):
    """Price of a million tokens, in any currency."""

    prompt: float
    reply: float


class CutReplies(RuntimeError):
    """Too many replies were cut at the token limit, so the run would measure the limit."""


def read_price(text: str) -> Price:
    """Return the value of `--price`. Raise ValueError if it is not two numbers of at least 0."""
    try:
        prompt, reply = map(float, text.split(","))
    except ValueError:
        prompt = reply = -1.0
    # `not >=` also catches NaN.
    if not 0 <= min(prompt, reply) <= max(prompt, reply) < float("inf"):
        raise ValueError(f"--price requires two numbers of at least 0, such as 0.5,1.5, got {text!r}.")
    return Price(prompt, reply)


class Expectation(NamedTuple):
    """Means per meta-episode with their intervals, from a sample. None means not known."""

    calls: Estimate
    prompt_tokens: Estimate | None
    reply_tokens: Estimate | None
    seconds: Estimate | None
    price: Estimate | None

    def text(self, count: int, slots: int) -> str:
        """Return the expected totals with 95% intervals.

        Args:
            count: Number of meta-episodes.
            slots: Number of calls that run at once.
        """
        tokens = (
            f"{_total(self.prompt_tokens, count, ',.0f')} prompt tokens, "
            f"{_total(self.reply_tokens, count, ',.0f')} reply tokens"
        )
        hours = _total(self.seconds, count / min(slots, count) / 3600, ".3g")
        price = "" if self.price is None else f", price {_total(self.price, count, ',.2f')}"
        calls = _total(self.calls, count, ",.0f")
        return f"{count:,} meta-episodes, with 95% intervals: {calls} calls, {tokens}, {hours} hours{price}"


def expectation(trajectories: Sequence[Trajectory], price: Price | None) -> Expectation:
    """Return the means of meta-episodes that did not fail. Those with one seed are one cluster.

    Args:
        trajectories: Meta-episodes, at least one.
        price: Price of tokens, or None.
    """
    clusters = [trajectory.task.seed for trajectory in trajectories]

    def mean(values: Sequence[float] | None) -> Estimate | None:
        return None if values is None else estimate(values, clusters)

    tokens = [[step.tokens for step in trajectory.steps] for trajectory in trajectories]
    # A total over the counted calls alone would be too low.
    counted = [[pair for pair in row if pair is not None] for row in tokens] if all(map(all, tokens)) else None
    prompts = None if counted is None else [float(sum(pair[0] for pair in row)) for row in counted]
    replies = None if counted is None else [float(sum(pair[1] for pair in row)) for row in counted]
    prices = None
    if price is not None and prompts is not None and replies is not None:
        pairs = zip(prompts, replies, strict=True)
        prices = [(prompt * price.prompt + reply * price.reply) / 1e6 for prompt, reply in pairs]
    return Expectation(
        calls=estimate([float(len(trajectory.steps)) for trajectory in trajectories], clusters),
        prompt_tokens=mean(prompts),
        reply_tokens=mean(replies),
        seconds=mean([sum(trajectory.seconds) for trajectory in trajectories]),
        price=mean(prices),
    )


def _total(value: Estimate | None, count: float, form: str) -> str:
    """Return `count` times a mean, with its interval."""
    if value is None:
        return "n/a"
    if value.low is None or value.high is None:
        return f"{count * value.mean:{form}} [no interval]"
    return f"{count * value.mean:{form}} [{max(count * value.low, 0):{form}}, {count * value.high:{form}}]"


class Preflight:
    """Report on the first meta-episodes of a run, before most of its calls are paid for.

    The sample is the first tasks, not the first to finish, which would be the short ones.
    """

    def __init__(self, agent: str, count: int, slots: int, *, price: Price | None, allow_cut: bool) -> None:
        """Initialize the report.

        Args:
            count: Number of meta-episodes to play. With `PREFLIGHT` or fewer there is no report.
            slots: Number of calls that run at once.
            price: Price of tokens, or None.
            allow_cut: True if the run continues whatever share of the replies is cut.
        """
        self._agent, self._count, self._slots, self._price, self._allow_cut = agent, count, slots, price, allow_cut
        self._size = PREFLIGHT if count > PREFLIGHT else 0
        self._played: dict[int, Trajectory] = {}
        self._finished = 0

    def add(self, index: int, trajectory: Trajectory) -> None:
        """Add a finished meta-episode. Write the report to stderr after the last one of the sample.

        Args:
            index: Index among the meta-episodes to play.

        Raises:
            CutReplies: If too many replies of the sample were cut.
        """
        self._finished += 1
        if index >= self._size:
            return
        self._played[index] = without_texts(trajectory)
        if len(self._played) == self._size:
            self._report(list(self._played.values()))

    def _report(self, trajectories: Sequence[Trajectory]) -> None:
        steps = [step for trajectory in trajectories for step in trajectory.steps]
        failed = sum(failure.kind == GENERATOR for trajectory in trajectories for failure in trajectory.failures)
        counts = reply_problems_of(steps)
        problems = [f"{name.replace('_', ' ')} {_count(counts[name], len(steps))}" for name in REPLY_PROBLEMS]
        problems.append(f"failed {_count(failed, len(steps) + failed)}")
        sys.stderr.write(
            f"Preflight of {one_line(self._agent)}, {self._size} meta-episodes, {len(steps)} replies: "
            f"{', '.join(problems)}\n"
        )
        if finished := [trajectory for trajectory in trajectories if trajectory.failure is None]:
            text = expectation(finished, self._price).text(self._count, self._slots)
            sys.stderr.write(f"Expected for {text}\n")
        # With as many slots as meta-episodes, all calls may be paid for already.
        has_remaining = self._finished < self._count
        if counts["cut"] > MAX_CUT * len(steps) and has_remaining and not self._allow_cut:
            raise CutReplies(
                f"{counts['cut']} of {len(steps)} replies in the preflight were cut at the token limit, more than "
                f"{MAX_CUT:.0%}. Raise max_tokens in the agent's name, or add --allow-cut to continue."
            )


def _count(count: int, total: int) -> str:
    return f"{count} ({count / total:.1%})" if total else "0"
