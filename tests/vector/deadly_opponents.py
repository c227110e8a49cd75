"""Opponents that kill their process, never answer or raise, importable by worker processes."""

import os
import signal
import time


class Deadly:
    """Plays check and fold; kills its process when it faces the cards and betting of `at`, while `flag` exists."""

    def __init__(self, at="", flag=""):
        self.at = at
        self.flag = flag

    def reset(self, rng):
        pass

    def act(self, turn):
        if turn.information_state == self.at and os.path.exists(self.flag):
            os.remove(self.flag)
            os.kill(os.getpid(), signal.SIGKILL)
        return turn.legal_actions[0]


class Hanging(Deadly):
    """Sleeps instead of dying."""

    def act(self, turn):
        if turn.information_state == self.at and os.path.exists(self.flag):
            os.remove(self.flag)
            time.sleep(600)
        return turn.legal_actions[0]


class Raising(Deadly):
    """Raises instead of dying."""

    def act(self, turn):
        if turn.information_state == self.at:
            raise LookupError("no idea")
        return turn.legal_actions[0]
