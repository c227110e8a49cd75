"""The text of every page in every mode. The expected texts are the original's for the same products."""

import json
from html.parser import HTMLParser

import pytest

from mage_envs.games.webshop.pages import MODES
from tests.games.webshop.test_session import FIND, OPEN

JUNO = ("search[juno bold quoted pumps]", "click[b00000000a]")


def says(session, mode="text", shows_score=False):
    return MODES[mode](session, shows_score)


@pytest.fixture
def instruction(shop):
    """The instruction of the goal that `visit` starts with."""
    return shop.goal("B000000001-s0").instruction


def test_index(visit, instruction):
    assert says(visit()) == f"WebShop [SEP] Instruction: [SEP] {instruction} [SEP] Search"
    assert says(visit(), "text_rich") == f"WebShop\nInstruction: \n{instruction}\n[button] Search [button_]\n"
    assert says(visit(), "url") == "http://127.0.0.1:3000/session"


def test_results(visit, instruction):
    session = visit("search[chai tea bags]")
    total = len(session.results)
    text = says(session)
    assert text.startswith(
        f"Instruction: [SEP] {instruction} [SEP] Back to Search [SEP] Page 1 (Total results: {total}) [SEP] Next > "
        "[SEP] B00000000D [SEP] Clove Chai Tea Bags [SEP] $4.25 [SEP] "
    )
    session.play("click[next >]")
    assert says(session) == (
        f"Instruction: [SEP] {instruction} [SEP] Back to Search [SEP] Page 2 (Total results: {total}) [SEP] < Prev "
        "[SEP] Next >"
    )
    assert says(session, "url") == "http://127.0.0.1:3000/search_results/session/chai+tea+bags/2"


def test_a_product(visit, instruction):
    session = visit(FIND, OPEN)
    expected = (
        f"Instruction: [SEP] {instruction} [SEP] Back to Search [SEP] < Prev [SEP] color [SEP] royal blue [SEP] red "
        "[SEP] black | white [SEP] size [SEP] 6 [SEP] 7 [SEP] 8.5 [SEP] Alba Canvas Ballet Flats Shoes for Women [SEP] "
        "Price: $24.5 [SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
    )
    assert says(session) == expected
    session.play("click[red]")
    assert says(session) == expected
    address = "http://127.0.0.1:3000/item_page/session/B000000001/alba+canvas+ballet+flats/1/"
    assert says(session, "url") == address + '{"color": "red"}'


def test_sub_pages(visit, instruction):
    header = f"Instruction: [SEP] {instruction} [SEP] Back to Search [SEP] < Prev"
    session = visit(FIND, OPEN, "click[6]", "click[description]")
    assert says(session) == f"{header} [SEP] Light flats with a machine washable upper."
    address = "http://127.0.0.1:3000/item_sub_page/session/B000000001/alba+canvas+ballet+flats/1/Description/"
    assert says(session, "url") == address + "{'size': '6'}"
    assert says(visit(FIND, OPEN, "click[features]")) == f"{header} [SEP] Rubber sole [SEP] Non slip"
    assert says(visit(FIND, OPEN, "click[reviews]")) == header
    attributes_page = visit(FIND, OPEN, "click[attributes]", shows_attributes=True)
    assert says(attributes_page) == (
        f"{header} [SEP] rubber sole [SEP] machine wash [SEP] arch support [SEP] fashion [SEP] women's shoes [SEP] "
        "Clothing › Women › Shoes › Flats"
    )


def test_blank_texts(visit, instruction):
    """Blanks with a line break vanish with their node; blanks alone and empty bullets leave an empty segment."""
    header = f"Instruction: [SEP] {instruction} [SEP] Back to Search [SEP] < Prev"
    assert says(visit(*JUNO, "click[features]")) == f"{header} [SEP]  [SEP]  [SEP] Last <point>"
    assert says(visit(*JUNO, "click[description]")) == f"{header} [SEP] Line one\nline two & more"
    empty = visit("search[borea suede loafers]", "click[b000000002]", "click[description]")
    assert says(empty) == header


def test_rich_text_marks_what_was_clicked(visit, instruction):
    session = visit(*JUNO, "click[it's <red>]")
    assert says(session, "text_rich") == (
        "You have clicked it's <red>.\n"
        f"Instruction:\n{instruction}\n[button] Back to Search [button_]\n[button] < Prev [button_]\ncolor\n"
        "  [clicked button] it's <red> [clicked button_]\n"
        '  [button] a "b" [button_]\n  [button] é blue [button_]\n'
        'Juno <b>Bold</b> & "Quoted" Pumps\nPrice: $24.5\nRating: N.A.\n[button] Description [button_]\n'
        "[button] Features [button_]\n[button] Reviews [button_]\n[button] Buy Now [button_]\n"
    )
    # JSON in the URL escapes these two, so the original does not see that they were chosen.
    for value in ('a "b"', "é blue"):
        assert "clicked" not in says(visit(*JUNO, f"click[{value}]"), "text_rich")
    # A quoted word of the query counts as chosen.
    assert "You have clicked red.\n" in says(visit('search[alba "red" flats]', OPEN), "text_rich")


