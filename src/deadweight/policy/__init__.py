"""Policies as tables, and the policy that a log was made by."""
