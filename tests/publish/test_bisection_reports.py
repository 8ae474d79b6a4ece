"""The answer of a bisection as Markdown, as a page and as an issue."""

from __future__ import annotations

import datetime as dt

from msgspec.structs import replace

from gradmatrix.judge.edge import Edge, End, Found, Link
from gradmatrix.publish.bisection import answer, as_html, as_issue, as_markdown

BEFORE = End(name="alpha 18", outcome="trains", gradient="flowing", message="", why=())
AFTER = End(
    name="alpha 19",
    outcome="step:no-grad-fn",
    gradient=None,
    message="element 0 of <tensors> does not require grad",
    why=("It was lost in `alpha/loss.py`.",),
)
CAPSULES = {"before.py": 'print("18")\n', "after.py": 'print("""\n```\n""")\n'}


def found(*edges: Edge) -> Found:
    """An answer."""
    return Found(
        cell="t5/reported/cpu",
        good=BEFORE,
        bad=AFTER,
        differing=3,
        edges=edges,
        skipped=(),
        probes=5,
    )


EDGE = Edge(
    package="alpha",
    before="18",
    before_released=dt.date(2025, 1, 1),
    after="19",
    after_released=dt.date(2025, 2, 1),
    ends=(BEFORE, AFTER),
    moved=("alpha 18 → 19",),
    needs=("requires beta>=2",),
    links=(Link("Changelog", "https://example.org/changes"),),
)


def test_the_answer_names_both_releases_and_what_changed() -> None:
    """Their days, the difference of the locks, what is required anew, where to read more."""
    lines = "\n".join(answer(found(EDGE)))
    assert "changes between alpha 18 (2025-01-01) and 19 (2025-02-01)." in lines
    assert "The difference of the locks: alpha 18 → 19." in lines
    assert "alpha 19 requires beta>=2." in lines
    assert "Changelog: https://example.org/changes" in lines


def test_equal_ends_are_a_sentence() -> None:
    """There is no issue to write."""
    assert "in the same way" in next(answer(found()))
    assert "An issue" not in as_markdown(found(), {})


def test_an_issue_has_the_script_that_fails() -> None:
    """A fence in a script does not end the block; the diagnosis keeps its code."""
    issue = as_issue(found(EDGE), CAPSULES)
    assert issue.startswith("# t5/reported: step:no-grad-fn since alpha 19\n")
    assert "A training script ends with `step:no-grad-fn` with alpha 19." in issue
    assert "With alpha 18 it trains." in issue
    assert "It was lost in `alpha/loss.py`." in issue
    assert "`uv run after.py` shows it" in issue
    assert "````python" in issue
    assert CAPSULES["before.py"] not in issue


def test_an_issue_about_what_is_mended_has_the_older_script() -> None:
    """It is the one that fails."""
    edge = replace(EDGE, ends=(AFTER, BEFORE))
    assert "`uv run before.py` shows it" in as_issue(found(edge), CAPSULES)


def test_an_issue_is_about_the_newer_release() -> None:
    """Also if the good side has it."""
    issue = as_issue(found(replace(EDGE, before="19", after="18")), CAPSULES)
    assert issue.startswith("# t5/reported: trains since alpha 19\n")
    assert "`uv run after.py` shows it" in issue


def test_markdown_is_folded_where_it_is_long() -> None:
    """The issue and the scripts open with a click; the issue's fence is the longest."""
    text = as_markdown(found(EDGE), CAPSULES)
    assert text.startswith("## t5/reported/cpu changes between alpha 18")
    assert "`````markdown" in text
    assert 3 == text.count("<details>")


def test_the_page_escapes_what_it_shows() -> None:
    """A message is text, and line breaks of a script stay."""
    page = as_html(found(EDGE), CAPSULES).decode()
    assert "&lt;tensors&gt;" in as_html(found(EDGE), {"a.py": "<tensors>"}).decode()
    assert "print(&#34;&#34;&#34;\n```\n" in page
