"""Estimate: a number with what is needed to trust it, as data.

Its parts are here as well: what the estimator is (`About`), the interval, of a mix the estimates that it is
made of (`Blend`, see `deadweight.answers.blend`), and what flags say: codes of what a reader must know, with
their sentences and what they do to a verdict. A flag of the headline is a reason of the verdict. Those of
`GRAVE` lead the reasons and keep gates closed; `FIRST` says what to do before anybody acts on a verdict that
has a doubt.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from deadweight.results.saved import Result, absent, finite, json_label, saved
from deadweight.results.shown import forest, html_table
from deadweight.tools.arithmetic import ends_in_words
from deadweight.typing import FloatArray

if TYPE_CHECKING:
    from deadweight.answers.model_tests import Misfit

ASK = "Ask for it: pass also=[{!r}]{}."
MODEL_ONLY = "none: model only"
OR_INTERVAL = ", or an interval"
SIX_DIGITS = "{:.6g}".format


@saved
@dataclass(frozen=True)
class Part:
    """An estimate that a mix was made of, or was compared with.

    Attributes:
      name: such as "WDR".
      value: the estimate.
      std_error: its standard error, the noise of its model included; what hardly seen pairs could do is added
        to the mix as a whole.
      share: in the mix; 0 for those that only had a say in its width.
      beyond: what the interval allows for its difference from the mix: as much as is beyond noise, half of
        that for what is shown to be wrong, and all of it for LIN where LIN does not back the mix and for
        cross-fitted WDR in a sparse log.
    """

    name: str
    value: float
    std_error: float
    share: float
    beyond: float


@saved
@dataclass(frozen=True, eq=False)
class Blend:
    """A mix of estimates.

    Attributes:
      value: the estimate.
      std_error: its standard error.
      half_width: of its interval, on its narrower side; infinite where nothing can be said.
      shares: by estimate, summing to 1.
      contradiction: the part of the half-width that is due to estimates which differ, to a bias that they
        share, or to episodes that the log does not have.
      shared_bias: the second of these alone.
      against: the estimate that differs most beyond noise; None where none does.
      baseline_error: half-width of the difference from the mean return that the verdict uses.
      parts: the estimates behind it, from the one that assumes least to the one that varies least, and then
        those that it was only compared with.
      missing: the third of these alone.
      undetectable: the largest error of the model that the log would not have shown; nan where the model
        alone has no share, infinite where nothing checks it.
      skewness: of what each episode does to the mix; nan where there is no telling.
      skewed: by how much the interval is wider below and above than `half_width`.
      baseline_skewed: the same beside `baseline_error`.
    """

    value: float
    std_error: float
    half_width: float
    shares: Mapping[str, float]
    contradiction: float
    shared_bias: float
    against: str | None
    baseline_error: float
    parts: tuple[Part, ...] = ()
    missing: float = 0.0
    undetectable: float = math.nan
    skewness: float = math.nan
    skewed: tuple[float, float] = (0.0, 0.0)
    baseline_skewed: tuple[float, float] = (0.0, 0.0)

    @property
    def half_widths(self) -> tuple[float, float]:
        """Half-widths of its interval, below and above."""
        return self.half_width + self.skewed[0], self.half_width + self.skewed[1]

    @property
    def baseline_half_widths(self) -> tuple[float, float]:
        """Half-widths of its difference from the mean return, below and above."""
        return self.baseline_error + self.baseline_skewed[0], self.baseline_error + self.baseline_skewed[1]


@saved
@dataclass(frozen=True)
class About:
    """The description of an estimator, as far as a table or a verdict needs it.

    Attributes:
      name: such as "WPDIS".
      words: what the name stands for.
      kind: "baseline", "mix", "plain", "state-based" or "corrected".
      family: name of the plain estimator that it belongs to.
      product: weighs by products of ratios.
      naive: the average return of the log, which is no estimate of the evaluation policy.
      contains_correction: holds the correction of a drop inside, as doubly robust estimators do.
      rank: place among the estimators that a verdict may rest on, 0 first; None for the others.
      rank_alone: the same where the model does not fit the log.
    """

    name: str
    words: str
    kind: str
    family: str
    product: bool
    naive: bool
    contains_correction: bool
    rank: int | None
    rank_alone: int | None

    @property
    def known_noise(self) -> bool:
        """Whether influence functions tell all of its noise: a fitted model would be part of it."""
        return self.product and not self.contains_correction


@saved
@dataclass(frozen=True)
class Interval:
    """A confidence interval, and what it is made of.

    Attributes:
      lower, upper: the ends.
      sampling_error, bias_allowance: the two parts of its half-width.
      kind: such as "auto".
      covers: what it holds with its confidence: "V(pi_e)", "V(pi_b)" or, with a drop, "V(mu_D)".
      centre: the best single number: the estimate, with its bias removed for "auto".
      std_error: of the centre, where the interval rests on one.
      disagreement: distance between weights and model that "auto" allows for; None where there was no check.
      resamples: of a bootstrap.
      episodes: how many a bound was made from.
      split: whether the drop was chosen from the other half of the episodes.
      dropped: labels of the states dropped in the bound, where it has a drop of its own.
    """

    lower: float
    upper: float
    sampling_error: float
    bias_allowance: float
    kind: str
    covers: str
    centre: float
    std_error: float | None = None
    disagreement: float | None = None
    resamples: int | None = None
    episodes: int | None = None
    split: bool = False
    dropped: list[Any] = field(default_factory=list)

    @property
    def is_undetermined(self) -> bool:
        """Whether it holds every number: the log does not tell the value."""
        return self.lower == -math.inf and self.upper == math.inf

    @property
    def by_sampling(self) -> tuple[float, float]:
        """The ends by sampling error alone, as far as they lie within the interval.

        The middle of an asymmetric interval is not its centre: without an allowance it is all of it.

        >>> Interval(0.0, 0.75, 0.25, 0.375, "auto", "V(pi_e)", 0.125).by_sampling  # -0.5 cannot be
        (0.0, 0.375)
        """
        if not self.bias_allowance:
            return self.lower, self.upper
        low, high = self.centre - self.sampling_error, self.centre + self.sampling_error
        return min(max(low, self.lower), self.upper), max(min(high, self.upper), self.lower)


@saved
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Estimate(Result):
    """An estimate of the value of the evaluation policy.

    Attributes:
      about: what the estimator is.
      value: the estimate; for `C-` names the corrected one.
      n_episodes: size of the log.
      level: confidence level of the interval.
      bounds: the interval with all its parts; None when none was asked for.
      ess: Kish effective sample size of the final kept weights; None for estimators without products.
      mean_weight_z: distance of the mean weight of whole episodes from 1, in the standard errors that it must
        have by the fitted model; None without products or interval, and where weights vary so much that a
        mean of 0 would be no surprise.
      dropped: labels of the dropped states; `drop_origin` says in words which rule chose them.
      dropped_share: share of the logged steps whose ratio was dropped.
      flags: codes of what a reader must know; `explain()` says them in words.
      paired_std_error: of the distance to the average return of the same episodes, in a table that compares
        with it; None where it is not known.
      model_check: whether the fitted model gives back what the log earned; None where none was checked.
      blend: of BLEND, what it is made of; None for others.
      details: by-products, such as the windows that INCRIS chose.
      std_error: from influence functions, ddof 1; that of DM has what hardly seen pairs could do besides.
      bias: estimated bias of the uncorrected estimate, V(mu_D) - V(pi_e); None if it cannot be estimated.
      ess_steps: (T,) effective sample size at each step; None for estimators without products.
      influence: (n,) centred influence of each episode on the centre of the interval.

    The last four are there only if they were asked for. An interval asks for std_error and bias, and
    `estimate` with an interval for ess_steps as well.

    Example:
      >>> import deadweight as dw
      >>> log = dw.Trajectories.from_episodes([[(0, 0, 1.0)], [(0, 1, 3.0)]])
      >>> est = dw.estimate("WIS", log, [[0.25, 0.75]], [[0.5, 0.5]])
      >>> est.value, round(est.ess, 6), est.flags
      (2.5, 1.6, ('low-ess',))
      >>> print(est.explain())
      Fewer than ten effective episodes carry the weights: a handful of episodes decide the estimate.
    """

    about: About
    value: float
    n_episodes: int
    level: float
    bounds: Interval | None
    ess: float | None
    mean_weight_z: float | None = None
    dropped: list[Any] = field(default_factory=list)
    drop_origin: str = "none"
    dropped_share: float = 0.0
    flags: tuple[str, ...] = ()
    paired_std_error: float | None = None
    model_check: Misfit | None = None
    blend: Blend | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    std_error: float = field(default_factory=absent)
    bias: float | None = field(default_factory=absent)
    ess_steps: FloatArray | None = field(default_factory=absent)
    influence: FloatArray = field(default_factory=absent)

    ASK: ClassVar[Mapping[str, str]] = {
        "std_error": ASK.format("std_error", OR_INTERVAL),
        "bias": ASK.format("bias", OR_INTERVAL),
        "ess_steps": ASK.format("ess_steps", ""),
        "influence": ASK.format("influence", ""),
    }

    @property
    def name(self) -> str:
        """The estimator."""
        return self.about.name

    @property
    def interval(self) -> tuple[float, float] | None:
        """(lower, upper), or None when none was asked for."""
        return None if self.bounds is None else (self.bounds.lower, self.bounds.upper)

    @property
    def sampling_error(self) -> float | None:
        """Half-width of the interval due to sampling."""
        return None if self.bounds is None else self.bounds.sampling_error

    @property
    def bias_allowance(self) -> float | None:
        """Half-width of the interval due to bias: of the drop, and of weights or model where they differ."""
        return None if self.bounds is None else self.bounds.bias_allowance

    @property
    def interval_kind(self) -> str | None:
        """The kind of the interval; None when none was asked for."""
        return None if self.bounds is None else self.bounds.kind

    @property
    def centre(self) -> float:
        """The best single number: the corrected value where the interval is centred on it, else the value."""
        return self.value if self.bounds is None else self.bounds.centre

    @property
    def shares(self) -> Mapping[str, float] | None:
        """The share of each estimate in a blend; None for others."""
        return None if self.blend is None else self.blend.shares

    @property
    def contradiction(self) -> float | None:
        """The most by which an estimate in a blend differs from it beyond noise; None for others."""
        return None if self.blend is None else self.blend.contradiction

    @property
    def undetectable(self) -> float | None:
        """The largest error of the model alone in a blend that the log would not have shown.

        nan where the model alone has no share in it, infinite where nothing checks it; None for others.
        """
        return None if self.blend is None else self.blend.undetectable

    @property
    def ess_words(self) -> str | None:
        """Words in place of the effective sample size where no ratio is left to have one."""
        return MODEL_ONLY if "all-dropped" in self.flags else None

    def explain(self) -> str:
        """The flags in words, one a line."""
        return "\n".join(remark(flag, self.about) for flag in self.flags) or "Nothing to remark."

    def to_dict(self) -> dict[str, Any]:
        """Plain Python values, ready for JSON: what is not known, not finite or was not asked for is None.

        A blend has its shares, its contradiction and what would be undetectable as well.
        """
        record: dict[str, Any] = {
            "value": finite(self.value),
            "std_error": finite(getattr(self, "std_error", None)),
            "interval": None if self.interval is None else [finite(end) for end in self.interval],
            "ess": finite(self.ess),
            "bias": finite(getattr(self, "bias", None)),
            "dropped": [json_label(label) for label in self.dropped],
            "flags": list(self.flags),
        }
        if self.blend is not None:
            shares = {name: finite(share) for name, share in self.blend.shares.items()}
            record.update(shares=shares, contradiction=finite(self.blend.contradiction))
            record.update(undetectable=finite(self.blend.undetectable))
        return record

    def plot(self) -> Any:
        """The estimate and its interval as a matplotlib figure; the thick part is the sampling error."""
        return forest([self], "", None)

    def _repr_html_(self) -> str:
        ends = "" if self.interval is None else ends_in_words(self.interval, SIX_DIGITS)
        ess = "" if self.ess is None else self.ess_words or f"{self.ess:.1f} of {self.n_episodes:,}"
        notes = [] if not self.flags else self.explain().split("\n")
        headings = ("value", f"{self.level:.0%} interval", "ESS", "flags")
        row = (f"{self.value:.6g}", ends, ess, ", ".join(self.flags))
        return html_table(headings, [row], f"{self.name}: {self.about.words}", notes)

    def __repr__(self) -> str:
        text = f"{self.name} = {self.value:.6g}"
        if self.interval is not None:
            text += f", {self.level:.0%} interval {ends_in_words(self.interval, SIX_DIGITS)}"
        if self.ess is not None:
            text += f", ESS {self.ess:.1f} of {self.n_episodes}"
        if self.flags:
            text += f" ({', '.join(self.flags)})"
        return f"Estimate({text})"


# --- Flags

FLAGS = {
    "zero-weights": "All weights were zero in at least one normaliser, which counts as 0: the log hardly "
    "ever does what the new policy would do.",
    "low-ess": "Fewer than ten effective episodes carry the weights: a handful of episodes decide the "
    "estimate.",
    "all-dropped": "Nearly every logged step is dropped: only the ratios of the few others, if any, tell the "
    "new policy from the old one.",
    "none-dropped": "No logged step is dropped: the estimate is the plain estimator.",
    "truncated": "Some episodes were cut before they ended: returns count only what was logged. To see what "
    "the rest may do: --cut-weights auto, --cut-range (cut_weights, cut_bounds in Python).",
    "cut-weighted": "Some episodes were cut before they ended, and rows that were seen stand for what was "
    "cut off: right only if nothing but what those weights look at decided who was cut.",
    "no-support": "The new policy takes actions in visited states where the log has none of them: "
    "their effect cannot be seen in it.",
    "mixed-worlds": "The old policies of this log worked under different conditions: their episodes start "
    "differently, or the same actions in the same states bring something else. Put together they may "
    "show a difference between policies where only the conditions differ.",
    "confounded-model": "The old policy looked at something that the states leave out (a week, a version, a "
    "severity), and it matters: where it was more or less likely to act as it did, something else followed. "
    "A model takes that for an effect of the action.",
    "copies": "More episodes are equal, in all of their states, actions and rewards, than chance allows: "
    "some stand in the log more than once. The interval counts them as different ones, and is too narrow.",
    "behaviour-filled": "An old policy was not given, and was counted from its own episodes: where it was "
    "hardly seen its probabilities are rough.",
    "behaviour-miscalibrated": "The old policy that was given, logged or learnt is not the one that made "
    "this log: it would take actions more, or less, often than was done, by more than chance. Its "
    "probabilities are wrong, and so are weights.",
    "low-ess-undropped": "With all ratios kept fewer than ten effective episodes would be left: nothing in "
    "the log can tell whether the drop is right.",
    "heavy-tail": "A few of the largest weights are so much larger than the rest that the ones which matter "
    "most may not be in the log: the estimate may be off by more than its interval says.",
    "mean-weight": "Its weights must average 1, and they are further away from it than weights of these two "
    "policies can be by chance: the old policy's probabilities are wrong, or the episodes that matter most "
    "are not in the log.",
    "infinite-variance": "In the fitted model its weights have infinite variance: do not trust their "
    "standard error, nor the interval, however long the log is.",
    "late-reward": "All reward comes at the end of episodes of different lengths: weights by step depend "
    "on a handful of long episodes there. WIS weighs whole episodes.",
    "unchecked": "The interval could not be checked against a model, which takes the new policy's "
    "probabilities of all actions and not too many states: it may be too narrow.",
    "model-misfit": "The fitted model does not give back the mean return of the log itself, by more than "
    "chance: do not trust what is based on the model.",
    "model-unproven": "Held against what the log earned, the action values behind it, given or learned, are "
    "wrong or predict nothing: do not trust what is based on them.",
    "missing-weight": "Episodes that the new policy would often have are missing in the log: the weights of "
    "those that it has add up to too little. More than half of the interval's width is for what the missing "
    "ones may hold.",
    "heavy-reward": "A few episodes count for far more than the rest, so that one more of them, or one less, "
    "would move the estimate a lot: the interval is wider on the side where such episodes may be missing.",
    "model-unstable": "The model of the features left the range of possible values and had to be held back "
    "by a stronger penalty: what is based on it is rough.",
    "model-unsettled": "In the fitted model the new policy may go on for ever: the model is solved "
    "over the steps of the longest episode instead.",
    "trained-on-log": "The policy was learnt from this very log, on which it looks better than it is: judge "
    "it on other episodes.",
    "contradicted": "One of the estimates that check it lies further away than its own sampling error: the "
    "interval is wider by that distance.",
    "undetermined": "Its interval is more than a thousand times as wide as the logged returns lie apart, or "
    "without an end: this log does not determine the value.",
    "maybe-clustered": "Episodes that follow one another in the log are alike, by more than chance: several "
    "may belong to one person or site. The interval takes all of them as independent, and is too narrow if "
    "they are not.",
    "drift": "What is earned changes along the log, by more than chance: the answer is about all of that "
    "time together, and what comes next may be different.",
    "overflow": "The product of ratios left the range of floating-point numbers: use a self-normalised (W) "
    "estimator.",
}

GRAVE = (
    "mixed-worlds",
    "confounded-model",
    "copies",
    "mean-weight",
    "behaviour-miscalibrated",
    "model-misfit",
    "model-unstable",
)
"""Flags with which no gate opens: something is wrong with the log or with what was given."""
WITHHOLDING = ("mixed-worlds", "confounded-model", "copies")
"""The grave flags with which no number of a table can carry a verdict."""
LEADING = (*GRAVE, "model-unproven", "no-support")
"""Flags that come before the numbers of a verdict; others come after them."""
_PROBABILITIES = (
    "check that the old policy's probabilities are those with which the logged actions were drawn."
)
_STATES = "check how episodes end (terminated, time_limit), and what the states leave out."
_ALIKE = "log more episodes, best with an old policy that acts more like the new one."
FIRST = {
    "mixed-worlds": "evaluate the episodes of one old policy alone, or add what changed between them (week, "
    "site) to the state.",
    "confounded-model": "put what the old policy looked at (a week, a version, a severity) into the state.",
    "copies": "find out how episodes came into the log twice (files that were read twice, a join), and leave "
    "them out; if people with habits of their own made it, say who (behaviour_id).",
    "mean-weight": _PROBABILITIES,
    "behaviour-miscalibrated": _PROBABILITIES,
    "model-misfit": _STATES,
    "model-unstable": "try other features, or a model of your own (model=).",
    "model-unproven": _STATES,
    "no-support": "check that actions are spelt as in the log; where they are, nobody has tried them there.",
    "trained-on-log": "judge the policy on episodes that it was not learnt from.",
    "overflow": "use a self-normalised (W) estimator, or BLEND.",
    "undetermined": _ALIKE,
    "zero-weights": _ALIKE,
    "low-ess": _ALIKE,
    "missing-weight": _ALIKE,
    "heavy-reward": "see which episodes those are, and whether such returns are what is to be averaged.",
    "maybe-clustered": "check whether several episodes belong to one person or site: intervals take episodes "
    "as independent.",
    "drift": "find out what has changed along the log (a season, patients, prices), and evaluate its latest "
    "part alone.",
    "contradicted": "find out why estimates differ: do the states show everything that rewards and "
    "transitions depend on, and are the logged probabilities right?",
    "model-unsettled": _STATES,
    "late-reward": "compare with WIS, which weighs whole episodes.",
    "behaviour-filled": "give the policy of every old policy, or log its probabilities.",
    "infinite-variance": "log with an old policy that acts more like the new one; more of the same log does "
    "not help.",
    "heavy-tail": _ALIKE,
    "low-ess-undropped": "check that the states show everything that rewards and transitions depend on: too "
    "few effective episodes are left to notice if they do not.",
    "all-dropped": "compare with an estimate that keeps its ratios, such as WPDIS.",
    "unchecked": "give the new policy's probabilities of all actions, so that a model can check it.",
    "truncated": "see what cut episodes could still have earned (--cut-range; cut_bounds in Python).",
    "cut-weighted": "see what cut episodes could still have earned (--cut-range; cut_bounds in Python).",
}
"""Advice by flag, the gravest first; a flag that is not here casts no doubt."""
# Where a flag means something else for certain estimators.
OF_CORRECTED = {
    "all-dropped": "Nearly every logged step is dropped: how the new policy differs from the "
    "old one is told by the model, hardly by the weights.",
}
OF_DOUBLY_ROBUST = {
    "low-ess": "Fewer than ten effective episodes carry the weights: a handful of episodes decide how the "
    "model's value is corrected.",
    "model-unproven": "Held against what the log earned, the action values behind it, given or learned, are "
    "wrong or predict nothing: with all ratios kept the estimate allows for that, with a drop it does not.",
}
OF_MIXES = {
    "contradicted": "One of the estimates behind it differs from it by more than noise explains: the "
    "interval allows for that.",
    "low-ess-undropped": "With all ratios kept fewer than ten effective episodes are left: weights alone "
    "carry no conclusion here.",
    "heavy-tail": "Weights with all ratios kept have a share in it, and a few of them are far larger than "
    "the rest: the ones that matter most may not be in the log.",
    "mean-weight": "Weights with all ratios kept have a share in it; they must average 1 and do not: the old "
    "policy's probabilities are wrong, or the episodes that matter most are not in the log.",
    "infinite-variance": "Weights with all ratios kept have a share in it, and in the fitted model their "
    "variance is infinite: do not trust the standard error of that share.",
    "no-support": "The new policy takes actions where the log has none of them: what they bring there is not "
    "known. See whether they are spelt as in the log.",
    "model-misfit": "The fitted model does not give back the mean return of the log itself, by more than "
    "chance: it has been left out of this estimate.",
    "confounded-model": "The old policy looked at something that the states leave out (a week, a version, a "
    "severity), and it matters: where it was more or less likely to act as it did, something else followed. "
    "The fitted model has been left out of this estimate.",
    "model-unproven": "The action values, given or learned, do not fit what the log earned, or predict "
    "nothing of it: the answer is based on weights.",
    "model-unstable": "The model of the features, which has half of the shares or more, left the range "
    "of possible values and had to be held back by a stronger penalty: this estimate is rough.",
}
OF_PRODUCTS = {
    "all-dropped": "Nearly every logged step is dropped: only the ratios of the few others, if any, keep the "
    "estimate from being the naive average return.",
}
# Flags that nothing has any more, in results that earlier versions have saved.
FORMER = {
    "model-useless": "Labels of states tell neither what follows nor what is paid, or no model fitted to "
    "other episodes is seen to foretell what is earned and too few effective episodes are left to check "
    "it: the interval also holds all that weights alone leave open.",
}


def remark(flag: str, about: About) -> str:
    """The sentence of a flag about this estimator."""
    sentence = FORMER[flag] if flag in FORMER else FLAGS[flag]
    if about.kind == "mix":
        return OF_MIXES.get(flag, sentence)
    if about.product:
        sentence = OF_PRODUCTS.get(flag, sentence)
    if about.kind == "corrected" or about.contains_correction:
        sentence = OF_CORRECTED.get(flag, sentence)
    return OF_DOUBLY_ROBUST.get(flag, sentence) if about.contains_correction else sentence


def doubts_of(flags: Iterable[str]) -> list[str]:
    """The flags that cast doubt on an estimate, the gravest first."""
    return sorted(set(flags) & set(FIRST), key=list(FIRST).index)


def advice(flag: str) -> str:
    """A sentence on what to do about a flag."""
    return FIRST[flag][0].upper() + FIRST[flag][1:]


def remarks(flagged: Iterable[tuple[About, Iterable[str]]]) -> list[tuple[str, list[str], str]]:
    """Flag, estimators and sentence, of estimators with their flags: one entry for each sentence."""
    names: dict[tuple[str, str], list[str]] = {}
    for about, flags in flagged:
        for flag in flags:
            names.setdefault((flag, remark(flag, about)), []).append(about.name)
    order = [*FLAGS, *FORMER]
    ranked = sorted(names.items(), key=lambda entry: order.index(entry[0][0]))
    return [(flag, named, sentence) for (flag, sentence), named in ranked]
