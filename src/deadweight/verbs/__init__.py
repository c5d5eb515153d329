"""The verbs: what a user asks of a log, each from its arguments to its result."""
