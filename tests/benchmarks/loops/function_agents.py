"""Agents of a user's: functions, and classes with a method `reply`."""

import asyncio
import re

import mage_envs


def reply(messages):
    """Answer as `scripted:first` does."""
    text = messages[-1]["content"]
    legal = re.findall(r"Legal actions: (.*)", text)
    return f"<action>{legal[-1].split(' | ')[0]}</action>" if legal else "<remark>No remark.</remark>"


async def reply_later(messages):
    """Wait until 8 calls were made, so that calls one after the other would never end. The first one is made alone."""
    global waiting
    waiting += 1
    while 1 < waiting < 8:
        await asyncio.sleep(0)
    return mage_envs.Completion(reply(messages), tokens=(7, 3), reasoning="The first one.")


waiting = 0


class Counting:
    """An agent that numbers its calls, so that a reply shows if the instance is new."""

    def __init__(self):
        self.calls = 0

    def reply(self, messages):
        self.calls += 1
        return f"{self.calls} {reply(messages)}"


class CountingLater(Counting):
    async def reply(self, messages):
        await asyncio.sleep(0)
        return super().reply(messages)


class Callable:
    def __call__(self, messages):
        return reply(messages)


def divide(messages):
    return 1 / 0


def number(messages):
    return 3


def forgotten(messages):
    return reply_later(messages)


def two(messages, more):
    return ""


class NoReply:
    def act(self, turn):
        return ""


class NeedsMore:
    def __init__(self, model):
        self.model = model

    def reply(self, messages):
        return self.model


thing = 3
