"""Estimator: what is estimated and how, as an object that goes wherever a name goes.

W normalises by the weights, S drops ratios, C- adds the correction. None of them is a class: the variants of
an estimator share a scheme, which says which family of sums they need, and differ in three switches. So the
relatives of an estimator are attributes of it, and a new estimator has them all by its terms alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deadweight.errors import OptionError
from deadweight.estimators.product import Family, ProductFamily, TermMaker, Terms
from deadweight.estimators.terms import MissingAdvantage
from deadweight.question.question import Question, Values
from deadweight.results.estimate import About, Estimate, Interval
from deadweight.results.evaluation import Verdict
from deadweight.sums.blocks import Field
from deadweight.sums.weighting import Weighting

if TYPE_CHECKING:
    from deadweight.answers.answering import Answers
    from deadweight.answers.plans import Plan

# The family of sums, given a question, its kept ratios, and whether the correction is added.
Build = Callable[[Question, Weighting, bool], Family]
# An interval or a verdict by a rule of the estimator's own.
IntervalRule = Callable[["Answers", "Plan", float], Interval]
VerdictRule = Callable[[Estimate, "Estimate | float"], Verdict]
Letters = tuple[bool, bool, bool]  # W, S, C-


@dataclass(frozen=True, eq=False)
class Scheme:
    """What the variants of an estimator share.

    Attributes:
      name: of the plain variant.
      build: the family of sums.
      words: what it is.
      product: weighs by products of ratios, so that an effective sample size exists.
      whole_episode: weighs whole episodes, so that per-step conventions do not concern it.
      contains_correction: holds the missing advantage inside, as doubly robust estimators do.
      values: its action values, where it has them whatever `cross_fit` asks for.
      naive: the average return of the log.
      model: rests on the model alone.
      mix: made of other estimates, without sums of its own.
      baseline: shown first, beside the estimators proper.
      letters: which of W, S and C- make sense.
      names: those that are not the letters before the name.
      rank: place among the estimators that a verdict may rest on, 0 first, for all variants or for each.
      rank_alone: the same where the model does not fit the log.
      interval, verdict: rules of its own.
    """

    name: str
    build: Build
    words: str
    product: bool = False
    whole_episode: bool = False
    contains_correction: bool = False
    values: Callable[[Question], Values[Field]] | None = None
    naive: bool = False
    model: bool = False
    mix: bool = False
    baseline: bool = False
    letters: Letters = (False, False, False)
    names: Mapping[Letters, str] = field(default_factory=dict)
    rank: int | Mapping[Letters, int] | None = None
    rank_alone: Mapping[Letters, int] = field(default_factory=dict)
    interval: IntervalRule | None = None
    verdict: VerdictRule | None = None

    def variant(self, letters: Letters = (False, False, False)) -> Estimator:
        """The estimator with these letters."""
        made = object.__new__(Estimator)
        made.__dict__.update(scheme=self, letters=letters)
        return made

    def name_of(self, letters: Letters) -> str:
        """The name with these letters."""
        weighted, state_based, corrected = letters
        prefix = ("C-" if corrected else "") + ("W" if weighted else "") + ("S" if state_based else "")
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
      >>> from deadweight.estimators.terms import PerDecision
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
            _OfTerms(terms, whole_episode) if terms is not None else _OfFamily(family),
            words or name,
            product=product,
            whole_episode=whole_episode,
            contains_correction=contains_correction,
            letters=(product, True, product and not contains_correction),
            rank=rank,
        )
        self.letters = (False, False, False)

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
        return self.letters[0]

    @property
    def is_state_based(self) -> bool:
        """Whether it takes a drop (S)."""
        return self.letters[1]

    @property
    def is_corrected(self) -> bool:
        """Whether it adds the missing advantage (C-)."""
        return self.letters[2]

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
        return self.scheme.variant((self.is_weighted, False, False))

    @property
    def corrected(self) -> Estimator | None:
        """The one whose bias is corrected; it takes a drop."""
        return self._with(state_based=True, corrected=True)

    @property
    def uncorrected(self) -> Estimator:
        """The one whose bias is left."""
        return self.scheme.variant((self.is_weighted, self.is_state_based, False))

    @property
    def counterpart(self) -> Estimator | None:
        """The one that leans the other way, with a drop; None for what is no product."""
        from deadweight.estimators.names import DOUBLY_ROBUST, PER_DECISION

        if not self.is_product:
            return None
        if self.contains_correction:
            return PER_DECISION.variant((self.is_weighted, True, True))
        return DOUBLY_ROBUST.variant((self.is_weighted, True, False))

    @property
    def variants(self) -> Iterator[Estimator]:
        """All variants that make sense, the plain one first."""
        for state_based in (False, True):
            for corrected in (False, True) if state_based else (False,):
                for weighted in (False, True):
                    letters = (weighted, state_based, corrected)
                    if self._makes_sense(letters):
                        yield self.scheme.variant(letters)

    @cached_property
    def about(self) -> About:
        """What it is, as data."""
        scheme, rank = self.scheme, self.scheme.rank
        kind = "baseline" if scheme.baseline else "mix" if scheme.mix else "plain"
        if self.is_state_based:
            kind = "corrected" if self.is_corrected else "state-based"
        said = {"self-normalised": self.is_weighted, "states dropped": self.is_state_based}
        said |= {"bias corrected": self.is_corrected}
        return About(
            name=self.name,
            words=", ".join([scheme.words, *(words for words, true in said.items() if true)]),
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
        return self.scheme.build(question, weighting, self.is_corrected)

    def _with(self, **changes: bool) -> Estimator | None:
        weighted, state_based, corrected = self.letters
        letters = (
            changes.get("weighted", weighted),
            changes.get("state_based", state_based),
            changes.get("corrected", corrected),
        )
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
        # `if made.weighted` would always be true, and is never what was meant.
        raise TypeError("An estimator is neither true nor false: ask for is_weighted, is_state_based, ...")

    def __repr__(self) -> str:
        return f"Estimator({self.name!r}: {self.about.words})"

    def __reduce__(self) -> tuple[Any, ...]:
        from deadweight.estimators.names import NAMED, estimator_of

        if NAMED.get(self.name) == self:
            return estimator_of, (self.name,)
        return _restored, (self.scheme, self.letters)


def _restored(scheme: Scheme, letters: Letters) -> Estimator:
    return scheme.variant(letters)


@dataclass(frozen=True)
class _OfTerms:
    """The family of an estimator that is given by its terms."""

    terms: Any
    whole_episode: bool

    def __call__(self, question: Question, weighting: Weighting, corrected: bool) -> Family:
        makers: list[TermMaker] = [self.terms]
        if corrected:
            makers.append(MissingAdvantage(question.discounted(question.delta), question.gain))
        finished = "absorb" if self.whole_episode else question.options.finished
        return ProductFamily(makers, weighting, question.gamma, finished)


@dataclass(frozen=True)
class _OfFamily:
    """The family of an estimator that is no product."""

    family: Any

    def __call__(self, question: Question, weighting: Weighting, corrected: bool) -> Family:
        made: Family = self.family(question, weighting)
        return made
