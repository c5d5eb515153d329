"""A log with features as the table that somebody would have of it."""

from __future__ import annotations

import numpy as np
import pandas as pd

import deadweight as dw

SEPSIS = dw.domains.sepsis_like()


def sepsis_table(episodes: int) -> pd.DataFrame:
    """Stays of the sepsis-like ward, a row for each step, with what followed the last one of each."""
    log = SEPSIS.sample(episodes, seed=0)
    table = pd.DataFrame(log.features, columns=log.feature_names)
    table["episode"] = np.repeat(np.arange(log.n_episodes), log.lengths)
    table["step"] = np.concatenate([np.arange(length) for length in log.lengths])
    table["action"], table["reward"] = log.action_labels[log.actions], log.rewards
    table["behaviour_prob"] = log.propensities
    table["terminated"] = False
    table.loc[log.offsets[1:] - 1, "terminated"] = log.terminated
    for j, name in enumerate(log.feature_names):
        table[f"next_{name}"] = np.repeat(np.nan_to_num(log.last_features[:, j]), log.lengths)
    return table
