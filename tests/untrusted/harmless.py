"""Texts that attack a page, and whether a page holds nothing but the site's own tags."""

import re

ATTACKS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'><svg onload=alert(1)>",
    "</title></textarea></style><script>alert(1)</script>",
    "${alert(1)}`{{ 7777 * 1111 }}{% raw %}",
    "javascript:alert(1)",
    "<meta http-equiv=refresh content=0;url=javascript:alert(1)>",
)
"""Each would run a script, or change the page, where its text were taken for markup."""

ALLOWED = {
    "a",
    "article",
    "aside",
    "body",
    "br",
    "button",
    "caption",
    "code",
    "dd",
    "details",
    "div",
    "dl",
    "dt",
    "fieldset",
    "form",
    "g",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "head",
    "header",
    "html",
    "input",
    "label",
    "legend",
    "li",
    "link",
    "main",
    "meta",
    "meter",
    "nav",
    "ol",
    "option",
    "p",
    "path",
    "pre",
    "rect",
    "section",
    "select",
    "span",
    "strong",
    "summary",
    "svg",
    "table",
    "tbody",
    "td",
    "textarea",
    "th",
    "thead",
    "title",
    "tr",
    "ul",
    "!DOCTYPE",
}


def assert_harmless(page: str) -> None:
    """The page has the site's own tags and attributes only."""
    for tag, attributes in re.findall(r"<(!?[a-zA-Z][\w-]*)((?:[^<>\"]|\"[^\"]*\")*)>", page):
        assert tag in ALLOWED, tag
        names = re.findall(r"([\w-]+)=\"", re.sub(r"(=\")[^\"]*(\")", r"\1\2", attributes))
        assert not [name for name in names if name.startswith("on") or name in ("style", "srcdoc", "formaction")]
    assert "<script" not in page.lower()
    assert str(7777 * 1111) not in page, "a template in a text was filled in"
