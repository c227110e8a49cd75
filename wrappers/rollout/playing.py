"""`Run`: one meta-episode under way, as a state machine between its environment and the model."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mage_envs.core import Task
from mage_envs.exceptions import cut, reason_of
from mage_envs.hand import OpponentFailure
from mage_envs.info import legal_actions, private_info
from mage_envs.processes.call_outcomes import CallError, WorkerLost
from mage_envs.secrets import scrub
from mage_envs.text.generation import Completion, Message, Prompt
from mage_envs.text.parser import Reply, encodable
from mage_envs.wrappers.rollout.env_pool import Call, EnvCall, FailureInfoCall, ResetCall
from mage_envs.wrappers.rollout.generation_client import ModelReply
from mage_envs.wrappers.rollout.trajectory import (
    ENVIRONMENT,
    GENERATOR,
    OPPONENT,
    REWARD,
    EpisodeResult,
    FailedReply,
    Failure,
    Step,
    Trajectory,
    bad_pay,
)


@dataclass(frozen=True)
class RolloutSpec:
    """A meta-episode to play: its task, and its place in the rollout."""

    task: Task
    group: int = 0
    member: int = 0
    """Index in the group. It is part of the sampling key, and the environment never sees it."""


MISUSE = (ValueError, TypeError, LookupError)
"""Errors of a first call which mean that the run cannot be played at all."""
_BROKEN = (CallError, WorkerLost)


class MetaEpisodeRollout:
    """A meta-episode in one slot: turns the results of `reset` and `step` into steps.

    If `info` does not describe a meta-episode, the environment is played as one episode of one hand.
    """

    def __init__(
        self,
        slot: int,
        spec: RolloutSpec,
        reply_limit: int = 0,
        failures: tuple[Failure, ...] = (),
    ) -> None:
        """Prepare the first call of the environment.

        Args:
            slot: Index of the environment in its pool.
            spec: The meta-episode to play.
            reply_limit: Most tokens of a reply, for the length penalty (0: unknown).
            failures: The failed attempts at this meta-episode so far.
        """
        self.slot, self.spec = slot, spec
        self.failures = failures
        self.retry = len(failures)
        self.steps: list[Step] = []
        self.failed = self.over = False
        """A failed run is over once its environment has reported the opponents' calls."""
        self.misused: Exception | None = None
        """An error which means that the task cannot be played at all (an unknown opponent, a bad option)."""
        self.prompt: Prompt
        """The next prompt."""
        self.call: Call = self._start()
        """The next call of the environment."""
        self._limit = reply_limit
        self._chat: list[Message] = []
        self._reply = Completion("")
        """The reply that is being played."""
        self._took = 0.0
        """Seconds that the model needed for the reply."""
        self._last: Completion | None = None
        """The last reply that was played."""
        self._info: Mapping[str, Any] = {}
        self._results: list[EpisodeResult] = []
        self._turns = (-1, 0)
        """The running episode, and the number of its play steps so far."""
        self._new = self._shortened = 0
        """Messages added to the chat since the last reply, and how often this prompt was shortened."""
        self._asked_at = 0.0
        self._seconds: list[float] = []
        self._earned = 0.0
        """Sum of the rewards of the running episode."""
        self._opponent_calls: tuple[Mapping[str, Any], ...] = ()
        self._failed_reply: FailedReply | None = None

    def _start(self) -> ResetCall:
        task = self.spec.task
        return ResetCall(task.seed, task.options() or None)

    def next_env_call(self) -> EnvCall:
        """Return the next call of the environment."""
        return EnvCall(self.slot, self.call, self.describe)

    def describe(self) -> str:
        """Return a description of this meta-episode, for messages about a wait."""
        spec, task = self.spec, self.spec.task
        return (
            f"{task.env_id or 'the environment'}, opponent {self._opponent() or 'of its own choice'}, task "
            f"{task.task_id or task.seed}, meta-episode {spec.member} of group {spec.group}, "
            f"episode {self._episode() + 1}, attempt {self.retry + 1}"
        )

    def on_completion(self, answer: ModelReply) -> None:
        """Process the model's reply: set the next `call`, or fail if the model failed."""
        if isinstance(answer, WorkerLost):
            self.fail(GENERATOR, answer.reason, answer.traceback)
        elif isinstance(answer, CallError):
            self.fail(GENERATOR, reason_of(answer.error), answer.traceback)
        elif answer.error is not None:
            self.fail(GENERATOR, answer.error)
        else:
            self._reply, text = answer, encodable(answer.text)
            self._took = time.perf_counter() - self._asked_at
            self.call = text
            # A plain string is enough unless the environment needs the token count or the reason for a missing answer.
            if self._limit or answer.truncated or answer.overflow or answer.no_text is not None:
                self.call = Reply(
                    text=text,
                    tokens=len(answer.ids),
                    limit=self._limit,
                    truncated=answer.truncated,
                    overflow=answer.overflow,
                    no_text=answer.no_text,
                )

    def on_env_result(self, outcome: Any) -> None:
        """Process the outcome of the environment's call."""
        if self.failed:
            # Before the first observation, the environment may still hold the calls of the previous meta-episode. Only
            # an opponent that failed in `reset` proves that this one had begun.
            began = self._info or self.failures[-1].kind == OPPONENT
            self._opponent_calls = tuple(outcome) if began and not isinstance(outcome, _BROKEN) else ()
            self.over = True
            return
        if isinstance(outcome, WorkerLost):
            self.fail(*outcome)
            # The process is gone, so there is no environment to query.
            self.over = True
        elif isinstance(outcome, CallError):
            self._on_error(outcome.error, outcome.traceback)
        else:
            self._on_outcome(outcome)

    def _on_error(self, error: BaseException, traceback: str) -> None:
        if not isinstance(self.call, ResetCall):
            reply = self._reply
            self._failed_reply = FailedReply(
                text=reply.text,
                truncated=reply.truncated,
                overflow=reply.overflow,
                shortened=self._shortened,
                no_text=reply.no_text,
                reasoning=reply.reasoning,
            )
        elif isinstance(error, MISUSE) and not isinstance(error, OpponentFailure):
            # OpponentFailure wraps the errors of opponents, so another one means a wrong task or option.
            self.misused = error
        if isinstance(error, OpponentFailure):
            self.fail(OPPONENT, str(error), traceback)
        else:
            self.fail(ENVIRONMENT, reason_of(error), traceback)

    def _on_outcome(self, outcome: Any) -> None:
        if isinstance(self.call, ResetCall):
            observation, info = outcome
            self._make_prompt(observation, info)
            return
        self._on_step(*outcome)

    def _make_prompt(self, observation: str, info: Mapping[str, Any]) -> None:
        """Make the next prompt.

        The newest message is the observation, because wrappers may have changed it. `info` holds the earlier ones.
        """
        self._info = info
        fresh = info.get("fresh_chat", True)
        newest = Message("user", observation)
        if fresh:
            # Without the last message: the observation replaces it below.
            self._chat = [Message(**message) for message in info.get("messages", ())[:-1]]
        self._chat.append(newest)
        self._new = len(self._chat) if fresh else 1
        self._asked_at = time.perf_counter()
        self.prompt = Prompt(
            messages=tuple(self._chat),
            slot=self.slot,
            # The key of the sampling stream. Neither the slot nor the batch is part of it, so a reply does not depend
            # on what else is played. The retry is, because with the same key the model would sample the reply that
            # failed.
            seed=(self.spec.task.seed, self.spec.member, len(self.steps), self.retry),
            legal_actions=legal_actions(info),
            phase=info.get("phase", "play"),
            # The tokenizer extends the ids of the last reply, so that no text of the conversation is tokenised twice. A
            # reply that overflowed was never sampled, so that there are no ids to continue.
            previous=None if fresh or (self._last is not None and self._last.overflow) else self._last,
            # Scripted policies read it. A language model sees `messages` alone.
            info=info,
        )

    def _on_step(self, observation: str, reward: float, terminated: bool, truncated: bool, info: Any) -> None:
        """Record the step and make the next prompt.

        If the prompt was too long, the environment returns a shorter one instead, and no step is recorded.
        """
        # The step is described by the info that came with its prompt, not by the info that follows it.
        prompt_info, completion = self._info, self._reply
        if info.get("shortened"):
            self._shortened += 1
            self._make_prompt(observation, info)
            return
        self._seconds.append(self._took)
        self._last = completion
        self._earned += reward
        over = terminated or truncated
        if (hand_reward := info.get("hand_reward")) is not None:
            # MetaEpisode pays an episode at its end and names each hand's share. A wrapper around it may pay otherwise.
            extra = reward - (info.get("episode_return") or 0.0)
            reward = hand_reward + extra if extra else hand_reward
        self.steps.append(self._step(prompt_info, info, completion, reward, over))
        self._shortened = 0
        episode_end = info.get("episode_end", over)
        if episode_end:
            self._results.append(self._result(info, truncated))
            self._earned = 0.0
        # Before `_make_prompt`, which adds the next user message to this chat.
        self._chat.append(Message("assistant", completion.text))
        wrong = bad_pay(self.steps[-1:], self._results if episode_end else ())
        if wrong is not None:
            self.fail(REWARD, wrong)
        elif over:
            self.over, self._info = True, info
            self._opponent_calls = tuple(private_info(info).get("opponent_calls", ()))
        else:
            self._make_prompt(observation, info)

    def _step(
        self, prompt_info: Mapping[str, Any], info: Mapping[str, Any], completion: Completion, reward: float, over: bool
    ) -> Step:
        # The defaults here and below describe an environment without a meta-episode: one episode of one hand.
        phase, episode, turn = prompt_info.get("phase", "play"), prompt_info.get("episode_index", 0), 0
        if phase == "play":
            last_episode, turns = self._turns
            turn = turns if episode == last_episode else 0
            self._turns = (episode, turn + 1)
        return Step(
            episode=episode,
            phase=phase,
            turn=turn,
            hand=prompt_info.get("hand", 0),
            anchor=prompt_info.get("anchor", self.prompt.messages[-1].content),
            information_state=prompt_info.get("information_state", ""),
            seat=prompt_info.get("seat", 0),
            action=info.get("action"),
            reward=reward,
            penalty=info.get("penalty", 0.0),
            invalid_reason=info.get("invalid_reason"),
            text=completion.text,
            prompt_ids=completion.prompt_ids,
            completion_ids=completion.ids,
            logprobs=completion.logprobs,
            truncated=completion.truncated,
            legal_ids=completion.legal_ids,
            hand_end=info.get("hand_end", over),
            kind=prompt_info.get("kind", phase),
            messages=self.prompt.messages[-self._new :],
            fresh_chat=prompt_info.get("fresh_chat", True),
            shortened=self._shortened,
            legal_actions=self.prompt.legal_actions,
            tokens=completion.tokens or _count_tokens(completion),
            events=tuple(info.get("memory_events", ())),
            reasoning=completion.reasoning,
        )

    def _result(self, info: Mapping[str, Any], timeout: bool) -> EpisodeResult:
        """Return the result of the episode that has ended."""
        seats, private = tuple(info.get("seats", (0,))), private_info(info)
        # An environment without a unit of its own (chips) is measured by its rewards.
        value = info.get("episode_value", self._earned)
        return EpisodeResult(
            reward=self._earned,
            value=value,
            hands=len(seats),
            success=bool(info.get("success", value > 0)),
            timeout=bool(info.get("timeout", timeout)),
            seats=seats,
            metrics=private.get("episode_metrics", private.get("metrics", {})),
            outcome=info.get("outcome", ""),
            ended_with=tuple(info.get("ended_with", ())),
        )

    def fail(self, kind: str, reason: str, traceback: str = "") -> None:
        """End the attempt. The next call asks the environment for the opponents' calls.

        Args:
            kind: Kind of the failure, as in `Failure`.
            reason: Cause in any number of lines. It is cut and joined to one line.
            traceback: Traceback of the exception, if any.
        """
        failure = Failure(
            kind=kind,
            # Secrets are replaced before the cut, which could leave half of one that no pattern matches.
            reason=" ".join(cut(scrub(reason)).split()),
            attempt=self.retry,
            episode=self._episode(),
            traceback=scrub(traceback),
        )
        self.failures = (*self.failures, failure)
        # A failed meta-episode still reports its opponents' calls, because they are part of its record.
        self.failed, self.call = True, FailureInfoCall()

    def _episode(self) -> int:
        return int(self._info.get("episode_index", 0))

    def _opponent(self) -> str:
        return private_info(self._info).get("opponent") or self.spec.task.opponent or ""

    def trajectory(self) -> Trajectory:
        spec, info, private = self.spec, self._info, private_info(self._info)
        return Trajectory(
            task=spec.task,
            opponent=self._opponent(),
            group=spec.group,
            member=spec.member,
            steps=tuple(self.steps),
            episodes=tuple(self._results),
            num_episodes=info.get("num_episodes", 1),
            failure=str(self.failures[-1]) if self.failed else None,
            retries=self.retry,
            category=private.get("category"),
            failures=self.failures,
            seconds=tuple(self._seconds),
            task_id=private.get("task"),
            opponent_calls=self._opponent_calls,
            failed_reply=self._failed_reply,
        )


def _count_tokens(completion: Completion) -> tuple[int, int] | None:
    """Return the tokens of the prompt and of the reply, or None if the backend gave no ids."""
    return (len(completion.prompt_ids), len(completion.ids)) if completion.prompt_ids else None
