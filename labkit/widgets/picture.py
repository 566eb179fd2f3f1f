"""A picture that shows itself wherever it is: SVG in a notebook, words in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

FONT = "ui-sans-serif, system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"

ACCENTS = ("#2563eb", "#c2410c", "#7c3aed", "#15803d", "#be185d", "#a16207", "#0e7490", "#b91c1c")
"""Middle tones for borders and fillings, seen on a white page and on a dark one. Words never
depend on them: those have the colour of the text around the picture."""

QUIET = 0.72
"""Opacity of what is said on the side; still 4.5 to 1 against the page, light or dark."""

_ALONE = "<style>svg{color:#1f2328}@media(prefers-color-scheme:dark){svg{color:#e6edf3}}</style>"
"""In a page of its own there is no text around it to take the colour from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A drawing with the same said in words.

    Attributes:
        svg: the drawing, complete; it takes its text colour from the page around it.
        text: what it shows, for terminals and for readers who cannot see it.
    """

    svg: str
    text: str

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.svg, "text/plain": self.text}

    def __str__(self) -> str:
        return self.text

    def save(self, path: Path) -> None:
        """Write the drawing as an SVG file that follows the reader's light or dark theme."""
        head, end, rest = self.svg.partition(">")
        path.write_text(head + end + _ALONE + rest + "\n", encoding="utf-8")


def drawing(parts: Sequence[str], *, width: int, height: int, title: str, words: str) -> str:
    """An SVG of these parts, as wide as there is room and no wider than drawn.

    Args:
        parts: its elements.
        width: of its coordinates, and in pixels where there is room.
        height: of its coordinates.
        title: what it is, in a few words; read aloud by screen readers.
        words: all that it shows, in words; read on demand.
    """
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'style="width:100%;max-width:{width}px;height:auto" fill="currentColor" '
        f'font-family="{escape(FONT)}"><title>{escape(title)}</title>'
        f"<desc>{escape(words)}</desc>" + "".join(parts) + "</svg>"
    )


def text(
    x: float,
    y: float,
    words: str,
    *,
    size: int = 12,
    weight: int = 400,
    quiet: bool = False,
    anchor: str = "start",
) -> str:
    """A line of text; `quiet` for what is said on the side."""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"'
        + (f' font-weight="{weight}"' if weight != 400 else "")  # noqa: PLR2004 - SVG's default
        + (f' opacity="{QUIET:g}"' if quiet else "")
        + f">{escape(words)}</text>"
    )


def box(
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    colour: str = "currentColor",
    filled: float = 0,
    dashed: bool = False,
    faint: bool = False,
) -> str:
    """A rectangle with round corners.

    Args:
        x: left edge.
        y: upper edge.
        width: from left to right.
        height: from top to bottom.
        colour: of its border and, as far as it is `filled` (0 to 1), of its inside.
        filled: opacity of the inside.
        dashed: draw the border as a dashed line.
        faint: draw the border as one of little weight.
    """
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" '
        f'fill="{colour}" fill-opacity="{filled:g}" stroke="{colour}" stroke-width="1.5"'
        + (' stroke-dasharray="4 3"' if dashed else "")
        + (' stroke-opacity="0.4"' if faint else "")
        + "/>"
    )


def shortened(words: str, limit: int) -> str:
    """Words cut to `limit` characters, with an ellipsis where something is missing."""
    return words if len(words) <= limit else words[: limit - 1] + "…"
