"""Search by an error message: it finds the cells and the remedies."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from gradmatrix.publish.search import Search

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.browser.conftest import Site, Tab

pytestmark = pytest.mark.slow

MESSAGE = "element 0 of tensors does not require grad and does not have a grad_fn"
TRACEBACK = f"""
Traceback (most recent call last):
  File "/home/me/train.py", line 120, in <module>
    trainer.fit(model)
  File "/usr/lib/python3.11/site-packages/torch/autograd/__init__.py", line 200, in backward
    Variable._execution_engine.run_backward(  # Calls into the C++ engine to run the backward pass
RuntimeError: {MESSAGE}
"""
UNKNOWN = """Traceback (most recent call last):
  File "train.py", line 9, in <module>
    loss.backward()
ZebraError: out of stripes
"""
LABEL = "Paste a message or a whole traceback"


def best(page: Page) -> str:
    """The message that matches best."""
    return page.locator("#found article").first.get_by_role("heading").first.inner_text()


@pytest.mark.parametrize(
    "pasted", [MESSAGE, TRACEBACK, f"RuntimeError: {MESSAGE.upper()}", "does not have a grad_fn"]
)
def test_a_message_is_found(anywhere: Tab, pasted: str) -> None:
    """It may be alone, in a traceback, in capitals, or a part of it."""
    page = anywhere.open("errors.html")
    page.get_by_label(LABEL).fill(pasted)
    page.get_by_role("button", name="Search").click()
    assert MESSAGE in best(page)
    assert page.get_by_role("status").inner_text().endswith("the best one first.")


def test_it_is_found_from_the_first_page(anywhere: Tab) -> None:
    """Readers arrive there."""
    page = anywhere.open()
    page.get_by_label("Search by error message").fill(MESSAGE)
    page.keyboard.press("Enter")
    page.wait_for_url("**/errors.html#q=*")
    assert MESSAGE in best(page)


def test_the_answer_has_the_cells_and_the_remedies(tab: Tab, site: Site) -> None:
    """A result leads there: to the cells of the newest stacks, and to remedies that train."""
    page = tab.open(f"errors.html#q={MESSAGE}")
    page.locator("#found article").first.get_by_role("link", name=MESSAGE).click()
    page.wait_for_url("**/answers/*.html")
    stack = site.matrix.stacks[-1].name
    expected = {row.cell for row in site.rows if row.stack == stack and MESSAGE in row.message}
    anchors = {f"{stack}.html#{cell.scenario}-{cell.variant}-{cell.device}" for cell in expected}
    links = [
        link.get_attribute("href") or ""
        for link in page.locator(f"main a[href*='cells/{stack}.html']").all()
    ]
    assert set() == anchors - {link.rpartition("/")[2] for link in links}
    page.locator("summary", has_text="What was tried").first.click()
    page.locator(".remedies td:nth-of-type(1) a").first.click()
    page.wait_for_url("**/cells/*.html*")
    assert "✓ trains" in page.locator(":target .verdict").inner_text()


def test_a_situation_is_chosen_and_its_code_copied(anywhere: Tab) -> None:
    """The answer begins with the situations; a button copies the lines that mend one."""
    page = anywhere.open(f"errors.html#q={MESSAGE}")
    page.locator("#found article").first.get_by_role("link", name="LoRA, or frozen").click()
    page.wait_for_url("**/answers/*.html#checkpoint-inputs")
    assert MESSAGE in page.title()
    code = page.locator(":target .mend pre").inner_text()
    page.locator(":target .mend").get_by_role("button", name="Copy").click()
    assert "use_reentrant" in code
    page.get_by_role("status").get_by_text("The code is copied.").wait_for()
    assert code == page.evaluate("navigator.clipboard.readText()")
    assert "gradmatrix trace train.py" in page.locator("main").inner_text()


@pytest.mark.parametrize(
    ("asked", "expected"),
    [("gradient is None", "Gradients will be None"), ("nan loss", "the loss was")],
)
def test_words_in_order_come_before_scattered_words(tab: Tab, asked: str, expected: str) -> None:
    """Rare words count more than common ones. Plurals match too."""
    assert expected in best(tab.open(f"errors.html#q={asked}"))


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("learning rate 0", "frozen_parameters/lr_zero"),
        ("rewards nan", "DPO"),
        ("every parameter frozen", "all_frozen"),
    ],
)
def test_variants_and_claims_are_found(anywhere: Tab, asked: str, expected: str) -> None:
    """A silent misuse raises nothing and is found too."""
    page = anywhere.open(f"errors.html#q={asked}")
    first = page.locator("#others li").first
    assert expected in first.inner_text()
    first.get_by_role("link").last.click()
    page.wait_for_url("**#*-*")
    assert page.locator(":target").is_visible()


def test_the_search_is_in_the_address(anywhere: Tab) -> None:
    """It can be sent, and "back" restores the previous search."""
    page = anywhere.open("errors.html")
    page.get_by_label(LABEL).fill(MESSAGE)
    page.get_by_role("button", name="Search").click()
    page.reload()
    assert (MESSAGE in best(page), MESSAGE) == (True, page.get_by_label(LABEL).input_value())
    page.go_back()
    assert (0, "") == (
        page.locator("#found article").count(),
        page.get_by_label(LABEL).input_value(),
    )


def test_an_unknown_message_is_reported(tab: Tab) -> None:
    """All messages stay on the page."""
    page = tab.open("errors.html")
    page.get_by_label(LABEL).fill("zyx wvu tsr")
    page.get_by_role("button", name="Search").click()
    assert page.get_by_role("status").inner_text().startswith("No message of the matrix matches.")
    assert page.locator("#everything").is_visible()


def test_a_button_shows_everything_again(tab: Tab) -> None:
    """The button is beside the search."""
    page = tab.open(f"errors.html#q={MESSAGE}")
    page.get_by_role("button", name="Show everything").click()
    assert (True, 0) == (
        page.locator("#everything").is_visible(),
        page.locator("#found article").count(),
    )


@pytest.mark.parametrize(
    "pasted",
    ["<img src=x onerror=alert(1)>", "%E0%A4%A", '"><script>alert(1)</script>', ".*+?^${}()|[]\\"],
)
def test_hostile_searches_do_nothing(tab: Tab, pasted: str) -> None:
    """They stay text."""
    page = tab.open("errors.html")
    before = page.locator("img, script").count()
    page.get_by_label(LABEL).fill(pasted)
    page.get_by_role("button", name="Search").click()
    page.reload()
    assert (before, pasted) == (
        page.locator("img, script").count(),
        page.get_by_label(LABEL).input_value(),
    )


@pytest.mark.parametrize(
    ("asked", "is_known"),
    [
        (MESSAGE, True),
        (TRACEBACK, True),
        (f"\x1b[31mUserWarning: 报错{MESSAGE[:-9]}\x1b[0m\n{UNKNOWN}", True),
        ("learning rate 0", True),
        ("nan loss", True),
        ("grad_fn", True),
        ("gradients 2.5", True),
        ("'CheckpointErr", False),
        ("please use the `tokenizer` instead of None, requires_grad", False),
        ("zebra", False),
        (UNKNOWN, False),
    ],
)
def test_the_terminal_gives_the_same_answers(tab: Tab, asked: str, is_known: bool) -> None:
    """``gradmatrix why`` has the search in Python."""
    page = tab.open(f"errors.html#q={quote(asked)}")
    texts, errors, found, guesses = (
        [each.get_attribute("data-text") or "" for each in page.locator(f"{place} article").all()]
        for place in ("#everything", "#errors", "#matches", "#guesses")
    )
    best = Search(texts, len(errors)).best(asked)
    assert (found, guesses) == tuple(
        [texts[number] for number in numbers[:20]] for numbers in (best.found, best.guesses)
    )
    assert bool(found) is is_known


def test_a_message_that_is_nearly_known_is_a_guess(tab: Tab) -> None:
    """The page says so, and what to run instead."""
    page = tab.open("errors.html#q=please use the `tokenizer` instead of None, requires_grad")
    assert page.locator("#guesses article").count() == 3
    assert "the nearest ones, as guesses" in page.locator("#perhaps").inner_text()
    assert "gradmatrix trace train.py" in page.locator("#found-guesses").inner_text()
    assert page.get_by_role("status").inner_text().endswith("The nearest ones are guesses.")
    assert page.locator("#everything").is_visible()


def test_where_nothing_is_near_nothing_is_called_a_guess(tab: Tab) -> None:
    """The page still says what to run."""
    page = tab.open("errors.html#q=xyzzy plugh")
    assert page.locator("#perhaps").inner_text() == "No message matches"
    assert "gradmatrix trace train.py" in page.locator("#found-guesses").inner_text()
