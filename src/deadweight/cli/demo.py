"""`deadweight demo`: a log whose answers are known, from the question to the verdict.

By default a ward and three new rules for it, told as a story, with verdicts that are compared with the truth;
by `--domain lift` logs of the paper's lift, plain and state-based estimators side by side.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence

import numpy as np

from deadweight.cli.domains import ranges
from deadweight.cli.process import finish, print_table, program, tell, tell_words, terminal_width
from deadweight.cli.request import Request, check_file
from deadweight.domains import CALM, OLD, RULES, Rule, Ward, stochastic_lift, ward, write_ward_files
from deadweight.errors import OptionError, did_you_mean, how_many
from deadweight.log.trajectories import Trajectories
from deadweight.mdp.problem import Problem
from deadweight.results.evaluation import Evaluation
from deadweight.tools.files import writing
from deadweight.verbs.estimate import evaluate

# What each new rule is judged to be, by log.
Rounds = Sequence[dict[Rule, Evaluation]]
DOMAINS = ("ward", "lift")
# The methods whose intervals are counted, in words.
METHODS = {
    "BEHAVIOUR": "the average of the log, as if nothing changed",
    "WIS": "plain weights, for whole stays",
    "WSIS": "weights of the days that matter, for whole stays",
    "WPDIS": "plain weights, day by day",
    "WDRSIS": "weights of the days that matter, and a model",
    "DM": "a model of the ward alone",
    "BLEND": "the blend of them, behind the verdict",
}
WARD_NAMES = tuple(METHODS)
REWARD = "share of patients who go home well"
WIDTH = 100
# Estimators of the lift, plain and state-based.
PAIRS = (
    ("WIS", "WSIS"),
    ("WPDIS", "WSPDIS"),
    ("WPDIS", "C-WSPDIS"),
    ("WINCRIS", "WSINCRIS"),
    ("WDR", "WDRSIS"),
    ("SDRE", "SSDRE"),
    ("MIS", "SMIS"),
    ("TMIS", "STMIS"),
)
BASELINES = ("BEHAVIOUR", "DM")
LIFT_NAMES = tuple(dict.fromkeys([*BASELINES, *(name for pair in PAIRS for name in pair)]))
HEADINGS = ("plain", "value", "ESS", "RMSE", "state-based", "value", "ESS", "RMSE", "dropped")


def demo(request: Request) -> int:
    """Simulate, evaluate, print, and write a report; the exit code."""
    if request.domain not in DOMAINS:
        raise OptionError(
            f"--domain must be ward or lift; found {request.domain!r}."
            f"{did_you_mean(request.domain, DOMAINS)}",
            fix="For example deadweight demo --domain lift.",
        )
    if request.files is not None:
        with writing(
            request.files / "any", "Free some space, or name a folder on another disk with --files."
        ):
            for path in write_ward_files(request.files, request.episodes or 600, request.seed):
                tell(f"Written: {path}")
        return 0
    if request.report is not None:
        check_file(request.report, json=request.json)
    return lift_demo(request) if request.domain == "lift" else ward_demo(request)


def ward_demo(request: Request) -> int:
    """Simulate, evaluate three rules, print the story, write the report of the first rule; the exit code."""
    world, seeds = ward(), np.random.SeedSequence(request.seed).spawn(request.logs or 20)
    logs = [world.sample(request.episodes or 600, seed) for seed in seeds]
    rounds = [{rule: _evaluated(log, rule, log is logs[0]) for rule in RULES} for log in logs]
    evs, coverage = rounds[0], {name: _coverage(world, rounds, name) for name in WARD_NAMES}
    first = RULES[0]
    title, truth = f"Demo: may the ward {first.name}?", world.truth(first)
    said = (
        f"\nReport on '{first.name}', with the truth marked: {{}}\n"
        f"Your own log: {program()} doctor log.csv\n"
        f"        then: {program()} evaluate log.csv --target policy.csv"
    )
    files = request.report_of(evs[first], said, title=title, reward=REWARD, truth=truth)
    if request.json:
        return finish(0, files, _document(world, rounds, coverage))
    _tell_question(logs[0])
    _tell_verdicts(world, evs)
    _tell_weights(world, evs[CALM])
    _tell_repeated(world, rounds, coverage)
    return finish(0, files)


def _evaluated(log: Trajectories, rule: Rule, background: bool) -> Evaluation:
    return evaluate(log, rule.policy, None, WARD_NAMES, return_range=(0, 1), background=background)


def _coverage(world: Ward, rounds: Rounds, name: str) -> dict[str, float]:
    """The coverage of the intervals of a method, over all logs and rules, and their mean width."""
    bounds = [
        (world.truth(rule), *(ev[name].interval or (np.nan, np.nan)))
        for evs in rounds
        for rule, ev in evs.items()
    ]
    inside = sum(lower <= truth <= upper for truth, lower, upper in bounds)
    width = float(np.mean([upper - lower for _, lower, upper in bounds]))
    return {"holds": inside, "of": len(bounds), "width": width}


def is_right(world: Ward, rule: Rule, answer: str) -> bool:
    """Whether a verdict agrees with the truth; one that does not decide is never wrong."""
    truly_better = world.truth(rule) > world.truth(OLD)
    return answer == "cannot tell" or (answer == "better") == truly_better


def _tell_question(log: Trajectories) -> None:
    home = float(log.rewards.sum()) / log.n_episodes
    paragraph(
        "A ward, simulated, so that the truth is known. Every day each patient is watched or treated. The "
        f"old rule {OLD.words}. Of {log.n_episodes:,} patients, {_of_100(home)} of 100 went home well; the "
        "others went to intensive care. Three new rules are proposed, and nobody has followed them yet. "
        "Which of them may we try, judged only from the log of the old rule?"
    )
    tell()
    print_table(("new rule", "what it does"), [(rule.name, rule.words) for rule in RULES], left=(0, 1))


def _tell_verdicts(world: Ward, evs: dict[Rule, Evaluation]) -> None:
    tell("\nOf 100 patients, so many would go home well:\n")
    rows = []
    for rule, ev in evs.items():
        lower, upper = ev.headline.interval or (np.nan, np.nan)
        right = "right" if is_right(world, rule, ev.verdict.answer) else "WRONG"
        rows.append(
            [
                rule.name,
                _of_100(ev.headline.value),
                f"{_of_100(lower)} to {_of_100(upper)}",
                ev.verdict.answer,
                _of_100(world.truth(rule)),
                right,
            ]
        )
    headings = ("new rule", "estimate", "95 % interval", "verdict", "truth", "verdict is")
    print_table(headings, rows, left=(0, 3, 5))
    tell(f"The old rule: {_of_100(world.truth(OLD))} in truth.")
    gap = abs(world.truth(CALM) - world.truth(OLD))
    paragraph(
        f"\n'{CALM.name}' differs from the old rule by {_of_100(gap)} patients of 100 in truth: too little "
        "for a log of this size, and the verdict says so."
    )


def _tell_weights(world: Ward, ev: Evaluation) -> None:
    """Say why plain weights fail, and what is dropped."""
    plain, kept = ev["WIS"], ev["WSIS"]
    lower, upper = plain.interval or (np.nan, np.nan)
    days = ev.background.data.steps / ev.n_episodes
    paragraph(
        f"\nWhy not simply weight the log? A stay counts for more if the new rule would have done the same, "
        f"with a factor for each day; and the factors of {days:.0f} days are multiplied. For '{CALM.name}' "
        f"{plain.ess or 0:.0f} of {ev.n_episodes:,} patients then count for nearly everything: plain weights "
        f"say {_of_100(plain.value)}, somewhere from {_of_100(lower)} to {_of_100(upper)}, where the truth "
        f"is {_of_100(world.truth(CALM))}."
    )
    if not kept.dropped:
        return
    *others, last = (str(label) for label in kept.dropped)
    states = f"{', '.join(others)} or {last}" if others else last
    lower, upper = kept.interval or (np.nan, np.nan)
    paragraph(
        f"What is dropped, and why: on days when a patient is {states} the log shows that it hardly matters "
        f"which of the two rules decides. The factors of those days are dead weight. Without them "
        f"{kept.ess or 0:.0f} patients count, and the same weights say {_of_100(kept.value)}, from "
        f"{_of_100(lower)} to {_of_100(upper)}."
    )


def _tell_repeated(world: Ward, rounds: Rounds, coverage: dict[str, dict[str, float]]) -> None:
    paragraph(
        f"\nThe same with {how_many(len(rounds), 'log')} and all three rules: how often is the truth in the "
        "interval?"
    )
    tell()
    rows = [
        [name, METHODS[name], f"{of['holds']} of {of['of']}", _of_100(of["width"])]
        for name, of in coverage.items()
    ]
    print_table(("method", "in words", "truth inside", "width, of 100"), rows, left=(0, 1))
    wrong = 0
    for rule in RULES:
        answers = [evs[rule].verdict.answer for evs in rounds]
        wrong += sum(not is_right(world, rule, answer) for answer in answers)
        counts = ", ".join(f"{answers.count(answer)} times {answer}" for answer in dict.fromkeys(answers))
        tell(f"'{rule.name}': {counts}.")
    tell(f"Verdicts that are wrong: {wrong} of {len(rounds) * len(RULES)}.")


def _document(world: Ward, rounds: Rounds, coverage: dict[str, dict[str, float]]) -> dict[str, object]:
    policies = {
        rule.name: {
            "truth": world.truth(rule),
            "verdicts": [evs[rule].verdict.answer for evs in rounds],
            "right": is_right(world, rule, ev.verdict.answer),
            **ev.to_dict(),
        }
        for rule, ev in rounds[0].items()
    }
    return {
        **rounds[0][RULES[0]].to_dict(),
        "truth": world.truth(RULES[0]),
        "old_rule": world.truth(OLD),
        "logs": len(rounds),
        "policies": policies,
        "intervals": coverage,
        "report": None,
    }


def paragraph(text: str) -> None:
    """A paragraph in lines that a terminal shows whole; a line break in front is kept."""
    width = min(WIDTH, terminal_width(sys.stdout) or WIDTH)
    tell("\n" * text.startswith("\n") + textwrap.fill(text.strip(), width))


def _of_100(value: float) -> str:
    return f"{100 * value:.1f}"


def lift_demo(request: Request) -> int:
    """Simulate, evaluate, print, and write the report of the first log; the exit code."""
    size, episodes, logs = request.size, request.episodes or 1000, request.logs or 10
    problem = stochastic_lift(size)
    seeds = np.random.SeedSequence(request.seed).spawn(logs)
    log = problem.sample(episodes, seeds[0])
    ev = evaluate(log, problem.pi_e, problem.pi_b, LIFT_NAMES, drop="auto")
    rmse = _root_mean_squared_errors(problem, ev, episodes, seeds)
    truth = problem.true_value
    title = f"Demo: a lift of {size} floors"
    files = request.report_of(ev, title=title, truth=truth)
    if request.json:
        return finish(0, files, {"truth": truth, "logs": logs, "rmse": rmse, **ev.to_dict()})
    tell_words(
        f"A lift of {size} floors; a log of {log.n_episodes:,} episodes ({log.n_steps:,} steps) of a policy "
        "that acts at random.\n"
        "What would a policy earn that presses the right button 95 % of the time? "
        f"The exact answer is {truth:.4f}.\n"
    )
    rows = []
    for plain, based in PAIRS:
        dropped = ranges(ev[based].dropped) if ev[based].dropped else "nothing"
        rows.append([*_numbers(ev, rmse, plain), *_numbers(ev, rmse, based), dropped])
    rows += [[*_numbers(ev, rmse, name), "", "", "", "", ""] for name in BASELINES]
    print_table(HEADINGS, rows, left=(0, 4, 8))
    tell_words(_closing(ev, logs))
    return finish(0, files)


def _root_mean_squared_errors(
    problem: Problem, first: Evaluation, episodes: int, seeds: list[np.random.SeedSequence]
) -> dict[str, float]:
    """The RMSE of each estimator over all logs, the first of which is evaluated already."""
    evaluations = [first]
    for seed in seeds[1:]:
        log = problem.sample(episodes, seed)
        evaluations.append(evaluate(log, problem.pi_e, problem.pi_b, LIFT_NAMES, drop="auto", interval=None))
    errors = {name: [ev[name].value - problem.true_value for ev in evaluations] for name in LIFT_NAMES}
    return {name: float(np.sqrt(np.mean(np.square(of_logs)))) for name, of_logs in errors.items()}


def _numbers(ev: Evaluation, rmse: dict[str, float], name: str) -> list[str]:
    ess = ev[name].ess
    return [name, f"{ev[name].value:.3f}", "" if ess is None else f"{ess:.0f}", f"{rmse[name]:.3f}"]


def _closing(ev: Evaluation, logs: int) -> str:
    best = ev["C-WSPDIS"]
    lower, upper = best.interval or (np.nan, np.nan)
    return (
        f"\nValues are of the first log, RMSE (root mean squared error) of {how_many(logs, 'log')} of "
        f"this size. ESS is how many of the {best.n_episodes:,} episodes effectively carry the weights. "
        "State-based estimators drop the ratios of states that a rule takes for negligible, chosen from "
        "the log.\n"
        f"C-WSPDIS of the first log with its 95 % interval: {best.value:.4f} [{lower:.4f}, {upper:.4f}]."
    )
