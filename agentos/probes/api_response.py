"""Look what a service answers to GET or HEAD.

Where a redirect may be followed, its target is judged like the first host. The body is read only if it is part of the claim and
the status is, and never more of it than `max_body`, packed or unpacked. Secrets of `headers_ref` go to the host that evidence
names, and to no other that it redirects to.
"""

from __future__ import annotations

import hashlib
import os
import ssl
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag, urljoin

from agentos import _strict_json
from agentos._fork import importing
from agentos._text import shown
from agentos.core.checkpoints.kinds import urls
from agentos.core.checkpoints.kinds.pointers import resolve
from agentos.core.checkpoints.kinds.responses import DEFAULT_BODY, has_status, reads_body
from agentos.core.checkpoints.kinds.urls import Url
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Observation, Seen, Surroundings
from agentos.probes.addresses import Resolver, addresses_of, system_resolver
from agentos.probes.cannot_see import CannotSee, Deadline, looked_at
from agentos.probes.unpacking import Broken, TooLarge, unpacked

if TYPE_CHECKING:
    import httpcore2

_DEPTH = 64
_MOVED = (301, 302, 303, 307, 308)
_ALWAYS = [("User-Agent", "agentos"), ("Accept", "*/*"), ("Accept-Encoding", "identity"), ("Connection", "close")]


class ApiResponse:
    """Facts: `problem` and `why` if no answer counts; else `status`, `redirects`, and what was claimed of headers and body.

    Args:
        resolver: what turns names into addresses.
        environ: where the values of `headers_ref` are.
    """

    def __init__(self, resolver: Resolver = system_resolver, environ: Mapping[str, str] = os.environ) -> None:
        self._resolver, self._environ = resolver, environ

    def observe(self, evidence: Evidence, around: Surroundings) -> Observation:
        """Ask once, and follow as many redirects as are allowed."""
        return looked_at(lambda deadline: Seen(self._look(evidence, around, deadline)), around.timeout)

    def _look(self, evidence: Evidence, around: Surroundings, deadline: Deadline) -> dict[str, Any]:
        first = url = urls.parse(evidence.expected["url"])
        secrets = self._secrets(evidence)
        most = evidence.metadata.get("redirects", 0)
        for redirects in range(most + 1):
            known = secrets if url.origin == first.origin else []
            found = _Question(evidence, around, deadline, self._resolver).ask(url, known)
            if isinstance(found, dict):
                return {**found, "redirects": redirects}
            url = found
        return {"problem": "TOO_MANY_REDIRECTS", "why": f"it redirects more than {most} times"}

    def _secrets(self, evidence: Evidence) -> list[tuple[str, str]]:
        found = []
        for name, variable in evidence.metadata.get("headers_ref", {}).items():
            value = self._environ.get(variable, "")
            if not value or not value.isascii() or not value.isprintable():
                said = f"{variable}: is not set, or holds what no header can"
                raise CannotSee("SECRET_MISSING", said, "set it where agentos runs")
            found.append((name, value))
        return found


