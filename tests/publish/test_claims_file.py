"""claims.toml → validated claims."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from gradmatrix.core.errors import UserError
from gradmatrix.publish.claims import claims
from gradmatrix.publish.claims.claims import Claim, Expectation, Given
from tests.claimed import SCENARIOS

if TYPE_CHECKING:
    from pathlib import Path

CLAIM = """
[[claims]]
id = "upgrade"
scenario = "amp"
says = "Upgrading solves it."
source = "owner/library#12"
date = 2024-04-14

[[claims.expect]]
variants = ["remedy"]
where = ["lightning>=2.2.2"]
given = [{ variant = "reported", outcome = "fails" }]
outcome = "trains"
"""


def load(folder: Path, text: str) -> tuple[Claim, ...]:
    """The claims of ``text``."""
    path = folder / "claims.toml"
    path.write_text(text, encoding="utf-8")
    return claims.load(path, SCENARIOS)


def complaint(folder: Path, text: str) -> str:
    """The error message about ``text``."""
    with pytest.raises(UserError) as raised:
        load(folder, text)
    return str(raised.value)


def test_a_claim_is_read_with_what_it_expects(tmp_path: Path) -> None:
    """It has cells, version ranges, conditions and signs."""
    expected = Expectation(
        cells=(("amp", "remedy"),),
        where=("lightning>=2.2.2",),
        given=(Given(cell=("amp", "reported"), outcome="fails"),),
        outcome="trains",
    )
    (claim,) = load(tmp_path, CLAIM)
    assert (dt.date(2024, 4, 14), (expected,)) == (claim.date, claim.expect)


def test_a_pattern_means_every_variant_that_matches(tmp_path: Path) -> None:
    """They are in the order of the scenario."""
    (claim,) = load(tmp_path, CLAIM.replace('["remedy"]', '["re*"]'))
    assert (("amp", "reported"), ("amp", "remedy")) == claim.expect[0].cells


def test_an_expectation_may_be_about_all_scenarios(tmp_path: Path) -> None:
    """An example is a warning that comes in many of them."""
    (claim,) = load(
        tmp_path, CLAIM.replace('variants = ["remedy"]', 'scenario = "*"\nvariants = ["*"]')
    )
    assert {"amp", "other"} == {scenario for scenario, _ in claim.expect[0].cells}


def test_a_condition_without_a_variant_is_about_the_cell_itself(tmp_path: Path) -> None:
    """Such a condition names no cell."""
    (claim,) = load(tmp_path, CLAIM.replace('variant = "reported", ', ""))
    assert (Given(outcome="fails"),) == claim.expect[0].given


def test_the_source_has_a_page(tmp_path: Path) -> None:
    """It is the page of the issue or pull request."""
    (claim,) = load(tmp_path, CLAIM)
    assert claim.url.endswith("/owner/library/issues/12")


def test_without_the_file_there_are_no_claims(tmp_path: Path) -> None:
    """A checkout need not have any."""
    assert () == claims.load(tmp_path / "claims.toml", SCENARIOS)


def test_any_package_may_be_named(tmp_path: Path) -> None:
    """A matrix need not have it."""
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios" / "claims.toml").write_text(CLAIM, encoding="utf-8")
    assert ["upgrade"] == [claim.id for claim in claims.load_claims(tmp_path, SCENARIOS)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("says =", "sais =", ["unknown key 'sais' in claim 'upgrade'", "perhaps you meant 'says'"]),
        (
            "where =",
            "were =",
            ["unknown key 'were' in claim 'upgrade', expect number 1", "perhaps you meant 'where'"],
        ),
        (
            "{ variant",
            "{ varient",
            ["unknown key 'varient' in claim 'upgrade', expect number 1, given number 1"],
        ),
        ("[[claims]]", "[[claim]]", ["unknown key 'claim'", "perhaps you meant 'claims'"]),
        ('id = "upgrade"\n', "", ["lacks the key 'id' in claim number 1"]),
        (
            'variants = ["remedy"]\n',
            "",
            ["lacks the key 'variants' in claim 'upgrade', expect number 1"],
        ),
        (
            '["remedy"]',
            '"remedy"',
            ["wrong value in claim 'upgrade', expect number 1, key 'variants'", "`array`"],
        ),
        ('["remedy"]', "[]", ["wrong value in claim 'upgrade', expect number 1, key 'variants'"]),
        ("2024-04-14", '"in spring"', ["wrong value in claim 'upgrade', key 'date'"]),
        ('"Upgrading solves it."', '""', ["wrong value in claim 'upgrade', key 'says'"]),
        ('"upgrade"', '"up grade"', ["claim id 'up grade'"]),
        (
            '"owner/library#12"',
            '"javascript:alert(1)"',
            ["source 'javascript:alert(1)', in claim 'upgrade'"],
        ),
        (
            '"amp"',
            '"ampp"',
            ["unknown scenario 'ampp', in claim 'upgrade'", "perhaps you meant 'amp'"],
        ),
        (
            '["remedy"]',
            '["remedi"]',
            ["unknown variant 'remedi', in claim 'upgrade'", "perhaps you meant 'remedy'"],
        ),
        ('["remedy"]', '["x*"]', ["unknown variant 'x*'", "known are: reported, remedy, frozen"]),
        (
            '"reported", outcome',
            '"report", outcome',
            ["unknown variant 'report'", "perhaps you meant 'reported'"],
        ),
        (
            "{ variant =",
            '{ scenario = "othr", variant =',
            ["unknown scenario 'othr'", "perhaps you meant 'other'"],
        ),
        (
            '{ variant = "reported"',
            '{ scenario = "amp"',
            ["a scenario and no variant", "those of amp: reported"],
        ),
        (', outcome = "fails" }', " }", ["expects nothing of a cell, in claim 'upgrade'"]),
        ('\noutcome = "trains"', "", ["expects nothing of a cell, in claim 'upgrade'"]),
        (
            '"lightning>=2.2.2"',
            '"lightning=>2.2.2"',
            ["unreadable version range 'lightning=>2.2.2'"],
        ),
        ('"lightning>=2.2.2"', '"lightning"', ["version range 'lightning'", "write it like"]),
        ('"trains"', '"train"', ["unknown outcome 'train'", "perhaps you meant 'trains'"]),
        (
            '"trains"',
            '"step:no-grad"',
            ["unknown outcome 'step:no-grad'", "perhaps you meant 'step:no-grad-fn'"],
        ),
        ('"trains"', '["trains", "stop:*"]', ["unknown outcome 'stop:*'"]),
        (
            'outcome = "trains"',
            'cause = "frosen"',
            ["unknown cause 'frosen'", "perhaps you meant 'frozen'"],
        ),
        ('outcome = "trains"', 'warns = "("', ["unreadable pattern '(', in claim 'upgrade'"]),
        (
            'outcome = "trains"',
            'gradient = "zeros"',
            ["wrong value in claim 'upgrade', expect number 1, key 'gradient'"],
        ),
        (
            'outcome = "trains"',
            'speed = "slower"',
            ["uses than, memory or speed without", "than ="],
        ),
        ('outcome = "trains"', 'than = "reported"', ["uses than, memory or speed without"]),
        ('outcome = "trains"', 'than = "x"\nspeed = "slower"', ["unknown variant 'x'"]),
        ("where =", 'device = "tpu"\nwhere =', ["unknown device 'tpu', in claim 'upgrade'"]),
    ],
)
def test_an_error_uses_the_words_of_the_file(
    tmp_path: Path, old: str, new: str, expected: list[str]
) -> None:
    """Each mistake names the claim, the key and what was expected."""
    told = complaint(tmp_path, CLAIM.replace(old, new, 1))
    assert [text for text in expected if text not in told] == [], told


def test_two_claims_of_one_id_are_refused(tmp_path: Path) -> None:
    """They would share an address."""
    assert "two claims called 'upgrade'" in complaint(tmp_path, CLAIM + CLAIM)


def test_a_syntax_error_names_its_line(tmp_path: Path) -> None:
    """If the TOML cannot be read, the error names file and line."""
    assert "claims.toml is not valid TOML" in complaint(tmp_path, "[[claims]]\nid == 1\n")


def test_a_folder_in_place_of_the_file_is_reported(tmp_path: Path) -> None:
    """The error is the system's reason, not a traceback."""
    (tmp_path / "claims.toml").mkdir()
    with pytest.raises(UserError, match="cannot be read"):
        claims.load(tmp_path / "claims.toml", SCENARIOS)
