"""PettingZoo modules: `from mage_envs.zoo import kuhn_poker_v0; kuhn_poker_v0.env()`."""
