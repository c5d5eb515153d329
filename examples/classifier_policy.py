"""A classifier as policy: what would happen if a model that imitates the best doctors decided?

    pip install 'deadweight[learners]'
    python examples/classifier_policy.py

Anything with `predict_proba` and `classes_` is a policy. Nobody logged the probabilities of the old policy
here, so they are learned from the log, and checked.
"""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import deadweight as dw


def main() -> None:
    """Train on some stays, evaluate on others: a policy looks too good on the stays that taught it."""
    hospital = dw.domains.sepsis_like()
    everything = hospital.sample(episodes=900, seed=0)
    train, test = everything.select(np.arange(300)), everything.select(np.arange(300, 900))

    survived = np.repeat(np.add.reduceat(train.rewards, train.offsets[:-1]) > 0, train.lengths)
    imitator = make_pipeline(StandardScaler(), LogisticRegression())
    imitator.fit(train.features[survived], train.action_labels[train.actions[survived]].astype(str))
    print(dw.policy(imitator, test))

    pi_b = dw.fit_behaviour(test, candidates=["logit", "bumps-logit"])
    print(
        f"\nOld policy learned by {pi_b.chosen}; ratios are {pi_b.z(imitator):+.1f} standard errors from 1."
    )
    print(dw.evaluate(test, imitator, pi_b, background=False))


if __name__ == "__main__":
    main()
