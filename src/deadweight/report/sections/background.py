"""What stands behind the numbers: the data card, the conventions, and how to cite."""

from __future__ import annotations

from deadweight.background.data import DataCard
from deadweight.log.labels import visible
from deadweight.report.content import Content
from deadweight.report.markup import Markup, element
from deadweight.report.numbers import count, share, significant
from deadweight.report.sections.parts import facts, section

PAPER = (
    "David M. Bossens and Philip S. Thomas (2024). Low Variance Off-policy Evaluation with State-based "
    "Importance Sampling. IEEE Conference on Artificial Intelligence (CAI)."
)


def data_section(content: Content) -> Markup:
    """What was logged."""
    return section("data", "The data", facts(_reward(content.reward) + _card(content.data)))


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


def _card(card: DataCard) -> list[tuple[str, object]]:
    shortest, _, median, _, longest = card.lengths
    low, lower, middle, upper, high = (significant(value, 4) for value in card.returns)
    found: list[tuple[str, object]] = [
        ("Episodes", count(card.episodes)),
        ("Steps", count(card.steps)),
        ("Length of an episode", f"{count(shortest)} to {count(longest)}, median {significant(median)}"),
        ("States", f"{count(card.visited_states)} visited of {count(card.states)}"),
        ("Actions", count(card.actions)),
        ("Truncated episodes", share(card.truncated_share)),
        (
            "Behaviour policy",
            "propensity logged with each action" if card.behaviour_logged else "given for all actions",
        ),
        (
            "New policy",
            "probability logged with each action" if card.evaluation_logged else "given for all actions",
        ),
        ("Rewards", "{} to {}".format(*(significant(reward, 4) for reward in card.rewards))),
        ("Returns", f"{low} to {high}, mean {significant(card.mean_return, 4)}"),
        ("Middle half of the returns", f"{lower} to {upper}, median {middle}"),
    ]
    if card.unseen_mass is not None:
        found.append(("Probability of the new policy on actions never logged there", share(card.unseen_mass)))
    return found
