"""The histogram of file sizes as the bars of an SVG image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakehouse_airflow.pages.views.texts import bytes_text, count_text
from lakehouse_lib.fleet.health.sizes import SizeBucket

WIDTH, HEIGHT, _TOP, _BOTTOM, _GAP = 720, 220, 24, 28, 6


@dataclass(frozen=True)
class Bar:
    """A bar of the image.

    Attributes:
        label: the sizes of its files.
        tick: the label below the bar.
        x, y, width, height: its place in the image.
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
    """The bars, and the same in words for readers who do not see them."""

    bars: tuple[Bar, ...]
    description: str
    width: int = WIDTH
    height: int = HEIGHT

    @property
    def floor(self) -> int:
        """The vertical place of the axis."""
        return self.height - _BOTTOM


def histogram_of(buckets: Sequence[SizeBucket]) -> Histogram | None:
    """The histogram, without empty buckets before the first and after the last file; None without files."""
    with_files = [number for number, bucket in enumerate(buckets) if bucket.files]
    if not with_files:
        return None
    first, last = with_files[0], with_files[-1]
    shown = range(first, last + 1)
    most = max(bucket.files for bucket in buckets)
    step = WIDTH / len(shown)
    bars = []
    for place, number in enumerate(shown):
        bucket = buckets[number]
        height = round((HEIGHT - _TOP - _BOTTOM) * bucket.files / most, 1)
        label = _label(buckets, number)
        x, y = round(place * step + _GAP / 2, 1), round(HEIGHT - _BOTTOM - height, 1)
        bars.append(
            Bar(label, f"{bytes_text(bucket.start)}+", bucket.files, bucket.bytes, x, y, round(step - _GAP, 1), height)
        )
    words = [f"{count_text(bar.files)} files {bar.label}" for bar in bars if bar.files]
    return Histogram(tuple(bars), "; ".join(words))


def _label(buckets: Sequence[SizeBucket], number: int) -> str:
    start = buckets[number].start
    if number + 1 == len(buckets):
        return f"from {bytes_text(start)} on"
    end = bytes_text(buckets[number + 1].start)
    return f"below {end}" if start == 0 else f"from {bytes_text(start)} to {end}"
