"""A lock's requirements text, taken apart."""

from __future__ import annotations

import pytest

from gradmatrix.stacks import lock

TEXT = """\
alpha==1.0 ; sys_platform == 'linux' \\
    --hash=sha256:00
beta==2.0 \\
    --hash=sha256:11 \\
    --hash=sha256:22
Gamma_Ray @ file:///folder/gamma_ray-3.0%2Bmine-py3-none-any.whl \\
    --hash=sha256:33
delta @ git+https://example.org/delta@0123456789
"""


def test_packages_can_be_left_out_of_a_text() -> None:
    """An entry goes with its hashes."""
    assert lock.without(TEXT, lambda name: name == "alpha") == TEXT[TEXT.index("beta") :]


def test_what_comes_from_an_address_is_known() -> None:
    """A wheel file has a hash, a commit has none and needs none."""
    assert (["gamma-ray", "delta"], ["delta"]) == (lock.by_address(TEXT), lock.hashless(TEXT))


@pytest.mark.parametrize(("number", "version"), list(enumerate(["1.0", "2.0", "3.0+mine"])))
def test_an_entry_has_a_version(number: int, version: str) -> None:
    """That of a wheel is in its name."""
    block = list(lock.blocks(TEXT))[number]
    assert version == lock.version_of(block, lock.requirement_of(block), "3.11")
