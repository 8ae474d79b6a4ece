"""Text and templates as HTML. Everything is escaped; control characters are removed."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from gradmatrix.core.outcomes import NONFINITE_LOSS, RANKS_DIFFER, Phase, named, phase_of, row_of
from gradmatrix.core.text import plain
from gradmatrix.publish.site import links

TEMPLATES = Path(__file__).resolve().parent.parent / "templates"
ADDRESS = re.compile(r"(https://[^\s<>\"'`]*[^\s<>\"'`.,;:)\]])")
CODE = re.compile(r"`([^`\n]+)`")
NONFINITE_GRADIENT = named("gradient:nonfinite")


@lru_cache(maxsize=65536)
def safe(text: str) -> str:
    """Return ``text`` as HTML. Cached, because the same texts come again and again."""
    return str(escape(text if text.isprintable() else plain(text)))


@lru_cache(maxsize=65536)
def coded(text: str) -> Markup:
    """Return ``text`` as HTML, with text in backticks as code."""
    return Markup(CODE.sub(r"<code>\1</code>", safe(text)))  # noqa: S704 - escaped by safe


def linked(text: str) -> Markup:
    """Return ``text`` as HTML, with addresses as links and text in backticks as code."""
    parts = ADDRESS.split(text)
    html = [
        f'<a rel="noreferrer" href="{safe(p)}">{safe(p)}</a>' if n % 2 else coded(p)
        for n, p in enumerate(parts)
    ]
    return Markup("").join(map(Markup, html))


def documented(text: str) -> Markup:
    """Return a docstring as HTML: paragraphs, and lists whose entries begin with a dash."""
    return Markup("\n").join(
        block(each.strip()) for each in re.split(r"\n\s*\n", text) if each.strip()
    )


def block(text: str) -> Markup:
    """Return a paragraph, a list, or a paragraph that ends with a list."""
    first, *entries = re.split(r"(?:^|\n)- ", text)
    listed = Markup("").join(Markup("<li>{}</li>").format(linked(each)) for each in entries)
    return (Markup("<p>{}</p>").format(linked(first)) if first else Markup()) + (
        Markup("<ul>{}</ul>").format(listed) if entries else Markup()
    )


def finalized(value: object) -> object:
    """Return a value without control characters, before a template escapes it."""
    return (
        value
        if isinstance(value, Markup) or not isinstance(value, str) or value.isprintable()
        else plain(value)
    )


def environment() -> Environment:
    """Return the templates. They escape every value and refuse unknown names."""
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
    made.filters |= {"coded": coded, "linked": linked, "documented": documented}
    return made


ENVIRONMENT = environment()


def page(template: str, path: str, **values: object) -> tuple[str, bytes]:
    """Return the page at ``path``, rendered from a template."""
    text = ENVIRONMENT.get_template(template).render(root=links.up(path), path=path, **values)
    return path, text.encode()


def ready(html: str) -> Markup:
    """Mark HTML that was joined from escaped parts as ready for a template."""
    return Markup(html)  # noqa: S704 - its makers escape


ROLES = {
    "control": "should always train",
    "reported": "what somebody said is broken",
    "remedy": "what people recommend against it",
    "misuse": "cannot train; passes if the stack reports the mistake",
}
PROCESSES = {
    "fork": "a fork of a process that had imported the libraries",
    "fresh": "a new process",
    "none": "none: nothing was run",
}
BUILDS = {
    "cpu": "cpu (wheels without CUDA)",
    "cuda": "cuda",
    "default": "default (the wheel of the package index; on Linux with CUDA)",
    "": "not recorded",
}


class Word(NamedTuple):
    """What outcomes of a kind are called where people read."""

    kind: str
    """Its class: passes, fails, not judged."""
    symbol: str
    meaning: str


ERRORS, IDLE, WRONGLY = "errors", "runs but does not train", "trains wrongly"
GLOSSARY = {
    "trains": Word(
        "p", "✓", "It runs to its end; all that should learn gets a gradient and changes."
    ),
    ERRORS: Word("f", "✗", "It stops with an error or at a limit, or cannot be installed."),
    IDLE: Word(
        "f",
        "✗",
        "It runs to its end, but a part that should learn gets no gradient or stays as it was.",
    ),
    WRONGLY: Word(
        "f", "✗", "It runs, but with NaN, or with other numbers than what should be equivalent."
    ),
    "says so": Word("p", "✓", "A misuse, which cannot train, and an error or a warning names it."),
    "silent": Word("f", "✗", "A misuse, which cannot train, and nothing is said about it."),
    "not judged": Word("n", "–", "The stack has no such feature, or the machine no such device."),
}
"""The words for kinds of outcome."""
OF_PHASE = {Phase.GRADIENT: IDLE, Phase.UPDATE: IDLE, Phase.RELATION: WRONGLY}
OF_OUTCOME = dict.fromkeys((NONFINITE_LOSS, NONFINITE_GRADIENT, RANKS_DIFFER), WRONGLY)


def kind_of_failure(outcome: str) -> str:
    """Return the word for an outcome that is not ``trains``."""
    phase = phase_of(outcome)
    return OF_OUTCOME.get(outcome) or (OF_PHASE.get(phase, ERRORS) if phase else ERRORS)


def in_words(outcome: str) -> str:
    """What an outcome means."""
    return row_of(outcome).doc
