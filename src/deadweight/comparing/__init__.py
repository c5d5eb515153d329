"""Comparing: several policies on one log, with differences that hold all at once."""
