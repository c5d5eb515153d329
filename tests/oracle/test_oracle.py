"""What the library says of sixty small logs, it said before: all verbs, words exactly, numbers to rounding.

Where this fails and nothing should have changed, `python tests/oracle` shows what has: write the outputs of a
checkout before the change and of one after it, and compare. Where something should have changed, `keep` makes
the fingerprints anew, and the commit says what moved and why.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from oracle.asked import VERBS, outputs
from oracle.fingerprint import Fingerprint, blotted, first_difference, largest_change
from oracle.logs import CASES, case_of

KEPT = Path(__file__).with_name("kept.json")


@cache
def kept() -> dict[str, dict[str, Any]]:
    return json.loads(KEPT.read_text())


@pytest.mark.parametrize("name", CASES)
def test_all_that_is_said_was_said_before(name: str) -> None:
    said = json.loads(json.dumps(outputs(case_of(name))))
    moved = {}
    for verb, tree in said.items():
        before = Fingerprint(
            **{**kept()[name][verb], "projections": tuple(kept()[name][verb]["projections"])}
        )
        difference = Fingerprint.of(tree).differs(before)
        if difference is not None:
            moved[verb] = difference
    assert not moved


def test_every_case_and_verb_is_kept_and_says_something() -> None:
    assert list(kept()) == list(CASES)
    assert all(list(prints) == list(VERBS) for prints in kept().values())
    for verb in VERBS:
        assert len({prints[verb]["words"] for prints in kept().values()}) > 40, verb
        has_numbers = sum(prints[verb]["numbers"] > 0 for prints in kept().values())
        assert verb == "doctor" or has_numbers > 40, verb  # an error has none


TREE = {"value": 1.25, "words": "about 1,234.5 of -3e-7", "rows": [1.0, math.nan, None], "count": 3}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"value": 1.25 * (1 + 1e-8)}, "numbers"),
        ({"rows": [1.0 + 1e-8, math.nan, None]}, "numbers"),
        ({"rows": [math.nan, 1.0, None]}, "words"),
        ({"rows": [1.0, math.nan]}, "words"),
        ({"words": "about 1,234.5 off -3e-7"}, "words"),
        ({"count": 4}, "words"),
        ({"value": "1.25"}, "words"),
    ],
)
def test_a_fingerprint_sees_every_change(change: dict[str, Any], found: str) -> None:
    before, after = Fingerprint.of(TREE), Fingerprint.of(TREE | change)
    difference = after.differs(before)
    assert difference is not None
    assert difference.startswith(found)
    assert first_difference(TREE, TREE | change) is not None


def test_rounding_and_digits_in_words_are_no_change() -> None:
    after = TREE | {"value": 1.25 * (1 + 1e-15), "words": "about 1,234.6 of -4e-7"}
    assert Fingerprint.of(after).differs(Fingerprint.of(TREE)) is None
    assert blotted("x1 3.5% (2, -1e-3) n=40") == "x1 #% (#, #) n=#"


def test_the_first_difference_names_the_place() -> None:
    after = json.loads(json.dumps(TREE))
    assert first_difference(json.loads(json.dumps(TREE)), after) is None
    after["rows"][0] = 1.0 + 1e-12
    assert first_difference(TREE, after) == "/rows/0\n  - 1.0\n  + 1.000000000001"
    assert largest_change(TREE, after) == pytest.approx(1e-12, rel=1e-3)
