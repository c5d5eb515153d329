"""How docstrings become pages: formulas as readable text, examples as examples.

A griffe extension, named in mkdocs.yml. Docstrings have formulas in LaTeX (`.. math::`), which a page without
scripts cannot typeset; the few commands in use have plain equivalents.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

# In this order: what is longer, or holds others, comes first.
SYMBOLS = {
    r"\\hat\s*\\pi": "π̂",
    r"\\hat\s*G": "Ĝ",
    r"\\pi": "π",
    r"\\gamma": "γ",
    r"\\rho": "ρ",
    r"\\delta": "δ",
    r"\\theta": "θ",
    r"\\alpha": "α",
    r"\\epsilon": "ε",
    r"\\sum": "Σ",
    r"\\prod": "Π",
    r"\\max": "max",
    r"\\min": "min",
    r"\\log": "log",
    r"\\exp": "exp",
    r"\\nabla": "∇",
    r"\\cdot": "·",
    r"\\le(?![a-z])": "≤",
    r"\\ge(?![a-z])": "≥",
    r"\\in(?![a-z])": "∈",
    r"\\mid": "|",
    r"\\mathrel|\\left|\\right|\\bigl?|\\bigr?|\\limits": "",
    r"\\q?quad": "   ",
    r"\\lceil": "⌈",
    r"\\rceil": "⌉",
    r"\\(?:mathrm|text|operatorname)\{([^{}]*)\}": r"\1",
    r"\\d?frac\s*\{((?:[^{}]|\{[^{}]*\})*)\}\s*\{((?:[^{}]|\{[^{}]*\})*)\}": r"(\1) / (\2)",
    r"\\d?frac\s*(\w)\s*(\w)": r"\1/\2",
    r"\\[,;!:]": " ",
    r"\\([{}])": r"\1",
}
MATHS = re.compile(r"^([ ]*)\.\. math::[ ]*(.*(?:\n(?:\1[ ]+\S.*))*)", re.MULTILINE)


def plain(formula: str) -> str:
    """A formula in Unicode.

    >>> plain(r"\\frac1n \\sum_i \\rho_i")
    '1/n Σ_i ρ_i'
    """
    for pattern, text in SYMBOLS.items():
        formula = re.sub(pattern, text, formula)
    return re.sub(r"[ ]{2,}(?=\S)", " ", " ".join(formula.split()))


def readable(text: str) -> str:
    """A docstring that the Google style and Markdown understand."""
    text = MATHS.sub(lambda match: f"{match[1]}```\n{match[1]}{plain(match[2])}\n{match[1]}```", text)
    text = re.sub(r":math:`([^`]*)`", lambda match: f"`{plain(match[1])}`", text)
    text = re.sub(r"^([ ]*)Example:$", r"\1Examples:", text, flags=re.MULTILINE)
    return re.sub(r"^Reference: ", "*Reference:* ", text, flags=re.MULTILINE)


class Readable(griffe.Extension):
    """Applies `readable` to every docstring."""

    def on_object(self, *, obj: Any, **kwargs: Any) -> None:
        """Once for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = readable(obj.docstring.value)
