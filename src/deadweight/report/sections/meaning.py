"""What this means: the verdict in one paragraph, for somebody who has never heard of a weight."""

from __future__ import annotations

import math

from deadweight.report.content import Content
from deadweight.report.numbers import Format, signed
from deadweight.report.sections.opening import range_says, the_log, unit


def meaning(content: Content, form: Format) -> list[str]:
    """Sentences: what was asked, the best guess, and how sure it is."""
    verdict, baseline = content.verdict, content.baseline
    said = [
        f"{the_log(content.data.episodes)} How would the new policy have done in its place?",
        f"The best guess is {form(content.headline.centre)} for each episode, against {form(baseline.value)} "
        f"for the {baseline.name}{unit(content.reward)}.",
    ]
    lower, upper = verdict.interval
    if all(map(math.isfinite, (lower, upper))):
        say = signed(form)
        said.append(
            f"The difference lies between {say(lower)} and {say(upper)}, by a method that is meant to be "
            f"right {100 * content.confidence:.3g} times in 100; {range_says(verdict, 'the new policy')}"
        )
    if (verdict.answer == "cannot tell" or verdict.doubts) and verdict.next_step:
        said.append(verdict.next_step)
    return said
