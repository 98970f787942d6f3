"""What a tree leaves out, by lines as a `.gitignore` holds them.

A path is asked about from the top down: what lies beneath a folder that is left out is never looked at, so nothing beneath it
can be taken in again. Of the lines that match, the last decides; of several sets of lines, the first that has a word to say.
Names that are no UTF-8 are matched as well as they can be. Pure: the lines are handed in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from agentos._fork import importing
from agentos._text import shown

# The expressions that lines become try every way a star can stretch: with more of them one hostile name would take hours.
_MOST_STARS, _MOST_DOUBLE = 3, 2
_LONGEST = 1024
_EVERYTHING = "."
_ANY_FOLDER = "(?P<ps_d>/)"

# A set of lines, and where the paths that it speaks of begin.
Chain = tuple[tuple[int, "Lines"], ...]


class UnreadableRulesError(ValueError):
    """These lines cannot be matched; says which and why."""


class Lines:
    """One set of lines."""

    def __init__(self, lines: Iterable[str], *, strict: bool = False) -> None:
        """Read the lines.

        Args:
            strict: a line that leaves nothing out is a mistake.

        Raises:
            UnreadableRulesError: one of them cannot be read.
        """
        self._last_first = [found for line in lines if (found := _read(line, strict=strict))][::-1]
        # Most paths match none of them, which is seen at one go. What a folder's line says of no file is not asked of files.
        patterns = [expression.pattern for _, expression, _ in self._last_first]
        self._any_of = {folder: _any(patterns, folder=folder) for folder in (True, False)}

    def __bool__(self) -> bool:
        return bool(self._last_first)

    def may_speak_of(self, *, folder: bool) -> Callable[[str], object]:
        """Asked with a path, which ends with a slash if it is a folder's: nothing if none of the lines speaks of it."""
        return self._any_of[folder]

    def word(self, path: str, *, folder: bool) -> bool | None:
        """Whether they leave this path out, taking it by itself; None if they do not speak of it."""
        text = f"{path}/" if folder else path
        if not self._any_of[folder](text):
            return None
        for leaves_out, expression, within in self._last_first:
            if _matches(expression, text, within=within):
                return leaves_out
        return None


def is_left_out(path: str, chain: Chain, *, folder: bool) -> bool:
    """Whether this path is left out, where no folder above it is."""
    for start, lines in chain:
        said = lines.word(path[start:], folder=folder)
        if said is not None:
            return said
    return False


@lru_cache(maxsize=64)
def excluded(lines: tuple[str, ...]) -> Lines:
    """The lines of a claim.

    Raises:
        UnreadableRulesError: one of them cannot be read, or says nothing.
    """
    return Lines(lines, strict=True)


def gitignore_lines(data: bytes) -> Lines:
    """The lines of a `.gitignore` file.

    Raises:
        UnreadableRulesError: one of them cannot be read.
    """
    return Lines(text_of(data.removeprefix(b"\xef\xbb\xbf")).replace("\r\n", "\n").split("\n"))


def text_of(path: bytes) -> str:
    """A path as rules see it."""
    return path.decode("utf-8", "surrogateescape")


def bytes_of(path: str) -> bytes:
    """The inverse."""
    return path.encode("utf-8", "surrogateescape")


def leaves_out(lines: Sequence[str], path: str) -> bool:
    """Whether these lines leave a path out, itself or by a folder above it, be it a file or a folder."""
    chain: Chain = ((0, excluded(tuple(lines))),)
    names = path.split("/")
    folders = ("/".join(names[:end]) for end in range(1, len(names)))
    if any(is_left_out(folder, chain, folder=True) for folder in folders):
        return True
    return is_left_out(path, chain, folder=True) or is_left_out(path, chain, folder=False)


def _any(expressions: Iterable[str], *, folder: bool) -> Callable[[str], object]:
    """Whether one of these expressions may match a path: a no is sure, after a yes each is asked."""
    wanted = [each for each in expressions if folder or not each.endswith(_ANY_FOLDER)]
    if not wanted or _ANY_FOLDER in wanted:
        return lambda _: bool(wanted)
    joined = "|".join(f"(?:{each.replace(_ANY_FOLDER, '/')})" for each in wanted)
    return re.compile(joined, re.DOTALL).match


_Expression = tuple[bool, re.Pattern[str], bool]


def _read(line: str, *, strict: bool) -> _Expression | None:
    if not line.startswith("#"):
        _refuse_endless(line)
    with importing:
        from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern  # noqa: PLC0415 - few trees leave something out
    try:
        pattern = GitIgnoreSpecPattern(line)
    except ValueError:
        raise UnreadableRulesError(f"{shown(repr(line), 80)} is no line that a .gitignore could hold") from None
    if pattern.include is None or pattern.regex is None:
        if strict:
            raise UnreadableRulesError(f"{shown(repr(line), 80)} leaves nothing out")
        return None
    # Names may hold line feeds, which a dot would stop at.
    expression = re.compile(pattern.regex.pattern, pattern.regex.flags | re.DOTALL)
    return pattern.include, expression, expression.pattern.endswith("/")


def _refuse_endless(line: str) -> None:
    inner = line.rstrip().removesuffix("/**").split("/")
    stars = max(each.count("*") for each in inner if each != "**") if inner.count("**") < len(inner) else 0
    if len(line) > _LONGEST or stars > _MOST_STARS or inner.count("**") > _MOST_DOUBLE:
        raise UnreadableRulesError(f"{shown(repr(line), 80)} has more stars or letters than can be matched in bounded time")


def _matches(expression: re.Pattern[str], text: str, *, within: bool) -> bool:
    """Whether the path itself matches, and not only a folder above it."""
    if expression.pattern == _EVERYTHING:
        return True
    if expression.pattern == _ANY_FOLDER:
        return text.endswith("/")
    if within:
        # Everything inside a folder, and not the folder.
        found = expression.match(text)
        return found is not None and found.end() < len(text)
    return expression.fullmatch(text) is not None
