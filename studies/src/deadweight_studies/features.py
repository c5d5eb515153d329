"""What the default does on logs with features: errors against plain estimates, and whether intervals hold.

A run is one log: all estimates of it, the interval of the headline, the verdict and its flags. The truth is
that of the problem, by simulation. There are four domains, and around them what may go wrong: something
hidden that pays, something hidden that the old policy saw, features that mean nothing, a basis that cannot
bend, a behaviour policy that was learned or that knows the log by heart, and action values that were made to
be useless.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from deadweight.log.policies import FeaturePolicy, RowPolicy
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.feature_worlds import cart_pole, continuous_lift, navigation, sepsis_like
from deadweight.mdp.problem import FeatureProblem, Logistic, World
from deadweight.question.learned_behaviour import fit_behaviour
from deadweight.tools.bumps import Bumps
from deadweight.typing import BoolArray, FloatArray, IntArray
from deadweight.values.linear import LinearQ
from deadweight.verbs.estimate import evaluate
from deadweight_studies import problems
from deadweight_studies.problems import BAD_MODELS, in_cells, noise_q, smooth_q
from deadweight_studies.records import Record
from deadweight_studies.study import Study, markdown, of_columns

# --- Cells

FromLog = Callable[[Trajectories, int], Any]
"""From a log and a seed to a model, or to a behaviour policy."""


@dataclass(frozen=True, eq=False)
class FeatureCell:
    """A problem, the size of its logs, and how they are evaluated.

    Attributes:
      problem: with its truth.
      episodes: of a log.
      model: action values; None: the default.
      behaviour: pi_b; None: the true one.
      sound: whether the assumptions of the method hold: nothing hidden that pi_b saw, and pi_b is right.
      useless: whether the model was made to be useless.
      binned: whether its values are constant in each of fifty cells.
      fresh: whether no rule was chosen by looking at it.
    """

    problem: FeatureProblem
    episodes: int
    model: FromLog | None = None
    behaviour: FromLog | None = None
    sound: bool = True
    useless: bool = False
    binned: bool = False
    fresh: bool = False

    @property
    def is_fair(self) -> bool:
        """Whether the assumptions hold and nobody made the model bad."""
        return self.sound and not self.useless and not self.binned

    def pi_b(self, log: Trajectories, seed: int) -> Any:
        """The behaviour policy of a log."""
        if self.behaviour is not None:
            return self.behaviour(log, seed)
        return FeaturePolicy(self.problem.behaviour, actions=self.problem.world.action_names)


@dataclass(frozen=True)
class WithNoise:
    """A world with further features that mean nothing."""

    world: World
    extra: int

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the world's features, and of the noise."""
        return (*self.world.feature_names, *(f"noise_{j}" for j in range(self.extra)))

    @property
    def action_names(self) -> tuple[str, ...]:
        """Names of the world's actions."""
        return self.world.action_names

    def start(self, episodes: int, rng: np.random.Generator) -> FloatArray:
        """A start of the world, and noise."""
        return self._noisy(self.world.start(episodes, rng), rng)

    def step(
        self, x: FloatArray, action: IntArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """A step of the world, and new noise."""
        after, rewards, ended = self.world.step(x[:, : -self.extra], action, rng)
        return self._noisy(after, rng), rewards, ended

    def _noisy(self, x: FloatArray, rng: np.random.Generator) -> FloatArray:
        return np.concatenate([x, rng.standard_normal((len(x), self.extra))], axis=1)


@dataclass(frozen=True)
class Echo:
    """What is paid now depends on the action before, which the log does not show: every model is wrong."""

    feature_names: tuple[str, ...] = ("x", "y", "before")
    action_names: tuple[str, ...] = ("down", "up")

    def start(self, episodes: int, rng: np.random.Generator) -> FloatArray:
        """(episodes, 3) two coordinates at random; nothing was done before."""
        return np.column_stack([rng.standard_normal((episodes, 2)), np.zeros(episodes)])

    def step(
        self, x: FloatArray, action: IntArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Both coordinates drift, whatever is done."""
        drift = 0.9 * x[:, :2] + 0.4 * rng.standard_normal((len(x), 2))
        rewards = x[:, 0] * x[:, 2] + 0.2 * x[:, 1]
        return np.column_stack([drift, 2.0 * action - 1.0]), rewards, np.zeros(len(x), dtype=bool)


@dataclass(frozen=True)
class Frailty:
    """The frail earn less and were treated more, and the log does not say who is frail: confounding."""

    feature_names: tuple[str, ...] = ("x", "frail")
    action_names: tuple[str, ...] = ("wait", "treat")

    def start(self, episodes: int, rng: np.random.Generator) -> FloatArray:
        """Half of them are frail, from first to last."""
        return np.column_stack([rng.standard_normal(episodes), rng.random(episodes) < 0.5])

    def step(
        self, x: FloatArray, action: IntArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Treatment pays 1, frailty costs 1.5."""
        noise = rng.standard_normal((len(x), 2))
        after = np.column_stack([0.5 * x[:, 0] + noise[:, 0], x[:, 1]])
        rewards = action - 1.5 * x[:, 1] + 0.3 * x[:, 0] + 0.2 * noise[:, 1]
        return after, rewards, np.zeros(len(x), dtype=bool)


@cache
def cells() -> dict[str, FeatureCell]:
    """All cells, in the order that their seeds depend on."""
    lift, walk, pole, sepsis = continuous_lift(), navigation(), cart_pole(50), sepsis_like()
    echo_e, echo_b = Logistic(((-1.5, 1.5), (0.0, 0.0)), (0.0, 0.0)), Logistic(((-0.3, 0.3),), (0.0, 0.0))
    frail_b = Logistic(((0.0, 0.0), (0.0, 1.7)), (0.85, 0.0))
    echo = FeatureProblem("echo", Echo(), echo_e, echo_b, 10, hidden=1)
    frail = FeatureProblem("frailty", Frailty(), Logistic(((0.0, 0.0),), (0.0, 1.4)), frail_b, 5, hidden=1)
    noisy = replace(lift, world=WithNoise(lift.world, 6))
    noisy_sepsis = replace(sepsis, world=WithNoise(sepsis.world, 10))
    cells = {
        "continuous lift": FeatureCell(lift, 300),
        "navigation": FeatureCell(walk, 150),
        "cart-pole": FeatureCell(pole, 100),
        "sepsis-like": FeatureCell(sepsis, 300),
        "sepsis-like, pi_b learned": FeatureCell(sepsis, 300, behaviour=learned),
        "lift, 6 irrelevant features": FeatureCell(noisy, 300),
        "sepsis-like, 10 irrelevant features": FeatureCell(noisy_sepsis, 300),
        "wrong model: the past pays": FeatureCell(echo, 300),
        "wrong model: navigation, straight lines": FeatureCell(walk, 150, model=straight),
        "confounded, pi_b learned": FeatureCell(frail, 300, behaviour=learned, sound=False),
        "sepsis-like, pi_b by heart": FeatureCell(sepsis, 300, behaviour=by_heart, sound=False),
        "useless: noise, lift": FeatureCell(lift, 300, model=noise_q, useless=True),
        "useless: noise, sepsis-like": FeatureCell(sepsis, 300, model=noise_q, useless=True),
        "useless: smooth, lift": FeatureCell(lift, 300, model=smooth_q, useless=True),
        "useless: smooth, sepsis-like": FeatureCell(sepsis, 300, model=smooth_q, useless=True),
        "useless: smooth, cart-pole": FeatureCell(pole, 100, model=smooth_q, useless=True),
    }
    sizes = {"lift": (lift, 300), "navigation": (walk, 150), "cart-pole": (pole, 100)}
    for title, model in BAD_MODELS.items():
        binned = model is in_cells
        for name, (problem, episodes) in {**sizes, "sepsis-like": (sepsis, 300)}.items():
            cell = FeatureCell(problem, episodes, model=model, useless=not binned, binned=binned)
            cells[f"bad model: {title}, {name}"] = cell
    return {**cells, **fresh_cells()}


def fresh_cells() -> dict[str, FeatureCell]:
    """Cells that no rule was chosen on: other sizes, horizons, policies and columns."""
    lift, walk, sepsis = continuous_lift(), navigation(), sepsis_like()
    echo_e, echo_b = Logistic(((-1.0, 1.0), (0.5, 0.0)), (0.0, 0.0)), Logistic(((0.3, 0.0),), (0.0, 0.2))
    echo = FeatureProblem("echo", Echo(), echo_e, echo_b, 8, hidden=1)
    noisy_walk = replace(walk, world=WithNoise(walk.world, 4))
    return {
        "continuous lift, 100 episodes": FeatureCell(lift, 100, fresh=True),
        "navigation, 400 episodes": FeatureCell(walk, 400, fresh=True),
        "cart-pole, 25 steps": FeatureCell(cart_pole(25), 200, fresh=True),
        "sepsis-like, 600 episodes": FeatureCell(sepsis, 600, fresh=True),
        "navigation, 4 irrelevant features": FeatureCell(noisy_walk, 150, fresh=True),
        "wrong model: the past pays, other policies": FeatureCell(echo, 500, fresh=True),
    }


def learned(log: Trajectories, seed: int) -> RowPolicy:
    """The policy that the log itself teaches."""
    return fit_behaviour(log, candidates=["logit", "bumps-logit"], seed=seed)


def by_heart(log: Trajectories, seed: int) -> RowPolicy:
    """The nearest rows' actions, the row's own among them: what no one should do."""
    assert log.features is not None, "cells have features"
    z = Bumps.fitted(log.features, 0).of(log.features)[:, 1:]
    probs = np.empty((log.n_steps, log.n_actions))
    hot = np.eye(log.n_actions)[log.actions]
    for lo in range(0, len(z), 500):
        far = np.square(z[lo : lo + 500, None] - z[None]).sum(axis=2)
        probs[lo : lo + 500] = hot[np.argpartition(far, 5, axis=1)[:, :5]].mean(axis=1)
    probs = np.maximum(probs, 1e-3)
    return RowPolicy(probs / probs.sum(axis=1, keepdims=True), list(log.action_labels))


def straight(log: Trajectories, seed: int) -> LinearQ:
    """Action values that cannot bend."""
    return LinearQ(basis="linear")


# --- The study

SEED = 1216
NAMES = ("BEHAVIOUR", "WPDIS", "DM", "WDR", "C-WSPDIS", "WDRSIS", "BLEND")
ANSWERS = ("better", "worse", "cannot tell")


@cache
def truth(name: str) -> float:
    """The value of pi_e of a cell."""
    return cells()[name].problem.true_value


def run(name: str, number: int) -> Record:
    """The estimates of one log."""
    cell, place = cells()[name], list(cells()).index(name)
    log = cell.problem.sample(cell.episodes, np.random.SeedSequence([SEED, place, number]))
    known = truth(name)
    began = time.process_time()
    options = {} if cell.model is None else {"model": cell.model(log, number)}
    ev = evaluate(log, cell.problem.pi_e, cell.pi_b(log, number), list(NAMES), background=False, **options)
    seconds = time.process_time() - began
    headline = ev.headline
    assert headline.interval is not None, "one was asked for"
    lower, upper = headline.interval
    return {
        "truth": known,
        "values": {estimator: ev[estimator].value for estimator in NAMES},
        "dropped": ev["C-WSPDIS"].dropped_share,
        "headline": headline.name,
        "interval": [float(lower), float(upper)],
        "ess": ev["WPDIS"].ess,
        "answer": ev.verdict.answer,
        "flags": sorted({flag for estimator in NAMES for flag in ev[estimator].flags}),
        "seconds": seconds,
    }


@dataclass(frozen=True)
class Line:
    """What the runs of one cell show.

    Attributes:
      name, cell: the cell.
      runs: how many.
      rmse: by estimator.
      coverage: share of the headline's intervals that hold the truth.
      width: of the headline's interval, mean, over 2 x 1.96 times its root mean square error.
      answers: share of runs by verdict.
      seconds: CPU time of one evaluation, median.
    """

    name: str
    cell: FeatureCell
    runs: int
    rmse: dict[str, float]
    coverage: float
    width: float
    answers: dict[str, float]
    seconds: float

    def ratio(self, estimator: str, plain: str) -> float:
        """Mean square error over that of a plain estimate."""
        return (self.rmse[estimator] / self.rmse[plain]) ** 2

    def __str__(self) -> str:
        return (
            f"{self.name}: C-WSPDIS/WPDIS {self.ratio('C-WSPDIS', 'WPDIS'):.2f}, WDRSIS/WDR "
            f"{self.ratio('WDRSIS', 'WDR'):.2f}, coverage {self.coverage:.2f} of {self.runs} runs"
        )


def line(name: str, records: list[Record]) -> Line:
    """The line of a cell from its runs."""
    known = records[0]["truth"]
    values = of_columns(records, "values")
    ends = np.array([record["interval"] for record in records])
    rmse = {name: float(np.sqrt(np.mean((value - known) ** 2))) for name, value in values.items()}
    centre = np.array([record["values"][record["headline"]] for record in records])
    error = max(float(np.sqrt(np.mean((centre - known) ** 2))), 1e-12)
    return Line(
        name=name,
        cell=cells()[name],
        runs=len(records),
        rmse=rmse,
        coverage=float(np.mean((ends[:, 0] <= known) & (known <= ends[:, 1]))),
        width=float(np.mean(ends[:, 1] - ends[:, 0]) / (2 * 1.96 * error)),
        answers={each: float(np.mean([record["answer"] == each for record in records])) for each in ANSWERS},
        seconds=float(np.median([record["seconds"] for record in records])),
    )


def table(lines: list[Line]) -> str:
    """All cells, and the figures over them."""
    heads = ["cell", f"RMSE: {NAMES[1]}", *NAMES[2:], "C-WSPDIS / WPDIS", "WDRSIS / WDR", "coverage", "width"]
    heads += ["better / worse / cannot tell", "CPU s"]
    rows = [
        [
            f"{line.name} ({line.runs})",
            *(f"{line.rmse[name]:.3g}" for name in NAMES[1:]),
            *(f"{line.ratio('C-WSPDIS', 'WPDIS'):.2f}", f"{line.ratio('WDRSIS', 'WDR'):.2f}"),
            *(f"{line.coverage:.2f}", f"{line.width:.2f}"),
            *(" / ".join(f"{line.answers[answer]:.2f}" for answer in ANSWERS), f"{line.seconds:.1f}"),
        ]
        for line in lines
    ]
    groups = {
        "as they come": [line for line in lines if line.cell.is_fair and not line.cell.fresh],
        "as they come, fresh": [line for line in lines if line.cell.is_fair and line.cell.fresh],
        "useless models": [line for line in lines if line.cell.useless],
        "values in 50 cells": [line for line in lines if line.cell.binned],
    }
    sentences = [sentence for title, group in groups.items() for sentence in _summary(title, group)]
    return "\n".join([markdown(heads, rows, left=range(len(heads))), "", *sentences]) + "\n"


def _summary(title: str, lines: list[Line]) -> Iterator[str]:
    """Geometric mean and worst of the two ratios, and the lowest coverage."""
    if not lines:
        return
    for over, under in (("C-WSPDIS", "WPDIS"), ("WDRSIS", "WDR"), ("BLEND", "WPDIS")):
        ratios = np.array([line.ratio(over, under) for line in lines])
        mean = float(np.exp(np.log(ratios).mean()))
        yield (
            f"{over} / {under}, {len(lines)} cells, {title}: mean square error {mean:.2f} (geometric mean), "
            f"{ratios.max():.2f} (worst).\n"
        )
    lowest = min(lines, key=lambda line: line.coverage)
    yield f"Lowest coverage, {title}: {lowest.coverage:.2f} ({lowest.name}).\n"


def _fingerprint(place: int, cell: FeatureCell) -> tuple[object, ...]:
    """The code itself: cells are worlds, and functions of a log."""
    return inspect.getsource(sys.modules[__name__]), inspect.getsource(problems), NAMES


STUDY = Study(
    name="features", cells=cells, run=run, fingerprint=_fingerprint, folder="", line=line, table=table
)
