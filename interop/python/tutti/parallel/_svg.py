"""Just enough SVG for this package's pictures, in the look of those in docs/pictures."""

from __future__ import annotations

from xml.sax.saxutils import escape

LINE = 26  # pixels from a line of text to the next
_STYLE = "text{font:13px 'DejaVu Sans',Verdana,sans-serif;fill:#1d1f24}"
_BASELINE = 5  # pixels below a text's middle


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


class Svg:
    """Shapes, collected into one document. Sizes and places are pixels."""

    def __init__(self) -> None:
        self._shapes: list[str] = []

    def rectangle(self, x: float, y: float, width: float, height: float, *, fill: str = "none", stroke: str = "none",
                  radius: float = 0) -> None:
        """x, y: of its upper left corner."""
        outline = "" if stroke == "none" else f' stroke="{stroke}"'
        rounded = f' rx="{_number(radius)}"' if radius else ""
        self._shapes.append(f'<rect x="{_number(x)}" y="{_number(y)}" width="{_number(width)}" height="{_number(height)}"'
                            f'{rounded} fill="{fill}"{outline}/>')

    def text(self, x: float, y: float, content: str, *, anchor: str = "start") -> None:
        """y: of its middle. anchor: which of its start, middle and end is at x."""
        where = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self._shapes.append(f'<text x="{_number(x)}" y="{_number(y + _BASELINE)}"{where}>{escape(content)}</text>')

    def document(self, width: float, height: float) -> str:
        """All shapes so far, on white."""
        size = _number(width), _number(height)
        head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" width="{size[0]}" '
                f'height="{size[1]}">')
        paper = f'<rect width="{size[0]}" height="{size[1]}" fill="#ffffff"/>'
        return "\n".join([head, f"<style>{_STYLE}</style>", paper, *self._shapes, "</svg>", ""])

    def write(self, path: str, width: float, height: float) -> None:
        """Writes the document into a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.document(width, height))
