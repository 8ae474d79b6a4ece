"""Checks of the workflows that linters do not make: pins, time limits, existing commands."""

from __future__ import annotations

import re
import shlex
import tomllib
from itertools import takewhile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from gradmatrix.cli.main import parser
from gradmatrix.stacks.lock import blocks, requirement_of, version_of

ROOT = Path(__file__).resolve().parent.parent.parent
WRITTEN = ROOT / "harness" / "gradmatrix" / "compare" / "workflow.yml"
"""What ``gradmatrix init`` writes for other projects."""
WORKFLOWS = [*sorted((ROOT / ".github" / "workflows").glob("*.yml")), WRITTEN]
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in WORKFLOWS}
ACTION = (ROOT / ".github" / "actions" / "upgrade" / "action.yml").read_text(encoding="utf-8")
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
ENDS_A_COMMAND = {"|", "||", "&&", ";", ">", ">>", "#"}


def uses() -> list[tuple[str, str]]:
    """Each action that a workflow or our own action uses, with its comment."""
    texts = {**TEXTS, "action.yml": ACTION}
    return [
        (name, found) for name, text in texts.items() for found in re.findall(r"uses: (.+)", text)
    ]


def commands() -> list[tuple[str, tuple[str, ...]]]:
    """Each command of nox in a workflow, as a list of words."""
    return [
        (name, tuple(takewhile(lambda word: word not in ENDS_A_COMMAND, shlex.split(found))))
        for name, text in TEXTS.items()
        for found in re.findall(r"(?:^|&& |: )(nox -.+)", without_comments(text), re.MULTILINE)
    ]


def without_comments(text: str) -> str:
    """The lines without indentation and comments. Continued lines are joined."""
    lines = [line.strip() for line in text.splitlines()]
    return "\n".join(line for line in lines if not line.startswith("#")).replace("\\\n", "")


