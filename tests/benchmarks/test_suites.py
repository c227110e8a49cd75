"""Panels: balanced, repeatable, and the same for ever."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks import PANELS, fingerprint, named_panel, panel
from mage_envs.core import Task

KUHN = "mage/KuhnPoker-Meta-v0"
GOLDEN = {
    "webshop-val": "02b925a02d9e4d1044a1c9c7da31679558ed256073a860f38ef474b6fb3ff088",
    "webshop-test": "b8881e092cd3684957a1e45d5d8c907b4b2f789af25a141a7ce1a8a424f8e9d3",
    "webshop-ood-type": "d7bffebcf52ee821bb356ad0a90f9dbf457649eef25595098c9c7e7a695cc5db",
    "webshop-ood-phrase": "2b2d64163b1b63b5033d8be52be7892addfbf10bcaf2d7cd37476e179cc001aa",
    "webshop-ood-catalogue": "8a74a12de2bca4b9bd0330f0876ee156f6f01577ba3ef30d3731cdb39bb3574c",
    "alfworld-eval-in": "bc5d201e4123ad703458b347d1f78cd429930c0d147556147e6a8148dca12543",
    "alfworld-eval-out": "3b8e7483dc213c019cb017fec5fe276614a1eaed0074b6590d75fbebbbc87ff5",
    "kuhn-train": "bce82d269723e4d3e88aaade57f80f4073e29308f6fb89c8fe0e81030c471f3f",
    "kuhn-heldout": "35d4b002aebfc9f8e107e8e62af0b45a1cb4df87330153169b7a876949aa5c1b",
    "kuhn-paper": "d68fb431fef597e1a1baeb9cfb857d7417e865eedda99a0244114ca2bb19fbbe",
    "kuhn-paper-unseen": "e13c1bd3e233d6c985023fcc714e84ce59d18610c04db577a5544024ec1ccb96",
    "tictactoe-paper": "bcbf27c98927f56d86df656704c90fa53ffab8b1a62746c9e0051bfac9ebd360",
    "tictactoe-paper-unseen": "d8fa59dc4cc17e35e49fa71bc6a3affa59a4adef82da3013c92157abf819df04",
    "sokoban-train": "3bef8ca60063b5510e2ab5024ae4f8e50fe05615d6e85e4df112e3e83ce74904",
    "sokoban-eval-2box": "b1cd5f4698e194af7c421ae1fbae5ee9181db5a7a993bca3156472f090acfbbb",
    "sokoban-eval-1box": "13c95bd6709c0124e877ed6e224da21e2415b200f1f65f82d64881308a68f859",
    "sokoban-eval-3box": "427b8ca0f3188d7e32e134cc9bf4cb0bf022606706c22c626172a7f110397ca7",
}


def test_every_cell_has_the_same_deals():
    tasks = panel(KUHN, ["cfr", "uniform", "kuhn/rock"], 10, 5)
    assert len(tasks) == len(set(tasks)) == 60
    assert set(Counter((t.opponent, t.seat) for t in tasks).values()) == {10}
    seeds = {
        cell: [t.seed for t in tasks if (t.opponent, t.seat) == cell] for cell in {(t.opponent, t.seat) for t in tasks}
    }
    assert len({tuple(s) for s in seeds.values()}) == 1
    assert len(set(next(iter(seeds.values())))) == 10
    assert all(0 <= t.seed < 2**62 for t in tasks)


def test_longer_panels_continue_shorter_ones_and_seeds_differ():
    short, long = panel(KUHN, ["cfr"], 4, 5), panel(KUHN, ["cfr"], 9, 5)
    assert long[: len(short)] == short
    assert not {t.seed for t in long} & {t.seed for t in panel(KUHN, ["cfr"], 9, 6)}


def test_fingerprints():
    one = (Task(KUHN, "cfr", 0, 1),)
    # sha256 of [{"env_id":"mage/KuhnPoker-Meta-v0","opponent":"cfr","seat":0,"seed":1}]
    assert fingerprint(one) == "60e5bfe54fa352e3fe757e43dca15f4198119d68649c5863619fbcb02db539c2"
    assert fingerprint(one) != fingerprint((Task(KUHN, "cfr", 1, 1),))
    assert fingerprint(one) == fingerprint(one, {}) != fingerprint(one, {"boxes": 1})


@pytest.mark.parametrize("name", PANELS)
def test_named_panels_never_change(name):
    assert named_panel(name).fingerprint() == GOLDEN[name]


def test_held_out_opponents_are_held_out():
    train, held_out = PANELS["kuhn-train"].opponents, PANELS["kuhn-heldout"].opponents
    assert not set(train) & set(held_out)
    assert PANELS["kuhn-paper"].opponents == pytest.approx(
        {"kuhn/conservative": 0.3, "kuhn/aggressive": 0.3, "kuhn/intermediate": 0.4}
    )
    assert PANELS["tictactoe-paper"].opponents["mcts:100"] == 0.5
    seeds = [{task.seed for task in one.tasks()} for one in PANELS.values()]
    assert len(set().union(*seeds)) == sum(map(len, seeds))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: named_panel("kuhn-trian"), "Did you mean 'kuhn-train'"),
        (lambda: panel("mage/KuhnPoker-v0", ["cfr"], 1, 0), "ends with -Meta-v0"),
        (lambda: panel("mage/Nope-Meta-v0", ["cfr"], 1, 0), "Unknown environment"),
        (lambda: panel(KUHN, ["cfr"], 0, 0), "at least one row"),
        (lambda: panel(KUHN, [], 1, 0), "different opponents"),
        (lambda: panel(KUHN, ["cfr", "cfr"], 1, 0), "different opponents"),
    ],
)
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()
