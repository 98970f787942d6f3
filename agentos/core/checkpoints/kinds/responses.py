"""Claims about what a service answers: its status, headers, values of a JSON body, the SHA-256 of the body.

The question changes nothing: it is GET or HEAD, without a body. Answers are judged, and never shown beyond what was claimed of
them. What fails is asked again until the deadline.
"""

from __future__ import annotations

import re
from typing import Any

from agentos._text import shown
from agentos.core.checkpoints.kinds import urls
from agentos.core.checkpoints.kinds.hosts import ALLOW_PRIVATE, FAMILY, check_choice, check_flag, check_whole
from agentos.core.checkpoints.kinds.kind import HOLDS, Effort, Kind, Lifetime, Retries, Schema, Verdict, refuse, told
from agentos.core.checkpoints.kinds.matchers import MATCHER, TEXT, check_matcher, check_text, described, matches
from agentos.core.checkpoints.kinds.pointers import POINTER, check_pointer
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.results import Outcome

METHODS = ("GET", "HEAD")
DEFAULT_BODY, MOST_BODY = 1 << 20, 64 << 20
MOST_REDIRECTS = 10
# Evidence is written by agents: these are the only variables it may name, so only what was meant for it can be sent.
SECRETS = "AGENTOS_HEADER_"
_STATUSES = range(100, 600)
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_VARIABLE = re.compile(rf"{SECRETS}[A-Z0-9_]{{1,100}}")
# These say how a message travels, and are written by whoever sends it.
_OURS = frozenset(
    ("host", "connection", "content-length", "transfer-encoding", "accept-encoding", "upgrade", "te", "trailer", "expect")
)
_SHORT = 200
_HINT = "look at the service; it is asked again until its deadline"


def _check(evidence: Evidence) -> None:
    expected, metadata = evidence.expected, evidence.metadata
    url = _check_url(evidence)
    _check_status(evidence, expected["status"])
    _check_headers(evidence)
    _check_body(evidence)
    check_choice(evidence, "metadata['method']", metadata.get("method", "GET"), METHODS)
    for flag in ("verify_tls", "allow_private"):
        check_flag(evidence, f"metadata['{flag}']", metadata.get(flag, False))
    check_choice(evidence, "metadata['family']", metadata.get("family", "any"), ("any", "ipv4", "ipv6"))
    check_whole(evidence, "metadata['redirects']", metadata.get("redirects", 0), 0, MOST_REDIRECTS)
    check_whole(evidence, "metadata['max_body']", metadata.get("max_body", DEFAULT_BODY), 1, MOST_BODY)
    if "headers_ref" in metadata:
        _check_secrets(evidence, url)


def _check_url(evidence: Evidence) -> urls.Url:
    url = evidence.expected["url"]
    if type(url) is not str:
        refuse(evidence, f"expected['url'] must be a URL, found {told(evidence, url)}")
    try:
        return urls.parse(url)
    except ValueError as problem:
        # Nothing of it is shown: what is wrong with it may be that it holds a password.
        refuse(evidence, f"expected['url'] {problem}")
        raise


def _check_status(evidence: Evidence, status: Any) -> None:
    if type(status) is list and status and all(type(each) is int and each in _STATUSES for each in status):
        return
    if type(status) is dict:
        check_matcher(evidence, "expected['status']", status)
        met = sum(matches(status, each) for each in _STATUSES)
        if not 0 < met < len(_STATUSES):
            refuse(evidence, "expected['status'] is met by every status, or by none", 'such as 200, [200, 204] or {"lt": 400}')
        return
    if type(status) is not int or status not in _STATUSES:
        said = f"expected['status'] must be a status, a list of them or operators, found {told(evidence, status)}"
        refuse(evidence, said, 'such as 200, [200, 204] or {"lt": 400}')


def _check_headers(evidence: Evidence) -> None:
    headers = evidence.expected.get("headers", {"any": ""})
    if type(headers) is not dict or not headers:
        refuse(evidence, f"expected['headers'] must be headers to what they must be, found {told(evidence, headers)}")
    for name, matcher in headers.items():
        if not _TOKEN.fullmatch(name):
            refuse(evidence, f"expected['headers'] names {told(evidence, name)}, which is no header")
        check_text(evidence, f"expected['headers'][{shown(repr(name), 60)}]", matcher)


