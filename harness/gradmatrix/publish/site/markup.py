"""Text and templates as HTML: everything is escaped, and freed of control characters and direction marks.

Outcomes and columns in words, for a person who reads them for the first time.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from gradmatrix.core.outcomes import PHASES, TABLE, Row, row_of
from gradmatrix.core.text import plain
from gradmatrix.publish.site import links

TEMPLATES = Path(__file__).resolve().parent.parent / "templates"
ADDRESS = re.compile(r"(https://[^\s<>\"'`]*[^\s<>\"'`.,;:)\]])")
CODE = re.compile(r"`([^`\n]+)`")


@lru_cache(maxsize=65536)
def safe(text: str) -> str:
    """``text`` as HTML; the same text comes again and again, so that it is kept."""
    return str(escape(text if text.isprintable() else plain(text)))


@lru_cache(maxsize=65536)
def coded(text: str) -> Markup:
    """``text`` with what stands in backticks as code."""
    return Markup(CODE.sub(r"<code>\1</code>", safe(text)))  # noqa: S704 - escaped by safe


def linked(text: str) -> Markup:
    """``text`` with addresses as links and what stands in backticks as code."""
    parts = ADDRESS.split(text)
    html = [
        f'<a rel="noreferrer" href="{safe(p)}">{safe(p)}</a>' if n % 2 else coded(p)
        for n, p in enumerate(parts)
    ]
    return Markup("").join(map(Markup, html))


def told(text: str) -> Markup:
    """A docstring: paragraphs, and lists whose entries begin with a dash."""
    return Markup("\n").join(
        block(each.strip()) for each in re.split(r"\n\s*\n", text) if each.strip()
    )


def block(text: str) -> Markup:
    """A paragraph, a list, or a paragraph that ends in one."""
    first, *entries = re.split(r"(?:^|\n)- ", text)
    listed = Markup("").join(Markup("<li>{}</li>").format(linked(each)) for each in entries)
    return (Markup("<p>{}</p>").format(linked(first)) if first else Markup()) + (
        Markup("<ul>{}</ul>").format(listed) if entries else Markup()
    )


def finalized(value: object) -> object:
    """What a template prints, before it is escaped."""
    return (
        value
        if isinstance(value, Markup) or not isinstance(value, str) or value.isprintable()
        else plain(value)
    )


def environment() -> Environment:
    """The templates, with every value escaped and every name known."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=finalized,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals["links"] = links
    made.filters |= {"coded": coded, "linked": linked, "told": told}
    return made


ENVIRONMENT = environment()


def page(template: str, path: str, **values: object) -> tuple[str, bytes]:
    """The page at ``path``, written by a template."""
    text = ENVIRONMENT.get_template(template).render(root=links.up(path), path=path, **values)
    return path, text.encode()


def ready(html: str) -> Markup:
    """HTML that was put together from escaped parts, for a template."""
    return Markup(html)  # noqa: S704 - its makers escape


ROLES = {
    "control": "should always train",
    "reported": "what somebody said is broken",
    "remedy": "what they were told to do about it",
    "misuse": "cannot train; passes when the stack says so",
}
PROCESSES = {
    "fork": "a fork of one that had imported the libraries",
    "fresh": "started for this cell",
    "none": "none: nothing was run",
}
BUILDS = {
    "cpu": "cpu (wheels without CUDA)",
    "cuda": "cuda",
    "default": "default (the wheel that the package index gives: on Linux one with CUDA)",
    "": "not recorded",
}


def in_words(outcome: str) -> str:
    """What an outcome means."""
    return row_of(outcome).doc


def glossary() -> list[tuple[str, str, list[Row]]]:
    """Every outcome but ``trains`` by its phase: the phase, what happens in it, and its outcomes."""
    return [
        (phase.value, happens, [row for row in TABLE if row.phase is phase])
        for phase, happens in PHASES.items()
    ]
