"""The version, written once: the build reads it here, and so does the package."""

__version__ = "0.2.0"
