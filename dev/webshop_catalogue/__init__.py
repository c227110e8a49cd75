"""Selection and proof of the goals of WebShop's built-in catalogue: commands for a change of its word lists or draws.

1. Increase `VERSION` in `mage_envs/games/webshop/catalogue_maker/choices.py`.
2. `python -m dev.webshop_catalogue.choose --size SIZE` selects the goals of tiny, small and medium.
3. `python -m dev.webshop_catalogue --size SIZE` proves the goals of every size and prints the certificates for
   `mage_envs/games/webshop/catalogue_maker/certificates.toml`.
"""
