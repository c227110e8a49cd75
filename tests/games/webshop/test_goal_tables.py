"""Splits, one's own goals, the original's weighted draw, other taggers of titles, and earlier pages in observations."""

import json
import sys
import tracemalloc
from collections import Counter

import numpy as np
import pytest

from mage_envs import IllegalAction
from mage_envs.cli.program import main
from mage_envs.games.webshop.data_check import compare_taggers
from mage_envs.games.webshop.game import WebShop
from mage_envs.games.webshop.goal_tables import StoredGoals, upstream_weights
from mage_envs.games.webshop.search.nouns import nouns
from mage_envs.games.webshop.shop import TAGGERS, Shop, open_shop
from mage_envs.games.webshop.store import Catalogue

OWN = [
    {
        "asin": "B000000001",
        "instruction": "red flats in size 6, please",
        "attributes": ["non slip"],
        "options": ["red", "6"],
        "price_upper": 30,
    },
    {
        "asin": "B00000000B",
        "instruction": "mint tea",
        "attributes": ["caffeine free"],
        "split": "val",
        "options": {"flavor name": "mint"},
    },
]


@pytest.fixture
def own_file(tmp_path):
    path = tmp_path / "goals.json"
    path.write_text(json.dumps(OWN))
    return path


def test_all_ids_of_a_split(shop):
    for split, count in shop.splits.items():
        ids = list(shop.goal_ids(split))
        assert len(set(ids)) == count
        assert all(shop.goal(goal_id).split == split for goal_id in ids)
    assert sum(shop.splits.values()) == len(shop)
    with pytest.raises(ValueError, match="split='dev' has no synthetic goals"):
        shop.goal_ids("dev")


# -- one's own goals -----------------------------------------------------------------------------------------------


def test_a_goal_is_found_without_a_copy_of_the_table(shop, monkeypatch):
    catalogue = Catalogue(shop.catalogue.folder)
    ends = catalogue.table("goals.synthetic.ends")
    many = np.concatenate([ends, np.full(100_000, ends[-1], ends.dtype)])
    monkeypatch.setattr(catalogue, "table", lambda name: many)
    goals = StoredGoals(catalogue, "synthetic", 0)
    tracemalloc.start()
    goals_found = [goals.at(number) for number in range(int(ends[-1]))]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert goals_found == [shop.goal_at(number) for number in range(int(ends[-1]))]
    assert peak < 500_000  # the table takes 800,000 bytes


def test_own_goals_are_played(data, own_file, rng):
    game = WebShop(data=data, goals=own_file)
    state = game.initial_state(rng)
    assert (state.task_id, state.category) == ("B000000001-o0", "train")
    assert "red flats in size 6, please [SEP] Search" in state.observation(0)
    for action in ("search[alba flats]", "click[b000000001]", "click[red]", "click[6]", "click[buy now]"):
        state = state.after(action)
    assert state.returns == (1.0,)
    assert WebShop("val", data=data, goals=str(own_file)).shop.goal("B00000000B-o1").price_upper == 1_000_000


def test_own_goals_of_the_built_in_catalogue(tmp_path):
    built_in_shop = WebShop(size="tiny").shop
    goal = next(built_in_shop.goals("train"))
    entry = {"asin": goal.asin, "instruction": "buy it", "attributes": list(goal.attributes)}
    path = tmp_path / "mine.json"
    path.write_text(json.dumps([entry]))
    shop = WebShop(size="tiny", goals=path).shop
    assert (shop.kind, len(shop), dict(shop.splits)) == ("own", 1, {"train": 1})
    assert [
        goal.id for goal in shop.goals_of(built_in_shop.catalogue.product(built_in_shop.catalogue.find(goal.asin)))
    ] == [f"{goal.asin}-o0"]


def test_own_goals_have_a_fingerprint_of_their_own(shop):
    two_goals, one_goal = shop.with_goals(OWN), shop.with_goals(OWN[:1])
    assert len({shop.fingerprint, two_goals.fingerprint, one_goal.fingerprint}) == 3
    assert two_goals.fingerprint == shop.with_goals(OWN).fingerprint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"asin": "B0NOTHERE0"}, "Own goal 0 is for 'B0NOTHERE0', which this catalogue does not have"),
        ({"asin": None}, "Own goal 0 must have 'asin' and 'instruction'"),
        ({"instruction": ""}, "must have 'asin' and"),
        ({"attributes": []}, "must have at least one attribute"),
        ({"attributes": "red"}, "must have 'attributes' as a list"),
        ({"options": [1]}, "must have 'options' as a list of strings"),
        ({"price": 3}, "has the unknown field 'price'"),
        ({"price_upper": "30"}, "'price_upper' as a positive number"),
        ({"price_upper": float("nan")}, "'price_upper' as a positive number"),
        ({"price_upper": True}, "'price_upper' as a positive number"),
        ({"options": {"color": ["red"]}}, "must have 'options'"),
    ],
)
def test_bad_own_goals(shop, change, message):
    with pytest.raises(ValueError, match=message):
        shop.with_goals([OWN[0] | change])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read as a file of own goals"),
        ("{", "cannot be read as a file of own goals"),
        ("{}", "must hold a JSON array"),
        ("[]", "list of own goals is empty"),
        ("[7]", "Own goal 0 must be an object"),
    ],
)
def test_bad_files_of_own_goals(data, tmp_path, content, message):
    path = tmp_path / "goals.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError, match=message):
        WebShop(data=data, goals=path)


# -- the original's draw -------------------------------------------------------------------------------------------


