"""The version, which is that of the library that it measures; all else is in pyproject.toml."""

from pathlib import Path

from setuptools import setup

source = Path(__file__).resolve().parents[1] / "src" / "deadweight" / "_version.py"
namespace: dict[str, str] = {}
exec(source.read_text(encoding="utf-8"), namespace)
version = namespace["__version__"]

setup(version=version, install_requires=[f"deadweight=={version}"])
