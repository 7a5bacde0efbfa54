"""What the scripts of this folder draw with: an SVG picture that is legible on light and on dark pages."""
import math

RANK_COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7"]  # of Okabe and Ito, who chose them for the colour-blind
SENT, LIGHT, INK, GREY = "#d55e00", "#eceff3", "#0b1a26", "#8892a6"
STYLE = ("text{font:13px 'DejaVu Sans',Verdana,sans-serif;fill:#1d1f24}.title{font-weight:bold}.about{fill:#5b6270}"
         ".grid{stroke:#8892a6;stroke-width:.6;opacity:.45}.one{stroke:#1d1f24;stroke-width:1.6}"
         "@media(prefers-color-scheme:dark){text{fill:#e6e8ec}.about{fill:#a3aab8}.one{stroke:#e6e8ec}}")


class Picture:
    def __init__(self, width, height):
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
                      f'viewBox="0 0 {width} {height}">', f"<style>{STYLE}</style>"]

    def text(self, x, y, words, anchor="start", kind="", style=""):
        kind = kind and f' class="{kind}"'
        style = style and f' style="{style}"'
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}{style}>{words}</text>')

    def line(self, x1, y1, x2, y2, kind="grid"):
        self.parts.append(f'<path class="{kind}" d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"/>')

    def write(self, path):
        path.write_text("\n".join([*self.parts, "</svg>"]) + "\n", encoding="utf-8")


def arrow(picture, start, end, colour, width, gap, bend=0.0):
    """From one circle to another, which begins and ends `gap` from their centres, bent to its left."""
    dx, dy = end[0] - start[0], end[1] - start[1]
    length = math.hypot(dx, dy)
    ux, uy = dx / length, dy / length
    x1, y1, x2, y2 = start[0] + ux * gap, start[1] + uy * gap, end[0] - ux * gap, end[1] - uy * gap
    cx, cy = (x1 + x2) / 2 + uy * bend, (y1 + y2) / 2 - ux * bend
    tx, ty = x2 - cx, y2 - cy
    tip = math.hypot(tx, ty)
    tx, ty = tx / tip, ty / tip
    head = 5 + width
    bx, by = x2 - tx * head, y2 - ty * head
    sx, sy = ty * head / 2, tx * head / 2
    picture.parts.append(f'<path d="M{x1:.1f} {y1:.1f}Q{cx:.1f} {cy:.1f} {bx:.1f} {by:.1f}" fill="none" '
                         f'stroke="{colour}" stroke-width="{width:.1f}"/><path d="M{x2:.1f} {y2:.1f}'
                         f'L{bx - sx:.1f} {by + sy:.1f}L{bx + sx:.1f} {by - sy:.1f}z" fill="{colour}"/>')


def disc(picture, x, y, words, fill=LIGHT, ink=INK):
    picture.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="16" fill="{fill}" stroke="{GREY}"/>')
    picture.text(x, y + 4.5, words, "middle", "title", f"fill:{ink}")
