"""Panels: balanced, repeatable, and the same for ever."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks import PANELS, fingerprint, named_panel, panel
from mage_envs.core import Task

KUHN = "mage/KuhnPoker-Meta-v0"
GOLDEN = {
    "webshop-val": "0866967d87be3b14610f74d2ea147ccb8d069a5696e96c636ebd8574ba1bf7b9",
    "webshop-test": "87c242c8240b99930b53be341a4643092bac78f122ff502fecea82ca8534416d",
    "webshop-ood-type": "d4d92e11ff0d68b257492723ec9d0f40733b8b26760e5cbf2b3343287b301ca2",
    "webshop-ood-phrase": "8e4ad5530e9b7809b2531ad64accd0163eda0d1ed800771ea4af9310eb266551",
    "webshop-ood-catalogue": "03e258749d2703e95d740e14703ef06f17e53765b8bfe8ced6e071e20ef46311",
    "alfworld-eval-in": "5c07046c2dcd5dadf9eff434b25e7206f93692e125021fd62a911ec706dd459a",
    "alfworld-eval-out": "27bb973d0eb454bf29a130ba229fbf1c4a67e68f19ada932cb713d29732d4239",
    "kuhn-train": "f74b5a217ab75b5bf724218d3fe2056ad17381c2f489ade3bc1792e2857a1a12",
    "kuhn-heldout": "381bb40c158ba007c628fd544c766f77d58ee9f5890ef22941ef1364d0424c6e",
    "kuhn-paper": "fb3abeb3eeaf9ecffd852cdd13959157a1e71fc2fa591b74bd3bc82921c3e175",
    "kuhn-paper-unseen": "fdc3e8ef8412b0b937d8d3750e6ed473a847f5342b99ecaafd8cd0192e481751",
    "tictactoe-paper": "4e724c76afe28dbfed93dd12e9e7a254a8cd2fa5d9f1c465bdb901a8fcac7fb4",
    "tictactoe-paper-unseen": "1ade82f4790da169e7f7c45d002672c5a9d5bc8b56099e9bd3ec6a2b8964938d",
    "pd-train": "d6aa41f3197b8df815bd51a5e07a70e4ebafcf4c2ae9a7a9a28d66882d328e54",
    "pd-heldout": "a55f0b47a3018f28ce96456dfe9ef67041d376c4039d7aae71c450a3739d6ddc",
    "ultimatum-train": "fac7efe3fa079eccd012aa1f10a08bd964d1e8b9cfde88a9e0c4622358bbb783",
    "ultimatum-heldout": "413f53ed61e428d9d0971e3e89047f609d2119f732173b66d342715dd8ebca20",
    "rps-train": "7ccc2e9361e127daefb994dd56df755b48e6910dbd3541d83dcc3c583a5503d3",
    "rps-heldout": "ce6ace7b57990f50ac3f6decca452f71bae1f9514c0cc74532affa986a4a74fd",
    "bargain-train": "98b32852816c8232bebfb32ebcd0ced31a0503a48393b75cb67b05896caaba0a",
    "bargain-heldout": "0ac432a422290c137d2e2e40cb311301d340333e3b0c3d406cb915567b5d2caa",
    "inspect-train": "7eda2d6d6209627aa95c78824ebacac26a2ba9280ce64645c8026207852a5d62",
    "inspect-heldout": "fce67aef7335dd2bbdf6693a0f09d16792a61ad3684b7df1234ee5c7ad9213b0",
    "leduc-train": "95be785da59ef411954f1c88f98c550f3bc875952463ed4b2803f578d8672405",
    "leduc-heldout": "f7406c2b0928c32ca3692c84781b90ed3e31f46dfd1ac442d16c11d60234a8f1",
    "liars-train": "18d372e4e03898aa57b25e3df7d4f5425635f5104180ffee6e2122c4c4ce11c3",
    "liars-heldout": "051e402c8787275651591c93e9a1efb776aed0d3fedc6ed27d25d3bd97937c98",
    "negotiation-train": "bceb961ae129bcc60fc9f1957c28cb235d2bce762537c99a1d5bb5d8dc311f13",
    "negotiation-heldout": "fce26e618624703ad20636401d8fb9832af4600079c2dd0629204c023c81e237",
    "sokoban-train": "250187c20a3ba8b8837a22a622d2f6913712e4beab239e3900528c70b4614a68",
    "sokoban-eval-2box": "b7dabcbdca485411269bc2682106a5e2f2619f61ed66e6a615991113b43daf55",
    "sokoban-eval-1box": "ec2d9997a5256c2ffcc64a2773b4a4151be9f01662958df4e6637ffe0743138f",
    "sokoban-eval-3box": "94d1010b63badc57f904e53bb53f9d1357196a26219794b6a432f238ae36a973",
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
    assert all(0 <= t.seed < 2**53 for t in tasks)


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
    train, held_out = PANELS["kuhn-train"].weights(), PANELS["kuhn-heldout"].weights()
    assert len(train) == 4
    assert not set(train) & set(held_out)
    for name in ("pd", "ultimatum", "rps", "bargain", "inspect", "leduc", "liars", "negotiation"):
        assert not set(PANELS[f"{name}-train"].weights()) & set(PANELS[f"{name}-heldout"].weights())
    assert {task.seat for task in PANELS["ultimatum-train"].tasks()} == {0}, "the learner makes the offers"
    assert {task.seat for task in PANELS["bargain-train"].tasks()} == {0, 1}
    assert PANELS["kuhn-paper"].weights() == pytest.approx(
        {"kuhn/conservative": 0.3, "kuhn/aggressive": 0.3, "kuhn/intermediate": 0.4}
    )
    assert PANELS["tictactoe-paper"].weights()["mcts:100"] == 0.5
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
