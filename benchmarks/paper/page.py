"""Figures as text and as one HTML page that loads nothing from elsewhere."""

import html
import math

COLOURS = ("#3b5b92", "#c0504d", "#4f8a4f", "#8064a2", "#b8860b", "#555555")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 320, 70, 20, 24, 46
STYLE = (
    "body{font-family:sans-serif;color:#222;max-width:72em;margin:2em auto;padding:0 1em}"
    "table{border-collapse:collapse;font-size:14px}"
    "th,td{border-bottom:1px solid #ccc;padding:3px 8px;text-align:left;vertical-align:top}"
    "td.number{text-align:right;white-space:nowrap}"
    "svg{max-width:46em;display:block;margin:1em 0}"
    "svg text{font-family:sans-serif;font-size:12px;fill:#222}"
    ".missing{color:#a33}"
)


def number_text(value, unit=""):
    """A number with its unit; a dash if there is none."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    text = f"{value:,.0f}" if abs(value) >= 10000 else f"{value:.4g}"
    return f"{text} {unit}".rstrip()


class Line:
    """What the paper has, what was computed here, and why they differ."""

    def __init__(self, what, paper, ours, unit="", why="", ratio=None, ours_text=""):
        self.what, self.paper, self.ours, self.unit, self.why = what, paper, ours, unit, why
        self.ratio, self.ours_text = ratio, ours_text
        if ratio is None and isinstance(paper, (int, float)) and paper and ours is not None:
            self.ratio = ours / paper

    def cells(self):
        ours = self.ours_text or number_text(self.ours, self.unit)
        ratio = "-" if self.ratio is None else f"{self.ratio:.3g}"
        return [self.what, number_text(self.paper, self.unit), ours, ratio, self.why]

    def as_json(self):
        return {"what": self.what, "paper": self.paper, "ours": self.ours, "unit": self.unit,
                "ratio": self.ratio, "why": self.why}


class Chart:
    """Points (x, y) of several series, by name, with linear or logarithmic axes."""

    def __init__(self, title, x, y, series, log_x=False, log_y=False, joined=True):
        self.title, self.x, self.y, self.series = title, x, y, series
        self.log = (log_x, log_y)
        self.joined = joined

    def ranges(self):
        points = [p for points in self.series.values() for p in points]
        found = []
        for axis in (0, 1):
            values = [p[axis] for p in points if not self.log[axis] or p[axis] > 0]
            if not values:
                return None
            least, most = min(values), max(values)
            if not self.log[axis]:
                least = min(0, least) if axis else least
            if least == most:
                least, most = (least / 2, most * 2) if self.log[axis] else (least - 1, most + 1)
            found.append((least, most))
        return found

    def place(self, axis, value, bounds):
        """From 0 to 1 along the axis."""
        least, most = bounds
        if self.log[axis]:
            return (math.log(value) - math.log(least)) / (math.log(most) - math.log(least))
        return (value - least) / (most - least)

    def ticks(self, axis, bounds):
        least, most = bounds
        if self.log[axis]:
            first, last = math.floor(math.log10(least)), math.ceil(math.log10(most))
            step = max(1, (last - first) // 6)
            ticks = [10.0**e for e in range(first, last + 1, step)]
            ticks = [t for t in ticks if least <= t * 1.001 and t <= most * 1.001]
            return ticks if len(ticks) > 1 else [least, most]
        step = 10.0 ** math.floor(math.log10(most - least))
        step *= next((part for part in (0.2, 0.5) if (most - least) / (step * part) <= 8), 1)
        first = math.ceil(least / step)
        return [step * i for i in range(first, math.floor(most / step) + 1)]

    def svg(self):
        bounds = self.ranges()
        if not bounds:
            return ""
        wide, high = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

        def at(point):
            return (LEFT + wide * self.place(0, point[0], bounds[0]),
                    TOP + high * (1 - self.place(1, point[1], bounds[1])))

        height = HEIGHT + 18 * len(self.series)
        lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
                 f'role="img" aria-label="{html.escape(self.title)}">',
                 f'<text x="{LEFT}" y="15" font-weight="bold">{html.escape(self.title)}</text>',
                 f'<rect x="{LEFT}" y="{TOP}" width="{wide}" height="{high}" fill="none" '
                 'stroke="#999"/>']
        for value in self.ticks(0, bounds[0]):
            x = LEFT + wide * self.place(0, value, bounds[0])
            lines.append(f'<text text-anchor="middle" x="{x:.1f}" y="{TOP + high + 16}">'
                         f'{number_text(value)}</text>')
        for value in self.ticks(1, bounds[1]):
            y = TOP + high * (1 - self.place(1, value, bounds[1]))
            lines.append(f'<path d="M{LEFT} {y:.1f}h{wide}" stroke="#ddd"/>'
                         f'<text text-anchor="end" x="{LEFT - 5}" y="{y + 4:.1f}">'
                         f'{number_text(value)}</text>')
        lines.append(f'<text text-anchor="middle" x="{LEFT + wide / 2}" y="{HEIGHT - 10}">'
                     f'{html.escape(self.x)}</text>'
                     f'<text text-anchor="middle" transform="translate(14 {TOP + high / 2}) '
                     f'rotate(-90)">{html.escape(self.y)}</text>')
        for i, (name, points) in enumerate(self.series.items()):
            colour = COLOURS[i % len(COLOURS)]
            drawn = [at(p) for p in points if all(not self.log[a] or p[a] > 0 for a in (0, 1))]
            if self.joined and len(drawn) > 1:
                path = " ".join(f"{x:.1f},{y:.1f}" for x, y in drawn)
                lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}"/>')
            lines += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
                      for x, y in drawn]
            y = HEIGHT + 18 * i + 6
            lines.append(f'<circle cx="{LEFT}" cy="{y - 4}" r="4" fill="{colour}"/>'
                         f'<text x="{LEFT + 12}" y="{y}">{html.escape(name)}</text>')
        return "\n".join([*lines, "</svg>"])


class Figure:
    """A figure of a paper: what was computed of it, or why nothing could be."""

    HEAD = ["what", "paper", "ours", "ratio", "what differs, and why"]

    def __init__(self, name, title):
        self.name, self.title = name, title
        self.lines, self.charts, self.notes = [], [], []
        self.missing = ""  # why it cannot be had here
        self.failed = False
        self.seconds = 0.0

    def line(self, *arguments, **more):
        self.lines.append(Line(*arguments, **more))

    def chart(self, *arguments, **more):
        self.charts.append(Chart(*arguments, **more))

    def state(self):
        if self.failed:
            return f"FAILED: {self.missing}"
        return f"not to be had here: {self.missing}" if self.missing else ""

    def as_text(self):
        yield f"{self.name}: {self.title}"
        if self.state():
            yield f"  {self.state()}"
        if self.lines:
            rows = [self.HEAD] + [line.cells() for line in self.lines]
            widths = [max(len(row[i]) for row in rows) for i in range(4)]
            for row in rows:
                yield (f"  {row[0]:{widths[0]}s}  {row[1]:>{widths[1]}s}  {row[2]:>{widths[2]}s}"
                       f"  {row[3]:>{widths[3]}s}  {row[4]}").rstrip()
        for note in self.notes:
            yield f"  {note}"
        yield ""

    def as_html(self):
        yield f'<h2 id="{self.name}">{html.escape(self.title)}</h2>'
        if self.state():
            yield f'<p class="missing">{html.escape(self.state())}</p>'
        if self.lines:
            yield "<table><tr>" + "".join(f"<th>{cell}</th>" for cell in self.HEAD) + "</tr>"
            for line in self.lines:
                cells = line.cells()
                yield ("<tr>" + "".join(
                    f'<td{" class=number" if 0 < i < 4 else ""}>{html.escape(cell)}</td>'
                    for i, cell in enumerate(cells)) + "</tr>")
            yield "</table>"
        yield from (chart.svg() for chart in self.charts)
        yield from (f"<p>{html.escape(note)}</p>" for note in self.notes)

    def as_json(self):
        return {"name": self.name, "title": self.title, "missing": self.missing,
                "failed": self.failed, "seconds": round(self.seconds, 1),
                "lines": [line.as_json() for line in self.lines], "notes": self.notes}


def page_of(head, figures):
    """The HTML page."""
    parts = ["<!doctype html>", '<html lang="en"><meta charset="utf-8">',
             f"<title>Rondo: the papers' figures</title><style>{STYLE}</style>",
             "<h1>The papers' figures, computed again</h1>"]
    parts += [f"<p>{html.escape(line)}</p>" for line in head]
    for figure in figures:
        parts += figure.as_html()
    return "\n".join(parts) + "</html>\n"


def text_of(head, figures):
    lines = [*head, ""]
    for figure in figures:
        lines += figure.as_text()
    return "\n".join(lines)
