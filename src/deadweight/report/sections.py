"""The sections of the report on an evaluation below its verdict: each draws on the evaluation's own data."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import groupby

from deadweight.answers.candidates import WORDS
from deadweight.diagnostics.background import DataCard, WeightsContent
from deadweight.diagnostics.dropping import PATH_OF, FeaturesContent, PathContent, Piece
from deadweight.diagnostics.states import StateReport
from deadweight.diagnostics.weight_report import WeightReport
from deadweight.log.labels import visible
from deadweight.report.charts import PathChart, calibration_chart, distribution, ess_by_step, forest, scatter
from deadweight.report.markup import (
    Format,
    Markup,
    between,
    circle,
    count,
    data_block,
    diamond,
    element,
    facts,
    figure,
    key_entry,
    line,
    note,
    row,
    scrolling,
    section,
    share,
    signed,
    significant,
    square,
    table,
    values_like,
)
from deadweight.results.estimate import MODEL_ONLY, Blend, Estimate, remarks
from deadweight.results.evaluation import Evaluation

KINDS = ("baseline", "mix", "plain", "state-based", "corrected")
FOREST_KEY = (
    key_entry(square(14, 8, "marker plain"), "plain"),
    key_entry(circle(14, 8, 6, "marker dropping"), "state-based"),
    key_entry(diamond(14, 8, 7, "marker dropping"), "state-based, corrected"),
    key_entry(line(2, 8, 26, 8, "sampling dropping"), "sampling error"),
    key_entry(line(2, 8, 26, 8, "whisker dropping"), "with bias allowance"),
    key_entry(line(14, 0, 14, 16, "reference"), "average return of the log"),
)
TRUTH = key_entry(line(14, 0, 14, 16, "truth"), "the truth (simulated)")
NOTHING = element("span", "–", aria_hidden="true")


def estimates_section(
    evaluation: Evaluation, form: Format, reward: str | None = None, truth: float | None = None
) -> Markup:
    """Plain and state-based estimates of each family side by side, and what their flags mean."""
    families, headline = in_families(evaluation), evaluation.headline
    axis = "value of an episode" if reward is None else visible(reward)
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
            forest(families, headline, form, truth, axis),
            "Marks are estimates, lines their intervals.",
            FOREST_KEY if truth is None else (*FOREST_KEY, TRUTH),
        ),
        _estimates_table(families, headline, evaluation.background.confidence, form),
        note(
            "An interval may be centred beside its estimate: it is then centred on the estimate with its "
            "bias removed. Arrow heads mark intervals that go on outside the drawing."
        ),
        None if headline.blend is None else _blend_table(headline.name, headline.blend, form),
        _remarks(families),
    )


def in_families(evaluation: Evaluation) -> list[list[Estimate]]:
    """Baselines first, then the families in the order of the evaluation, plain before state-based."""
    estimates = list(evaluation.estimates.values())
    families = list(dict.fromkeys(estimate.about.family for estimate in estimates))

    def place(estimate: Estimate) -> tuple[bool, int, int]:
        about = estimate.about
        return about.kind != "baseline", families.index(about.family), KINDS.index(about.kind)

    def family(estimate: Estimate) -> bool | str:
        return estimate.about.kind == "baseline" or estimate.about.family

    return [list(group) for _, group in groupby(sorted(estimates, key=place), key=family)]


def _estimates_table(
    families: list[list[Estimate]], headline: Estimate, confidence: float, form: Format
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
    bodies = [[_estimate_row(each, each is headline, form) for each in family] for family in families]
    return table("Estimates in numbers", headings, bodies, class_="wide")


def _estimate_row(each: Estimate, first: bool, form: Format) -> Markup:
    name = [element("b", each.name), " ", element("small", each.about.words)]
    if each.flags:
        name += [" ", element("small", "⚑ " + ", ".join(each.flags), class_="flag")]
    cells = [
        form(each.value),
        NOTHING if each.interval is None else between(*each.interval, form),
        NOTHING if each.sampling_error is None else form(each.sampling_error),
        NOTHING if not each.bias_allowance else form(each.bias_allowance),
        NOTHING if each.ess is None else each.ess_words or count(each.ess),
        share(each.dropped_share) if each.dropped_share else NOTHING,
    ]
    return row(name, cells, class_="first" if first else None)


def _blend_table(name: str, blend: Blend, form: Format) -> Markup:
    """The estimates behind a mix, from the one that assumes least to the one that varies least."""
    headings = ("Estimate", "Value", "Standard error", "Share", "Contradicts by")
    rows = [
        row(
            [element("b", part.name), " ", element("small", WORDS[part.name])],
            [
                form(part.value),
                form(part.std_error),
                share(part.share) if part.share else NOTHING,
                form(part.beyond) if part.beyond else NOTHING,
            ],
        )
        for part in blend.parts
    ]
    return element(
        "div",
        element("h3", f"What {name} is made of"),
        table(f"Estimates in {name}", headings, [rows]),
        note(
            "Estimates further up assume less, those further down vary less. Those without a share are there "
            f"to object only. The interval of {name} allows for the largest number in the last column: by "
            "how much an estimate differs beyond noise. That is half as much for a model that is shown to be "
            "wrong, and all of the distance to LIN where LIN alone is not sure which policy is better.",
        ),
    )


def _remarks(families: list[list[Estimate]]) -> Markup | None:
    flagged = remarks((estimate.about, estimate.flags) for family in families for estimate in family)
    if not flagged:
        return None
    entries = [
        element("li", element("b", flag), f" ({', '.join(names)}): {sentence}")
        for flag, names, sentence in flagged
    ]
    return element("div", element("h3", "Remarks"), element("ul", entries), class_="remarks")


# --- The path

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


def path_section(evaluation: Evaluation, form: Format) -> Markup:
    """The path of dropping with a slider that moves all that depends on the level, or why there is none."""
    path, heading = evaluation.background.path, "How much to drop"
    if path is None:
        return section("path", heading, element("p", evaluation.background.without_states))
    things, automatic = path.dropped_things, evaluation.conventions.get("drop") == "auto"
    chart, texts = PathChart(path), [_texts(path, k, form) for k in range(len(path.levels))]
    spoken = [_spoken(path, said) for said in texts]
    moves = [
        {"text": said, "at": chart.places(k), "spoken": spoken[k]} for k, said in enumerate(texts)
    ]  # of each level: the texts and places that the script puts in
    return section(
        "path",
        heading,
        element(
            "p",
            f"From left to right more and more {things} are dropped, those first in which the action matters "
            "least. The spread shrinks and the bias grows; the level chosen for "
            f"{path.name} balances the two.",
            OTHER_LEVELS if automatic else "",
            MODEL_LEFT if path.is_model_only(len(path.levels) - 1) else "",
        ),
        None if automatic else note(OTHER_RULE),
        figure(
            chart.draw(form),
            f"Above: {path.name} with its {100 * path.confidence:.3g} % interval; below: how many episodes "
            f"effectively count, as more and more {things} are dropped.",
            PATH_KEY,
            _slider(path, spoken[path.chosen]),
        ),
        _outputs(path, texts[path.chosen]),
        None if path.of_steps else _dropped(path),
        data_block("path-data", {"chosen": path.chosen, "levels": moves}),
    )


def _slider(path: PathContent, spoken: str) -> Markup:
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
        aria_valuetext=spoken,
    )
    label = element("label", "Level of dropping", for_="level")
    back = element("button", "Back to the chosen level", type="button", id="level-back", hidden=True)
    return element("div", label, slider, back, class_="slider", id="level-box")


def _outputs(path: PathContent, texts: dict[str, str]) -> Markup:
    things = path.dropped_things.capitalize()
    entries = [
        element(
            "div", element("dt", words.format(things=things)), element("dd", texts[name], id=f"path-{name}")
        )
        for name, words in OUTPUTS
    ]
    heading = element("h3", texts["level"], id="path-level")
    return element("div", heading, element("dl", entries, class_="numbers small"), class_="outputs")


def _dropped(path: PathContent) -> Markup:
    """The list of states that can be dropped, each hidden until the level reaches it."""
    names = [
        element("li", label, data_entry=entry, hidden=entry > path.chosen) for label, entry in path.states
    ]
    return element(
        "div",
        element("h3", "States dropped at this level"),
        scrolling("States dropped", element("ul", names, class_="chips", id="path-states"), "low"),
        element("p", _more(path, path.chosen), class_="note", id="path-more"),
    )


def _texts(path: PathContent, k: int, form: Format) -> dict[str, str]:
    level = path.levels[k]
    chosen = ", the chosen one" if k == path.chosen else ""
    return {
        "level": f"Level {k} of {len(path.levels) - 1}{chosen}",
        "dropped": count(level.n_dropped),
        "corrected": form(level.corrected),
        "interval": between(*level.interval, form),
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


def _spoken(path: PathContent, texts: dict[str, str]) -> str:
    said = "{level}: {dropped} {things} dropped, corrected estimate {corrected}, interval {interval}, "
    said += "bias {bias}, effective episodes {ess}"
    return said.format(things=path.dropped_things, **texts)


# --- The states

COLUMNS = ("State", "Visits", "Variance cost", "Bias", "Q gap", "χ²", "Dropped")
STATES_KEY = (
    key_entry(diamond(14, 8, 7, "marker dropped"), "dropped"),
    key_entry(circle(14, 8, 6, "marker kept"), "kept"),
)


def states_section(evaluation: Evaluation) -> Markup:
    """The scatter of states by cost and bias with a table that sorts, or why there is none."""
    background = evaluation.background
    states = background.states
    if states is None and background.features is not None:
        return features_section(background.features)
    if states is None:
        return section("states", "States", element("p", background.without_states))
    where = "" if evaluation.headline.blend is None else f" in {PATH_OF}"
    left_out, dropped = background.data.visited_states - len(states), count(background.n_dropped)
    caption = f"{count(len(states))} visited states, {dropped} dropped{where}; the headings sort"
    if left_out:
        caption = (
            f"The {count(len(states))} visited states with the highest variance cost; {count(left_out)} more "
            f"are left out. {dropped} are dropped{where} in all. The headings sort"
        )
    return section(
        "states",
        "States",
        element(
            "p",
            "A state is worth dropping when its weights cost much variance (to the right) and dropping it "
            "moves the estimate little (near the line at zero).",
        ),
        figure(
            scatter(states),
            "Each mark is a state; its name is beside it where there is room, and appears on hovering.",
            STATES_KEY,
            element("div", id="scatter-label", class_="label", hidden=True, aria_hidden="true"),
        ),
        _states_table(states, caption),
        note(
            "Variance cost: how much smaller the logarithm of the weights' second moment is without this "
            "state. Bias: contribution to what the uncorrected estimate is off. Q gap: the most that one "
            "action can matter there. χ²: the variance of a single ratio."
        ),
    )


def _states_table(states: StateReport, caption: str) -> Markup:
    headings = [
        element(
            "th",
            element("button", name, element("span", aria_hidden="true", class_="order"), type="button"),
            scope="col",
            aria_sort="descending" if name == "Variance cost" else None,
        )
        for name in COLUMNS
    ]
    numbers = ("variance_cost", "bias", "gap", "chi2")
    rows = [
        row(
            state["state"],
            [
                count(state["visits"]),
                *(significant(state[name]) for name in numbers),
                "yes" if state["dropped"] else "no",
            ],
        )
        for state in states.rows()
    ]
    listed = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", headings)),
        element("tbody", rows),
        id="states-table",
    )
    said = element("p", id="states-sorted", class_="hidden", role="status")
    return element("div", scrolling("Table of states", listed, "scroll tall"), said)


# --- Features

GAPS = ("Range", "Steps", "Mean Q gap", "Dropped")
ALONE = "If it alone changed"
DEPENDENCE = (
    f'"{ALONE}": the mean gap of all steps if this one feature had the median of the range and the '
    "others were what they are (partial dependence). Where it goes another way than the mean gap, "
    "features that change along with this one are behind the mean."
)
MOST_Z = 3.0


def features_section(features: FeaturesContent) -> Markup:
    """The section where states have no labels: steps dropped, gaps by feature, calibration of pi_b."""
    parts: list[Markup] = []
    if features.gaps:
        # The last column is there where the model can be asked.
        alone = features.gaps[0][2][0].alone is not None
        words = (
            "Q gap: the most that one action can matter at a step, in the model. Ranges hold about as many "
            "steps each; the features that explain most of the gap come first. "
        )
        parts = [
            element("h3", "Where it matters what is done, by feature"),
            note(words + (DEPENDENCE if alone else "")),
            *(_gap_table(*feature) for feature in features.gaps),
        ]
    return section("states", "States", element("p", str(features)), parts, _calibrated(features))


def _gap_table(name: str, explained: float, pieces: list[Piece]) -> Markup:
    form = values_like(max(piece.gap for piece in pieces))
    rows = []
    for piece in pieces:
        cells = [count(piece.steps), form(piece.gap), share(piece.dropped)]
        cells += [] if piece.alone is None else [form(piece.alone)]
        rows.append(row(f"{significant(piece.low)} to {significant(piece.high)}", cells))
    headings = GAPS if pieces[0].alone is None else (*GAPS, ALONE)
    return table(f"{name}: explains {share(explained)} of the gap's variance", headings, [rows])


def _calibrated(features: FeaturesContent) -> list[Markup]:
    """A sentence on z, and the calibration chart."""
    side = "above" if features.z > 0 else "below"
    so = ", which may be chance."
    if abs(features.z) > MOST_Z:
        so = ": the probabilities of the old policy are wrong, and so are all weights."
    said = (
        f"Ratios of the right old policy have mean 1. Here their mean is {abs(features.z):.1f} standard "
        f"errors {side} that{so}"
    )
    axes = (
        "Each mark is an action in a tenth of the steps, with two standard errors. Right "
        "probabilities lie on the line."
    )
    drawn = [figure(calibration_chart(features.calibration), axes)] if features.calibration else []
    return [element("h3", "Are the probabilities of the old policy right?"), element("p", said), *drawn]


# --- The weights

# Above it a mean of such weights should not be trusted.
HEAVY_TAIL = 0.7


def weights_section(evaluation: Evaluation) -> Markup:
    """Effective sample sizes by step and in all, and the distribution of the weights."""
    background, headline = evaluation.background, evaluation.headline
    weights = background.weights
    after = len(weights.reports) > 1
    things = "states" if background.features is None else "steps"
    key = [key_entry(line(2, 8, 26, 8, "line before"), "all weights kept")]
    if after:
        # A blend drops nothing, and has the drop of the estimator of the path beside it.
        dropping = headline.name if headline.blend is None else PATH_OF
        key.append(key_entry(line(2, 8, 26, 8, "line after"), f"{things} dropped as in {dropping}"))
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


def _weights_table(weights: WeightsContent, things: str) -> Markup:
    headings = ["Of the weights", "All weights kept", f"{things.capitalize()} dropped"]
    rows: list[tuple[str, Callable[[WeightReport], object]]] = [
        ("Effective episodes", lambda report: f"{count(report.ess)} of {count(report.n_episodes)}"),
        ("Share of the largest weight", lambda report: share(report.largest_share)),
        ("Pareto k", _tail),
        ("Mean weight", _mean),
        ("Episodes of weight zero", lambda report: share(report.zero_weight_share)),
    ]
    body = [row(name, [say(report) for report in weights.reports]) for name, say in rows]
    return table("Weights in numbers", headings[: len(weights.reports) + 1], [body])


def _mean(report: WeightReport) -> object:
    if not math.isfinite(report.mean_z):
        return significant(report.mean)
    away = f"{significant(abs(report.mean_z), 2)} standard errors from 1"
    return [significant(report.mean), element("small", away)]


def _tail(report: WeightReport) -> str:
    if math.isnan(report.pareto_k):
        return "no tail to speak of"
    too_heavy = ", too heavy" if report.pareto_k > HEAVY_TAIL else ""
    return f"{report.pareto_k:.2f}".replace("-", "−") + too_heavy


# --- The data


def data_section(evaluation: Evaluation, reward: str | None = None) -> Markup:
    """The data card, and a table of the old policies where there are several."""
    card = evaluation.background.data
    pairs = [*([] if reward is None else [("Reward", visible(reward))]), *_card(card)]
    return section("data", "The data", facts(pairs), *([_old_policies(card)] if card.old_policies else []))


def _card(card: DataCard) -> list[tuple[str, object]]:
    shortest, _, median, _, longest = card.lengths
    low, lower, middle, upper, high = (significant(value, 4) for value in card.returns)
    states = ("States", f"{count(card.visited_states)} visited of {count(card.states)}")
    # How much of a policy is known; a probability may be logged, counted or computed.
    known = {True: "probabilities of the logged actions", False: "probabilities of all actions"}
    pairs: list[tuple[str, object]] = [
        ("Episodes", count(card.episodes)),
        ("Steps", count(card.steps)),
        ("Length of an episode", f"{count(shortest)} to {count(longest)}, median {significant(median)}"),
        ("Features", ", ".join(map(visible, card.features))) if card.features else states,
        ("Actions", count(card.actions)),
        ("Truncated episodes", share(card.truncated_share)),
        ("Old policy", known[card.behaviour_logged]),
        ("New policy", known[card.evaluation_logged]),
        ("Rewards", "{} to {}".format(*(significant(reward, 4) for reward in card.rewards))),
        ("Returns", f"{low} to {high}, mean {significant(card.mean_return, 4)}"),
        ("Middle half of the returns", f"{lower} to {upper}, median {middle}"),
    ]
    if card.unseen_mass is not None:
        pairs.append(("Probability of the new policy on actions never logged there", share(card.unseen_mass)))
    return pairs


def _old_policies(card: DataCard) -> Markup:
    rows = [
        row(
            visible(str(old.id)),
            [
                f"{count(old.episodes)} ({share(old.share)})",
                significant(old.mean_return, 4),
                count(old.ess),
                old.drift or "nothing found",
            ],
        )
        for old in card.old_policies
    ]
    headings = ["Old policy", "Episodes", "Mean return", "Effective episodes", "Did it meet another world?"]
    return table("The old policies that made the log", headings, [rows])
