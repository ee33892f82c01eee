"""The histogram of file sizes, as the bars of an SVG image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse_airflow.pages.views.texts import bytes_text, counted_text
from lakehouse_lib.fleet.health.sizes import SizeBucket

WIDTH, HEIGHT, _TOP, _BOTTOM, _GAP = 720, 220, 24, 28, 6


@dataclass(frozen=True)
class Bar:
    """A bar of the image.

    Attributes:
        label: the sizes of the bar's files, in words.
        tick: the label below the bar.
        files, bytes: the number and the size of the bar's files.
        x, y, width, height: the place of the bar in the image.
    """

    label: str
    tick: str
    files: int
    bytes: int
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """The horizontal middle of the bar."""
        return round(self.x + self.width / 2, 1)


@dataclass(frozen=True)
class Histogram:
    """The bars, and a description for readers who do not see the bars."""

    bars: tuple[Bar, ...]
    description: str
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def floor(self) -> int:
        """The vertical place of the axis."""
        return self.height - _BOTTOM


def histogram_of(buckets: Sequence[SizeBucket]) -> Histogram | None:
    """The histogram; None without files. Each bucket has a bar, so that images of two tables can be compared."""
    most = max((bucket.files for bucket in buckets), default=0)
    if not most:
        return None
    step = WIDTH / len(buckets)
    bars = []
    for number, bucket in enumerate(buckets):
        height = round((HEIGHT - _TOP - _BOTTOM) * bucket.files / most, 1)
        x, y = round(number * step + _GAP / 2, 1), round(HEIGHT - _BOTTOM - height, 1)
        label, tick = _labels(buckets, number)
        bars.append(Bar(label, tick, bucket.files, bucket.bytes, x, y, round(step - _GAP, 1), height))
    words = [f"{counted_text(bar.files, 'file')} {bar.label}" for bar in bars if bar.files]
    return Histogram(tuple(bars), "; ".join(words))


def _labels(buckets: Sequence[SizeBucket], number: int) -> tuple[str, str]:
    """The sizes of a bucket in words, and a short form for the label below the bar."""
    start = _short(buckets[number].start)
    if number + 1 == len(buckets):
        return f"from {start} on", f"≥ {start}"
    end = _short(buckets[number + 1].start)
    return (f"below {end}", f"< {end}") if number == 0 else (f"from {start} to {end}", f"≥ {start}")


def _short(size: int) -> str:
    return bytes_text(size).replace(".0 ", " ")
