"""Running uv."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from gradmatrix.core.errors import UserError
from gradmatrix.stacks import uv

if TYPE_CHECKING:
    from pathlib import Path


def test_hosts_and_credentials_are_scrubbed() -> None:
    """Published text contains no host name."""
    text = "Failed to fetch: `https://user:secret@index.example:8080/simple/torch/`"
    assert uv.scrub(text) == "Failed to fetch: `the package index/simple/torch/`"


@pytest.mark.parametrize(
    ("name", "value", "offline"),
    [
        ("GRADMATRIX_OFFLINE", "1", True),
        ("UV_OFFLINE", "true", True),
        ("UV_OFFLINE", "0", False),
        ("OTHER", "1", False),
    ],
)
def test_a_uv_that_may_not_ask_does_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, value: str, *, offline: bool
) -> None:
    """Both variables have the effect of uv's --offline."""
    for each in uv.OFFLINE:
        monkeypatch.delenv(each, raising=False)
    monkeypatch.setenv(name, value)
    fake = tmp_path / "uv"
    fake.write_text('#!/bin/sh\necho "offline:$UV_OFFLINE"\n', encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setattr(uv, "binary", lambda: str(fake))
    assert f"offline:{'1' if offline else ''}\n" == uv.run(["pip", "compile", "-"]).stdout


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script pretends to be uv")
def test_what_uv_is_doing_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Steps are reported at once. The rest explains the failure, without packages and hosts."""
    fake = tmp_path / "uv"
    lines = [
        "Using Python 3.11.7 environment at: v",
        "Resolved 2 packages in 5ms",
        "Downloading torch (180.1MiB)",
        " Downloaded torch",
        " + torch==2.13.0",
        "error: no answer from https://user:secret@index.example/simple",
    ]
    fake.write_text(
        "#!/bin/sh\n" + "".join(f"echo '{line}' >&2\n" for line in lines) + "exit 2\n",
        encoding="utf-8",
    )
    fake.chmod(0o755)
    monkeypatch.setattr(uv, "binary", lambda: str(fake))
    steps: list[str] = []
    ran = uv.run_reporting(["pip", "install", "torch"], steps.append)
    assert [
        "Resolved 2 packages in 5ms",
        "Downloading torch (180.1MiB)",
        "Downloaded torch",
    ] == steps
    assert uv.Ran(2, "", "error: no answer from the package index/simple\n") == ran


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script pretends to be uv")
def test_a_uv_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A download may stall."""
    fake = tmp_path / "uv"
    fake.write_text("#!/bin/sh\nexec sleep 60\n", encoding="utf-8")
    fake.chmod(0o755)
    monkeypatch.setattr(uv, "binary", lambda: str(fake))
    ran = uv.run_reporting(["pip", "install"], lambda _: None, timeout_s=0.2)
    assert (uv.TIMED_OUT, True) == (ran.returncode, "timed out" in ran.stderr)


@pytest.mark.parametrize(
    "address", ["nonsense", "/a/folder", "https://", "secret@index.example/simple", "name=nonsense"]
)
def test_an_index_that_is_no_address_is_reported(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """The error has the variable's name, because its value may be a secret."""
    monkeypatch.setenv("UV_DEFAULT_INDEX", address)
    with pytest.raises(
        UserError, match="UV_DEFAULT_INDEX is not the address of a package index"
    ) as raised:
        uv.index_url()
    assert "secret" not in str(raised.value)


def test_an_index_may_have_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uv allows it, and a slash at the end."""
    monkeypatch.setenv("UV_DEFAULT_INDEX", "mine=https://index.example/simple/")
    assert "https://index.example/simple" == uv.index_url()


def test_a_summary_is_one_line_without_warnings() -> None:
    """It is the explanation without its layout."""
    stderr = "warning: old\nerror: No solution found\n  cause: Because a\n         and b.\n"
    assert uv.summary(stderr) == "No solution found: Because a and b."


def test_a_uv_that_hangs_is_stopped() -> None:
    """A timeout is reported like any other failure."""
    assert "timed out" in uv.run(["--version"], timeout_s=0).stderr


def test_the_machines_settings_do_not_reach_a_resolution(monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory of local wheels has no dates, so uv must not see it."""
    monkeypatch.setenv("UV_FIND_LINKS", "/nowhere")
    ran = uv.run(["pip", "compile", "-", "--quiet", "--emit-find-links", "--no-header"])
    assert "nowhere" not in ran.stdout + ran.stderr


def test_the_resolver_is_named_with_its_version() -> None:
    """It has the name and the version, but not the build."""
    assert uv.version().split()[0] == "uv"
    assert len(uv.version().split()) == 2
