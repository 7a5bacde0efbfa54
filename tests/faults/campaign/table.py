"""The faults found by a campaign, as a table."""

import collections


class Table:
    """Counts, for each kind of trial, the trials and how many of them had each sort of fault."""

    def __init__(self, what, columns):
        self.what, self.columns = what, columns
        self.trials = collections.Counter()
        self.bad = collections.Counter()

    def add(self, kind, sorts):
        self.trials[kind] += 1
        for sort in sorts:
            self.bad[kind, sort] += 1

    def __str__(self):
        rows = [[self.what, "trials", *self.columns]]
        for kind in sorted(self.trials):
            rows.append([kind, self.trials[kind], *(self.bad[kind, sort] for sort in self.columns)])
        totals = (sum(self.bad[kind, sort] for kind in self.trials) for sort in self.columns)
        rows.append(["all", sum(self.trials.values()), *totals])
        widths = [max(len(str(row[column])) for row in rows) for column in range(len(rows[0]))]
        return "\n".join(
            "  ".join(str(cell).rjust(width) if column else str(cell).ljust(width)
                      for column, (cell, width) in enumerate(zip(row, widths)))
            for row in rows
        )