def jobs(text: str) -> dict[str, str]:
    """The text of each job of a workflow, by its key."""
    parts = re.split(r"^  (\w[\w-]*):$", text.partition("\njobs:\n")[2], flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


JOBS = [
    pytest.param(job, id=f"{name}-{key}")
    for name, text in TEXTS.items()
    for key, job in jobs(text).items()
]


def test_there_are_workflows() -> None:
    """Otherwise the other tests would check nothing."""
    assert {"checks.yml", "nightly.yml", "workflow.yml"} == set(TEXTS)
    assert {"plan", "cells", "flips", "publish", "attest", "pages", "commit", "report"} == set(
        jobs(TEXTS["nightly.yml"])
    )


def test_every_action_is_pinned_by_a_hash() -> None:
    """A comment has the version, which Dependabot updates. An action has one version everywhere."""
    found = [each for _, each in uses()]
    assert [] == [each for each in found if not PINNED.fullmatch(each)]
    names = [each.partition("@")[0] for each in set(found)]
    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("job", JOBS)
def test_every_job_ends_in_time_and_says_what_it_may(job: str) -> None:
    """The token has only the rights that the job names."""
    assert ("timeout-minutes:" in job, "permissions:" in job) == (True, True)


@pytest.mark.parametrize("name", TEXTS)
def test_nothing_is_granted_to_all_jobs(name: str) -> None:
    """No secret is read, because the workflow's own token is enough."""
    assert ("\npermissions: {}\n" in TEXTS[name], "secrets." in TEXTS[name]) == (True, False)
    assert re.search(r"^ *pull_request_target", TEXTS[name], re.MULTILINE) is None


@pytest.mark.parametrize("text", [*TEXTS.values(), ACTION], ids=[*TEXTS, "action.yml"])
def test_a_checkout_leaves_no_token_behind(text: str) -> None:
    """Later steps could read it from .git/config."""
    assert text.count("actions/checkout@") == text.count("persist-credentials: false") > 0


@pytest.mark.parametrize("job", ["plan", "cells", "flips", "publish"])
def test_jobs_that_run_tested_packages_cannot_write(job: str) -> None:
    """This covers the repository, pages, issues and signatures."""
    granted = re.findall(
        r"^      [\w-]+: (?:read|write)", jobs(TEXTS["nightly.yml"])[job], re.MULTILINE
    )
    assert ["      contents: read"] == granted


@pytest.mark.parametrize("job", ["attest", "pages", "commit", "report"])
def test_jobs_that_can_write_run_no_python(job: str) -> None:
    """Neither tested packages nor this project run there."""
    text = without_comments(jobs(TEXTS["nightly.yml"])[job])
    assert ": write" in text
    assert re.search(r"\b(?:nox|uv|pip|python3?)\b", text) is None


def test_pages_are_deployed_after_they_were_signed_and_committed() -> None:
    """The next night starts from what is committed."""
    text = jobs(TEXTS["nightly.yml"])["pages"]
    assert "needs: [attest, commit]" in text
    assert "needs.attest.result == 'success' && needs.commit.result == 'success'" in text


def test_everything_that_is_published_is_signed() -> None:
    """Documentation and bundle lie beside the pages before the checksums are listed."""
    text = jobs(TEXTS["nightly.yml"])["attest"]
    steps = [
        "name: beside",
        "name: List the checksums",
        "uses: actions/attest-build-provenance@",
        "uses: actions/upload-pages-artifact@",
    ]
    places = [text.index(step) for step in steps]
    assert sorted(places) == places
    signed = re.search(r"subject-path: \|\n((?: {12}.+\n)+)", text)
    assert signed is not None
    assert {"results/SHA256SUMS", "README.md"} < set(signed[1].split())
    assert text.count("download-artifact@") == text[: places[1]].count("download-artifact@")


def test_cells_that_take_too_long_leave_their_records() -> None:
    """The step ends before its job. A cancelled job would not upload them."""
    text = jobs(TEXTS["nightly.yml"])["cells"]
    job, step = (int(minutes) for minutes in re.findall(r"timeout-minutes: (\d+)", text))
    assert (True, True) == (step + 10 <= job, "if: ${{ always() }}" in text)


def test_the_checks_are_those_of_the_documentation() -> None:
    """The command is the same by hand and in the workflow."""
    command = re.search(
        r"run: (pip install .nox\[uv\]. && nox -s tests)$", TEXTS["checks.yml"], re.MULTILINE
    )
    assert command is not None
    assert f"\n{command[1]}\n" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(("name", "command"), commands())
def test_every_command_exists(name: str, command: tuple[str, ...]) -> None:
    """The noxfile has the session, and the parser accepts its arguments."""
    _, flag, session, *rest = command
    assert "-s" == flag
    noxfile = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    assert re.search(rf"^def {session}\(session: nox.Session\)", noxfile, re.MULTILINE)
    words = rest[1:] if rest else []
    if session in {"gradmatrix", "shards"}:
        parser().parse_args(
            words if session == "gradmatrix" else ["shards", "sessions.json", *words]
        )


def test_the_commands_were_found() -> None:
    """These commands make up a night."""
    called = {" ".join(words[2:6]) for name, words in commands() if name == "nightly.yml"}
    called |= {" ".join(words[2:5]) for name, words in commands() if name == "nightly.yml"}
    published = "publish -- --base-url"
    assert {
        "lock -- latest next",
        published,
        "gradmatrix -- merge",
        "gradmatrix -- shard",
        "gradmatrix -- flips",
        "gradmatrix -- regressions",
    } < called


REQUIREMENTS = ".github/requirements-publish.txt"
LOCKED = (ROOT / REQUIREMENTS).read_text(encoding="utf-8")


@pytest.mark.parametrize("job", ["plan", "cells", "flips", "publish"])
def test_jobs_install_from_the_hashed_lock(job: str) -> None:
    """Nothing else is installed where the results are made, and nox makes no environment."""
    text = jobs(TEXTS["nightly.yml"])[job]
    installs = re.findall(r"\b(?:pip|tool|pipx|uvx) (?:install|run).*(?:\n {12}.*)*", text)
    assert 1 == len(installs)
    assert {"--require-hashes", REQUIREMENTS} <= set(installs[0].split())
    assert "NOX_SCRIPT_MODE: none" in TEXTS["nightly.yml"]


def test_what_is_signed_is_made_without_other_packages() -> None:
    """No session runs in its job that installs packages of its own."""
    noxfile = (ROOT / "noxfile.py").read_text(encoding="utf-8")
    job = jobs(TEXTS["nightly.yml"])
    for name in ("plan", "publish"):
        for session in re.findall(r"nox -s ([\w-]+)", without_comments(job[name])):
            body = noxfile[noxfile.index(f"\ndef {session}(") :]
            assert "session.install" not in body[: body.index("\n\n\n")], session


def test_the_hashed_lock_has_what_the_project_needs() -> None:
    """If it is stale, renew it: nox -s requirements."""
    pinned = {}
    for block in blocks(LOCKED):
        requirement = requirement_of(block)
        assert "--hash=sha256:" in block, requirement
        pinned[canonicalize_name(requirement.name)] = version_of(block, requirement, "3.12")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = project["optional-dependencies"]["docs"]
    extra += project["optional-dependencies"]["matrix"]
    needed = list(map(Requirement, (*project["dependencies"], *extra)))
    stale = [
        str(each)
        for each in needed
        if not each.specifier.contains(pinned.get(canonicalize_name(each.name), "0"))
    ]
    assert [] == stale, "run: nox -s requirements"
    assert len(pinned) > len(needed)
    assert "://" not in LOCKED
