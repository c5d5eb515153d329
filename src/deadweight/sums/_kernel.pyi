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
def returns(rewards: Any, offsets: Any, rows: Any, horizon: int, discount: Any, returns: Any) -> bool: ...
def windows(a: Any, b: Any, rewards: Any, episodes: int, moments: Any) -> None: ...
def plausible(states: Any, actions: Any, rewards: Any, n_states: int, n_actions: int) -> bool: ...
def borders(episode: Any, step: Any, found: Any) -> int: ...
def path_sums(
    log: tuple[Any, ...],
    levels: tuple[Any, ...],
    values: tuple[Any, ...],
    discount: Any,
    results: tuple[Any, ...],
) -> bool: ...
def path_influences(
    log: tuple[Any, ...],
    levels: tuple[Any, ...],
    values: tuple[Any, ...],
    factors: tuple[Any, ...],
    results: tuple[Any, ...],
) -> bool: ...