def test_rich_text_marks_visited_products(visit):
    session = visit(FIND)
    assert "\n\n[button] B000000001 [button_]\nAlba Canvas" in says(session, "text_rich")
    session.play(OPEN)
    session.play("click[< prev]")
    assert "\n\n[clicked button] B000000001 [clicked button_]\nAlba Canvas" in says(session, "text_rich")


def test_several_chosen_options_are_listed_last_first(visit):
    session = visit(FIND, OPEN, "click[7]", "click[red]")
    assert says(session, "text_rich").startswith("You have clicked 7.\nYou have clicked red.\nInstruction:\n")


def test_the_end(visit):
    session = visit(FIND, OPEN, "click[6]", "click[black | white]", "click[buy now]")
    assert says(session) == "Thank you for shopping with us!"
    assert session.score.total == pytest.approx(4 / 5)
    assert says(session, shows_score=True) == (
        "Thank you for shopping with us! [SEP] Your code: [SEP] None [SEP] (Paste it in your MTurk interface.) [SEP] "
        "Purchased [SEP] asin [SEP] B000000001 [SEP] options [SEP] "
        '{"color": "black | white", "size": "6"} [SEP] attrs [SEP] None [SEP] category [SEP] None [SEP] query [SEP] '
        "None [SEP] product category [SEP] None [SEP] Target [SEP] asin [SEP] options [SEP] attrs [SEP] price upper "
        "[SEP] instuction text [SEP] category [SEP] product category [SEP] query [SEP] Goal [SEP] None [SEP] Reward "
        "[SEP] Your score (min 0.0, max 1.0) [SEP] 0.8 [SEP] Reward Details [SEP] None"
    )
    assert "\nGoal \nNone\nReward\n" in says(session, "text_rich", shows_score=True)
    assert says(session, "url").endswith("/done/session/B000000001/{'size': '6', 'color': 'black | white'}")


class Reader(HTMLParser):
    """The visible texts of a page, white space treated as the original's reader treats it."""

    def __init__(self):
        super().__init__()
        self.texts, self.hidden = [], 0

    def handle_starttag(self, tag, attrs):
        self.hidden += tag == "head"

    def handle_endtag(self, tag):
        self.hidden -= tag == "head"

    def handle_data(self, data):
        blank = not data.strip(" \n\t\f\r")
        if not self.hidden and not (blank and "\n" in data):
            self.texts.append(data.strip())


WAYS = [
    (),
    (FIND,),
    ("search[shoes desk tea cream cable]", "click[next >]"),
    (FIND, OPEN, "click[red]"),
    JUNO,
    (*JUNO, "click[features]"),
    (*JUNO, "click[description]"),
    (*JUNO, "click[reviews]"),
    (*JUNO, "click[attributes]"),
]


@pytest.mark.parametrize("way", WAYS)
def test_html_has_the_texts(visit, way):
    session = visit(*way, shows_attributes=True)
    reader = Reader()
    reader.feed(says(session, "html"))
    reader.close()
    assert " [SEP] ".join(reader.texts) == says(session)


def test_html_has_what_tools_look_for_and_hides_nothing(visit):
    assert 'id="search_input"' in says(visit(), "html")
    assert '<a class="product-link" href="#B000000001">B000000001</a>' in says(visit(FIND), "html")
    product = says(visit(*JUNO, 'click[a "b"]'), "html")
    assert 'name="color" value="a &quot;b&quot;" checked>' in product
    assert 'class="btn">Buy Now</button>' in product
    last_page = visit(FIND, OPEN, "click[buy now]")
    assert '<h3 id="reward">' in says(last_page, "html", shows_score=True)
    for page in (says(visit(FIND), "html"), product, says(last_page, "html")):
        for secret in ("<!--", "women's shoes", "machine wash", "reward"):
            assert secret not in page.replace(visit().goal.instruction, "")


def test_dict(visit, instruction):
    assert json.loads(says(visit(), "dict")) == {"page": "index", "instruction": instruction}
    results = json.loads(says(visit(FIND), "dict"))
    assert results["products"][0] == {
        "asin": "B000000001",
        "title": "Alba Canvas Ballet Flats Shoes for Women",
        "price": "$24.5",
        "visited": False,
    }
    product = json.loads(says(visit(*JUNO, "click[é blue]"), "dict"))
    assert product["chosen"] == {"color": "é blue"}
    assert product["options"] == {"color": ["it's <red>", 'a "b"', "é blue"]}
    assert json.loads(says(visit(*JUNO, "click[features]"), "dict"))["texts"] == ["Last <point>"]
    last_page = visit(FIND, OPEN, "click[buy now]")
    assert "score" not in json.loads(says(last_page, "dict"))
    assert json.loads(says(last_page, "dict", shows_score=True))["score"] == pytest.approx(0.6)
