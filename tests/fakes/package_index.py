"""A package index on loopback.

It serves tiny wheels with upload dates, in both formats of the simple API.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import tarfile
import threading
import zipfile
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

MODIFIED = "Sat, 01 Mar 2025 12:00:00 GMT"


@dataclass
class File:
    """One wheel of the index."""

    name: str
    filename: str
    content: bytes
    uploaded: str
    yanked: bool
    digest: str = ""

    def __post_init__(self) -> None:
        self.digest = hashlib.sha256(self.content).hexdigest()


@dataclass
class PackageIndex:
    """Use it as ``with PackageIndex() as index``, and call its ``add``.

    The field ``requests`` counts requests by path.
    """

    json: bool = True
    files: list[File] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    validates: bool = False
    """Whether pages have an ETag and a date, and are "not modified" for whoever shows either."""
    failures: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    """Status and headers of the answers that come before any page."""
    asked: list[dict[str, str]] = field(default_factory=list)
    """The headers of every question."""

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}
        )
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """Address of the simple API."""
        return f"http://127.0.0.1:{self._server.server_port}/simple"

    def add(
        self,
        name: str,
        version: str,
        day: str,
        *,
        requires: tuple[str, ...] = (),
        yanked: bool = False,
    ) -> File:
        """Publish a wheel at noon (UTC) of ``day``."""
        filename = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
        file = File(name, filename, wheel(name, version, requires), f"{day}T12:00:00Z", yanked)
        self.files.append(file)
        return file

    def add_source(self, name: str, version: str, day: str) -> File:
        """Publish a source release and no wheel."""
        file = File(
            name,
            f"{name}-{version}.tar.gz",
            source(name, version),
            f"{day}T12:00:00Z",
            yanked=False,
        )
        self.files.append(file)
        return file

    def page(self, name: str) -> tuple[str, str] | None:
        """Content type and text of a package's page; None for an unknown package."""
        files = [file for file in self.files if file.name == name]
        if not files:
            return None
        if self.json:
            listed = [
                {
                    "filename": file.filename,
                    "url": f"/files/{file.filename}",
                    "hashes": {"sha256": file.digest},
                    "upload-time": file.uploaded,
                    "yanked": file.yanked,
                }
                for file in files
            ]
            text = json.dumps({"meta": {"api-version": "1.1"}, "name": name, "files": listed})
            return "application/vnd.pypi.simple.v1+json", text
        anchors = (
            f'<a href="/files/{html.escape(file.filename)}#sha256={file.digest}"'
            f' data-upload-time="{file.uploaded}"'
            f"{' data-yanked' if file.yanked else ''}>{file.filename}</a>"
            for file in files
        )
        return "text/html", f"<!DOCTYPE html><html><body>{''.join(anchors)}</body></html>"

    def validators(self, text: str) -> dict[str, str]:
        """The headers that identify a version of a page."""
        if not self.validates:
            return {}
        return {"ETag": f'"{hashlib.sha256(text.encode()).hexdigest()}"', "Last-Modified": MODIFIED}

    def knows(self, headers: dict[str, str], text: str) -> bool:
        """Whether the client has this version of the page."""
        return headers.get("If-None-Match") == self.validators(text)["ETag"]

    def answer(self, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body for ``path``."""
        if self.failures:
            return (*self.failures.pop(0), b"")
        kind, _, name = path.strip("/").partition("/")
        page = self.page(name) if kind == "simple" else None
        if page and self.validates and self.knows(headers, page[1]):
            return 304, {}, b""
        if page:
            return 200, {"Content-Type": page[0], **self.validators(page[1])}, page[1].encode()
        file = next((f for f in self.files if kind == "files" and f.filename == name), None)
        return (
            (200, {"Content-Type": "application/octet-stream"}, file.content)
            if file
            else (404, {}, b"")
        )

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.requests.append(self.path)
                index.asked.append(dict(self.headers.items()))
                status, headers, body = index.answer(self.path, index.asked[-1])
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            do_HEAD = do_GET  # noqa: N815  (the base class's name)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Keep the tests' output clean."""

        return Handler


BACKEND = """
import pathlib, shutil
def build_wheel(folder, *_):
    (built,) = pathlib.Path(__file__).parent.glob("*.whl")
    shutil.copy(built, folder)
    return built.name
"""


def source(name: str, version: str) -> bytes:
    """A source release whose build needs nothing from an index: it holds the wheel."""
    buffer = io.BytesIO()
    project = "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n"
    files = {
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        "pyproject.toml": project.encode(),
        "backend.py": BACKEND.encode(),
        f"{name}-{version}-py3-none-any.whl": wheel(name, version),
    }
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(f"{name}-{version}/{path}")
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def record_hash(text: str) -> str:
    """The hash of a file as a RECORD has it."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
    return f"sha256={digest.decode().rstrip('=')}"


def wheel(name: str, version: str, requires: tuple[str, ...] = (), code: str = "") -> bytes:
    """A wheel of one module that knows its version, and ends with some ``code``."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    entries = {
        f"{module}.py": f"VERSION = {version!r}\n{code}",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": (
            "Wheel-Version: 1.0\nGenerator: fake\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
    }
    record = "".join(f"{path},{record_hash(text)},{len(text)}\n" for path, text in entries.items())
    record += f"{info}/RECORD,,\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in {**entries, f"{info}/RECORD": record}.items():
            archive.writestr(zipfile.ZipInfo(path), text)
    return buffer.getvalue()
