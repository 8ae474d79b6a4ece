"""Every variant of every published scenario reduces to a script that does not need this project."""

from __future__ import annotations

import ast
import builtins
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gradmatrix.run import scenarios
from gradmatrix.trace.reduce import reduce
from tests.conftest import ROOT

if TYPE_CHECKING:
    from gradmatrix.core.model import Scenario

pytestmark = pytest.mark.slow

REAL = [
    pytest.param(scenario, variant.name, id=f"{scenario.name}-{variant.name}")
    for scenario in scenarios.load_all(ROOT / "scenarios").values()
    for variant in scenario.variants
]
STACKS = "|".join(
    re.escape(path.stem)
    for path in (ROOT / "results" / "locks").glob("*.txt")
    if path.stem not in {"latest", "next"}
)
OURS = re.compile(
    rf"gradmatrix|\b(?:VARIANTS|NEEDS|AGREE|harness|argparse|sys\.argv|SkipTest|{STACKS})\b"
)


KEEPS_WORDS = {
    "accumulation",
    "grad_scaler",
    "llama_factory",
    "lm_head_adapter",
    "moe_experts",
    "own_loops",
    "tied_embeddings",
}
"""Here names of variants are words of the library, or are put together from words of the script."""


def undefined(text: str) -> set[str]:
    """Names that are read and never bound."""
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    read = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    bound = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    bound |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    bound |= {n.name for n in nodes if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    bound |= {n.name for n in nodes if isinstance(n, ast.ExceptHandler) and n.name}
    bound |= {(n.asname or n.name).partition(".")[0] for n in nodes if isinstance(n, ast.alias)}
    return read - bound - set(vars(builtins))


@pytest.mark.parametrize(("scenario", "variant"), REAL)
def test_every_variant_of_every_scenario_reduces(scenario: Scenario, variant: str) -> None:
    """The result is Python without unknown names.

    It does not mention this project or the name of a variant.
    """
    text = reduce(Path(scenario.path).read_text(encoding="utf-8"), variant, "cpu", 4)
    strings = {n.value for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Constant)}
    names = set() if scenario.name in KEEPS_WORDS else {v.name for v in scenario.variants}
    assert (set(), None, set()) == (undefined(text), OURS.search(text), strings & names)
    assert "def train() -> None:" in text
