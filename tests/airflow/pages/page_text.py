"""The text of a page."""

import re
from html import unescape


def text_of(html: str) -> str:
    """The text that a reader sees."""
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", html)))
