"""The page as a document: what it says, how it is built, and that it asks for nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from evaluations import HOSTILE, ODD, hostile, lift, many_states

import deadweight as dw
from deadweight.log.labels import visible
from deadweight.report import render

VOID = {"meta", "link", "input", "line", "path", "circle", "rect", "polygon", "polyline"}


class Node:
    def __init__(self, tag: str, attributes: dict[str, str | None], parent: Node | None) -> None:
        self.tag, self.attributes, self.parent = tag, attributes, parent
        self.children: list[Node] = []
        self.text = ""

    def all(self, *tags: str) -> list[Node]:
        found = [node for child in self.children for node in child.all(*tags)]
        return [self, *found] if self.tag in tags else found

    def words(self) -> str:
        return self.text + "".join(child.words() for child in self.children)


class Tree(HTMLParser):
    """A strict reader: every element that is opened must be closed in its turn."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.root = self.at = Node("root", {}, None)
        self.ids: list[str] = []
        self.feed(text)
        self.close()
        assert self.at is self.root

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, dict(attrs), self.at)
        self.at.children.append(node)
        if node.attributes.get("id"):
            self.ids.append(str(node.attributes["id"]))
        if tag not in VOID:
            self.at = node

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.at.tag == tag
        assert self.at.parent is not None
        self.at = self.at.parent

    def handle_data(self, data: str) -> None:
        self.at.text += data


MADE = {"lift": lift, "hostile": hostile, **ODD}


@cache
def page(name: str) -> str:
    return render(MADE[name]())


@pytest.fixture(params=MADE)
def text(request: pytest.FixtureRequest) -> str:
    return page(request.param)


def test_the_document_is_well_formed_and_its_ids_are_unique(text: str) -> None:
    tree = Tree(text)
    assert len(tree.ids) == len(set(tree.ids))
    referred = {
        name
        for node in tree.root.all("svg", "section", "label")
        for key in ("aria-labelledby", "aria-describedby", "for")
        for name in (node.attributes.get(key) or "").split()
    }
    links = {(link.attributes["href"] or "").removeprefix("#") for link in tree.root.all("a")}
    assert referred | links <= set(tree.ids)


def test_nothing_is_asked_for(text: str) -> None:
    tree = Tree(text)
    outside = re.compile(r"https?:|//[a-z]|@import|url\(", re.IGNORECASE)
    for node in tree.root.all("style", "script"):
        assert not outside.search(node.text)
    for tag in ("img", "iframe", "object", "embed", "base", "form", "video", "audio", "use", "image"):
        assert not tree.root.all(tag)
    for node in tree.root.all("a", "link", "script", "svg", "input"):
        assert "src" not in node.attributes
        assert (node.attributes.get("href") or "#").startswith(("#", "data:"))


def test_the_policy_knows_the_style_and_the_script_by_hash(text: str) -> None:
    tree = Tree(text)
    policy = next(
        str(node.attributes["content"])
        for node in tree.root.all("meta")
        if node.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    blocks = [node.text for node in tree.root.all("style", "script") if node.attributes.get("type") is None]
    assert len(blocks) == 2
    for block in blocks:
        digest = base64.b64encode(hashlib.sha256(block.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    # Attributes that hold style or script are forbidden by this policy, and would be silently ignored.
    assert not re.search(
        r"<[^>]* (style|on\w+)=", re.sub(r"<(style|script).*?</\1>|\"[^\"]*\"", "", text, flags=re.S)
    )


def test_drawings_and_tables_speak(text: str) -> None:
    tree = Tree(text)
    for svg in tree.root.all("svg"):
        if svg.attributes.get("aria-hidden") == "true":
            continue
        assert svg.attributes["role"] in ("img", "group")
        assert svg.all("desc")[0].words().strip()
        assert svg.attributes.get("aria-label") or svg.all("title")[0].words().strip()
    for table in tree.root.all("table"):
        assert table.all("caption")[0].words().strip()
        assert all(cell.attributes.get("scope") in ("row", "col") for cell in table.all("th"))
        assert all(cell.words().strip() for cell in table.all("th"))


def test_headings_are_in_order(text: str) -> None:
    levels = [int(node.tag[1]) for node in Tree(text).root.all("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_no_number_is_shown_as_nan(text: str) -> None:
    sections = Tree(text).root.all("section")
    # The conventions quote the rule of the drop as it is.
    words = " ".join(node.words() for node in sections if node.attributes["id"] != "conventions")
    assert not re.search(r"\b(nan|None)\b", words)
    assert not re.search(r'="[^"<>]*\b(nan|inf)\b', text)


def test_the_verdict_comes_first() -> None:
    tree = Tree(page("lift"))
    sections = [str(node.attributes["id"]) for node in tree.root.all("section")]
    assert sections == ["verdict", "estimates", "path", "weights", "states", "data", "conventions", "citing"]
    assert "Better" in tree.root.all("h2")[0].words()


def test_hostile_labels_are_text_everywhere() -> None:
    tree = Tree(page("hostile"))
    states = next(node for node in tree.root.all("table") if node.attributes.get("id") == "states-table")
    rows = {cell.words() for cell in states.all("tbody")[0].all("th")}
    chips = {node.words() for node in tree.root.all("li") if "data-entry" in node.attributes}
    shown = {visible(label) for label in HOSTILE}
    assert rows == shown
    assert chips <= shown
    assert len(tree.root.all("script")) == 2
    assert not tree.root.all("img")


def test_a_hostile_title_is_text() -> None:
    title = "</title><script>window.hacked = 1</script>"
    tree = Tree(render(ODD["equal policies"](), title))
    assert tree.root.all("title")[0].words() == title
    assert tree.root.all("h1")[0].words() == title


def test_a_path_of_another_rule_says_so() -> None:
    assert "do not drop by this rule" in page("a drop by rule")
    assert "do not drop by this rule" not in page("lift")


def test_states_are_capped_and_the_page_stays_small() -> None:
    text = render(many_states())
    states = next(
        node for node in Tree(text).root.all("table") if node.attributes.get("id") == "states-table"
    )
    assert len(states.all("tbody")[0].all("tr")) == 200
    assert "100 more are left out" in states.all("caption")[0].words()
    assert len(text.encode()) < 150_000


def test_a_blend_drops_nothing_and_figures_show_what_a_row_drops() -> None:
    words = Tree(render(lift())).root.words()
    assert "states dropped as in C-WSPDIS" in words
    assert re.search(r"visited states, \d+ dropped in C-WSPDIS", words)
    assert "States droppednone in BLEND; in C-WSPDIS automatic choice" in words.replace("\n", "")
    assert "inside BLEND" not in words


def test_a_drop_by_hand_is_the_same_everywhere() -> None:
    problem = dw.domains.stochastic_lift(11)
    found = dw.evaluate(problem.sample(300, 0), problem.pi_e, problem.pi_b, drop=[1, 3])
    words = Tree(render(found)).root.words()
    assert "may drop other states" not in words
    assert "choose levels of their own" not in words
