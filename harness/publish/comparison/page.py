"""A comparison as one page in one file: its looks are in it, it runs nothing and loads nothing."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from harness.comparison import Verdict
from harness.measured import Size
from harness.publish.comparison.losses import drift_summary, drifted
from harness.publish.comparison.packages import (
    day,
    direct,
    moved_summary,
    pairs_told,
    sides,
    transitive,
    unmoved,
    warnings,
)
from harness.publish.comparison.ratios import measuring, ratio_rows
from harness.publish.comparison.sections import sections, summary
from harness.publish.site.markup import page, ready
from harness.standing import Change

if TYPE_CHECKING:
    from harness.comparison import Comparison

HERE = Path(__file__).resolve().parent
STYLES = (HERE.parent / "static" / "style.css", HERE / "page.css")
"""That of the published matrix, and what only this page has."""
TONES = {Verdict.SAFE: "p", Verdict.REGRESSIONS: "f", Verdict.INCONCLUSIVE: "h"}
OF_CHANGES = {
    Change.REGRESSED: "f",
    Change.BROKE_DIFFERENTLY: "f",
    Change.FIXED: "p",
    Change.INCONCLUSIVE: "h",
    Change.ELSEWHERE: "n",
    Change.NEW: "n",
    Change.GONE: "n",
    Change.UNCHANGED: "n",
}
OF_SIZES = {Size.MORE: "f", Size.LESS: "p", Size.SAME: "", Size.INCONCLUSIVE: "h"}


def as_html(comparison: Comparison) -> bytes:
    """The page."""
    style = "\n".join(path.read_text(encoding="utf-8") for path in STYLES)
    _, content = page(
        "comparison.html",
        "comparison.html",
        comparison=comparison,
        style=ready(style),
        style_hash=hash_of(style),
        tone=TONES[comparison.verdict],
        tones=OF_CHANGES,
        sizes=OF_SIZES,
        sides=sides(comparison),
        summary=summary(comparison),
        warnings=warnings(comparison),
        sections=sections(comparison),
        measuring=measuring(comparison),
        ratios=ratio_rows(comparison),
        drift_summary=drift_summary(comparison),
        drifted=drifted(comparison),
        day=day,
        pairs=[
            {"pair": each, "summary": moved_summary(each), "direct": direct(each), "transitive": transitive(each)}
            for each in pairs_told(comparison)
        ],
        unmoved=unmoved(comparison),
    )
    return content


def hash_of(text: str) -> str:
    """The source by which a content security policy allows this text inline, and no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
