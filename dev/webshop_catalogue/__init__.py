"""Proof of the goals of WebShop's built-in catalogue: the command for a change of its word lists or draws.

1. Increase `VERSION` in `mage_envs/games/webshop/catalogue_maker/make.py`.
2. `python -m dev.webshop_catalogue --size SIZE` proves the goals of every size and prints the certificates for
   `mage_envs/games/webshop/catalogue_maker/certificates.toml`.
"""
