"""Memento (Zhou et al. 2025, arXiv 2508.16153): earlier cases, both successes and failures, guide the next plan."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, log1p
from typing import Any

import numpy as np

from mage_envs.loading.options import check_positive
from mage_envs.text.prompts import answer_text
from mage_envs.wrappers.baselines.baseline import Baseline, state, tag_instruction
from mage_envs.wrappers.baselines.memory_bank import Bank, bank_text
from mage_envs.wrappers.memory import Answer, MemoryView, Request
from mage_envs.wrappers.retrieval import Encoder, make_encoder, nearest

PLAN = 1_000
"""Maximum number of characters of a plan. If an answer has no numbered list, its start is the plan."""
FEATURES = ("constant", "similarity", "case_succeeded", "same_task", "age")
RIDGE = 1.0
"""Coefficient of the L2 penalty. It also keeps the weights finite if the classes are separable."""
NEWTON_STEPS = 50
_STEP = re.compile(r"^\s*\d{1,2}[.)]\s*(\S.*)$", re.MULTILINE)
_ROLE = "Make a plan for the next attempt at the task below: a numbered list of short, concrete steps, at most ten."


@dataclass(frozen=True)
class Case:
    """One episode: its state, its plan (or its actions), and its result."""

    id: int
    state: str
    plan: str
    success: bool
    score: str
    episode: int

    @property
    def shown(self) -> str:
        """Text in a prompt."""
        return f"{self.state}\nPlan: {self.plan}\nResult: {self.score}"


class Memento(Baseline):
    """Strategy that requests one plan before each episode, from the nearest cases. Play prompts show the plan."""

    name = "memento"
    heading = "Your plan for this episode"
    no_conversation = "it makes its plans outside of the play chat, only from cases"
    plans = True

    def __init__(
        self,
        k: int = 4,
        encoder: str | Encoder = "hash",
        show_cases: bool = False,
        scope: str = "meta",
        bank: str | None = None,
        max_tokens: int = 4000,
    ) -> None:
        """Set the retrieval and the bank.

        Args:
            k: Maximum number of retrieved cases.
            show_cases: True if play prompts also show the cases.
            scope: Scope of the bank (wrappers/baselines/memory_bank.py).
            bank: Path of the bank's file, if the scope is `run`.
            max_tokens: Maximum length of the memory's text in a play prompt.
        """
        super().__init__(max_tokens)
        check_positive("k", k)
        self.encoder = make_encoder(encoder)
        self._k, self._shows_cases = k, show_cases
        self._bank: Bank[Case] = Bank(self.name, scope, bank)
        self._bank.items = [Case(**item) for item in self._bank.content.get("items", ())]
        self._plan = ""
        self._cases: list[Case] = []

    def begin(self) -> None:
        super().begin()
        self._bank.begin()
        self._plan, self._cases = "", []

    @property
    def cases(self) -> Sequence[Case]:
        """Cases of the bank, oldest first."""
        return self._bank.items

    # -- hooks ----------------------------------------------------------------------------------------------

    def before_episode(self, episode: int, view: MemoryView) -> Request | None:
        self._plan, self._dropped = "", 0
        query = state(view, view.first_observation)
        ranked = self._read(query)
        self._cases = [self.cases[at] for at, _ in ranked]
        if ranked:
            ids, scores = [at for at, _ in ranked], [score for _, score in ranked]
            self._tell("retrieved", ids=ids, scores=scores, encoder=self.encoder.name)
        return Request("plan", self._request(view, query)) if self.plans else None

    def after_episode(self, view: MemoryView, last: bool) -> None:
        if not self._bank.writable:
            return
        record = view.records[-1]
        # MementoTrace makes no plan; its cases store the actions in place of one.
        actions = "; ".join(answer_text(turn) for turn in record.turns)[:PLAN]
        self._store(
            Case(
                id=len(self.cases),
                state=state(view, record.first_observation),
                plan=self._plan if self.plans else actions,
                success=record.success,
                score=view.style.verdict(record),
                episode=record.index,
            )
        )
        if last:
            self._bank.commit()

    def on_answer(self, request: Request, answer: Answer, view: MemoryView) -> None:
        steps = _STEP.findall(answer.text)
        if answer.reason is not None or not steps:
            self._tell_failure(request, answer, "no_steps")
        numbered = "\n".join(f"{number}. {step.strip()}" for number, step in enumerate(steps[:10], start=1))
        self._plan = (numbered or answer.text)[:PLAN]

    def render(self, view: MemoryView) -> str:
        plan = [self._plan] if self._plan else []
        shows = self._shows_cases or not self.plans
        cases = [self._case_text(view, case) for case in self._cases] if shows else []
        items = plan + cases
        return "\n\n".join(items[: self._count_shown(items)])

    # -- cases ----------------------------------------------------------------------------------------------

    def _read(self, query: str) -> list[tuple[int, float]]:
        """Return (index, score) of the most similar cases for a state. If scores are equal, the newest come first."""
        return nearest(self.encoder, query, [case.state for case in self.cases], self._k)

    def _store(self, case: Case) -> None:
        self._bank.items.append(case)

    @staticmethod
    def _case_text(view: MemoryView, case: Case) -> str:
        # The verdict of a style that states the setting also knows draws, and the case ends with it.
        if view.states_setting:
            return f"Case of episode {case.episode + 1}: {case.shown}"
        return f"{'A success' if case.success else 'A failure'} (episode {case.episode + 1}): {case.shown}"

    def _request(self, view: MemoryView, query: str) -> str:
        parts = [_ROLE, f"# Task\n{view.setting()}\n\n{query}"]
        headings = ((True, "Cases that succeeded"), (False, "Cases that failed"))
        if view.states_setting:
            headings = ((True, "Earlier successes"), (False, "Other earlier cases"))
        for success, heading in headings:
            if cases := [case.shown for case in self._cases if case.success is success]:
                parts.append("\n\n".join([f"# {heading}", *cases]))
        if self._cases:
            parts.append("Follow what succeeded, and avoid what failed.")
        parts.append(f"Write the plan.{tag_instruction(view.style.remark_tag, 'your numbered plan')}")
        return "\n\n".join(parts)

    def bank_text(self) -> str:
        """Return the text of the bank's file."""
        return bank_text(
            self.name, [asdict(case) for case in self.cases], encoder=self.encoder.name, **self._model_fields()
        )

    def _model_fields(self) -> Mapping[str, Any]:
        return {}


