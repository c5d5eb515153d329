"""Action values: the model that is fitted to a log."""
