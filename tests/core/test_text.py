"""Text for people: numbers, lists, and untrusted text made safe."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradmatrix.core import text


def test_a_number_has_its_noun() -> None:
    """One is singular, all else plural."""
    assert ["0 cells", "1 cell", "2 cells"] == [text.counted(n, "cell") for n in range(3)]


@pytest.mark.parametrize(
    ("names", "expected"),
    [([], ""), (["a"], "a"), (["a", "b"], "a or b"), (["a", "b", "c"], "a, b or c")],
)
def test_a_list_ends_in_a_word(names: list[str], expected: str) -> None:
    """The word stands before the last of several names."""
    assert expected == text.listed(names, "or")


@pytest.mark.parametrize(
    ("most", "expected"), [(1, "a and 2 more"), (2, "a, b and 1 more"), (3, "a, b, c")]
)
def test_a_long_list_is_cut_short(most: int, expected: str) -> None:
    """It says how many names are left out."""
    assert expected == text.few(["a", "b", "c"], most)


@given(st.text())
def test_plain_text_cannot_steer_a_terminal(untrusted: str) -> None:
    """It has no control character and no mark that changes the direction."""
    forbidden = {
        chr(n) for n in (*range(9), *range(11, 32), *range(0x7F, 0xA0), 0x200F, 0x202E, 0x2066)
    }
    assert set() == forbidden & set(text.plain(untrusted))


@given(st.text(alphabet="a |`*_[]\\<>&\n\t\x1b", max_size=20))
def test_markdown_text_is_one_cell_without_markup(untrusted: str) -> None:
    """Every character that could mean something is escaped."""
    shown = text.markdown(untrusted)
    assert [] == re.findall(r"[<>\n]", shown)
    assert "" == re.sub(r"\\[|`*_\[\]\\]|&\w+;|[a ]", "", shown)


@pytest.mark.parametrize(
    ("untrusted", "expected"),
    [
        ("@org/team", "@|org/team"),
        ("a@example.org", "a@|example.org"),
        ("#1 owner/name#23 gh-4", "#|1 owner/name#|23 gh-|4"),
        ("https://evil.example www.evil.example", "https:|//evil.example www|.evil.example"),
        ("@ # : // @\x1b[0mall", "@ # : // @|all"),
        ("C# is no #heading", "C# is no #heading"),
    ],
)
def test_nobody_is_mentioned_and_nothing_is_linked(untrusted: str, expected: str) -> None:
    """An invisible character breaks mentions and references."""
    assert expected == text.unlinked(untrusted).replace(text.JOINER, "|")


def test_a_table_mentions_nobody() -> None:
    """In a file GitHub links no issue, so an address may stay."""
    assert f"@{text.JOINER}all owner/name#1" == text.markdown("@all owner/name#1")


def test_code_cannot_be_closed_by_its_text() -> None:
    """It has no backtick and no line break."""
    assert "`a 'b' @all`" == text.code("a\n`b` @all")


@pytest.mark.parametrize(
    ("untrusted", "expected"),
    [
        ("=cmd|' /C calc'!A0", "'=cmd|' /C calc'!A0"),
        ("-1", "'-1"),
        ("\x1b[31m=1+1", "'=1+1"),
        ("@x", "'@x"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_a_spreadsheet_takes_no_text_for_a_formula(untrusted: str, expected: str) -> None:
    """A control sequence before the formula changes nothing."""
    assert expected == text.spreadsheet(untrusted)


@pytest.mark.parametrize(
    ("untrusted", "expected"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]8;;http://x\x07link\x1b]8;;\x1b\\", "link"),
        ("\x1b]0;title\nnext", "\nnext"),
        ("over\rwritten\x08", "overwritten"),
        ("\u202egnp.exe\u202c \u200fabc\u2066def\u2069", "gnp.exe abcdef"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
    ],
)
def test_control_sequences_are_taken_out_whole(untrusted: str, expected: str) -> None:
    """The other text stays, with line breaks and tabs."""
    assert expected == text.plain(untrusted)


def test_one_line_has_no_breaks() -> None:
    """It fits into a table or a list."""
    assert "a b c" == text.one_line(" a\nb\t\r\n c\x1b[0m ")