class MementoTrace(Memento):
    """Memento without model calls. A case stores the actions as its plan, and play prompts show the nearest cases."""

    name = "memento_trace"
    heading = "Cases from earlier episodes"
    plans = False


# -- learned retrieval: the probability that a case leads to a success, by logistic regression --


def features(similarity: float, succeeded: bool, *, same_task: bool, age: int) -> list[float]:
    """Return the features of one case.

    Args:
        similarity: Similarity of the case to the query.
        same_task: True if the case has the same state as the query.
        age: Number of cases stored since, this one included.

    Returns:
        One number per entry of `FEATURES`.
    """
    return [1.0, similarity, float(succeeded), float(same_task), log1p(age)]


@dataclass(frozen=True)
class CaseValues:
    """Model of Q(state, case), the probability that an episode succeeds after it reads the case."""

    weights: list[float]
    """One weight per feature."""

    @classmethod
    def of(cls, weights: Sequence[float]) -> CaseValues:
        """Return the model with the weights of a bank's file. Raises ValueError if their number is wrong."""
        if len(weights) != len(FEATURES):
            raise ValueError(f"The bank holds {len(weights)} weights for {len(FEATURES)} features. Create it again.")
        return cls([float(weight) for weight in weights])

    @classmethod
    def learn(cls, rows: Sequence[tuple[Sequence[float], bool]]) -> CaseValues:
        """Fit the weights by Newton's method on the penalised likelihood.

        A row holds the features of a case that an episode read, and True if that episode succeeded. Without rows, all
        weights are 0.
        """
        weights = np.zeros(len(FEATURES))
        if rows:
            x = np.array([row for row, _ in rows])
            y = np.array([float(success) for _, success in rows])
            for _ in range(NEWTON_STEPS):
                # Clipped, because exp() overflows for large negative sums.
                chance = 1 / (1 + np.exp(-np.clip(x @ weights, -30, 30)))
                slope = x.T @ (y - chance) - RIDGE * weights
                curvature = (x * (chance * (1 - chance))[:, None]).T @ x + RIDGE * np.eye(len(FEATURES))
                weights = weights + np.linalg.solve(curvature, slope)
        # Rounded, so that rounding error does not change a bank's file and its hash.
        return cls([round(float(weight), 12) for weight in weights])

    def chance(self, row: Sequence[float]) -> float:
        """Return the probability of a success for one row of features."""
        total = sum(weight * value for weight, value in zip(self.weights, row, strict=True))
        return 1 / (1 + exp(-min(max(total, -30.0), 30.0)))


class MementoQ(Memento):
    """Memento that retrieves the cases with the highest probability of success, from a model in the bank."""

    name = "memento_q"

    def __init__(
        self,
        k: int = 4,
        encoder: str | Encoder = "hash",
        show_cases: bool = False,
        scope: str = "run",
        bank: str | None = None,
        max_tokens: int = 4000,
    ) -> None:
        """Set the retrieval and the bank, with the options of `Memento`. Raises ValueError if `scope` is `meta`."""
        if scope == "meta":
            raise ValueError(
                "memory=memento_q needs scope=run and bank=FILE, because one meta-episode has too few cases to learn "
                "from. Create a bank with mage eval --fill."
            )
        super().__init__(k, encoder, show_cases=show_cases, scope=scope, bank=bank, max_tokens=max_tokens)
        self._values = CaseValues.of(self._bank.content["values"]) if bank is not None else None
        self._read_now: list[list[float]] = []
        self._rows: list[tuple[list[float], bool]] = []
        self._kept_rows = 0

    def begin(self) -> None:
        super().begin()
        # Rows of an aborted meta-episode are removed, as `Bank.begin` removes its cases.
        del self._rows[self._kept_rows :]
        self._read_now = []

    def _read(self, query: str) -> list[tuple[int, float]]:
        alike = nearest(self.encoder, query, [case.state for case in self.cases], len(self.cases))
        rows = {
            at: features(
                score, self.cases[at].success, same_task=self.cases[at].state == query, age=len(self.cases) - at
            )
            for at, score in alike
        }
        if self._values is not None:
            values = self._values
            # sorted() is stable, so cases with equal values stay in the order of similarity.
            alike = sorted(((at, round(values.chance(rows[at]), 6)) for at, _ in alike), key=lambda pair: -pair[1])
        retrieved = alike[: self._k]
        self._read_now = [rows[at] for at, _ in retrieved]
        return retrieved

    def _store(self, case: Case) -> None:
        self._rows += [(row, case.success) for row in self._read_now]
        super()._store(case)

    def after_episode(self, view: MemoryView, last: bool) -> None:
        super().after_episode(view, last)
        if last:
            self._kept_rows = len(self._rows)

    def _model_fields(self) -> Mapping[str, Any]:
        return {"features": FEATURES, "rows": len(self._rows), "values": CaseValues.learn(self._rows).weights}
