"""A picture that shows itself wherever it is: SVG in a notebook, text in a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

FONT = "ui-sans-serif, system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"

# Middle tones that keep their contrast on a white page and on a dark one.
INK = "#64748b"
STRONG = "#0f766e"
ACCENTS = ("#2563eb", "#c2410c", "#7c3aed", "#15803d", "#be185d", "#a16207", "#0e7490", "#b91c1c")


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A drawing with the same said in words.

    Attributes:
        svg: the drawing, complete.
        text: what it shows, for terminals and for readers who cannot see it.
    """

    svg: str
    text: str

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        return {"text/html": self.svg, "text/plain": self.text}

    def __str__(self) -> str:
        return self.text

    def save(self, path: Path) -> None:
        """Write the drawing as an SVG file."""
        path.write_text(self.svg + "\n", encoding="utf-8")


def drawing(parts: Sequence[str], *, width: int, height: int, title: str) -> str:
    """An SVG of these parts, as wide as there is room and no wider than drawn."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'style="width:100%;max-width:{width}px;height:auto" role="img" '
        f'font-family="{escape(FONT)}"><title>{escape(title)}</title>' + "".join(parts) + "</svg>"
    )


def text(
    x: float,
    y: float,
    words: str,
    *,
    size: int = 12,
    fill: str = INK,
    weight: int = 400,
    anchor: str = "start",
) -> str:
    """A line of text."""
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" font-weight="{weight}" '
        f'text-anchor="{anchor}">{escape(words)}</text>'
    )


def box(
    x: float, y: float, width: float, height: float, *, stroke: str = INK, fill: str = "none",
    opacity: float = 1, dashed: bool = False,
) -> str:  # fmt: skip
    """A rectangle with round corners; `opacity` is that of its filling."""
    dash = ' stroke-dasharray="4 3"' if dashed else ""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6" '
        f'fill="{fill}" fill-opacity="{opacity:g}" stroke="{stroke}" stroke-width="1.5"{dash}/>'
    )


def shortened(words: str, limit: int) -> str:
    """Words cut to `limit` characters, with an ellipsis where something is missing."""
    return words if len(words) <= limit else words[: limit - 1] + "…"