class _Question:
    """One request of a look, and what becomes of its answer."""

    def __init__(self, evidence: Evidence, around: Surroundings, deadline: Deadline, resolver: Resolver) -> None:
        self._evidence, self._around, self._deadline, self._resolver = evidence, around, deadline, resolver

    def ask(self, url: Url, secrets: list[tuple[str, str]]) -> dict[str, Any] | Url:
        """The facts, or where to ask instead."""
        asking = _asking()
        metadata, named = self._evidence.metadata, shown(url.named, 300)
        addresses = addresses_of(url.host, self._evidence, self._around, self._deadline, self._resolver)
        try:
            with asking.asked(
                metadata.get("method", "GET"),
                url,
                [*_ALWAYS, *secrets],
                addresses,
                deadline=self._deadline,
                cancel=self._around.cancel,
                verify_tls=metadata.get("verify_tls", True),
            ) as answer:
                return self._next(url, answer) or self._facts(answer)
        except asking.Refused as refused:
            return {"problem": "NO_ANSWER", "why": str(refused)}
        except ssl.SSLCertVerificationError as error:
            said = f"{named}: its certificate is not trusted: {shown(error.verify_message, 120)}"
            raise CannotSee("TLS_UNTRUSTED", said, "name the authority in SSL_CERT_FILE where agentos runs") from error
        except TimeoutError as error:
            said = f"{named}: did not answer in time"
            raise CannotSee("TIMED_OUT", said, "give it a longer timeout, or look at the service", transient=True) from error
        except (*asking.BROKEN, OSError, Broken) as error:
            return self._broken(error)

    def _broken(self, error: Exception) -> dict[str, Any]:
        if self._around.cancel is not None and self._around.cancel.is_set:
            raise CannotSee("CALLED_OFF", "the look was called off while it was under way") from error
        return {"problem": "BROKEN_ANSWER", "why": shown(str(error), 120)}

    def _next(self, url: Url, answer: httpcore2.Response) -> Url | None:
        """Where the answer redirects to, if that may be followed."""
        location = _header(answer, "location")
        if not self._evidence.metadata.get("redirects", 0) or answer.status not in _MOVED or location is None:
            return None
        try:
            target = urls.parse(urldefrag(urljoin(str(url), location))[0])
        except ValueError as problem:
            raise CannotSee("REDIRECT_REFUSED", f"{shown(url.named, 300)}: redirects to what {problem}") from problem
        if url.scheme == "https" and target.scheme != "https":
            said = f"{shown(url.named, 300)}: redirects to {shown(target.named, 300)}, where nobody is known for sure"
            raise CannotSee("REDIRECT_REFUSED", said, "claim what stands at the target")
        return target

    def _facts(self, answer: httpcore2.Response) -> dict[str, Any]:
        expected = self._evidence.expected
        facts: dict[str, Any] = {"problem": "", "status": answer.status}
        if "headers" in expected:
            facts["headers"] = {name: _header(answer, name) for name in expected["headers"]}
        if not reads_body(self._evidence) or not has_status(self._evidence, answer.status):
            return facts
        body = self._body(answer)
        facts |= {"bytes": len(body), "body_sha256": hashlib.sha256(body).hexdigest()}
        return facts | _values(body, expected["json"]) if "json" in expected else facts

    def _body(self, answer: httpcore2.Response) -> bytes:
        most = self._evidence.metadata.get("max_body", DEFAULT_BODY)
        encoding = (_header(answer, "content-encoding") or "identity").strip().lower()
        pieces = answer.stream
        assert isinstance(pieces, Iterable)
        try:
            return unpacked(pieces, encoding, most)
        except TooLarge:
            said = f"the body is larger than {most:,} bytes"
            raise CannotSee("TOO_LARGE", said, "raise metadata['max_body'], or claim less") from None


def _header(answer: httpcore2.Response, name: str) -> str | None:
    """The header as one text, as a list of values is the same as several headers."""
    wanted = name.lower().encode()
    found = [value.decode("latin-1") for key, value in answer.headers if key.lower() == wanted]
    return ", ".join(found) if found else None


def _values(body: bytes, pointers: Iterable[str]) -> dict[str, Any]:
    try:
        document = _strict_json.parse(body, _DEPTH)
    except ValueError as problem:
        return {"not_json": str(problem)}
    return {"json": {pointer: resolve(pointer, document)._asdict() for pointer in pointers}}


def _asking() -> Any:
    try:
        with importing:
            import httpcore2  # noqa: F401, PLC0415 - an extra
    except ImportError:
        said = "what speaks HTTP is not installed"
        raise CannotSee("NOT_INSTALLED", said, "pip install 'agentos-recovery[http]'") from None
    with importing:
        from agentos.probes import asking  # noqa: PLC0415 - it needs the extra

    return asking
