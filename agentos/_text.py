"""Text that is safe to show: escaped, shortened, without secrets.

Whatever comes from the world or from a user and ends in a message, a report or a log passes through here.
Values are never parsed or judged here.
"""

from __future__ import annotations

import re
from typing import Any

LIMIT = 512
_LAST_BYTE = 0xFF
MASKED = "(sensitive)"

# C0 and C1 controls, line and paragraph separators, bidi overrides and isolates: all of them can make a terminal lie.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_CREDENTIALS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?P<user>[^/@\s:]*):[^/\s]*@")


def shown(value: object, limit: int = LIMIT) -> str:
    """The value as text for people: control characters escaped, secrets in addresses masked, cut at `limit`."""
    text = value if isinstance(value, str) else _described(value)
    # Before anything is cut: half a password is one too.
    text = without_credentials(text)
    if len(text) > limit:
        text = f"{text[: limit - 1]}…"
    return _UNSAFE.sub(_escaped, text)


def without_credentials(text: str) -> str:
    """The text, with the passwords of addresses in it masked."""
    return _CREDENTIALS.sub(r"\g<scheme>\g<user>:***@", text) if "://" in text else text


def plain(value: Any) -> Any:
    """Any JSON as it is, but for the passwords of addresses in it."""
    if isinstance(value, str):
        return without_credentials(value)
    if isinstance(value, dict):
        return {without_credentials(key): plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


def _described(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - Python refuses to spell out huge integers, and any object may refuse to describe itself
        return f"<{type(value).__name__}>"


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code <= _LAST_BYTE else f"\\u{code:04x}"


def listed(names: list[str], most: int = 8) -> str:
    """A few names and how many more there are."""
    text = ", ".join(shown(name, 80) for name in names[:most])
    return f"{text}, and {len(names) - most} more" if len(names) > most else text
