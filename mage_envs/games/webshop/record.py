"""Records of WebShop, and of its errands for one customer."""

from mage_envs.game_record import GameRecord

_PRESET = {"groups_per_rollout": 8, "max_completion_length": 1024, "max_prompt_length": 8192}
CUSTOMER = GameRecord(
    name="WebShopCustomer",
    entry_point="mage_envs.games.webshop_customer.shopping:WebShopCustomer",
    settings="mage_envs.games.webshop_customer.shopping:SETTINGS",
    opponents={"customer": "mage_envs.opponents.games.webshop_customer"},
    presets={"customer": (_PRESET, {"split": "train"})},
)


def _panel(split: str, seed: int, about: str) -> dict[str, object]:
    # A small catalogue has ten families of each split, too few kinds of product to average over.
    options = {"split": split, "size": "small", "catalogues": 20, "data": None}
    return {"seed": seed, "about": about, "env_kwargs": options, "ids": "mage_envs.games.webshop.panel_ids:made_ids"}


WEBSHOP = GameRecord(
    name="WebShop",
    entry_point="mage_envs.games.webshop.game:WebShop",
    settings="mage_envs.games.webshop.game:SETTINGS",
    opponents={"webshop": "mage_envs.opponents.games.webshop"},
    presets={"webshop": (_PRESET, {"max_turns": 12, "split": "train"})},
    small_models={
        "webshop": {
            "env_kwargs": {"split": "train", "size": "small", "catalogues": 20, "max_turns": 12},
            "imitate": ["policy:webshop/next"],
            "imitate_episodes": 4096,
            "learning_rate": 2e-4,
        }
    },
    panels={
        "webshop-val": _panel("val", 13, "families of products that training never shows"),
        "webshop-test": _panel("test", 14, "further such families"),
        "webshop-ood-type": _panel("ood_type", 15, "kinds of product that training never shows"),
        "webshop-ood-phrase": _panel("ood_phrase", 16, "sentences that training never uses"),
        "webshop-ood-catalogue": _panel("ood_catalogue", 17, "catalogues that training never shows"),
        "webshop-official-test": {
            "seed": 57,
            "about": "the original's test goals, from the folder in --game-option data=FOLDER",
            "env_kwargs": {"split": "test", "compat": True},
            "ids": "mage_envs.games.webshop.panel_ids:official_ids",
        },
    },
    data={"webshop": "mage_envs.games.webshop.data_check:describe_data"},
    sites={"webshop": "mage_envs.games.webshop.site.command:command"},
    page="webshop.md",
    belongings=(
        "mage_envs/games/webshop*",
        "opponents/games/webshop*.py",
        "opponents/solo/webshop.py",
        "opponents/solo/shopper*.py",
        "tests/games/webshop",
        "tests/games/related/test_webshop_customer.py",
        "dev/speed/webshop.py",
        "dev/webshop_catalogue",
        "tests/dev/webshop_catalogue",
    ),
)
RECORDS = (CUSTOMER, WEBSHOP)
