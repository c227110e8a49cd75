"""Meta-episodes made and played for the tests of the wrapper."""

import gymnasium as gym

from mage_envs.wrappers import MetaEpisode


def make(game="KuhnPoker", **kwargs):
    """The MetaEpisode inside Gymnasium's own wrappers."""
    env = gym.make(f"mage/{game}-Meta-v0", disable_env_checker=True, **kwargs)
    while not isinstance(env, MetaEpisode):
        env = env.env
    return env


def answer(env, info, choose=0):
    if info["phase"] == "reflect":
        return "<remark>plan</remark>"
    return f"<action>{info['legal_actions'][choose]}</action>"


def play(env, choose=0, seed=0, options=None):
    """All (prompt, info before, reward, info after) of a meta-episode."""
    observation, info = env.reset(seed=seed, options=options)
    log, terminated = [], False
    while not terminated:
        prompt, info_before = observation, info
        observation, reward, terminated, _, info = env.step(answer(env, info, choose))
        log.append((prompt, info_before, reward, info))
    return log
