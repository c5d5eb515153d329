"""A better policy from a log: where to change, how sure that is, and whether it may be shipped."""
