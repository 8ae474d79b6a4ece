"""What --to asks for, and what becomes of a baseline's requirements."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.requirements import Requirement

from gradmatrix.compare import requirements
from gradmatrix.core.errors import UserError

ASKED = (
    "torch==2.6.0",
    "lightning==2.5",
    "pytorch-lightning==2.5",
    "trl[peft]==0.15 ; python_version > '3.8'",
    "peft",
)
NAMES = st.sampled_from(["torch", "lightning", "pytorch-lightning", "trl", "peft", "new-one"])


def applied(*words: str, latest: bool = False) -> tuple[str, ...]:
    """The requirements of a candidate of ASKED."""
    return requirements.applied(
        ASKED, requirements.with_twins(map(requirements.wish, words), ASKED), latest=latest
    )


@pytest.mark.parametrize(
    ("words", "changed"),
    [
        (["torch==2.13.0"], {"torch==2.6.0": "torch==2.13.0"}),
        (["torch"], {"torch==2.6.0": "torch"}),
        (["Torch<3,>=2.7"], {"torch==2.6.0": "Torch<3,>=2.7"}),
        (["trl<1"], {ASKED[3]: 'trl[peft]<1; python_version > "3.8"'}),
        (
            ["lightning==2.6"],
            {
                "lightning==2.5": "lightning==2.6",
                "pytorch-lightning==2.5": "pytorch-lightning==2.6",
            },
        ),
        (
            ["lightning==2.6", "pytorch-lightning==2.4"],
            {ASKED[1]: "lightning==2.6", ASKED[2]: "pytorch-lightning==2.4"},
        ),
    ],
)
def test_a_wish_takes_the_place_of_what_was_asked(
    words: list[str], changed: dict[str, str]
) -> None:
    """Extras and markers stay, other packages too; a library with two names moves under both."""
    assert tuple(changed.get(text, text) for text in ASKED) == applied(*words)


def test_latest_takes_every_bound_off() -> None:
    """What else a requirement says stays."""
    expected = (
        "torch",
        "lightning",
        "pytorch-lightning",
        'trl[peft] ; python_version > "3.8"',
        "peft",
    )
    assert expected == applied(latest=True)


def test_latest_with_a_bound_keeps_that_one() -> None:
    """The newest of everything, with this in mind."""
    assert "torch<2.13" in applied("torch<2.13", latest=True)


def test_a_package_that_nobody_asked_for_is_added() -> None:
    """At the end."""
    assert (*ASKED, "huggingface-hub<1") == applied("huggingface-hub<1")


def test_a_package_on_several_lines_is_wished_on_all_of_them() -> None:
    """Each for its Python, as tools export it: the first may not be the one that counts."""
    asked = ("numpy<2 ; python_version < '3.12'", "numpy>=2 ; python_version >= '3.12'")
    expected = ('numpy==2.1; python_version < "3.12"', 'numpy==2.1; python_version >= "3.12"')
    assert expected == requirements.applied(asked, [requirements.wish("numpy==2.1")], latest=False)
    assert expected == requirements.applied(asked, [requirements.wish("numpy==2.1")], latest=True)


def test_a_wish_that_cannot_be_read_shows_no_password() -> None:
    """Of its address."""
    with pytest.raises(UserError) as error:
        requirements.wish("foo=git+https://user:se@cret@host/x")
    assert "--to foo=git+https://host/x cannot be read." == error.value.what


def test_a_wish_for_an_address_keeps_it() -> None:
    """A wheel file or a source."""
    assert (
        "trl[peft] @ file:///a/trl-1-py3-none-any.whl"
        in applied("trl @ file:///a/trl-1-py3-none-any.whl")[3]
    )


@given(st.lists(NAMES, unique=True), st.booleans())
def test_no_package_is_lost_or_asked_for_twice(names: list[str], latest: bool) -> None:
    """Whatever is wished."""
    found = [Requirement(text).name for text in applied(*names, latest=latest)]
    assert sorted({*names, *(Requirement(text).name for text in ASKED)}) == sorted(found)


@pytest.mark.parametrize("word", ["==5", "trl==", "a b", "'trl<1'", "trl=1"])
def test_what_is_no_requirement_is_told(word: str) -> None:
    """With examples of what is one."""
    with pytest.raises(UserError, match="cannot be read") as error:
        requirements.wish(word)
    assert "--to transformers==5.0.0" in error.value.next_step


@pytest.mark.parametrize(
    ("asked", "relaxed"),
    [
        ("trl==1.0", "trl<=1.0"),
        ("trl==1.*", "trl<2"),
        ("trl==1.2.*", "trl<1.3"),
        ("trl~=1.2", "trl<2"),
        ("trl~=1.2.3", "trl<1.3"),
        ("trl!=1.*", "trl!=1.*"),
        ("trl<1,>=0.5", "trl<1"),
        ("trl>=9", "trl"),
        ("trl", "trl"),
        ("other==1", "other==1"),
        ("trl @ file:///a.whl", "trl @ file:///a.whl"),
    ],
)
def test_what_was_asked_becomes_the_most(asked: str, relaxed: str) -> None:
    """So that the resolver tells the newest that would do."""
    assert (relaxed,) == requirements.relaxed((asked,), {"trl"})


def test_bounds_are_told_by_name() -> None:
    """All but those that may move."""
    assert ["torch", "lightning", "pytorch-lightning"] == requirements.bounds(ASKED, {"trl"})
