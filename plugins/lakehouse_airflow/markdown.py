"""Quote untrusted texts in the Markdown of a question to an approver, which Airflow renders."""

from __future__ import annotations

import re


def code(text: object) -> str:
    """The text as a code span on one line. Markdown and backticks in the text have no effect."""
    shown = " ".join(str(text).split())
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {shown} {fence}"
