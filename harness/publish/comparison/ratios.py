"""Speed and memory in words: only what was measured side by side has a ratio, and every ratio has its interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.answer import cells as counted
from harness.measured import MEMORY_WORDS, TIME_WORDS, Size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.comparison import Comparison
    from harness.measured import Measured, Ratio

NOT_MEASURED = (
    "Speed and memory were not measured side by side, so nothing is said of them: step times of separate runs differ "
    "with the machine and the moment. gradmatrix upgrade measures both sides in one run, unless it has --no-timing."
)
MEBIBYTE = 2**20


@dataclass(frozen=True)
class RatioRow:
    """One quantity of one cell."""

    cell: str
    quantity: str
    verdict: str
    size: Size
    ratio: str
    """With its interval."""
    values: str
    """Medians of baseline and candidate."""
    noise: str
    """What two halves of the baseline's own servers differ by."""
    why: str
    """Why it is inconclusive, and what was noticed."""


def ratio_rows(comparison: Comparison) -> tuple[RatioRow, ...]:
    """A row for each quantity that was measured, the worst cells first."""
    return tuple(row for each in comparison.measured for row in rows_of(each))


def rows_of(measured: Measured) -> Iterator[RatioRow]:
    """The rows of a cell."""
    kinds = (("time per step", measured.step_time, TIME_WORDS), ("peak memory", measured.memory, MEMORY_WORDS))
    for quantity, ratio, words in kinds:
        if ratio is not None:
            yield row(measured, quantity, ratio, words)
    if measured.step_time is None:
        yield RatioRow(
            cell=str(measured.key),
            quantity="time per step",
            verdict="not measured",
            size=Size.INCONCLUSIVE,
            ratio="–",
            values="–",
            noise="–",
            why=" ".join(measured.notices),
        )


def row(measured: Measured, quantity: str, ratio: Ratio, words: Mapping[Size, str]) -> RatioRow:
    """One ratio in words."""
    unit = milliseconds if quantity == "time per step" else mebibytes
    reasons = (inconclusive(measured, ratio), *measured.notices)
    return RatioRow(
        cell=str(measured.key),
        quantity=quantity,
        verdict=words[ratio.verdict],
        size=ratio.verdict,
        ratio=f"×{ratio.ratio:.3f} ({ratio.low:.3f} to {ratio.high:.3f})",
        values=f"{unit(ratio.baseline)} → {unit(ratio.candidate)}",
        noise=f"×{ratio.floor:.3f}",
        why=" ".join(each for each in reasons if each),
    )


def inconclusive(measured: Measured, ratio: Ratio) -> str:
    """Why a ratio has no verdict; empty where it has one."""
    if ratio.verdict is not Size.INCONCLUSIVE:
        return ""
    margin = f"±{ratio.margin:.1%}"
    spent = f"The budget was spent after {measured.spent_s:.0f} s" if measured.stopped == "budget" else "Stopped"
    noise = " The baseline differs from itself by more than the margin." if ratio.floor - 1 > ratio.margin else ""
    wider = (
        f" It is wider than that of one comparison: {ratio.among} of this run hold together." if ratio.among > 1 else ""
    )
    return f"{spent} before the interval lay inside {margin} or outside it.{wider}{noise}"


def milliseconds(seconds: float) -> str:
    """Seconds of a step."""
    return f"{seconds * 1000:.3g} ms"


def mebibytes(amount: float) -> str:
    """Bytes of memory."""
    return f"{amount / MEBIBYTE:,.0f} MiB"


def measuring(comparison: Comparison) -> str:
    """How it was measured, in a sentence; why there is nothing, where nothing was."""
    measured = comparison.measured
    if not measured:
        return NOT_MEASURED
    spent = sum(each.spent_s for each in measured)
    ratio = next((one.step_time for one in measured if one.step_time is not None), None)
    memory = next((one.memory for one in measured if one.memory is not None), None)
    among = f", all {ratio.among} together" if ratio is not None and ratio.among > 1 else ""
    of_memory = f", of memory ±{memory.margin:.1%}" if memory is not None else ""
    held = (
        f" Intervals are of {ratio.confidence:.1%}{among}; same means within ±{ratio.margin:.1%}{of_memory}."
        if ratio
        else ""
    )
    return (
        f"Candidate over baseline, both sides alive at once and their blocks alternating, {counted(len(measured))} in"
        f" {spent:.0f} s.{held} Noise is what the baseline differs from itself by in the same run (A/A)."
    )
