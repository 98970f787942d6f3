"""Hosts, ports and the other small values in definitions about services: which may be claimed, and how a subject spells them.

No name is ever asked for here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from ipaddress import IPv6Address, ip_address
from typing import Any

from agentos._text import listed
from agentos.core.checkpoints.kinds.kind import Schema, refuse, told
from agentos.core.checkpoints.models import Evidence

# Labels of letters, digits, dashes and underscores between dots; other alphabets are written in their ASCII form (xn--…).
_LABEL = r"[A-Za-z0-9_][A-Za-z0-9_-]{0,62}"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?")
_LONGEST_NAME = 253

_FOUR = r"(?:(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])(?:\.(?!$)|$)){4}"
# As much of an IPv6 address as an expression can tell in a line.
_SIX = r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*"
NAMED = rf"(?:{_NAME.pattern})"
HOST: Schema = {"type": "string", "maxLength": _LONGEST_NAME, "pattern": f"^(?:{NAMED}|{_SIX})$"}
ADDRESS: Schema = {"type": "string", "pattern": f"^(?:{_FOUR}|{_SIX})$"}
PORT: Schema = {"type": "integer", "minimum": 1, "maximum": 65_535}
THRESHOLD: Schema = {"type": "integer", "minimum": 1, "maximum": 10}
FAMILY: Schema = {"enum": ["any", "ipv4", "ipv6"]}
ALLOW_PRIVATE: Schema = {"type": "boolean"}


def is_host(host: Any) -> bool:
    """Whether this is the name of a host, or an address."""
    if type(host) is not str or len(host) > _LONGEST_NAME:
        return False
    return is_address(host) if ":" in host else bool(_NAME.fullmatch(host))


def is_address(text: Any) -> bool:
    """Whether this is an address, of no zone: a zone is a thing of one machine."""
    try:
        return type(text) is str and "%" not in text and bool(ip_address(text).packed)
    except ValueError:
        return False


def spelled(host: str) -> str:
    """One spelling for a host: names and addresses know no case, and a dot at the end says nothing."""
    return f"[{IPv6Address(host).compressed}]" if ":" in host else host.lower().removesuffix(".")


def check_host(evidence: Evidence, where: str, host: Any) -> None:
    """Refuse what no host can be called."""
    if not is_host(host):
        said = f"{where} must be a host's name or address, found {told(evidence, host)}"
        refuse(evidence, said, "without scheme, port, path and brackets; a name of other letters in its xn-- form")


def check_whole(evidence: Evidence, where: str, number: Any, least: int, most: int) -> None:
    """Refuse what is no whole number in these bounds."""
    if type(number) is not int or not least <= number <= most:
        refuse(evidence, f"{where} must be a whole number from {least} to {most:,}, found {told(evidence, number)}")


def check_flag(evidence: Evidence, where: str, flag: Any) -> None:
    """Refuse what is neither true nor false."""
    if type(flag) is not bool:
        refuse(evidence, f"{where} must be true or false, found {told(evidence, flag)}")


def check_choice(evidence: Evidence, where: str, choice: Any, choices: Sequence[str]) -> None:
    """Refuse what is none of these."""
    if type(choice) is not str or choice not in choices:
        refuse(evidence, f"{where} is {told(evidence, choice)}", f"one of: {listed([*choices])}")
