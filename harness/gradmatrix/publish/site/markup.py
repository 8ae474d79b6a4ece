"""Text and templates as HTML. Everything is escaped, without control characters and direction marks."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from gradmatrix.core.outcomes import NOT_JUDGED, REASONS, Phase
from gradmatrix.core.text import plain
from gradmatrix.publish.site import links

TEMPLATES = Path(__file__).resolve().parent.parent / "templates"
ADDRESS = re.compile(r"(https://[^\s<>\"'`]*[^\s<>\"'`.,;:)\]])")
CODE = re.compile(r"`([^`\n]+)`")


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


OUTCOMES = {
    "trains": "It ran to its last step; every parameter that should learn got a finite, non-zero gradient and changed, "
    "and the loss stayed finite.",
    "resolve:conflict": "No set of releases meets the stack's requirements.",
    "resolve:no-release": "The package index had no such release on that day.",
    "resolve:index-unreachable": "The package index could not be reached: nothing is said about the stack.",
    "install:network": "The network failed during installation: nothing is said about the stack.",
    "install:build": "A release had to be built from source, and was not.",
    "install:disk-full": "The disk was full during installation: nothing is said about the stack.",
    "install:hash-mismatch": "What was downloaded is not what was locked.",
    "import:missing-module": "The libraries could not be imported: a module is missing.",
    "import:exception": "The libraries could not be imported: an exception was raised.",
    "setup:exception": "An exception was raised before the first optimizer was built.",
    "setup:unsupported": "The stack has no such feature: not a failure, and not judged.",
    "setup:no-device": "The machine has no such device: nothing is said about the stack.",
    "step:no-grad-fn": "The loss had no graph (no grad_fn): backward found no way from it to any parameter.",
    "step:exception": "An exception was raised during training.",
    "step:nonfinite-loss": "The loss became NaN or infinite.",
    "gradient:none": "It ran to its end, but no parameter that should learn ever got a gradient.",
    "gradient:partial": "It ran to its end, but some parameters that should learn got no gradient, or only zeros.",
    "gradient:zero": "It ran to its end, but every gradient was exactly zero.",
    "gradient:nonfinite": "It ran to its end, but a gradient was NaN or infinite.",
    "update:none": "It ran to its end, but no parameter that should learn ever changed.",
    "update:partial": "It ran to its end, but some parameters that should learn never changed.",
    "relation:disagrees": "It trains, but with other losses or gradients than a variant that does the same maths.",
    "process:timeout": "It was still running when its time was up.",
    "process:out-of-memory": "It ran out of memory.",
    "process:lost": "The process that ran it disappeared: nothing is said about the stack.",
}
ROLES = {
    "control": "should always train",
    "reported": "what somebody said is broken",
    "remedy": "what people recommend against it",
    "misuse": "cannot train; passes if the stack reports the mistake",
}
PHASES = {
    "resolve": "finding releases that fit together",
    "install": "installing them",
    "import": "importing the libraries",
    "setup": "building model, data and optimizer",
    "step": "running the training loop",
    "gradient": "it ran to its end: which gradients arrived",
    "update": "the gradients arrived: which parameters changed",
    "relation": "it trains: whether a variant that does the same maths trains alike",
    "process": "anywhere: how the process ended",
}
"""Where it stopped being one that trains, in the order in which these come."""
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


def in_words(outcome: str) -> str:
    """What an outcome means."""
    if outcome.startswith("process:signal-"):
        return "The process was killed by a signal."
    if outcome.startswith("process:exit-"):
        return "The process exited by itself."
    return OUTCOMES.get(outcome, "")


class Meaning(NamedTuple):
    """An outcome, explained."""

    outcome: str
    text: str
    judged: bool
    """It says something about the stack."""


def glossary() -> list[tuple[str, str, list[Meaning]]]:
    """Every outcome but ``trains`` by its phase: the phase, what happens in it, and its outcomes."""
    known = {phase: [f"{phase}:{reason}" for reason in REASONS[phase]] for phase in Phase}
    return [
        (
            phase.value,
            PHASES[phase.value],
            [meaning(outcome.replace(r"\d+", "N")) for outcome in outcomes],
        )
        for phase, outcomes in known.items()
    ]


def meaning(outcome: str) -> Meaning:
    """An outcome in words."""
    return Meaning(outcome, in_words(outcome), outcome not in NOT_JUDGED)
