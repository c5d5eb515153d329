from typing import Any

REVISION: int

def sums(
    log: tuple[Any, ...],
    ratios: tuple[Any, ...],
    discount: Any,
    results: tuple[Any, ...],
    scratch: Any,
) -> bool: ...
def influences(
    log: tuple[Any, ...], ratios: tuple[Any, ...], factors: tuple[Any, ...], influence: Any
) -> bool: ...
def step_sizes(log: tuple[Any, ...], ratios: tuple[Any, ...], results: tuple[Any, ...]) -> bool: ...
def returns(rewards: Any, offsets: Any, rows: Any, horizon: int, discount: Any, returns: Any) -> bool: ...
def windows(a: Any, b: Any, rewards: Any, episodes: int, moments: Any) -> None: ...
def plausible(
    states: Any, actions: Any, rewards: Any, n_states: int, n_actions: int, largest: float
) -> bool: ...
def borders(episode: Any, step: Any, found: Any) -> int: ...
def resample_copies(seed: int, episodes: Any, cuts: Any, resamples: int, copies: Any) -> None: ...
def lane_sums(
    horizon: int,
    log: tuple[Any, ...],
    ratios: tuple[Any, ...],
    values: tuple[Any, ...],
    discount: Any,
    results: tuple[Any, ...],
) -> bool: ...
def lane_influences(
    horizon: int,
    log: tuple[Any, ...],
    ratios: tuple[Any, ...],
    values: tuple[Any, ...],
    factors: tuple[Any, ...],
    results: tuple[Any, ...],
) -> bool: ...
def count_steps(
    log: tuple[Any, ...],
    ends: tuple[Any, ...],
    fold_of: Any,
    folds: int,
    n_states: int,
    n_actions: int,
    results: tuple[Any, ...],
) -> bool: ...
def model_influences(
    log: tuple[Any, ...],
    ends: tuple[Any, ...],
    fold_of: Any,
    folds: int,
    n_states: int,
    n_actions: int,
    width: int,
    tables: tuple[Any, ...],
    found: Any,
) -> bool: ...
def window_sums(
    log: tuple[Any, ...],
    ends: tuple[Any, ...],
    ratios: tuple[Any, ...],
    values: tuple[Any, ...],
    windows: int,
    results: tuple[Any, ...],
) -> bool: ...
def window_influences(
    log: tuple[Any, ...],
    ends: tuple[Any, ...],
    ratios: tuple[Any, ...],
    values: tuple[Any, ...],
    window: int,
    factors: tuple[Any, ...],
    influence: Any,
) -> bool: ...