def _check_body(evidence: Evidence) -> None:
    expected = evidence.expected
    values = expected.get("json", {"": ""})
    if type(values) is not dict or not values:
        refuse(evidence, f"expected['json'] must be JSON pointers to what they must name, found {told(evidence, values)}")
    for pointer, matcher in values.items():
        check_pointer(evidence, "a key of expected['json']", pointer)
        check_matcher(evidence, f"expected['json'][{shown(repr(pointer), 60)}]", matcher)
    digest = expected.get("body_sha256", "0" * 64)
    if type(digest) is not str or not _SHA256.fullmatch(digest):
        refuse(evidence, f"expected['body_sha256'] must be 64 hexadecimal digits, found {told(evidence, digest, 80)}")
    if reads_body(evidence) and evidence.metadata.get("method") == "HEAD":
        refuse(evidence, "an answer to HEAD has no body", "use GET, or claim no body")


def _check_secrets(evidence: Evidence, url: urls.Url) -> None:
    secrets = evidence.metadata["headers_ref"]
    if type(secrets) is not dict or not secrets:
        refuse(evidence, f"metadata['headers_ref'] must be headers to variables, found {told(evidence, secrets)}", _BY_NAME)
    for name, variable in secrets.items():
        if not _TOKEN.fullmatch(name) or name.lower() in _OURS:
            refuse(evidence, f"metadata['headers_ref'] names {told(evidence, name)}, which is no header of the caller's")
        if type(variable) is not str or not _VARIABLE.fullmatch(variable):
            said = f"metadata['headers_ref'][{shown(repr(name), 60)}] must name a variable that starts with {SECRETS}"
            refuse(evidence, said, _BY_NAME)
    safe = url.scheme == "https" and evidence.metadata.get("verify_tls", True)
    if not safe and evidence.metadata.get("allow_private") is not True:
        refuse(evidence, "metadata['headers_ref'] would be sent to nobody knows whom", "use https with verify_tls")


_BY_NAME = f'such as {{"Authorization": "{SECRETS}TOKEN"}}; the value is read from the environment of whoever looks'


def reads_body(evidence: Evidence) -> bool:
    """Whether the body is part of the claim."""
    return "json" in evidence.expected or "body_sha256" in evidence.expected


def has_status(evidence: Evidence, status: int) -> bool:
    """Whether this is a status that was claimed; the body of another answer is not worth reading."""
    wanted = evidence.expected["status"]
    return status in wanted if type(wanted) is list else matches(wanted, status)


def _subject(evidence: Evidence, _: str) -> str:
    return f"url:{urls.parse(evidence.expected['url'])}"


def _judge(evidence: Evidence, facts: dict[str, Any]) -> Verdict:
    if facts["problem"]:
        return _differs(evidence, facts["problem"], f"an answer, found none that counts: {facts['why']}")
    if not has_status(evidence, facts["status"]):
        wanted = evidence.expected["status"]
        said = " or ".join(map(str, wanted)) if type(wanted) is list else described(wanted)
        return _differs(evidence, "STATUS_DIFFERS", f"status {said}, found {facts['status']}")
    for name, matcher in evidence.expected.get("headers", {}).items():
        value = facts["headers"].get(name)
        if value is None or not matches(matcher, value):
            found = "no such header" if value is None else told(evidence, value, _SHORT)
            return _differs(evidence, "HEADER_DIFFERS", f"header {shown(name, 60)} {described(matcher)}, found {found}")
    return _judge_body(evidence, facts)


def _judge_body(evidence: Evidence, facts: dict[str, Any]) -> Verdict:
    if facts.get("not_json"):
        return _differs(evidence, "NOT_JSON", f"JSON, found a body that is {facts['not_json']}")
    for pointer, matcher in evidence.expected.get("json", {}).items():
        where, found = shown(pointer, 80) or "the document", facts["json"][pointer]
        if not found["exists"]:
            return _differs(evidence, "POINTER_MISSING", f"{where} {described(matcher)}, found nothing there: {found['why']}")
        if not matches(matcher, found["value"]):
            value = told(evidence, found["value"], _SHORT)
            return _differs(evidence, "VALUE_DIFFERS", f"{where} {described(matcher)}, found {value}")
    want = evidence.expected.get("body_sha256")
    if want is not None and want.lower() != facts["body_sha256"]:
        found = f"{facts['body_sha256'][:12]}… ({facts['bytes']:,} bytes)"
        return _differs(evidence, "BODY_DIFFERS", f"a body of sha256 {want.lower()[:12]}…, found {found}")
    return HOLDS


