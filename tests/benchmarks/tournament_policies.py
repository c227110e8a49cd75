"""Policies for the tests of tournaments, found by name in worker processes, too: some fail, one waits."""

from __future__ import annotations

import os
import signal
import time

from mage_envs.benchmarks.tournaments.results import score
from mage_envs.benchmarks.tournaments.schedule import play_all

HERE = "tests.benchmarks.tournament_policies"
GATE = "TOURNAMENT_GATE"
KUHN = ("kuhn/nash", "kuhn/conservative", "kuhn/aggressive", "uniform")


class Witness:
    """Plays the first legal action and stores its calls in `LOG` of this process."""

    LOG: list[tuple[object, ...]] = []  # noqa: RUF012

    def on_meta_episode_start(self):
        self.LOG.append(("begin",))

    def reset(self, rng):
        self.LOG.append(("reset", rng.random()))

    def act(self, turn):
        self.LOG.append(("act", turn.player, turn.episode, turn.information_state))
        return turn.legal_actions[0]

    def on_hand_end(self, turn):
        self.LOG.append(("result", turn.player, turn.episode))


class OtherWitness(Witness):
    """The same under another name."""


class Broken:
    """Raises when it is in the second seat, in the fourth deal."""

    def __init__(self):
        self.hands = 0

    def reset(self, rng):
        self.hands += 1

    def act(self, turn):
        if turn.player == 1 and self.hands > 6:
            raise ArithmeticError("out of\nnumbers")
        return turn.legal_actions[0]


class Illegal:
    """Answers with an illegal action."""

    def reset(self, rng): ...

    def act(self, turn):
        return "dance"


class Unready(Illegal):
    """Raises before the first hand."""

    def on_meta_episode_start(self):
        raise RuntimeError("not yet")


class Deadly:
    """Ends its process."""

    def reset(self, rng):
        os._exit(3)

    def act(self, turn):
        return turn.legal_actions[0]


class Sleeper:
    """Never answers in the second seat: it sleeps there."""

    def reset(self, rng): ...

    def act(self, turn):
        if turn.player == 1:
            time.sleep(1000)
        return turn.legal_actions[0]


class Stopped:
    """Stops its whole process, which no signal but a kill can end."""

    def reset(self, rng):
        os.kill(os.getpid(), signal.SIGSTOP)

    def act(self, turn):
        return turn.legal_actions[0]


class Gated:
    """Plays only once the file named by the environment is there."""

    def reset(self, rng):
        while not os.path.exists(os.environ[GATE]):
            time.sleep(0.02)

    def act(self, turn):
        return turn.legal_actions[0]


def outcome_of(settings, **options):
    return score(settings, play_all(settings, **options))
