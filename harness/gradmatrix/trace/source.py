"""Python source as text and tree: edits change the text, so comments and formatting stay."""

from __future__ import annotations

import ast
import io
import tokenize
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

COMPOUND = (ast.BoolOp, ast.IfExp, ast.Lambda, ast.NamedExpr)
"""Expressions that need parentheses inside another expression."""
LAYOUT = (
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.COMMENT,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


@dataclass(frozen=True)
class Edit:
    """Bytes ``start`` to ``end`` become ``text``."""

    start: int
    end: int
    text: str = ""


@dataclass(frozen=True)
class Token:
    """A token with its place in bytes."""

    kind: int
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class Source:
    """The text of a module, and its tree."""

    text: str
    tree: ast.Module

    @classmethod
    def of(cls, text: str) -> Self:
        """Parse ``text``.

        Raises:
            SyntaxError: if it is not valid Python.
        """
        return cls(text, ast.parse(text))

    def changed(self, edits: Iterable[Edit]) -> Source:
        """The source with ``edits`` made; an edit inside another one is left out."""
        result, before = b"", 0
        for edit in outermost(edits):
            result += self.raw[before : edit.start] + edit.text.encode()
            before = edit.end
        return Source.of((result + self.raw[before:]).decode())

    @cached_property
    def raw(self) -> bytes:
        """The text as bytes: positions in the tree count bytes."""
        return self.text.encode()

    @cached_property
    def lines(self) -> list[int]:
        """The byte where each line begins, and the end."""
        starts = [0]
        for line in self.raw.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        return starts

    @cached_property
    def tokens(self) -> list[Token]:
        """The tokens in order."""
        texts = self.text.splitlines(keepends=True)

        def place(position: tuple[int, int]) -> int:
            line, column = position
            if line > len(texts):
                return len(self.raw)
            return self.lines[line - 1] + len(texts[line - 1][:column].encode())

        read = io.StringIO(self.text).readline
        return [
            Token(t.type, t.string, place(t.start), place(t.end))
            for t in tokenize.generate_tokens(read)
        ]

    def line_of(self, place: int) -> int:
        """The number of the line with the byte, from 0."""
        return bisect_right(self.lines, place) - 1

    def span(self, node: ast.AST) -> tuple[int, int]:
        """The first byte of a node, with its decorators, and the byte after its last."""
        place = vars(node)
        start = self.lines[place["lineno"] - 1] + place["col_offset"]
        end = self.lines[place["end_lineno"] - 1] + place["end_col_offset"]
        decorators = [each.lineno - 1 for each in getattr(node, "decorator_list", [])]
        if decorators:
            start = self.lines[min(decorators)] + self.indentation(min(decorators))
        return start, end

    def piece(self, node: ast.AST) -> str:
        """The text of a node."""
        start, end = self.span(node)
        return self.raw[start:end].decode()

    def operand(self, node: ast.AST) -> str:
        """The text of a node as a part of another expression."""
        return f"({self.piece(node)})" if isinstance(node, COMPOUND) else self.piece(node)

    def replaced(self, node: ast.AST, text: str) -> Edit:
        """The edit that replaces a node's text."""
        return Edit(*self.span(node), text)

    def indentation(self, line: int) -> int:
        """Bytes of white space at the beginning of a line."""
        text = self.raw[self.lines[line] : self.lines[line + 1]]
        return len(text) - len(text.lstrip(b" \t"))

    def blocks(self) -> Iterator[list[ast.stmt]]:
        """Every list of statements."""
        for node in ast.walk(self.tree):
            for name in ("body", "orelse", "finalbody"):
                block = getattr(node, name, None)
                if isinstance(block, list) and block:
                    yield block

    def without(self, node: ast.stmt) -> Edit:
        """Remove the lines of a statement and the comment right above it.

        ``pass`` takes its place if its block would be empty.
        """
        start, end = self.span(node)
        first, last = self.line_of(start), self.line_of(end - 1)
        comments = {self.line_of(t.start) for t in self.tokens if t.kind == tokenize.COMMENT}
        while (
            first and first - 1 in comments and self._is_comment(first - 1, self.indentation(first))
        ):
            first -= 1
        alone = any(block == [node] and block is not self.tree.body for block in self.blocks())
        text = " " * node.col_offset + "pass\n" if alone else ""
        return Edit(self.lines[first], self.lines[last + 1], text)

    def _is_comment(self, line: int, indentation: int) -> bool:
        return self.indentation(line) == indentation and self.raw[self.lines[line] :].lstrip(
            b" \t"
        ).startswith(b"#")

    def decided(self, node: ast.If, *, keep: bool) -> Edit:
        """Reduce an ``if`` or ``elif`` with a known condition to what is left of it."""
        start, end = self.span(node)
        is_elif = self.raw.startswith(b"elif", start)
        after = self.lines[self.line_of(end - 1) + 1]
        line = self.lines[self.line_of(start)]
        chosen = node.body if keep else node.orelse
        if keep and is_elif:
            return Edit(start, after, f"else:\n{self._body(node, chosen, dedent=False)}")
        if (
            chosen
            and isinstance(chosen[0], ast.If)
            and self.raw.startswith(b"elif", self.span(chosen[0])[0])
        ):
            return Edit(start, self.span(chosen[0])[0] + (0 if is_elif else len("el")))
        if chosen and is_elif:
            return Edit(line, self.lines[self._header(chosen[0])])
        if chosen:
            return Edit(line, after, self._body(node, chosen, dedent=True))
        return Edit(line, after) if is_elif else self.without(node)

    def _header(self, first: ast.stmt) -> int:
        """The line of the header above a block's first statement: ``else:`` or ``if …:``."""
        line = self.line_of(self.span(first)[0])
        while (
            self.indentation(line) >= first.col_offset
            or not self.raw[self.lines[line] : self.lines[line + 1]].strip()
        ):
            line -= 1
        return line

    def _body(self, node: ast.If, block: list[ast.stmt], *, dedent: bool) -> str:
        """The lines of a block of ``node``, with the comments above its first statement."""
        first, last = self._header(block[0]) + 1, self.line_of(self.span(block[-1])[1] - 1)
        if self.line_of(self.span(block[0])[0]) < first:  # it is on the line of its header
            return (
                " " * (node.col_offset + 4 * (not dedent))
                + "; ".join(map(self.piece, block))
                + "\n"
            )
        fixed = self.inside_strings
        width = block[0].col_offset - node.col_offset if dedent else 0
        lines = []
        for number in range(first, last + 1):
            text = self.raw[self.lines[number] : self.lines[number + 1]].decode()
            movable = number not in fixed and not text[:width].strip()
            lines.append((text[width:] or "\n") if movable else text)
        return "".join(lines)

    @cached_property
    def inside_strings(self) -> set[int]:
        """The numbers, from 0, of the lines that begin inside a string."""
        found = set[int]()
        for token in self.tokens:
            if token.kind == tokenize.STRING:
                found |= set(range(self.line_of(token.start) + 1, self.line_of(token.end) + 1))
        return found

    def without_items(self, gone: Iterable[ast.AST], after: int) -> list[Edit]:
        """Remove items of the first parenthesis from byte ``after`` on, with their commas."""
        opening, closing, items = self._items(after)
        drop = {
            place
            for node in gone
            for place, item in enumerate(items)
            if item[0] <= self.span(node)[0] < item[1]
        }
        stars = [place for place, item in enumerate(items) if self.raw[item[0] : item[1]] == b"*"]
        if stars and all(
            p in drop or self.raw.startswith(b"**", items[p][0])
            for p in range(stars[0] + 1, len(items))
        ):
            drop.add(stars[0])  # no keyword-only parameter is left
        kept = [place for place in range(len(items)) if place not in drop]
        if not drop:
            return []
        if not kept:
            return [Edit(opening, closing)]
        edits = [Edit(items[place][0], items[place + 1][0]) for place in drop if place < kept[-1]]
        if kept[-1] + 1 < len(items):
            end = items[-1][1]
            edits.append(Edit(items[kept[-1]][1], end))
            edits += (
                self._comment_of(end)
                if self.line_of(end) != self.line_of(items[kept[-1]][1])
                else []
            )
        return edits

    def joined(self, after: int, widest: int = 100) -> list[Edit]:
        """Put the only item of a parenthesis on one line, if it stands on several and fits."""
        opening, closing, items = self._items(after)
        inside = self.raw[opening:closing].decode()
        if len(items) != 1 or "\n" not in inside or "#" in inside or opening < after:
            return []
        item = self.raw[items[0][0] : items[0][1]].decode()
        line = self.raw[self.lines[self.line_of(opening)] : opening].decode()
        rest = self.raw[closing : self.lines[self.line_of(closing) + 1]].decode().rstrip()
        fits = "\n" not in item and len(line + item + rest) <= widest
        return [Edit(opening, closing, item)] if fits else []

    def _comment_of(self, place: int) -> list[Edit]:
        """Remove the comment in the rest of the line."""
        line = self.line_of(place)
        found = (t for t in self.tokens if t.kind == tokenize.COMMENT and t.start > place)
        return [Edit(t.start, t.end) for t in found if self.line_of(t.start) == line]

    def _items(self, after: int) -> tuple[int, int, list[tuple[int, int]]]:
        """The inside of a parenthesis: where it begins and ends, and the place of each item."""
        tokens = [t for t in self.tokens if t.start >= after and t.kind not in LAYOUT]
        first = next(n for n, token in enumerate(tokens) if token.text == "(")
        depth, items, current = 0, list[tuple[int, int]](), list[Token]()
        for token in tokens[first:]:
            depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
            if (depth == 1 and token.text == ",") or depth == 0:
                if current:
                    items.append((current[0].start, current[-1].end))
                current = []
                if depth == 0:
                    return tokens[first].end, token.start, items
            elif token is not tokens[first]:
                current.append(token)
        raise ValueError("a parenthesis is never closed")


def outermost(edits: Iterable[Edit]) -> list[Edit]:
    """The edits in order, without those inside another one."""
    kept: list[Edit] = []
    for edit in sorted(edits, key=lambda each: (each.start, -each.end)):
        if not kept or edit.start >= kept[-1].end:
            kept.append(edit)
    return kept


def tidy(text: str) -> str:
    """Set empty lines: two around top definitions, at most one elsewhere, none below a header."""
    inside = Source.of(text).inside_strings
    kept: list[str] = []
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if number in inside:
            kept.append(line)
        elif line.strip():
            kept.append(line.rstrip())
        elif kept:
            following = next((each for each in lines[number:] if each.strip()), "")
            before = next((each for each in reversed(kept) if each), "")
            outer = not following.startswith((" ", ")", "]", "}"))
            most = (
                2
                if outer
                and (following.startswith(("def ", "class ", "@")) or before.startswith(" "))
                else 1
            )
            if not before.endswith((":", "(", "[", "{")) and kept[-most:] != [""] * most:
                kept.append("")
    return "\n".join(kept).strip("\n") + "\n"