def _differs(evidence: Evidence, code: str, said: str) -> Verdict:
    named = shown(urls.parse(evidence.expected["url"]).named, 300)
    return Verdict(Outcome.FAILED, code, f"{named}: expected {said}", _HINT)


def _shows(expected: dict[str, Any]) -> dict[str, Any]:
    """Without what follows the question mark, as in messages."""
    url = expected.get("url")
    asked, mark, _ = url.partition("?") if type(url) is str else ("", "", "")
    return {**expected, "url": f"{asked}?…"} if mark else expected


def _brief(facts: dict[str, Any]) -> dict[str, Any]:
    """The facts with what was judged cut short: a report is no place for a body."""
    brief = dict(facts)
    if "headers" in facts:
        brief["headers"] = {name: value and shown(value, _SHORT) for name, value in facts["headers"].items()}
    if "json" in facts:
        brief["json"] = {pointer: {**found, "value": _cut(found["value"])} for pointer, found in facts["json"].items()}
    return brief


def _cut(value: Any) -> Any:
    text = shown(repr(value), _SHORT)
    return value if type(value) not in (str, dict, list) or len(repr(value)) < _SHORT else text


_STATUS: Schema = {"type": "integer", "minimum": _STATUSES.start, "maximum": _STATUSES.stop - 1}
_MATCHERS: Schema = {"type": "object", "minProperties": 1, "additionalProperties": MATCHER}
_HEADER: Schema = {"type": "string", "pattern": f"^{_TOKEN.pattern}$"}
_VARIABLES: Schema = {"type": "string", "pattern": f"^{_VARIABLE.pattern}$"}


def _any_case(word: str) -> str:
    """An expression for a word in whatever case: a schema knows no flags."""
    return "".join(f"[{letter.upper()}{letter}]" if letter.isalpha() else letter for letter in word)


API_RESPONSE = Kind(
    {
        "url": urls.URL,
        "status": {"anyOf": [_STATUS, {"type": "array", "items": _STATUS, "minItems": 1}, MATCHER["anyOf"][1]]},
        "headers": {**_MATCHERS, "additionalProperties": TEXT, "propertyNames": _HEADER},
        "json": {**_MATCHERS, "propertyNames": POINTER},
        "body_sha256": {"type": "string", "pattern": "^[0-9a-fA-F]{64}$"},
    },
    frozenset({"url", "status"}),
    Lifetime.STEP,
    _check,
    _subject,
    _judge,
    metadata={
        "method": {"enum": [*METHODS]},
        "headers_ref": {
            "type": "object",
            "minProperties": 1,
            "propertyNames": {**_HEADER, "not": {"pattern": f"^(?:{'|'.join(map(_any_case, sorted(_OURS)))})$"}},
            "additionalProperties": _VARIABLES,
        },
        "max_body": {"type": "integer", "minimum": 1, "maximum": MOST_BODY},
        "redirects": {"type": "integer", "minimum": 0, "maximum": MOST_REDIRECTS},
        "verify_tls": {"type": "boolean"},
        "family": FAMILY,
        "allow_private": ALLOW_PRIVATE,
    },
    together=(
        {
            "if": {"properties": {"metadata": {"properties": {"method": {"const": "HEAD"}}, "required": ["method"]}}},
            "then": {"properties": {"expected": {"not": {"anyOf": [{"required": ["json"]}, {"required": ["body_sha256"]}]}}}},
        },
        {
            "anyOf": [
                {"properties": {"metadata": {"not": {"required": ["headers_ref"]}}}},
                {"properties": {"metadata": {"properties": {"allow_private": {"const": True}}, "required": ["allow_private"]}}},
                {
                    "properties": {
                        "expected": {"properties": {"url": urls.ENCRYPTED}},
                        "metadata": {"properties": {"verify_tls": {"const": True}}},
                    }
                },
            ]
        },
    ),
    retries=Retries.FAILURES,
    effort=Effort.WAIT,
    timeout=10.0,
    deadline=30.0,
    content=False,
    brief=_brief,
    shows=_shows,
)
