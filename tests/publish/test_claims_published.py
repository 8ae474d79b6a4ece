"""The verdicts on the claims of the five cases, judged by the published records."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradmatrix.cli.history import judged_claims
from gradmatrix.run.project import Project

ROOT = Path(__file__).parent.parent.parent
EXPECTED = {
    "t5-upgrading-lightning-solves-it": "confirmed",
    "t5-lightning-alone-is-to-blame": "partly",
    "t5-set-grad-enabled": "refuted",
    "t5-enable-grad-for-the-forward": "refuted",
    "t5-manual-optimization": "confirmed",
    "t5-transformers-23417-broke-it": "confirmed",
    "qwen2-cast-keeps-no-gradient": "refuted",
    "qwen2-switch-checkpointing-off": "confirmed",
    "qwen2-requires-grad-after-the-cast": "refuted",
    "qwen2-use-autocast": "refuted",
    "amp-autocast-weight-cache": "confirmed",
    "amp-autocast-off-without-gradients": "confirmed",
    "amp-fresh-autocast": "refuted",
    "amp-manual-optimization-is-to-blame": "partly",
    "dpo-warning-and-nan": "refuted",
    "warning-means-frozen": "partly",
    "warning-means-data-without-gradient": "refuted",
    "warning-means-learning-rate-0": "refuted",
    "use-float32": "partly",
    "grpo-lora-fails": "confirmed",
    "grpo-input-require-grads": "confirmed",
    "grpo-no-checkpointing": "confirmed",
    "grpo-peft-checkpointing-does-not-work": "partly",
    "grpo-works-now": "partly",
    "grpo-no-reentry-by-default": "untested",
}
"""Each was looked up in the cells by hand."""


@pytest.fixture(scope="module")
def found() -> dict[str, str]:
    """The verdict on every claim, from the committed records alone."""
    return {judged.claim.id: judged.verdict.value for judged in judged_claims(Project.at(ROOT))[1]}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_claim_of_a_case_has_the_verdict_of_its_cells(name: str, found: dict[str, str]) -> None:
    """Nobody types it: another release or another run may change it."""
    assert found[name] == EXPECTED[name]
