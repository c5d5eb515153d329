"""No test is timed: what takes long on a busy machine, or under a sanitiser, is not wrong."""

from hypothesis import settings

settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
