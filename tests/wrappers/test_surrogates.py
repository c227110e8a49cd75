"""Half a surrogate pair in a reply reaches no prompt: a tokenizer, a file or a terminal could not take it."""

from __future__ import annotations

import gymnasium as gym
import pytest

import mage_envs  # noqa: F401
from mage_envs.text.parser import Reply, encodable

METAS = sorted(name for name in gym.registry if name.startswith("mage/") and "-Meta-" in name)
REPLY = "<think>\ud800</think> <action>\udfff\ud83d</action> <remark>\udc00</remark> bet \ud800 \U0001f600"


@pytest.mark.parametrize("context", ["rebuilt", "conversation"])
@pytest.mark.parametrize("env_id", METAS)
def test_no_prompt_quotes_half_a_surrogate_pair(env_id: str, context: str) -> None:
    with gym.make(env_id, disable_env_checker=True, context=context, memory="both") as env:
        env.reset(seed=0)
        for number in range(6):
            answer = Reply(REPLY, tokens=number, truncated=True) if number % 2 else REPLY
            observation, _, terminated, truncated, info = env.step(answer)
            observation.encode()
            repr({key: value for key, value in info.items() if key != "private"}).encode()
            if terminated or truncated:
                break


def test_a_reply_keeps_its_details() -> None:
    reply = Reply("\ud800\U0001f600", tokens=3, limit=4, truncated=True, no_text="empty")
    valid = encodable(reply)
    assert valid == "\ufffd\U0001f600"
    assert isinstance(valid, Reply)
    assert vars(valid) == vars(reply)
    assert encodable("é") == "é"
