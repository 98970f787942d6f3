"""URLs in definitions: which may be claimed, and their parts.

Eyes and rules read a URL by this one grammar, so that nobody checks one host and asks another. It is narrower than others: only
http and https, no credentials, no fragment, and ASCII as it goes over the wire.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from agentos.core.checkpoints.kinds.hosts import NAMED, is_host, spelled
from agentos.core.checkpoints.kinds.kind import Schema

LONGEST_URL = 4096
_PORTS = {"http": 80, "https": 443}
_CHARACTERS = re.compile(r"(?:[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})+")
_PARTS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?]*)(.*)")
_AUTHORITY = re.compile(r"(\[[^\[\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?")
_LAST_PORT = 65_535
_SCHEME = "[Hh][Tt][Tt][Pp]"
_REST = rf"://(?:\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\]|{NAMED})(?::[0-9]{{1,5}})?(?:[/?]{_CHARACTERS.pattern.removesuffix('+')}*)?$"
# The grammar as far as an expression goes; addresses, ports and the length of a host's name are judged by `parse`.
URL: Schema = {"type": "string", "maxLength": LONGEST_URL, "pattern": f"^{_SCHEME}[Ss]?{_REST}"}
ENCRYPTED: Schema = {"pattern": f"^{_SCHEME}[Ss]:"}


@dataclass(frozen=True, slots=True)
class Url:
    """A URL in its parts; the host without brackets."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def origin(self) -> str:
        """Who is asked: scheme, host and port, in one spelling."""
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """Host and port, the port only where it is not the usual one."""
        return spelled(self.host) if self.port == _PORTS[self.scheme] else f"{spelled(self.host)}:{self.port}"

    @property
    def named(self) -> str:
        """The URL for a message. Behind the question mark there are often secrets."""
        path, mark, _ = self.target.partition("?")
        return f"{self.origin}{path}{mark}{'…' if mark else ''}"

    def __str__(self) -> str:
        return f"{self.origin}{self.target}"


def parse(text: str) -> Url:
    """The parts of a URL.

    Raises:
        ValueError: it is none that evidence may name; says why, and nothing of what it holds.
    """
    if len(text) > LONGEST_URL:
        raise ValueError(f"longer than {LONGEST_URL:,} characters")
    if "#" in text:
        raise ValueError("has a fragment, which is never sent")
    parts = _PARTS.fullmatch(text)
    if not parts or not _CHARACTERS.fullmatch(text):
        raise ValueError("is no URL in ASCII, such as https://service.example/health")
    scheme, authority, target = parts[1].lower(), parts[2], parts[3]
    if scheme not in _PORTS:
        raise ValueError("is neither http nor https")
    if "@" in authority:
        raise ValueError("holds credentials; they are given by reference, see headers_ref")
    found = _AUTHORITY.fullmatch(authority)
    host, port = (found[1], int(found[2] or _PORTS[scheme])) if found else ("", 0)
    if host.startswith("["):
        host = host[1:-1] if ":" in host else ""
    if not is_host(host) or not 0 < port <= _LAST_PORT:
        raise ValueError("names no host, or a port that there is not")
    return Url(scheme, host, port, target if target.startswith("/") else f"/{target}")
