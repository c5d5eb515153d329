"""Estimator: what is estimated and how, as an object that goes wherever a name goes; and the table of names.

W normalises by the weights, S drops ratios, C- adds the correction. None of them is a class: the variants of
an estimator share a scheme, which says which family of sums they need, and differ in three switches. So the
relatives of an estimator are attributes of it, and a new estimator has them all by its terms alone.

A name that is not in the table is looked for in the entry-point group `deadweight.estimators`, so that an
installed package can add names for the library and the command line. Nothing is looked up before that.
Families outside the default table are imported when they are built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from deadweight.errors import EstimationError, OptionError, UnknownEstimator, did_you_mean
from deadweight.estimators.direct import Direct, DirectByRow
from deadweight.estimators.product import (
    Behaviour,
    DoublyRobust,
    Family,
    Linear,
    MissingAdvantage,
    PerDecision,
    ProductFamily,
    TermMaker,
    Terms,
    WholeEpisode,
)
from deadweight.log.columns import require_labels
from deadweight.question.question import Question, Values
from deadweight.results.estimate import About, Estimate, Interval
from deadweight.results.evaluation import Verdict
from deadweight.sums.blocks import Field
from deadweight.sums.weighting import Weighting
from deadweight.typing import FloatArray
from deadweight.values.model import FOLDS

if TYPE_CHECKING:
    from deadweight.answers.answering import Answers
    from deadweight.answers.plans import Plan

# The family of sums, given a question and its kept ratios.
Build = Callable[[Question, Weighting], Family]
# An interval or a verdict by a rule of the estimator's own.
IntervalRule = Callable[["Answers", "Plan", float], Interval]
VerdictRule = Callable[[Estimate, "Estimate | float"], Verdict]


class Letters(NamedTuple):
    """The letters before the name of a variant."""

    weighted: bool = False  # W
    state_based: bool = False  # S
    corrected: bool = False  # C-


PLAIN, W, S = Letters(), Letters(weighted=True), Letters(state_based=True)
WS, CS, CWS = Letters(True, True), Letters(False, True, True), Letters(True, True, True)


@dataclass(frozen=True, eq=False)
class Scheme:
    """The settings that the variants of an estimator share."""

    name: str  # of the plain variant
    build: Build
    words: str  # what it is
    product: bool = False  # weighs by products of ratios, so that an effective sample size exists
    whole_episode: bool = False  # weighs whole episodes, so that per-step conventions do not concern it
    contains_correction: bool = False  # holds the missing advantage, as doubly robust estimators do
    # Its action values, where it has them whatever `cross_fit` asks for.
    values: Callable[[Question], Values[Field]] | None = None
    naive: bool = False  # the average return of the log
    model: bool = False  # rests on the model alone
    mix: bool = False  # made of other estimates, without sums of its own
    baseline: bool = False  # shown first, beside the estimators proper
    letters: Letters = PLAIN  # which of W, S and C- make sense
    names: Mapping[Letters, str] = field(default_factory=dict)  # that are not the letters before the name
    # Place among the estimators that a verdict may rest on, 0 first, for all variants or for each; and where
    # the model does not fit the log.
    rank: int | Mapping[Letters, int] | None = None
    rank_alone: Mapping[Letters, int] = field(default_factory=dict)
    interval: IntervalRule | None = None
    verdict: VerdictRule | None = None

    def variant(self, letters: Letters = PLAIN) -> Estimator:
        """The estimator with these letters."""
        estimator = object.__new__(Estimator)
        estimator.__dict__.update(scheme=self, letters=letters)
        return estimator

    def name_of(self, letters: Letters) -> str:
        """The name with these letters."""
        prefix = "C-" * letters.corrected + "W" * letters.weighted + "S" * letters.state_based
        return self.names.get(letters, prefix + self.name)


class Estimator:
    """An estimator that anyone can add: its terms, and from them its variants.

    Args:
      name: what tables call it.
      terms: what it sums: a function, or a hashable object, from (weighted block, gamma, finished) to a list
        of `Terms`; see `deadweight.estimators.product.TermMaker`. To travel to worker processes it must be
        found by its name in a module that they can import.
      words: what it is, for tables and reports.
      whole_episode: its terms weigh whole episodes.
      contains_correction: its terms hold the correction of a drop already.
      rank: place among the estimators that a verdict may rest on, 0 first; None is chosen only where no other
        is in the table.
      family: instead of terms, a function from (question, weighting) to a `Family`, for what is no product.

    Attributes:
      weighted, unweighted: with and without the letter W.
      state_based, plain: with and without a drop.
      corrected, uncorrected: with and without C-.
      counterpart: the estimator that leans the other way, on a model where this one leans on weights alone.

    A relative that makes no sense is None.

    Example:
      >>> from deadweight.estimators.product import PerDecision
      >>> mine = Estimator("MINE", terms=PerDecision(), words="per-decision weights again")
      >>> mine.weighted.name, mine.state_based.corrected.name, mine.weighted.state_based.plain.name
      ('WMINE', 'C-SMINE', 'WMINE')
    """

    scheme: Scheme
    letters: Letters

    def __init__(
        self,
        name: str,
        terms: TermMaker | Callable[..., list[Terms]] | None = None,
        *,
        words: str = "",
        whole_episode: bool = False,
        contains_correction: bool = False,
        rank: int | None = None,
        family: Callable[[Question, Weighting], Family] | None = None,
    ) -> None:
        if not isinstance(name, str) or not name or "," in name or name != name.strip():
            raise OptionError(
                f"The name of an estimator is a word without commas; found {name!r}.",
                fix='For example Estimator("CENTRED", terms=...).',
            )
        if callable(terms) == callable(family):
            raise OptionError(
                f"{name} needs either terms or a family, as something that can be called.",
                fix="See docs/extending.md for an example.",
            )
        product = terms is not None
        self.scheme = Scheme(
            name,
            partial(_of_terms, terms, whole_episode) if family is None else family,
            words or name,
            product=product,
            whole_episode=whole_episode,
            contains_correction=contains_correction,
            letters=Letters(product, True, product and not contains_correction),
            rank=rank,
        )
        self.letters = PLAIN

    @cached_property
    def name(self) -> str:
        """What tables call it."""
        return self.scheme.name_of(self.letters)

    @property
    def is_product(self) -> bool:
        """Whether it weighs by products of ratios."""
        return self.scheme.product

    @property
    def is_weighted(self) -> bool:
        """Whether it is self-normalised (W)."""
        return self.letters.weighted

    @property
    def is_state_based(self) -> bool:
        """Whether it takes a drop (S)."""
        return self.letters.state_based

    @property
    def is_corrected(self) -> bool:
        """Whether it adds the missing advantage (C-)."""
        return self.letters.corrected

    @property
    def is_naive(self) -> bool:
        """Whether it is the average return of the log."""
        return self.scheme.naive

    @property
    def is_mix(self) -> bool:
        """Whether it is made of other estimates."""
        return self.scheme.mix

    @property
    def whole_episode(self) -> bool:
        """Whether it weighs whole episodes."""
        return self.scheme.whole_episode

    @property
    def contains_correction(self) -> bool:
        """Whether it holds the correction inside."""
        return self.scheme.contains_correction

    @property
    def uses_model(self) -> bool:
        """Whether a model stands behind it."""
        return self.scheme.model or self.scheme.contains_correction

    @property
    def weighted(self) -> Estimator | None:
        """The self-normalised one."""
        return self._with(weighted=True)

    @property
    def unweighted(self) -> Estimator | None:
        """The one that is not self-normalised."""
        return self._with(weighted=False)

    @property
    def state_based(self) -> Estimator | None:
        """The one that takes a drop."""
        return self._with(state_based=True)

    @property
    def plain(self) -> Estimator:
        """The one without a drop."""
        return self.scheme.variant(Letters(self.is_weighted))

    @property
    def corrected(self) -> Estimator | None:
        """The one whose bias is corrected; it takes a drop."""
        return self._with(state_based=True, corrected=True)

    @property
    def uncorrected(self) -> Estimator:
        """The one whose bias is left."""
        return self.scheme.variant(self.letters._replace(corrected=False))

    @property
    def counterpart(self) -> Estimator | None:
        """The one that leans the other way, with a drop; None for what is no product."""
        if not self.is_product:
            return None
        if self.contains_correction:
            return PER_DECISION.variant(Letters(self.is_weighted, True, True))
        return DOUBLY_ROBUST.variant(Letters(self.is_weighted, True))

    @property
    def variants(self) -> Iterator[Estimator]:
        """All variants that make sense, the plain one first."""
        for letters in (PLAIN, W, S, WS, CS, CWS):
            if self._makes_sense(letters):
                yield self.scheme.variant(letters)

    @cached_property
    def about(self) -> About:
        """What it is, as data."""
        scheme, rank = self.scheme, self.scheme.rank
        kind = "baseline" if scheme.baseline else "mix" if scheme.mix else "plain"
        if self.is_state_based:
            kind = "corrected" if self.is_corrected else "state-based"
        said = zip(("self-normalised", "states dropped", "bias corrected"), self.letters, strict=True)
        return About(
            name=self.name,
            words=", ".join([scheme.words, *(words for words, holds in said if holds)]),
            kind=kind,
            family=self.plain.name,
            product=scheme.product,
            naive=scheme.naive,
            contains_correction=scheme.contains_correction,
            rank=rank.get(self.letters) if isinstance(rank, Mapping) else rank,
            rank_alone=scheme.rank_alone.get(self.letters),
        )

    def build(self, question: Question, weighting: Weighting) -> Family:
        """The family of sums for a question and its kept ratios."""
        family = self.scheme.build(question, weighting)
        if not self.is_corrected:
            return family
        assert isinstance(family, ProductFamily), "only products of ratios have a correction"
        makers = [*family.makers, *_missing_advantage(question)]
        return ProductFamily(makers, weighting, family.gamma, family.finished)

    def _with(self, **changes: bool) -> Estimator | None:
        letters = self.letters._replace(**changes)
        return self.scheme.variant(letters) if self._makes_sense(letters) else None

    def _makes_sense(self, letters: Letters) -> bool:
        return all(able or not wanted for able, wanted in zip(self.scheme.letters, letters, strict=True))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Estimator):
            return NotImplemented
        return self.scheme is other.scheme and self.letters == other.letters

    def __hash__(self) -> int:
        return hash((self.scheme, self.letters))

    def __bool__(self) -> bool:
        # `if estimator.weighted` would always be true, and is never what was meant.
        raise TypeError("An estimator is neither true nor false: ask for is_weighted, is_state_based, ...")

    def __repr__(self) -> str:
        return f"Estimator({self.name!r}: {self.about.words})"

    def __reduce__(self) -> tuple[Any, ...]:
        if NAMED.get(self.name) == self:
            return estimator_of, (self.name,)
        return Scheme.variant, (self.scheme, self.letters)


# --- The family of sums of each built-in estimator, from a question and its kept ratios


def _of_terms(terms: Any, whole_episode: bool, question: Question, weighting: Weighting) -> Family:
    """The family of an estimator that is given by its terms."""
    return ProductFamily([terms], weighting, question.gamma, _finished(question, whole_episode))


def missing_advantage(question: Question, weighting: Weighting, whole_episode: bool) -> Family:
    """m alone, minus the bias of the drop, by the conventions of the estimator that it belongs to."""
    finished = _finished(question, whole_episode)
    return ProductFamily(_missing_advantage(question), weighting, question.gamma, finished)


def _missing_advantage(question: Question) -> list[TermMaker]:
    return [MissingAdvantage(question.discounted(question.delta), question.gain)]


def _finished(question: Question, whole_episode: bool) -> str:
    # Per-step conventions are no matter where whole episodes are weighed.
    return "absorb" if whole_episode else question.options.finished


def of_other_episodes(question: Question) -> Values[Field]:
    """Action values of models that have not seen the episodes that they serve."""
    return question.cross_fitted(FOLDS)


def _of_values(
    maker: type[DoublyRobust],
    values: Callable[[Question], Values[Field]],
    question: Question,
    weighting: Weighting,
) -> Family:
    """The family of DR or LIN, which need action values."""
    name, finished = ("LIN", "absorb") if maker is Linear else ("DR", question.options.finished)
    known = values(question)
    terms = maker(question.discounted(known.q), question.discounted(known.v), question.pi_e(name))
    return ProductFamily([terms], weighting, question.gamma, finished)


def _window(length: int, question: Question, weighting: Weighting) -> Family:
    """Win_k without DM."""
    from deadweight.estimators.windowed import model_steps, windowed

    return windowed(question, model_steps(question), length)


def _incremental(question: Question, weighting: Weighting) -> Family:
    """INCRIS."""
    from deadweight.estimators.incremental import Incremental

    asked = question.options
    conventions = (asked.window, asked.variance, asked.ended_ratios, asked.finished)
    return Incremental(weighting, question.gamma, question.horizon, *conventions)


def _direct(question: Question, weighting: Weighting) -> Family:
    """DM."""
    pi_e = question.pi_e("DM")
    if question.row_values is not None:
        return DirectByRow(question.row_values)
    return question.made_once((Direct,), lambda: _of_model(question, pi_e))


def _of_model(question: Question, pi_e: FloatArray) -> Direct:
    counts = question.counts if question.options.model is None else None
    solved = (question.model, pi_e, question.model_horizon, question.gamma)
    return Direct(*solved, counts, question.options.unseen, question.settled)


def _density_ratio(question: Question, weighting: Weighting) -> Family:
    """SDRE, in the form that fits how the episodes end."""
    from deadweight.estimators.density_ratio import DensityRatio

    require_labels(question.parts, "SDRE")
    _refuse_cut_weights(question, "SDRE")
    if question.discount < 1:
        raise EstimationError(
            "SDRE estimates an undiscounted average and needs gamma = 1; found gamma = "
            f"{question.discount:g}.",
            fix="Use gamma=1.0, or another estimator such as MIS or WPDIS.",
        )
    mode = question.options.mode
    ended, n = question.terminated, question.n
    if mode is None and 0 < ended < n:
        raise EstimationError(
            f"SDRE has one form for terminated and one for truncated episodes; this log has {ended} of the "
            f"first and {n - ended} of the second kind.",
            fix='Say which to use: mode="policy" counts steps; "published" and "corrected" do so too.',
        )
    if mode == "episodic" and ended < n:
        raise EstimationError(
            f'SDRE with mode="episodic" needs episodes that terminate; {n - ended} of {n} are truncated.',
            fix='Use mode="policy", or leave mode out.',
        )
    renewal = mode in (None, "policy") and ended == n
    return DensityRatio(weighting, question.horizon, mode or "policy", renewal)


def _marginalised(name: str, question: Question, weighting: Weighting) -> Family:
    """MIS or, with pi_e as a table, TMIS."""
    from deadweight.estimators.marginalised import Marginalised

    _refuse_durations(question, name)
    require_labels(question.parts, name)
    pi_e = question.pi_e("TMIS") if name == "TMIS" else None
    return Marginalised(weighting, question.gamma, pi_e, question.options.unseen_actions)


def _conditional(question: Question, weighting: Weighting) -> Family:
    """CIS."""
    from deadweight.estimators.marginalised import Conditional

    if question.options.given != "return":
        _refuse_durations(question, f"CIS given the {question.options.given}")
    if question.options.given == "state":
        require_labels(question.parts, "CIS given the state")
    return Conditional(weighting, question.gamma, question.options.given)


def _refuse_durations(question: Question, name: str) -> None:
    """Refuse what takes all episodes of a state and a step together, whatever each of their rows counts."""
    _refuse_cut_weights(question, name)
    if question.by_duration:
        raise EstimationError(
            f"{name} puts together episodes that are in the same state at the same step, and with durations "
            "they are not at the same time.",
            fix="Use gamma=1.0, or another estimator such as WPDIS, WDR or DM.",
        )


def _refuse_cut_weights(question: Question, name: str) -> None:
    """Refuse what takes steps together that do not count alike."""
    if question.cut_weights is not None:
        raise EstimationError(
            f"{name} puts together steps of many episodes, and with cut_weights they do not count alike.",
            fix="Leave cut_weights out, or use another estimator such as WPDIS, WDR or BLEND.",
        )


def _of_others(question: Question, weighting: Weighting) -> Family:
    """BLEND."""
    raise EstimationError(
        "BLEND is made of other estimates and has no sums of its own.",
        fix='Ask for it by its name: estimate("BLEND", log, pi_e, pi_b).',
    )


def _behaviour(question: Question, weighting: Weighting) -> Family:
    """BEHAVIOUR."""
    return Behaviour(question.gamma)


# --- The table of names

GROUP = "deadweight.estimators"
# Which estimate the verdict rests on: corrected and state-based ones first, the naive average never.
HEADLINES = (
    *(("PDIS", CWS), ("IS", CWS), ("DR", WS), ("DR", W), ("PDIS", CS), ("IS", CS), ("DR", S), ("DR", PLAIN)),
    *(("PDIS", WS), ("PDIS", W), ("IS", W)),
)


def _ranks(name: str) -> dict[Letters, int]:
    return {letters: rank for rank, (family, letters) in enumerate(HEADLINES) if family == name}


WHOLE_EPISODE = Scheme(
    "IS",
    partial(_of_terms, WholeEpisode(), True),
    "whole-episode weights",
    product=True,
    whole_episode=True,
    letters=CWS,
    rank=_ranks("IS"),
    rank_alone={W: 1, PLAIN: 3},
)
PER_DECISION = Scheme(
    "PDIS",
    partial(_of_terms, PerDecision(), False),
    "per-decision weights",
    product=True,
    letters=CWS,
    rank=_ranks("PDIS"),
    rank_alone={W: 0, PLAIN: 2},
)
INCREMENTAL = Scheme("INCRIS", _incremental, "incremental weights", product=True, letters=WS)
DOUBLY_ROBUST = Scheme(
    "DR",
    partial(_of_values, DoublyRobust, attrgetter("cross_fitted_values")),
    "doubly robust",
    product=True,
    contains_correction=True,
    letters=WS,
    names={S: "DRSIS", WS: "WDRSIS"},
    rank=_ranks("DR"),
)
DENSITY_RATIO = Scheme("SDRE", _density_ratio, "state density ratio", letters=S)
MARGINALISED = Scheme("MIS", partial(_marginalised, "MIS"), "marginalised weights", letters=S)
TABULAR_MARGINALISED = Scheme("TMIS", partial(_marginalised, "TMIS"), "marginalised, by table", letters=S)
LINEAR = Scheme(
    "LIN",
    partial(_of_values, Linear, attrgetter("cross_fitted_values")),
    "doubly robust, weights to first order",
    contains_correction=True,
)
MODEL = Scheme("DM", _direct, "fitted model alone", baseline=True, model=True)
CONDITIONAL = Scheme("CIS", _conditional, "conditional weights")
# Before all others, with a model or without: it leaves out what does not fit.
BLEND = Scheme("BLEND", _of_others, "mix of several estimates", mix=True, rank=-1, rank_alone={PLAIN: -1})
# Parts of a blend that are in no table; windows are to be added to DM.
CROSS_FITTED = Scheme(
    "WDR cross-fitted",
    partial(_of_values, DoublyRobust, of_other_episodes),
    "doubly robust, models of other episodes",
    product=True,
    contains_correction=True,
    values=of_other_episodes,
    names={W: "WDR cross-fitted"},
).variant(W)
WINDOWS = tuple(
    Scheme(
        f"WIN{length}",
        partial(_window, length),
        f"doubly robust, the latest {length} ratios",
        contains_correction=True,
        values=attrgetter("values"),
        names={W: f"WIN{length}"},
    ).variant(W)
    for length in (3, 2)
)
NAIVE = Scheme("BEHAVIOUR", _behaviour, "average return of the log", baseline=True, naive=True)


def _table() -> Iterator[Estimator]:
    for scheme in (WHOLE_EPISODE, PER_DECISION, INCREMENTAL, DOUBLY_ROBUST):
        yield from (scheme.variant(letters) for letters in (PLAIN, W, S, WS))
    for scheme in (DENSITY_RATIO, MARGINALISED, TABULAR_MARGINALISED):
        yield from (scheme.variant(letters) for letters in (PLAIN, S))
    for scheme in (WHOLE_EPISODE, PER_DECISION):
        yield from (scheme.variant(letters) for letters in (CS, CWS))
    yield from (scheme.variant() for scheme in (LINEAR, MODEL, CONDITIONAL, NAIVE))


BUILT_IN: Mapping[str, Estimator] = MappingProxyType({estimator.name: estimator for estimator in _table()})
ESTIMATORS: tuple[str, ...] = tuple(BUILT_IN)
# With those that are made of others, and have no sums and no variants.
NAMED: Mapping[str, Estimator] = MappingProxyType({**BUILT_IN, BLEND.name: BLEND.variant()})


def estimator_of(given: str | Estimator) -> Estimator:
    """The estimator of a name, an object as it is, or an error that says which name may have been meant."""
    if isinstance(given, Estimator):
        return given
    if isinstance(given, str):
        estimator = NAMED[given] if given in NAMED else _installed(given)
        if estimator is not None:
            return estimator
    else:
        raise UnknownEstimator(
            f"Expected the name of an estimator; found {type(given).__name__}.",
            fix='Names are text. In estimate the name comes first: estimate("WPDIS", log, pi_e).',
        )
    known = [*NAMED, *(name for name, _ in _entry_points())]
    raise UnknownEstimator(
        f"There is no estimator {given!r}.{did_you_mean(str(given), known)}",
        fix=f"Estimators are: {', '.join(known)}.",
    )


def _entry_points() -> Iterable[tuple[str, Any]]:
    from importlib.metadata import entry_points

    return [(point.name, point) for point in entry_points(group=GROUP)]


def _installed(name: str) -> Estimator | None:
    """The estimator of an installed package by this name, or the variant of one."""
    points = _entry_points()
    # The name itself first: another package is loaded only if it may have a variant of this name.
    for entry, point in sorted(points, key=lambda pair: pair[0] != name):
        if entry != name and not name.endswith(entry):
            continue
        for variant in _loaded(entry, point).variants:
            if name in (variant.name, entry):
                return variant
    return None


def _loaded(name: str, point: Any) -> Estimator:
    try:
        loaded = point.load()
    except Exception as error:
        raise UnknownEstimator(
            f"The estimator {name} of the entry point {point.value!r} cannot be loaded: {error}.",
            fix="Mend or remove the package that it comes from.",
        ) from error
    if not isinstance(loaded, Estimator):
        raise UnknownEstimator(
            f"The entry point {name} = {point.value!r} must be an Estimator; found {type(loaded).__name__}.",
            fix="Point it at an object made by deadweight.Estimator.",
        )
    return loaded