def test_weights_are_those_of_the_original(shop):
    goals = list(shop.goals("all", upstream=True))
    attribute_counts = Counter(name for goal in goals for name in goal.attributes)
    expected = [sum(1 / attribute_counts[name] for name in goal.attributes) / len(goal.attributes) for goal in goals]
    assert len(goals) == len(shop)
    np.testing.assert_allclose(upstream_weights(shop.catalogue, shop.kind), expected)
    assert len(set(np.round(expected, 9))) > 2


def test_people_weigh_the_same(human_shop):
    assert upstream_weights(human_shop.catalogue, human_shop.kind).tolist() == [1.0] * len(human_shop)


def test_the_draw_is_off_by_one_as_in_the_original(data):
    game = WebShop("all", data=data, compat=True)
    ids, weights = list(game.shop.goal_ids("all", upstream=True)), upstream_weights(game.shop.catalogue, game.shop.kind)
    expected = np.concatenate([[0.0], weights[:-1]])
    expected[-1] += weights[-1]
    rng, draw_counts = np.random.default_rng(0), Counter()
    for _ in range(20_000):
        draw_counts[game.initial_state(rng).task_id] += 1
    counts = np.array([draw_counts[goal_id] for goal_id in ids])
    assert counts[0] == 0
    np.testing.assert_allclose(counts / counts.sum(), expected / expected.sum(), atol=0.012)


def test_all_is_a_split_of_the_original_alone(data):
    with pytest.raises(ValueError, match="split='all' has no synthetic goals"):
        WebShop("all", data=data)
    with pytest.raises(ValueError, match="split='all' has no made goals"):
        WebShop("all", size="tiny", compat=True)


# -- other taggers -------------------------------------------------------------------------------------------------


def test_the_original_tagger_must_be_installed(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ImportError, match="spaCy tagger requires spaCy and its model. Install them with: pip install"):
        WebShop(data=data, title_tagger="spacy")
    with pytest.raises(ValueError, match="title_tagger='nltk' is unknown; choose one of: 'builtin', 'spacy'"):
        WebShop(data=data, title_tagger="nltk")


def test_the_shop_scores_with_its_tagger(shop, monkeypatch):
    def none_in_common(title):
        return (title,)

    monkeypatch.setitem(TAGGERS, "none", lambda: none_in_common)
    untagged = Shop(shop.catalogue, "synthetic", title_tagger="none")
    goal = next(shop.goals("train"))
    bought = shop.catalogue.product(shop.search("tea")[0])
    assert untagged.score(bought, goal, {}).r_type == 0.0
    goal_product = shop.catalogue.product(shop.catalogue.find(goal.asin))
    assert untagged.score(goal_product, goal, {}).r_type == shop.score(goal_product, goal, {}).r_type == 1.0
    assert compare_taggers(shop, nouns, 100) == (100, 0, 0.0)
    comparison = compare_taggers(shop, none_in_common, 100)
    assert comparison.differing > 10
    assert 0.0 < comparison.highest <= 1.0


def test_commands_that_describe(data, capsys, monkeypatch):
    shop = WebShop(data=data).shop
    assert main(["doctor", f"webshop:{shop.catalogue.folder}", "--json"]) == 0
    facts = {row["part"]: row["finding"] for row in json.loads(capsys.readouterr().out)}
    assert facts["products"] == "23"
    assert facts["synthetic goals"].startswith(f"{len(shop)} (")
    assert facts["synthetic goals"].endswith(f"fingerprint {shop.fingerprint}")
    monkeypatch.setitem(sys.modules, "spacy", None)
    assert main(["doctor", "webshop:tiny", "--json"]) == 0
    facts = {row["part"]: row["finding"] for row in json.loads(capsys.readouterr().out)}
    assert (facts["products"], facts["made goals"][:5]) == ("100", "200 (")
    assert "requires spaCy and its model" in facts["spaCy's tagger"]
    none_in_common = lambda title: ("x",)  # noqa: E731
    monkeypatch.setattr("mage_envs.games.webshop.data_check.spacy_nouns", lambda: none_in_common)
    assert main(["doctor", "webshop:tiny"]) == 0
    assert "of 2000 purchases score differently, with a highest score of" in capsys.readouterr().out


# -- earlier pages ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pages", "actions", "expected"),
    [
        (0, 0, "2"),
        (1, 0, "1 2"),
        (0, 1, "b 2"),
        (1, 1, "1 b 2"),
        (2, 1, "0 1 b 2"),
        (1, 2, "a 1 b 2"),
        (9, 9, "0 a 1 b 2"),
    ],
)
def test_earlier_pages_and_actions(data, rng, pages, actions, expected):
    game = WebShop(data=data, num_prev_obs=pages, num_prev_actions=actions)
    action_names = {"a": "search[tea]", "b": "click[next >]"}
    plain, state = (each_game.task_state("B000000001-s0", rng) for each_game in (WebShop(data=data), game))
    texts = [plain.observation(0)]
    for action in action_names.values():
        plain, state = plain.after(action), state.after(action)
        texts.append(plain.observation(0))
    names = {"0": texts[0], "1": texts[1], "2": texts[2], **action_names}
    assert state.observation(0) == " [SEP] ".join(names[name] for name in expected.split())
    with pytest.raises(IllegalAction):
        state.after("nonsense")
    assert state.observation(0) == " [SEP] ".join(names[name] for name in expected.split())
    assert game.task_state("B000000001-s0", rng).observation(0) == texts[0]


@pytest.mark.parametrize("options", [{"num_prev_obs": -1}, {"num_prev_actions": True}, {"num_prev_obs": 101}])
def test_bad_counts_of_earlier_pages(data, options):
    with pytest.raises(ValueError, match=r"num_prev_\w+=.* must be a whole number from 0 to 100"):
        WebShop(data=data, **options)


def test_shops_are_shared(data):
    folder = WebShop(data=data).shop.catalogue.folder
    assert open_shop(folder, "human", 0) is open_shop(folder, "human", 0)
