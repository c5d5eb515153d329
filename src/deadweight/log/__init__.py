"""Logs in memory: episodes, labels, sets of states."""
