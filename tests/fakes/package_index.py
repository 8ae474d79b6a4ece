"""A package index on loopback that serves tiny wheels, with upload dates, in either format of the simple API."""

from __future__ import annotations

import hashlib
import html
import io
import json
import threading
import zipfile
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType


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
    """``with PackageIndex() as index: index.add("alpha", "1.0", "2025-01-01")``; ``requests`` counts what was asked."""

    json: bool = True
    files: list[File] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        """Address of the simple API."""
        return f"http://127.0.0.1:{self._server.server_port}/simple"

    def add(self, name: str, version: str, day: str, *, requires: tuple[str, ...] = (), yanked: bool = False) -> File:
        """Publish a wheel at noon (UTC) of ``day``."""
        filename = f"{name.replace('-', '_')}-{version}-py3-none-any.whl"
        file = File(name, filename, wheel(name, version, requires), f"{day}T12:00:00Z", yanked)
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
            f'<a href="/files/{html.escape(file.filename)}#sha256={file.digest}" data-upload-time="{file.uploaded}"'
            f"{' data-yanked' if file.yanked else ''}>{file.filename}</a>"
            for file in files
        )
        return "text/html", f"<!DOCTYPE html><html><body>{''.join(anchors)}</body></html>"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                index.requests.append(self.path)
                kind, _, name = self.path.strip("/").partition("/")
                page = index.page(name) if kind == "simple" else None
                file = next((f for f in index.files if kind == "files" and f.filename == name), None)
                if page:
                    self.answer(page[0], page[1].encode())
                elif file:
                    self.answer("application/octet-stream", file.content)
                else:
                    self.send_error(404)

            def answer(self, content_type: str, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            do_HEAD = do_GET  # noqa: N815  (the base class's name)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base class's name)
                """Keep the tests' output clean."""

        return Handler


def wheel(name: str, version: str, requires: tuple[str, ...] = ()) -> bytes:
    """A wheel of one module that knows its version."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    entries = {
        f"{module}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: fake\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in [*entries, f"{info}/RECORD"])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in {**entries, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)
    return buffer.getvalue()
