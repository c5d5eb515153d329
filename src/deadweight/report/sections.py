"""All estimates: the forest plot, the table behind it, and what the flags mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import groupby

from deadweight.answers.candidates import WORDS
from deadweight.diagnostics.background import DataCard, StateRow, StatesContent, WeightsContent, WeightSummary
from deadweight.diagnostics.features import FeaturesContent, Piece
from deadweight.diagnostics.headline_path import PATH_OF, Level, PathContent
from deadweight.log.labels import visible
from deadweight.report.charts import PathChart, calibration_chart, distribution, ess_by_step, forest, scatter
from deadweight.report.content import Content, EstimateRow
from deadweight.report.opening import facts, figure, key_entry, note, row, scrolling, section, table
from deadweight.report.svg import (
    Format,
    Markup,
    between,
    count,
    data_block,
    diamond,
    element,
    line,
    share,
    signed,
    significant,
    values_like,
)
from deadweight.results.estimate import MODEL_ONLY, Blend, Part
from deadweight.results.flags import remarks

# --------------------------------------------------------------------------------------------------------
# What a mix of estimates is made of: every estimate behind it, its share, and whether it contradicts.


def blend_table(name: str, mix: Blend, form: Format) -> Markup:
    """The estimates behind a mix, from the one that assumes least to the one that varies least."""
    headings = ("Estimate", "Value", "Standard error", "Share", "Contradicts by")
    return element(
        "div",
        element("h3", f"What {name} is made of"),
        table(
            f"Estimates in {name}",
            headings,
            [[_mix_row(part, WORDS[part.name], form) for part in mix.parts]],
        ),
        note(
            "Estimates further up assume less, those further down vary less. Those without a share are there "
            f"to object only. The interval of {name} allows for the largest number in the last column: by "
            "how much an estimate differs beyond noise. That is half as much for a model that is shown to be "
            "wrong, and all of the distance to LIN where LIN alone is not sure which policy is better.",
        ),
    )


def _mix_row(part: Part, words: str, form: Format) -> Markup:
    cells = [
        form(part.value),
        form(part.std_error),
        share(part.share) if part.share else NOTHING,
        form(part.beyond) if part.beyond else NOTHING,
    ]
    return row([element("b", part.name), " ", element("small", words)], cells)


# --------------------------------------------------------------------------------------------------------

FOREST_KEY = (
    key_entry(element("rect", x=8.5, y=2.5, width=11, height=11, class_="marker plain"), "plain"),
    key_entry(element("circle", cx=14, cy=8, r=6, class_="marker dropping"), "state-based"),
    key_entry(diamond(14, 8, 7, "marker dropping"), "state-based, corrected"),
    key_entry(line(2, 8, 26, 8, "sampling dropping"), "sampling error"),
    key_entry(line(2, 8, 26, 8, "whisker dropping"), "with bias allowance"),
    key_entry(line(14, 0, 14, 16, "reference"), "average return of the log"),
)
TRUTH = key_entry(line(14, 0, 14, 16, "truth"), "the truth (simulated)")
NOTHING = element("span", "–", aria_hidden="true")


def estimates_section(content: Content, form: Format) -> Markup:
    """Plain and state-based estimates of each family side by side."""
    rows, headline = content.estimates, content.headline
    return section(
        "estimates",
        "Estimates",
        element(
            "p",
            "Each line estimates what the new policy would earn in an episode. State-based estimators drop "
            "the weights of states that a rule takes for negligible; ",
            element("strong", headline.name),
            " is the one behind the verdict.",
        ),
        figure(
            forest(rows, headline, form, content.truth, _axis(content.reward)),
            "Marks are estimates, lines their intervals.",
            FOREST_KEY if content.truth is None else (*FOREST_KEY, TRUTH),
        ),
        _estimates_table(rows, headline, content.confidence, form),
        note(
            "An interval may be centred beside its estimate: it is then centred on the estimate with its "
            "bias removed. Arrow heads mark intervals that go on outside the drawing."
        ),
        None if headline.blend is None else blend_table(headline.name, headline.blend, form),
        _remarks(rows),
    )


def _axis(reward: str | None) -> str:
    return "value of an episode" if reward is None else visible(reward)


def _estimates_table(
    rows: list[EstimateRow], headline: EstimateRow, confidence: float, form: Format
) -> Markup:
    headings = (
        "Estimator",
        "Value",
        f"{100 * confidence:.3g} % interval",
        "Sampling ±",
        "Bias ±",
        "Effective episodes",
        "Steps dropped",
    )
    bodies = [
        [_estimate_row(each, each is headline, form) for each in group]
        for _, group in groupby(rows, key=lambda each: each.kind == "baseline" or each.family)
    ]
    return table("Estimates in numbers", headings, bodies, class_="wide")


def _estimate_row(each: EstimateRow, first: bool, form: Format) -> Markup:
    name = [element("b", each.name), " ", element("small", each.words)]
    if each.flags:
        name += [" ", element("small", "⚑ " + ", ".join(each.flags), class_="flag")]
    cells = [
        form(each.value),
        NOTHING if each.lower is None or each.upper is None else between(each.lower, each.upper, form),
        NOTHING if each.sampling_error is None else form(each.sampling_error),
        NOTHING if not each.bias_allowance else form(each.bias_allowance),
        NOTHING if each.ess is None else each.ess_words or count(each.ess),
        share(each.dropped_share) if each.dropped_share else NOTHING,
    ]
    return row(name, cells, class_="first" if first else None)


def _remarks(rows: list[EstimateRow]) -> Markup | None:
    found = remarks((each.about, each.flags) for each in rows)
    if not found:
        return None
    entries = [
        element("li", element("b", flag), f" ({', '.join(names)}): {said}") for flag, names, said in found
    ]
    return element("div", element("h3", "Remarks"), element("ul", entries), class_="remarks")


# --------------------------------------------------------------------------------------------------------
# The path of dropping, with a slider that moves everything that depends on the level.

OUTPUTS = (
    ("dropped", "{things} dropped"),
    ("corrected", "Corrected estimate"),
    ("interval", "Interval"),
    ("estimate", "Uncorrected estimate"),
    ("bias", "Estimated bias"),
    ("sampling", "Sampling error ±"),
    ("allowance", "Bias allowance ±"),
    ("ess", "Effective episodes"),
    ("epsilon", "Largest Q gap dropped"),
)
OTHER_RULE = (
    "The estimates above do not drop by this rule (see Conventions); the path shows what the automatic "
    "choice would say."
)
OTHER_LEVELS = " Other estimates choose levels of their own."
MODEL_LEFT = " At the far right no weight is left: there the model alone says what the new policy changes."
PATH_KEY = (
    key_entry(line(2, 8, 26, 8, "line after"), "corrected estimate"),
    key_entry(line(2, 8, 26, 8, "line before"), "uncorrected estimate"),
    key_entry(element("rect", x=2, y=2, width=24, height=12, class_="band inner"), "sampling error"),
    key_entry(element("rect", x=2, y=2, width=24, height=12, class_="band whole"), "with bias allowance"),
    key_entry(line(14, 0, 14, 16, "reference chosen"), "chosen level"),
)


def path_section(content: Content, form: Format) -> Markup:
    """The drawing, the slider and what it moves; a sentence where there is no path."""
    path = content.path
    if path is None:
        return section("path", "How much to drop", element("p", content.without_states))
    things = path.dropped_things
    return section(
        "path",
        "How much to drop",
        element(
            "p",
            f"From left to right more and more {things} are dropped, those first in which the action matters "
            "least. The spread shrinks and the bias grows; the level chosen for "
            f"{path.name} balances the two.",
            OTHER_LEVELS if content.drop_rule == "auto" else "",
            MODEL_LEFT if path.is_model_only(len(path.levels) - 1) else "",
        ),
        None if content.drop_rule == "auto" else note(OTHER_RULE),
        figure(
            PathChart(path).draw(form),
            f"Above: {path.name} with its {100 * path.confidence:.3g} % interval; below: how many episodes "
            f"effectively count, as more and more {things} are dropped.",
            PATH_KEY,
            _slider(path, form),
        ),
        _outputs(path, form),
        None if path.of_steps else _dropped(path),
        data_block("path-data", {"chosen": path.chosen, "levels": _moves(path, form)}),
    )


def _slider(path: PathContent, form: Format) -> Markup:
    last = len(path.levels) - 1
    slider = element(
        "input",
        type="range",
        id="level",
        min=0,
        max=last,
        value=path.chosen,
        step=1,
        autocomplete="off",
        disabled=last == 0,
        aria_valuetext=_spoken(path, path.chosen, form),
    )
    back = element("button", "Back to the chosen level", type="button", id="level-back", hidden=True)
    return element(
        "div",
        element("label", "Level of dropping", for_="level"),
        slider,
        back,
        class_="slider",
        id="level-box",
    )


def _outputs(path: PathContent, form: Format) -> Markup:
    said, things = _texts(path, path.chosen, form), path.dropped_things.capitalize()
    entries = [
        element(
            "div", element("dt", words.format(things=things)), element("dd", said[name], id=f"path-{name}")
        )
        for name, words in OUTPUTS
    ]
    heading = element("h3", said["level"], id="path-level")
    return element("div", heading, element("dl", entries, class_="numbers small"), class_="outputs")


def _dropped(path: PathContent) -> Markup:
    """Every state that can be dropped, hidden until the level reaches it."""
    names = [
        element("li", label, data_entry=entry, hidden=entry > path.chosen) for label, entry in path.states
    ]
    return element(
        "div",
        element("h3", "States dropped at this level"),
        scrolling("States dropped", element("ul", names, class_="chips", id="path-states"), "low"),
        element("p", _texts(path, path.chosen, significant)["more"], class_="note", id="path-more"),
    )


def _moves(path: PathContent, form: Format) -> list[dict[str, object]]:
    """For each level the texts and places that the script puts in."""
    chart = PathChart(path)
    return [
        {"text": _texts(path, k, form), "at": chart.places(k), "spoken": _spoken(path, k, form)}
        for k in range(len(path.levels))
    ]


def _texts(path: PathContent, k: int, form: Format) -> dict[str, str]:
    level = path.levels[k]
    chosen = ", the chosen one" if k == path.chosen else ""
    return {
        "level": f"Level {k} of {len(path.levels) - 1}{chosen}",
        "dropped": count(level.n_dropped),
        "corrected": form(level.corrected),
        "interval": _interval(level, form),
        "estimate": form(level.estimate),
        "bias": signed(form)(level.bias),
        "sampling": form(level.sampling_error),
        "allowance": form(level.bias_allowance),
        "ess": MODEL_ONLY if path.is_model_only(k) else f"{count(level.ess)} of {count(path.n_episodes)}",
        "epsilon": significant(level.epsilon),
        **({} if path.of_steps else {"more": _more(path, k)}),
    }


def _more(path: PathContent, k: int) -> str:
    dropped, listed = path.levels[k].n_dropped, sum(entry <= k for _, entry in path.states)
    if dropped == 0:
        return "No state: every weight is kept, as in the plain estimator."
    return f"And {count(dropped - listed)} more." if dropped > listed else ""


def _interval(level: Level, form: Format) -> str:
    return between(*level.interval, form)


def _spoken(path: PathContent, k: int, form: Format) -> str:
    level, texts = path.levels[k], _texts(path, k, form)
    return (
        f"{texts['level']}: {texts['dropped']} {path.dropped_things} dropped, corrected estimate "
        f"{form(level.corrected)}, interval {_interval(level, form)}, bias {signed(form)(level.bias)}, "
        f"effective episodes {texts['ess']}"
    )


# --------------------------------------------------------------------------------------------------------
# Features: which steps are dropped, in words; where actions matter; whether the old policy is right.

GAPS = ("Range", "Steps", "Mean Q gap", "Dropped")
ALONE = "If it alone changed"
MOST_Z = 3.0


def features_section(features: FeaturesContent) -> Markup:
    """What stands in place of the list of states where states have no labels."""
    return section(
        "states",
        "States",
        element("p", str(features)),
        _where_it_matters(features),
        _calibrated(features),
    )


def _where_it_matters(features: FeaturesContent) -> list[Markup]:
    """The gap along the features that explain most of it."""
    if not features.gaps:
        return []
    words = (
        "Q gap: the most that one action can matter at a step, in the model. Ranges hold about as many "
        "steps each; the features that explain most of the gap come first. " + _dependence(features)
    )
    tables = [_gap_table(name, explained, pieces) for name, explained, pieces in features.gaps]
    return [element("h3", "Where it matters what is done, by feature"), note(words), *tables]


def _gap_table(name: str, explained: float, pieces: list[Piece]) -> Markup:
    rows = []
    form = values_like(max(piece.gap for piece in pieces))
    for piece in pieces:
        cells = [count(piece.steps), form(piece.gap), share(piece.dropped)]
        cells += [] if piece.alone is None else [form(piece.alone)]
        rows.append(row(f"{significant(piece.low)} to {significant(piece.high)}", cells))
    heads = GAPS if pieces[0].alone is None else (*GAPS, ALONE)
    return table(f"{name}: explains {share(explained)} of the gap's variance", heads, [rows])


def _dependence(features: FeaturesContent) -> str:
    """What the last column says, where the model can be asked."""
    if not features.gaps or features.gaps[0][2][0].alone is None:
        return ""
    return (
        f'"{ALONE}": the mean gap of all steps if this one feature had the median of the range and the '
        "others were what they are (partial dependence). Where it goes another way than the mean gap, "
        "features that change along with this one are behind the mean."
    )


def _calibrated(features: FeaturesContent) -> list[Markup]:
    """The picture of predicted against observed shares of actions, and what z says."""
    wrong = abs(features.z) > MOST_Z
    said = (
        f"Ratios of the right old policy have mean 1. Here their mean is {abs(features.z):.1f} standard "
        f"errors {'above' if features.z > 0 else 'below'} that"
        + (
            ": the probabilities of the old policy are wrong, and so are all weights."
            if wrong
            else ", which may be chance."
        )
    )
    parts = [element("h3", "Are the probabilities of the old policy right?"), element("p", said)]
    if features.calibration:
        parts.append(
            figure(
                calibration_chart(features.calibration),
                "Each mark is an action in a tenth of the steps, with two standard errors. Right "
                "probabilities lie on the line.",
            )
        )
    return parts


# --------------------------------------------------------------------------------------------------------
# The states: a scatter of cost against bias, and a table that sorts.

COLUMNS = ("State", "Visits", "Variance cost", "Bias", "Q gap", "χ²", "Dropped")
STATES_KEY = (
    key_entry(diamond(14, 8, 7, "marker dropped"), "dropped"),
    key_entry(element("circle", cx=14, cy=8, r=6, class_="marker kept"), "kept"),
)


def states_section(content: Content) -> Markup:
    """Which states cost what; a sentence where that cannot be said."""
    states = content.states
    if states is None and content.features is not None:
        return features_section(content.features)
    if states is None:
        return section("states", "States", element("p", content.without_states))
    return section(
        "states",
        "States",
        element(
            "p",
            "A state is worth dropping when its weights cost much variance (to the right) and dropping it "
            "moves the estimate little (near the line at zero).",
        ),
        figure(
            scatter(states.rows),
            "Each mark is a state; its name is beside it where there is room, and appears on hovering.",
            STATES_KEY,
            element("div", id="scatter-label", class_="label", hidden=True, aria_hidden="true"),
        ),
        _states_table(states, "" if content.headline.blend is None else f" in {PATH_OF}"),
        note(
            "Variance cost: how much smaller the logarithm of the weights' second moment is without this "
            "state. Bias: contribution to what the uncorrected estimate is off. Q gap: the most that one "
            "action can matter there. χ²: the variance of a single ratio."
        ),
    )


def _states_table(states: StatesContent, where: str) -> Markup:
    headings = [
        element(
            "th",
            element("button", name, element("span", aria_hidden="true", class_="order"), type="button"),
            scope="col",
            aria_sort="descending" if name == "Variance cost" else None,
        )
        for name in COLUMNS
    ]
    body = element("tbody", [_state_row(each) for each in states.rows])
    shown = count(len(states.rows))
    caption = f"{shown} visited states, {count(states.n_dropped)} dropped{where}; the headings sort"
    if states.left_out:
        caption = (
            f"The {shown} visited states with the highest variance cost; {count(states.left_out)} more are "
            f"left out. {count(states.n_dropped)} are dropped{where} in all. The headings sort"
        )
    made = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", headings)),
        body,
        id="states-table",
    )
    said = element("p", id="states-sorted", class_="hidden", role="status")
    return element("div", scrolling("Table of states", made, "scroll tall"), said)


def _state_row(each: StateRow) -> Markup:
    cells = [
        count(each.visits),
        significant(each.variance_cost),
        significant(each.bias),
        significant(each.gap),
        significant(each.chi2),
        "yes" if each.dropped else "no",
    ]
    return row(each.label, cells)


# --------------------------------------------------------------------------------------------------------
# The weights: how many episodes carry the estimate, at each step and in all.

# Above it a mean of such weights should not be trusted.
HEAVY_TAIL = 0.7


def weights_section(content: Content) -> Markup:
    """Effective episodes by step, the distribution of weights, and their numbers."""
    weights = content.weights
    after = weights.after is not None
    things = "states" if content.features is None else "steps"
    key = [key_entry(line(2, 8, 26, 8, "line before"), "all weights kept")]
    if after:
        key.append(key_entry(line(2, 8, 26, 8, "line after"), f"{things} dropped as in {_dropping(content)}"))
    return section(
        "weights",
        "How many episodes count",
        element(
            "p",
            "Weights make the log look as if the new policy had acted. The more they differ, the fewer "
            "episodes effectively carry the estimate.",
            "" if after else " Nothing is dropped here, so there is one set of weights.",
        ),
        figure(ess_by_step(weights), "Effective episodes, by step of the episode", key),
        figure(distribution(weights), "Episodes, by the weight that they end with", key),
        _weights_table(weights, things),
        note(
            f"Pareto k describes the heaviness of the tail: above {HEAVY_TAIL:g} a few episodes that are not "
            "in this log could change the estimate. If the logged probabilities are right, weights have "
            "a mean of 1 but for chance, as far as the fitted model lets them vary. Nothing is said of that "
            "where a mean of 0 would be no surprise."
        ),
    )


def _dropping(content: Content) -> str:
    """Whose drop it is: a blend drops nothing, and has that of the estimator of the path beside it."""
    return content.headline.name if content.headline.blend is None else PATH_OF


def _weights_table(weights: WeightsContent, things: str) -> Markup:
    columns = [weights.before] if weights.after is None else [weights.before, weights.after]
    headings = ["", "All weights kept", f"{things.capitalize()} dropped"][: len(columns) + 1]
    rows: list[tuple[str, Callable[[WeightSummary], object]]] = [
        ("Effective episodes", lambda each: f"{count(each.ess)} of {count(weights.n_episodes)}"),
        ("Share of the largest weight", lambda each: share(each.largest_share)),
        ("Pareto k", _tail),
        ("Mean weight", _mean),
        ("Episodes of weight zero", lambda each: share(each.zero_share)),
    ]
    body = [row(name, [say(each) for each in columns]) for name, say in rows]
    return table("Weights in numbers", [heading or "Of the weights" for heading in headings], [body])


def _mean(each: WeightSummary) -> object:
    if not math.isfinite(each.mean_z):
        return significant(each.mean)
    away = f"{significant(abs(each.mean_z), 2)} standard errors from 1"
    return [significant(each.mean), element("small", away)]


def _tail(each: WeightSummary) -> str:
    if math.isnan(each.pareto_k):
        return "no tail to speak of"
    return f"{each.pareto_k:.2f}".replace("-", "−") + (", too heavy" if each.pareto_k > HEAVY_TAIL else "")


# --------------------------------------------------------------------------------------------------------
# What stands behind the numbers: the data card, the conventions, and how to cite.

PAPER = (
    "David M. Bossens and Philip S. Thomas (2024). Low Variance Off-policy Evaluation with State-based "
    "Importance Sampling. IEEE Conference on Artificial Intelligence (CAI)."
)


def data_section(content: Content) -> Markup:
    """What was logged."""
    card = content.data
    old = [_old_policies(card)] if card.old_policies else []
    return section("data", "The data", facts(_reward(content.reward) + _card(card)), *old)


def _old_policies(card: DataCard) -> Markup:
    """What each of several old policies has made of the log."""
    rows = [
        row(
            visible(str(one.id)),
            [
                f"{count(one.episodes)} ({share(one.share)})",
                significant(one.mean_return, 4),
                count(one.ess),
                one.drift or "nothing found",
            ],
        )
        for one in card.old_policies
    ]
    headings = ["Old policy", "Episodes", "Mean return", "Effective episodes", "Did it meet another world?"]
    return table("The old policies that made the log", headings, [rows])


def conventions_section(content: Content) -> Markup:
    """Choices that change the numbers."""
    return section("conventions", "Conventions", facts(content.conventions))


def citing_section(content: Content) -> Markup:
    """The paper, and the program with its version."""
    year = content.made_on[:4]
    return section(
        "citing",
        "How to cite",
        element("p", "The method:"),
        element("p", PAPER, class_="citation"),
        element("p", "The program:"),
        element(
            "p",
            f"The deadweight developers ({year}). deadweight {content.version}: off-policy evaluation "
            "without the dead weight.",
            class_="citation",
        ),
    )


def _reward(reward: str | None) -> list[tuple[str, object]]:
    return [] if reward is None else [("Reward", visible(reward))]


def _described(card: DataCard) -> tuple[str, object]:
    """What a state is: a label, or some numbers."""
    if card.features:
        return "Features", ", ".join(map(visible, card.features))
    return "States", f"{count(card.visited_states)} visited of {count(card.states)}"


def _known(logged_only: bool) -> str:
    """How much of a policy is known; a probability may be logged, counted or computed."""
    return "probabilities of the logged actions" if logged_only else "probabilities of all actions"


def _card(card: DataCard) -> list[tuple[str, object]]:
    shortest, _, median, _, longest = card.lengths
    low, lower, middle, upper, high = (significant(value, 4) for value in card.returns)
    found: list[tuple[str, object]] = [
        ("Episodes", count(card.episodes)),
        ("Steps", count(card.steps)),
        ("Length of an episode", f"{count(shortest)} to {count(longest)}, median {significant(median)}"),
        _described(card),
        ("Actions", count(card.actions)),
        ("Truncated episodes", share(card.truncated_share)),
        ("Old policy", _known(card.behaviour_logged)),
        ("New policy", _known(card.evaluation_logged)),
        ("Rewards", "{} to {}".format(*(significant(reward, 4) for reward in card.rewards))),
        ("Returns", f"{low} to {high}, mean {significant(card.mean_return, 4)}"),
        ("Middle half of the returns", f"{lower} to {upper}, median {middle}"),
    ]
    if card.unseen_mass is not None:
        found.append(("Probability of the new policy on actions never logged there", share(card.unseen_mass)))
    return found
