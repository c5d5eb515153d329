"""Tabular MDPs: values, transitions, chains, simulation."""
