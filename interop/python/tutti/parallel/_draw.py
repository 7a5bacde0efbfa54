"""Who is where: a job's ranks by pipeline stage, replica and part of a layer, as text and as a picture."""

from __future__ import annotations

from .. import _parallel
from ._svg import LINE, Svg

_COLOURS = ["#92c5de", "#fdc98a", "#b8e0b0", "#d9c2e9", "#f4a6a0", "#e9e29c"]  # by host
_RANK, _GAP, _LABEL = 44, 14, 110  # pixels


def _cells(layout: _parallel.MeshLayout) -> dict[tuple[int, int], list[list[int]]]:
    """By stage and replica: for each part of the context the ranks that share its layers."""
    cells: dict[tuple[int, int], list[list[int]]] = {}
    for group in layout.groups(["tp"]):
        stage, replica = (layout.coordinate(group[0], axis) for axis in ("pp", "dp"))
        cells.setdefault((stage, replica), []).append(group)
    return cells


def _notes(layouts: _parallel.Layouts) -> list[str]:
    """What the cells do not show."""
    sizes = dict(layouts.dense.axes)
    notes = [f"{name}: {sizes[axis]}" for name, axis in
             (("tensor", "tp"), ("context", "cp"), ("data", "dp"), ("pipeline", "pp")) if sizes[axis] > 1]
    lines = ["  ".join(notes) or "one rank"]
    expert = dict(layouts.expert.axes)
    if expert["ep"] > 1:
        groups = " | ".join(" ".join(map(str, group)) for group in layouts.expert.groups(["ep"]))
        lines.append(f"experts are divided over: {groups}")
    return lines


def text(layouts: _parallel.Layouts, rank: int, hosts: list[int]) -> str:
    cells = _cells(layouts.dense)
    width = len(str(len(hosts) - 1)) + 1

    def cell(groups: list[list[int]]) -> str:
        return "[" + " |".join("".join(f"{one}{'*' if one == rank else ''}".rjust(width + 1) for one in group)
                               for group in groups) + " ]"

    stages = sorted({stage for stage, _ in cells})
    replicas = sorted({replica for _, replica in cells})
    wide = max(len(cell(groups)) for groups in cells.values())
    lines = _notes(layouts)
    lines.append(" " * 9 + "".join(f"  {f'replica {replica}':<{wide}}" for replica in replicas).rstrip())
    for stage in stages:
        lines.append(f"stage {stage:<3}" + "".join(f"  {cell(cells[stage, replica]):<{wide}}"
                                                   for replica in replicas).rstrip())
    lines.append("Ranks in [ ] hold one stage of one replica together" +
                 (", | divides the context." if dict(layouts.dense.axes)["cp"] > 1 else ".") + f" * is rank {rank}.")
    if max(hosts) > 0:
        lines += [f"host {host}: ranks " + " ".join(str(one) for one, where in enumerate(hosts) if where == host)
                  for host in sorted(set(hosts))]
    return "\n".join(lines)


def write_svg(path: str, layouts: _parallel.Layouts, hosts: list[int]) -> None:
    """Rows are stages, columns are replicas; a frame holds the ranks that hold one stage of one replica together."""
    cells = _cells(layouts.dense)
    rows, columns = (len({key[axis] for key in cells}) for axis in (0, 1))
    groups = max(map(len, cells.values()))
    across = max(len(group) for cell in cells.values() for group in cell)
    cell_width, cell_height = across * _RANK + _GAP, groups * (_RANK + 4) + _GAP
    notes = _notes(layouts) + ([f"colours: {max(hosts) + 1} hosts"] if max(hosts) > 0 else [])
    picture = Svg()
    for line, note in enumerate(notes):
        picture.text(_GAP, _GAP / 2 + (line + 0.5) * LINE, note)
    top = (len(notes) + 1) * LINE
    for column in range(columns):
        middle = _LABEL + column * (cell_width + _GAP) + cell_width / 2
        picture.text(middle, top + (_GAP - LINE) / 2, f"replica {column}", anchor="middle")
    for (stage, replica), cell in cells.items():
        x, y = _LABEL + replica * (cell_width + _GAP), top + _GAP + stage * (cell_height + _GAP)
        if replica == 0:
            picture.text(_GAP, y + cell_height / 2, f"stage {stage}")
        picture.rectangle(x, y, cell_width, cell_height, stroke="#5b6270", radius=6)
        for line, group in enumerate(cell):
            for place, rank in enumerate(group):
                left, upper = x + _GAP / 2 + place * _RANK, y + _GAP / 2 + line * (_RANK + 4)
                picture.rectangle(left + 2, upper + 2, _RANK - 4, _RANK - 4, fill=_COLOURS[hosts[rank] % len(_COLOURS)],
                                  radius=4)
                picture.text(left + _RANK / 2, upper + _RANK / 2, str(rank), anchor="middle")
    width = max(_LABEL + columns * (cell_width + _GAP), 9 * max(map(len, notes)) + 2 * _GAP)
    picture.write(path, width, (len(notes) + 2) * LINE + rows * (cell_height + _GAP))
