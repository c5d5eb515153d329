"""A real log with features: what would a shop earn that recommends at random?

    pip install --no-deps obp==0.4.1
    python examples/fashion_shop.py

The wheel obp holds samples of the Open Bandit Dataset (Saito et al., 2021): 10,000 recommendations of a
fashion shop by a policy that learns (Bernoulli Thompson sampling), and 10,000 by one that draws at random, in
the same week. So the random policy can be evaluated from the other one's log, and the truth looked up in its
own. The files are read by path: importing the package would need much more than its data.

The two logs are also one log of two old policies, from which a third one is evaluated: what the learner had
come to like by its last day. Taken as one mixture they say more than with the propensities of each by itself.
"""

import csv
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np

import deadweight as dw

SHELF = "men"  # 34 items in 3 places


def rows_of(policy: str) -> list[dict[str, str]]:
    """The recommendations of a policy."""
    wheel = distribution("obp")
    path = Path(str(wheel.locate_file(f"obp/dataset/obd/{policy}/{SHELF}/{SHELF}.csv")))
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def features_of(rows: list[dict[str, str]]) -> tuple[np.ndarray, list[str]]:
    """Place and user as columns of 0 and 1, one for each value that is not rare."""
    columns, names = [], []
    for name in ("position", *(f"user_feature_{j}" for j in range(4))):
        values = np.array([row[name] for row in rows])
        for value, seen in zip(*np.unique(values, return_counts=True), strict=True):
            if 200 <= seen <= len(rows) - 200:
                columns.append(values == value)
                names.append(f"{name}_{value[:4]}")
    return np.column_stack(columns).astype(float), names


def at_random_by_the_learner(seen: list[dict[str, str]]) -> None:
    """The random policy by the learner's log, beside what it earned itself."""
    features, names = features_of(seen)
    items = sorted({int(row["item_id"]) for row in seen + rows_of("random")})
    log = dw.Trajectories(
        None,
        [int(row["item_id"]) for row in seen],
        [float(row["click"]) for row in seen],
        range(len(seen) + 1),
        propensities=[float(row["propensity_score"]) for row in seen],
        features=features,
        feature_names=names,
    )
    print(log)
    at_random = dw.RowPolicy(np.full((len(seen), len(items)), 1 / len(items)), actions=items)
    # 34 actions: straight lines are enough to describe what each earns, and bumps would be 34 times as many.
    table = ["BEHAVIOUR", "WPDIS", "WDR"]
    print(dw.evaluate(log, at_random, None, table, model=dw.LinearQ("linear"), background=False))
    clicks = np.array([float(row["click"]) for row in rows_of("random")])
    error = clicks.std(ddof=1) / np.sqrt(len(clicks))
    print(f"\nAt random, in its own log: {clicks.mean():.5f} +- {2 * error:.5f} clicks a recommendation.")


def both_together(learner: list[dict[str, str]], drawn: list[dict[str, str]]) -> None:
    """The learner's last day, evaluated from both logs: by each row's own propensity, and by the mixture."""
    rows = learner + drawn
    shown = [int(row["item_id"]) for row in rows]
    # The learner changes from day to day, and so does its policy of each place.
    states = [f"place {row['position']}, {row['timestamp'][:10]}" for row in rows]
    log = dw.Trajectories(
        states,
        shown,
        [float(row["click"]) for row in rows],
        range(len(rows) + 1),
        propensities=[float(row["propensity_score"]) for row in rows],
        behaviour_ids=["learner"] * len(learner) + ["random"] * len(drawn),
    )
    items = sorted(set(shown))
    liked = last_day(learner, items)
    new = {state: dict(zip(items, liked[state.split(",")[0]], strict=True)) for state in set(states)}
    uniform = {state: dict.fromkeys(items, 1 / len(items)) for state in set(states)}
    print("\nBoth logs together: what the learner liked on its last day, on all days.")
    for name, pi_b in (("own propensities", None), ("as a mixture", {"random": uniform})):
        # The policy that is not named, the learner's, is counted from its own episodes.
        est = dw.estimate("WPDIS", log, new, pi_b, interval="student-t")
        low, high = est.interval
        print(f"  {name:16s} {est.value:.5f} [{low:.5f}, {high:.5f}], {est.ess:5.0f} effective episodes")


def last_day(learner: list[dict[str, str]], items: list[int]) -> dict[str, np.ndarray]:
    """How often each item was shown in each place on the learner's last day."""
    day = max(row["timestamp"][:10] for row in learner)
    counts = {f"place {place}": np.zeros(len(items)) for place in (1, 2, 3)}
    for row in learner:
        if row["timestamp"].startswith(day):
            counts[f"place {row['position']}"][items.index(int(row["item_id"]))] += 1
    return {place: count / count.sum() for place, count in counts.items()}


def main() -> None:
    """One old policy by the other one's log, and both together."""
    try:
        learner, drawn = rows_of("bts"), rows_of("random")
    except PackageNotFoundError:
        print("Skipped: obp is not installed (pip install --no-deps obp==0.4.1).")
        sys.exit(0)
    at_random_by_the_learner(learner)
    both_together(learner, drawn)


if __name__ == "__main__":
    main()
