"""Quote untrusted texts in the Markdown of a question, which Airflow renders."""

from __future__ import annotations

import re


def code(text: object) -> str:
    """A code span that shows the text as it is, in one line: nothing in it is a link, markup or the span's end."""
    shown = " ".join(str(text).split())
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    return f"{fence} {shown} {fence}"
