"""Error and time of the default against fitted Q evaluation with networks: scikit-learn's, and d3rlpy's.

    pip install 'deadweight[learners]'    # and d3rlpy, which needs torch, where it can be had
    python benchmarks/fitted_q.py --runs 10

The plain one is what textbooks say: as many rounds as there are steps, in each of which one network for each
action is fitted to reward plus the value of what follows, without folds, weights or an interval. That of
d3rlpy has its own settings, the time as one more feature, since its values know no horizon, and draws actions
of the new policy, since it evaluates policies that always do the same. All see the same logs, with one thread
(OMP_NUM_THREADS=1).
"""

import argparse
import time
import types
import warnings
from importlib.util import find_spec

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler

import deadweight as dw

HIDDEN, MOST_ROUNDS = (64, 64), 200
GRADIENT_STEPS = 10_000


def fitted_q(log, pi_e, rounds, seed):
    """The value of pi_e at the first states, by rounds of regression."""
    names = [list(pi_e.action_labels).index(label) for label in log.action_labels]
    probs = pi_e.probs[:, names]
    scaler = StandardScaler().fit(log.features)
    x = scaler.transform(log.features)
    last = np.zeros(log.n_steps, dtype=bool)
    last[log.offsets[1:] - 1] = True
    after = np.append(np.arange(1, log.n_steps), 0)
    cut = np.flatnonzero(~log.terminated)
    beyond = scaler.transform(log.last_features[cut]) if cut.size else None
    nets = [
        MLPRegressor(hidden_layer_sizes=HIDDEN, max_iter=MOST_ROUNDS, warm_start=True, random_state=seed + a)
        for a in range(log.n_actions)
    ]
    value, value_beyond = np.zeros(log.n_steps), np.zeros(len(cut))
    for _ in range(rounds):
        target = log.rewards + np.where(last, 0.0, value[after])
        target[log.offsets[1:][cut] - 1] += value_beyond
        for action, net in enumerate(nets):
            net.fit(x[log.actions == action], target[log.actions == action])
        value = (probs * np.column_stack([net.predict(x) for net in nets])).sum(axis=1)
        if beyond is not None:
            q = np.column_stack([net.predict(beyond) for net in nets])
            value_beyond = (pi_e.last[cut][:, names] * q).sum(axis=1)
    return value[log.offsets[:-1]].mean()


def fitted_q_of_d3rlpy(log, problem, seed):
    """The same by d3rlpy's `DiscreteFQE` with its default network and learning rate."""
    import d3rlpy
    import torch
    from d3rlpy.ope import DiscreteFQE, FQEConfig

    torch.set_num_threads(1)
    d3rlpy.seed(seed)
    rng = np.random.default_rng(seed)
    columns = [list(problem.pi_e.actions).index(label) for label in log.action_labels]
    scaler = StandardScaler().fit(log.features)
    step = np.arange(log.n_steps) - np.repeat(log.offsets[:-1], np.diff(log.offsets))
    x = np.column_stack([scaler.transform(log.features), step / problem.horizon]).astype(np.float32)
    last = np.zeros(log.n_steps, dtype=np.float32)
    last[log.offsets[1:] - 1] = 1.0  # nothing counts after the last step, cut or not

    def probs(rows):
        return problem.pi_e.f(scaler.inverse_transform(rows[:, :-1].astype(float)))[:, columns]

    def drawn(rows):
        below = np.cumsum(probs(rows.numpy()), axis=1) < rng.random((len(rows), 1))
        return torch.as_tensor(np.minimum(below.sum(axis=1), log.n_actions - 1))

    data = d3rlpy.dataset.MDPDataset(
        x,
        log.actions.reshape(-1, 1),
        log.rewards.astype(np.float32).reshape(-1, 1),
        last,
        action_space=d3rlpy.ActionSpace.DISCRETE,
        action_size=log.n_actions,
    )
    policy = types.SimpleNamespace(impl=types.SimpleNamespace(predict_best_action=drawn))
    model = DiscreteFQE(policy, FQEConfig(gamma=1.0))
    model.fit(
        data,
        n_steps=GRADIENT_STEPS,
        n_steps_per_epoch=GRADIENT_STEPS,
        show_progress=False,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
    )
    first = x[log.offsets[:-1]]
    q = [model.predict_value(first, np.full(len(first), action)) for action in range(log.n_actions)]
    return (probs(first) * np.column_stack(q)).sum(axis=1).mean()


def main() -> None:
    """One line a problem and method."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10)
    runs = parser.parse_args().runs
    warnings.simplefilter("ignore", ConvergenceWarning)
    print("problem        method             RMSE     bias CPU s a log")
    for problem, episodes in ((dw.domains.cart_pole(50), 100), (dw.domains.sepsis_like(), 300)):
        estimates = {"BLEND": [], "DM": [], "fitted Q, MLP": []}
        if find_spec("d3rlpy"):
            estimates["fitted Q, d3rlpy"] = []
        seconds = dict.fromkeys(estimates, 0.0)
        for seed in range(runs):
            log = problem.sample(episodes, seed=1000 + seed)
            began = time.process_time()
            table = dw.evaluate(
                log, problem.pi_e, problem.pi_b, ["BEHAVIOUR", "DM", "BLEND"], background=False
            )
            seconds["BLEND"] += time.process_time() - began
            estimates["BLEND"].append(table["BLEND"].value)
            began = time.process_time()
            direct = dw.estimate("DM", log, problem.pi_e, problem.pi_b, interval=None)
            seconds["DM"] += time.process_time() - began
            estimates["DM"].append(direct.value)
            began = time.process_time()
            rows = problem.pi_e.on(log)
            estimates["fitted Q, MLP"].append(fitted_q(log, rows, problem.horizon, seed))
            seconds["fitted Q, MLP"] += time.process_time() - began
            if "fitted Q, d3rlpy" in estimates:
                began = time.process_time()
                estimates["fitted Q, d3rlpy"].append(fitted_q_of_d3rlpy(log, problem, seed))
                seconds["fitted Q, d3rlpy"] += time.process_time() - began
        for name, values in estimates.items():
            off = np.array(values) - problem.true_value
            print(
                f"{problem.name:14} {name:16} {np.sqrt((off**2).mean()):6.3f} {off.mean():+8.3f} "
                f"{seconds[name] / runs:8.1f}"
            )


if __name__ == "__main__":
    main()
