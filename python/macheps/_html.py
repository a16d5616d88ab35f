# SPDX-License-Identifier: Apache-2.0
"""HTML fragments for notebooks, without scripts, in colours that are readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

_SIGN, _EXPONENT, _FRACTION = "#d1495b", "#2a9d8f", "#5b7db1"


def bits(sign: str, exponent: str, fraction: str) -> str:
    """Returns a box for each bit, coloured by its field."""
    boxes = []
    for part, colour, name in ((sign, _SIGN, "sign"), (exponent, _EXPONENT, "exponent"), (fraction, _FRACTION, "fraction")):
        boxes += [
            f'<span title="{name}" style="display:inline-block;width:1.2em;text-align:center;border:1px solid {colour};'
            f'color:{colour};font-family:monospace">{bit}</span>'
            for bit in part
        ]
    return "".join(boxes)


def table(header: Sequence[str], rows: Sequence[Sequence[object]], title: str = "") -> str:
    """Returns a table. Cells are escaped."""
    head = "".join(f'<th style="text-align:left">{escape(cell)}</th>' for cell in header)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:left">{escape(str(cell))}</td>' for cell in row) + "</tr>" for row in rows
    )
    caption = f"<p>{escape(title)}</p>" if title else ""
    return f"<div>{caption}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def bars(title: str, counts: Mapping[str, int], total: int) -> str:
    """Returns a table with a row for each count: the count, its share of `total`, and a bar that shows this share."""
    rows = []
    for name, count in counts.items():
        share = count / total if total else 0.0
        bar = f'<span style="display:inline-block;height:0.8em;width:{share * 16:.2f}em;background:{_FRACTION}"></span>'
        rows.append(
            f'<tr><td style="text-align:left">{escape(name)}</td><td style="text-align:right">{count}</td>'
            f'<td style="text-align:right">{share:.3%}</td><td style="text-align:left">{bar}</td></tr>'
        )
    return f"<div><p>{escape(title)}</p><table><tbody>{''.join(rows)}</tbody></table></div>"
