"""The names of source files: a pattern selects the names of a source; hidden and unfinished files are left out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from lakehouse_lib.errors import InvalidArgumentError

# A part of a name that starts with "." or "_", or ends with ".tmp".
_HIDDEN = r"(^|/)[._]|\.tmp(/|$)"
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class NamePattern:
    """A pattern of names.

    Attributes:
        text: ``*`` stands for any characters within a part of the name, ``?`` for one character, ``[a-z]`` for one
            character of a set, ``[!a-z]`` for one that is not in it, and the part ``**`` for any number of folders.
            None: all files of the folder itself, and subfolders are errors.

    Raises:
        InvalidArgumentError: the text is not a pattern.
    """

    text: str | None = None

    def __post_init__(self) -> None:
        text = self.text
        if text is None:
            return
        parts = text.split("/")
        mistakes = {
            "has an empty part, or a part '.' or '..'": any(part in ("", ".", "..") for part in parts),
            "has ** beside other characters": any("**" in part and part != "**" for part in parts),
            "ends with **": parts[-1] == "**",
            "has a part that starts with . or _": any(part.startswith((".", "_")) for part in parts),
        }
        wrong = next((mistake for mistake, is_made in mistakes.items() if is_made), None)
        if wrong is None:
            try:
                re.compile(_regex(text))
            except re.error:
                wrong = "has an invalid set in brackets"
        if wrong is not None:
            raise InvalidArgumentError(
                f"pattern is {text!r}, which {wrong}; expected a pattern such as '**/*.csv.gz'",
                hint="Write * for any name, and ** for any number of folders; hidden names never match",
                code="DELTA_INVALID_SOURCE",
            )

    @property
    def folder(self) -> str:
        """The folder that contains all files whose names match; "" for the landing folder."""
        folders = [] if self.text is None else self.text.split("/")[:-1]
        first = next((number for number, part in enumerate(folders) if _WILD.search(part)), len(folders))
        return "/".join(folders[:first])

    @property
    def depth(self) -> int | None:
        """The number of folders in each name that matches; None: any number."""
        if self.text is None:
            return 0
        parts = self.text.split("/")
        return None if "**" in parts else len(parts) - 1

    def may_match_below(self, folder: str) -> bool:
        """Whether files below a folder may have names that match; without a pattern, they would be an error.

        Args:
            folder: its path below the landing folder.
        """
        if re.search(_HIDDEN, folder):
            return False
        return self.text is None or _may_lead_below(self.text.split("/")[:-1], folder.split("/"))

    def may_end_with(self, ending: str) -> bool:
        """Whether names with this ending, such as ".parquet", may match; without a pattern, each name matches."""
        literal = re.split(r"[*?\]]", (self.text or "*").rpartition("/")[2])[-1]
        return literal.endswith(ending) or ending.endswith(literal)

    def matches(self, names: Any) -> Any:
        """A mask of the names in an Arrow array that match, and that are neither hidden nor unfinished."""
        import pyarrow.compute as pc  # the registry imports this module, and importing pyarrow takes long

        visible = pc.invert(pc.match_substring_regex(names, _HIDDEN))
        if self.text is None:
            return visible
        return pc.and_(visible, pc.match_substring_regex(names, _regex(self.text)))


def _may_lead_below(patterns: list[str], folders: list[str]) -> bool:
    """Whether the folders of a pattern may match these folders and more folders below them."""
    if not folders or not patterns:
        return not folders
    if patterns[0] == "**":
        return _may_lead_below(patterns[1:], folders) or _may_lead_below(patterns, folders[1:])
    is_match = re.fullmatch(f"(?s){_part(patterns[0])}", folders[0]) is not None
    return is_match and _may_lead_below(patterns[1:], folders[1:])


def _regex(pattern: str) -> str:
    folders = pattern.split("/")
    parts = ["(?:[^/]+/)*" if part == "**" else _part(part) + "/" for part in folders[:-1]]
    return f"(?s)^{''.join(parts)}{_part(folders[-1])}$"


def _part(pattern: str) -> str:
    texts, remaining = [], pattern
    while remaining:
        # The first letter of a set, which may be "]", does not close the set.
        first_letter = 2 if remaining.startswith("[!") else 1
        end = remaining.find("]", first_letter + 1) if remaining.startswith("[") else -1
        if end > 0:
            negated = remaining[1] == "!"
            letters = re.sub(r"[\\\[\]^]", r"\\\g<0>", remaining[1:end].removeprefix("!"))
            texts.append(f"[{'^/' if negated else ''}{letters}]")
            remaining = remaining[end + 1 :]
            continue
        texts.append({"*": "[^/]*", "?": "[^/]"}.get(remaining[0]) or re.escape(remaining[0]))
        remaining = remaining[1:]
    return "".join(texts)
