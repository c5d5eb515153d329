"""Text never becomes markup."""

from __future__ import annotations

import html
import json
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from deadweight.log.labels import visible
from deadweight.report.markup import data_block, element


class Collector(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(markup: str) -> Collector:
    collector = Collector()
    collector.feed(markup)
    collector.close()
    return collector


# What HTML itself replaces on reading is not ours to keep: see `visible`.
TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=40)


@given(TEXT, TEXT)
def test_any_text_comes_back_as_text(words: str, value: str) -> None:
    found = parsed(element("p", words, title=value))
    assert found.tags == [("p", {"title": value})]
    assert found.text == words


@given(st.text(max_size=40))
def test_any_label_becomes_printable_text_on_one_line(label: str) -> None:
    shown = visible(label)
    assert all(sign.isprintable() for sign in shown)
    shown.encode("utf-8")


@given(st.dictionaries(st.text(max_size=10), st.text(max_size=20)))
def test_a_data_block_never_closes_its_element(value: dict[str, str]) -> None:
    found = data_block("data", {**value, "trap": "</script><!--<script>"})
    body = found.removeprefix('<script type="application/json" id="data">').removesuffix("</script>")
    assert "<" not in body
    assert json.loads(html.unescape(body)) == {**value, "trap": "</script><!--<script>"}


def test_attributes_that_are_none_or_false_are_left_out_and_true_stands_alone() -> None:
    found = element("input", hidden=True, disabled=False, value=None, aria_label="a")
    assert found == '<input hidden aria-label="a"/>'
