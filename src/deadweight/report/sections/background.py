"""What stands behind the numbers: the data card, the conventions, and how to cite."""

from __future__ import annotations

from deadweight.background.data import DataCard
from deadweight.log.labels import visible
from deadweight.report.content import Content
from deadweight.report.markup import Markup, element
from deadweight.report.numbers import count, share, significant
from deadweight.report.sections.pieces import facts, row, section, table

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
