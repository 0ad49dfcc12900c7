"""Charts as SVG, written by hand: lines over linear or logarithmic axes, and bars. No dependency, and small diffs."""

import math
from collections.abc import Callable
from html import escape

from benchmarks.result import Chart, number

WIDTH, HEIGHT = 760, 420
LEFT, RIGHT, TOP, BOTTOM = 84, 24, 56, 64
COLOURS = ("#1f5fbf", "#d1495b", "#e08e1b", "#2e8b57", "#7b5ea7", "#555555")
DASHES = ("", "7 4", "2 4", "10 3 2 3", "4 2", "1 3")
INK, GRID = "#222222", "#dddddd"
FONT = "font-family='Helvetica, Arial, sans-serif'"

Place = Callable[[float], float]


def svg(chart: Chart) -> str:
    """The chart as an SVG document, on white."""
    body = _bars(chart) if chart.bars else _lines(chart)
    title = f"<text x='{LEFT}' y='28' font-size='17' font-weight='bold' fill='{INK}'>{escape(chart.title)}</text>"
    y_middle = (TOP + HEIGHT - BOTTOM) / 2
    below = (
        f"<text x='{(LEFT + WIDTH - RIGHT) / 2}' y='{HEIGHT - 14}' font-size='13' text-anchor='middle' fill='{INK}'>"
        f"{escape(chart.x_label + (', logarithmic' if chart.x_log else ''))}</text>"
    )
    beside = (
        f"<text transform='translate(20 {y_middle}) rotate(-90)' font-size='13' text-anchor='middle' fill='{INK}'>"
        f"{escape(chart.y_label + (', logarithmic' if chart.y_log else ''))}</text>"
    )
    return "\n".join(
        [
            f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' width='{WIDTH}' height='{HEIGHT}' {FONT}>",
            f"<title>{escape(chart.title)}</title>",
            f"<rect width='{WIDTH}' height='{HEIGHT}' fill='#ffffff'/>",
            title,
            *body,
            below,
            beside,
            "</svg>\n",
        ]
    )


def _lines(chart: Chart) -> list[str]:
    xs = [x for series in chart.series for x, _ in series.points]
    ys = [y for series in chart.series for _, y in series.points]
    x_ticks = sorted(set(xs)) if len(set(xs)) <= 8 else _ticks(xs, log=chart.x_log)
    y_ticks = _ticks(ys, log=chart.y_log)
    x_of = _scale(min(*xs, *x_ticks), max(*xs, *x_ticks), LEFT + 14, WIDTH - RIGHT - 14, log=chart.x_log)
    y_of = _scale(y_ticks[0], y_ticks[-1], HEIGHT - BOTTOM, TOP + 26, log=chart.y_log)
    body = _grid(y_ticks, y_of)
    for x in x_ticks:
        body.append(
            f"<line x1='{x_of(x):.1f}' y1='{HEIGHT - BOTTOM}' x2='{x_of(x):.1f}' y2='{HEIGHT - BOTTOM + 5}' stroke='{INK}'/>"
        )
        body.append(_text(x_of(x), HEIGHT - BOTTOM + 19, _short(x)))
    for place, series in enumerate(chart.series):
        colour, dash = COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)]
        points = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in sorted(series.points))
        body.append(f"<polyline points='{points}' fill='none' stroke='{colour}' stroke-width='2' stroke-dasharray='{dash}'/>")
        body += [f"<circle cx='{x_of(x):.1f}' cy='{y_of(y):.1f}' r='3.5' fill='{colour}'/>" for x, y in series.points]
    return body + _legend([series.name for series in chart.series])


def _bars(chart: Chart) -> list[str]:
    values = [series.points[0][1] for series in chart.series]
    y_ticks = _ticks([*values, *([] if chart.y_log else [0.0])], log=chart.y_log)
    y_of = _scale(y_ticks[0], y_ticks[-1], HEIGHT - BOTTOM, TOP + 26, log=chart.y_log)
    body = _grid(y_ticks, y_of)
    step = (WIDTH - LEFT - RIGHT) / len(values)
    for place, (series, value) in enumerate(zip(chart.series, values, strict=True)):
        middle, top = LEFT + step * (place + 0.5), y_of(value)
        colour = "#9aa5b1" if "floor" in series.name or "cold" in series.name else COLOURS[0]
        body.append(
            f"<rect x='{middle - step * 0.28:.1f}' y='{top:.1f}' width='{step * 0.56:.1f}' "
            f"height='{HEIGHT - BOTTOM - top:.1f}' fill='{colour}'/>"
        )
        body.append(_text(middle, top - 6, number(value)))
        for line, words in enumerate(series.name.split(", ")):
            body.append(_text(middle, HEIGHT - BOTTOM + 19 + 14 * line, words))
    return body


def _grid(ticks: list[float], y_of: Place) -> list[str]:
    body = []
    for tick in ticks:
        y = y_of(tick)
        body.append(f"<line x1='{LEFT}' y1='{y:.1f}' x2='{WIDTH - RIGHT}' y2='{y:.1f}' stroke='{GRID}'/>")
        body.append(_text(LEFT - 8, y + 4, _short(tick), anchor="end"))
    body.append(f"<line x1='{LEFT}' y1='{HEIGHT - BOTTOM}' x2='{WIDTH - RIGHT}' y2='{HEIGHT - BOTTOM}' stroke='{INK}'/>")
    return body


def _legend(names: list[str]) -> list[str]:
    body, x = [], float(LEFT)
    for place, name in enumerate(names):
        colour, dash = COLOURS[place % len(COLOURS)], DASHES[place % len(DASHES)]
        body.append(
            f"<line x1='{x}' y1='47' x2='{x + 26}' y2='47' stroke='{colour}' stroke-width='2' stroke-dasharray='{dash}'/>"
        )
        body.append(f"<circle cx='{x + 13}' cy='47' r='3.5' fill='{colour}'/>")
        body.append(_text(x + 32, 51, name, anchor="start"))
        x += 48 + 6.4 * len(name)
    return body


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' font-size='12' text-anchor='{anchor}' fill='{INK}'>{escape(text)}</text>"


def _scale(low: float, high: float, start: float, end: float, *, log: bool) -> Place:
    of = math.log10 if log else float
    span = (of(high) - of(low)) or 1.0
    return lambda value: start + (of(value) - of(low)) / span * (end - start)


def _ticks(values: list[float], *, log: bool) -> list[float]:
    if log:
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        return [10.0**power for power in range(low, max(high, low + 1) + 1)]
    high = max(values) or 1.0
    rough = high / 5
    power = 10 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough)
    return [step * place for place in range(math.ceil(high / step - 1e-9) + 1)]


def _short(value: float) -> str:
    return f"{value:,.10g}"
