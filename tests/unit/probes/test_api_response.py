"""api_response: real servers that behave, misbehave and attack; what is shown, sent and read is no more than was claimed."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import socket
import ssl
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agentos.core.checkpoints.cancelling import Cancel
from agentos.core.checkpoints.kinds import kind_of
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Seen, Surroundings, Unseen
from agentos.core.checkpoints.results import EvidenceResult
from agentos.core.checkpoints.verifier import EvidenceVerifier
from agentos.probes.addresses import Resolver
from agentos.probes.api_response import ApiResponse
from tests.unit.probes.servers import free_port, full, keeps_silent, serving

CERTIFICATE = Path(__file__).with_name("here.test.pem")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def head(plug: socket.socket) -> bytes:
    """What was asked."""
    heard = b""
    while b"\r\n\r\n" not in heard:
        piece = plug.recv(4096)
        if not piece:
            break
        heard += piece
    return heard


def says(*pieces: bytes, heard: list[bytes] | None = None) -> Callable[[socket.socket], None]:
    def answer(plug: socket.socket) -> None:
        question = head(plug)
        if heard is not None:
            heard.append(question)
        for piece in pieces:
            plug.sendall(piece)

    return answer


def message(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def answering(name: str, family: int) -> Sequence[str]:
    return ["127.0.0.1"] if name.endswith(".test") else [name]


def judged(
    url: str,
    *,
    expected: dict[str, Any] | None = None,
    timeout: float = 5,
    resolver: Resolver = answering,
    environ: dict[str, str] | None = None,
    cancel: Cancel | None = None,
    **metadata: Any,
) -> EvidenceResult:
    """One look, and what it says about the claim; the definition is checked like that of any other."""
    claim = Evidence("api_response", "an answer", {"url": url, "status": 200, **(expected or {})})
    claim.metadata = {"allow_private": True, **metadata}
    kind_of(claim).refuse_malformed(claim)
    seen = ApiResponse(resolver, environ or {}).observe(claim, Surroundings("/", timeout=timeout, cancel=cancel))
    assert isinstance(seen, Seen | Unseen)
    return kind_of(claim).result(claim, seen)


def local(port: int, path: str = "/") -> str:
    return f"http://here.test:{port}{path}"


# What holds and what fails.


def test_the_question_is_plain_and_to_the_point():
    """GET or HEAD, the name that evidence gives, the answer as it is; no proxy, no cookie, nothing of the environment."""
    heard: list[bytes] = []
    with serving(says(OK, heard=heard)) as port:
        assert "VERIFIED" == judged(local(port, "/health?deep=1")).code
        assert "VERIFIED" == judged(local(port), method="HEAD").code
    first = f"GET /health?deep=1 HTTP/1.1\r\nHost: here.test:{port}\r\nUser-Agent: agentos\r\nAccept: */*\r\n"
    assert (first + "Accept-Encoding: identity\r\nConnection: close\r\n\r\n").encode() == heard[0]
    assert heard[1].startswith(b"HEAD / HTTP/1.1\r\n")


def test_an_address_can_be_the_host():
    """Also an IPv6 one, in brackets on the wire."""
    heard: list[bytes] = []
    with serving(says(OK, heard=heard), family=socket.AF_INET6) as port:
        assert "VERIFIED" == judged(f"http://[0:0::1]:{port}/").code
    assert f"\r\nHost: [::1]:{port}\r\n".encode() in heard[0]


def test_proxies_of_the_environment_are_not_asked(monkeypatch):
    """They would see the question, and could give any answer."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    with serving(says(OK)) as port:
        assert "VERIFIED" == judged(local(port)).code


@pytest.mark.parametrize(
    ("wanted", "status", "code"),
    [
        (200, 200, "VERIFIED"),
        (200, 503, "STATUS_DIFFERS"),
        ([200, 204], 204, "VERIFIED"),
        ([200, 204], 301, "STATUS_DIFFERS"),
        ({"ge": 200, "lt": 400}, 302, "VERIFIED"),
        ({"ge": 200, "lt": 400}, 404, "STATUS_DIFFERS"),
        (404, 404, "VERIFIED"),
    ],
)
def test_the_status_must_be_one_that_was_claimed(wanted, status, code):
    """One, several, or operators; a redirect that may not be followed is a status like any other."""
    with serving(says(message(b"", "Location: /x", status=f"{status} X"))) as port:
        assert code == judged(local(port), expected={"status": wanted}).code


def test_a_failure_names_what_was_claimed_and_found_and_no_secret_of_the_url():
    """Behind the question mark there are often tokens."""
    with serving(says(message(b"a body", status="503 Busy"))) as port:
        result = judged(local(port, "/x?token=hunter2"), expected={"status": [200, 204]})
    assert f"http://here.test:{port}/x?…: expected status 200 or 204, found 503" == result.message
    assert "hunter2" not in f"{result.message}{result.found}"
    assert "a body" not in f"{result.message}{result.found}"


def test_headers_are_judged_by_name_whatever_their_case():
    """Several of one name are a list; one that is not there fails; those not claimed are not kept."""
    answer = message(b"", "X-One: a", "Content-Type: application/json; charset=utf-8", "x-one: b", "Set-Cookie: secret")
    with serving(says(answer)) as port:

        def code(**headers: Any) -> EvidenceResult:
            return judged(local(port), expected={"headers": {name.replace("_", "-"): value for name, value in headers.items()}})

        assert "VERIFIED" == code(content_type={"prefix": "application/json"}, X_ONE="a, b").code
        assert "secret" not in str(code(x_one="a, b").found)
        assert "header x-one 'b', found 'a, b'" in code(x_one="b").message
        assert "header x-two 'b', found no such header" in code(x_two="b").message


BODY = json.dumps({"status": "ok", "runs": [{"id": 7, "left": 0}], "a/b": None}).encode()


@pytest.mark.parametrize(
    ("pointers", "code"),
    [
        ({"/status": "ok", "/runs/0/id": {"ge": 7}, "/a~1b": None}, "VERIFIED"),
        ({"/runs": {"contains": {"id": 7, "left": 0}}}, "VERIFIED"),
        ({"/status": "bad"}, "VALUE_DIFFERS"),
        ({"/runs/0/left": False}, "VALUE_DIFFERS"),
        ({"/runs/0/id": "7"}, "VALUE_DIFFERS"),
        ({"/runs/1/id": 7}, "POINTER_MISSING"),
        ({"/state": "ok"}, "POINTER_MISSING"),
    ],
)
def test_values_of_a_json_body_are_judged_by_type(pointers, code):
    """Where a pointer leads nowhere, how far it led is told."""
    with serving(says(message(BODY))) as port:
        result = judged(local(port), expected={"json": pointers})
    assert code == result.code
    if "/state" in pointers:
        assert "found nothing there: the document has keys status, runs, a/b" in result.message


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"",
        b'{"a": 1, "a": 2}',
        b'{"a": NaN}',
        b"[" * 100_000,
        b'"\\ud800"',
        b"\xff",
        b"[" * 70 + b"]" * 70,
        b"1e999",
    ],
)
def test_a_body_that_two_readers_could_read_differently_is_no_json(body):
    """Nothing of it is shown but what is wrong with it."""
    with serving(says(message(body))) as port:
        assert "NOT_JSON" == judged(local(port), expected={"json": {"": {"not": 0}}}).code


def test_a_body_can_be_claimed_by_its_hash():
    """Of what it says, not of how it was sent."""
    digest = hashlib.sha256(BODY).hexdigest()
    pieces = b"".join(b"%x\r\n%b\r\n" % (1, BODY[i : i + 1]) for i in range(len(BODY))) + b"0\r\n\r\n"
    for answer in (message(BODY), b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + pieces):
        with serving(says(answer)) as port:
            assert "VERIFIED" == judged(local(port), expected={"body_sha256": digest.upper()}).code
            result = judged(local(port), expected={"body_sha256": "0" * 64})
            assert "BODY_DIFFERS" == result.code
            assert f"found {digest[:12]}… ({len(BODY)} bytes)" in result.message


def test_what_is_kept_of_a_value_is_short():
    """The judgement sees all of it, the report a line."""
    body = json.dumps({"log": "x" * 100_000, "n": 1}).encode()
    with serving(says(message(body, f"X-Long: {'y' * 50_000}"))) as port:
        result = judged(
            local(port), expected={"json": {"/log": {"prefix": "x"}, "/n": 1}, "headers": {"x-long": {"prefix": "y"}}}
        )
    assert "VERIFIED" == result.code
    assert len(str(result.found)) < 1500
    assert 1 == result.found["json"]["/n"]["value"]


# Servers that misbehave.


def test_nobody_there_is_a_failure_and_silence_is_not():
    """A refused connection says that the service is down; one that is never answered says nothing."""
    result = judged(local(free_port()))
    assert ("NO_ANSWER", "failed") == (result.code, result.outcome.value)
    begun = time.monotonic()
    with full() as port:
        assert ("TIMED_OUT", "error") == ((result := judged(local(port), timeout=0.3)).code, result.outcome.value)
    with serving(keeps_silent) as port:
        assert ("TIMED_OUT", "error") == ((result := judged(local(port), timeout=0.3)).code, result.outcome.value)
    assert time.monotonic() - begun < 5


BROKEN: dict[str, list[bytes]] = {
    "it closes at once": [],
    "it is no HTTP": [b"SSH-2.0-OpenSSH_9\r\n"],
    "it is garbage": [b"\x00\xff" * 5000],
    "it ends in its headers": [b"HTTP/1.1 200 OK\r\nContent-"],
    "its headers have no end": [b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 50_000],
    "one header has no end": [b"HTTP/1.1 200 OK\r\nX: " + b"y" * 1_000_000],
    "its status is none": [b"HTTP/1.1 2000 OK\r\n\r\n"],
    "its body is short": [b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhello"],
    "its chunks are wrong": [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"],
    "it is packed wrongly": [message(b"hello", "Content-Encoding: gzip")],
    "it is packed in part": [message(gzip.compress(b"hello")[:-9], "Content-Encoding: gzip")],
}


@pytest.mark.parametrize("how", BROKEN)
def test_an_answer_that_is_broken_fails(how):
    """Within its limits, and without a word of what it was."""
    with serving(says(*BROKEN[how])) as port:
        result = judged(local(port), expected={"json": {"": {"not": 0}}})
    assert "BROKEN_ANSWER" == result.code


def test_a_header_of_64_kilobytes_is_read():
    """It is large, and no attack."""
    value = "y" * 65_000
    with serving(says(message(b"", f"X: {value}"))) as port:
        assert "VERIFIED" == judged(local(port), expected={"headers": {"x": value}}).code


@pytest.mark.parametrize("where", ["header", "body", "chunks"])
def test_an_answer_that_drips_ends_with_the_deadline(where):
    """Each byte comes in time; the answer does not."""
    starts = {"header": b"HTTP/1.1 200 OK\r\nX: ", "body": b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n"}
    starts["chunks"] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

    def drips(plug: socket.socket) -> None:
        head(plug)
        plug.sendall(starts[where])
        while True:
            plug.sendall(b"1\r\nx\r\n" if where == "chunks" else b"x")
            time.sleep(0.01)

    begun = time.monotonic()
    with serving(drips) as port:
        assert "TIMED_OUT" == judged(local(port), expected={"body_sha256": "0" * 64}, timeout=0.4).code
    assert time.monotonic() - begun < 3


def test_an_answer_that_pours_without_end_is_not_followed():
    """Neither as its body, of which no more is read than was allowed, nor as announcements before it."""

    def pours(start: bytes, piece: bytes) -> Callable[[socket.socket], None]:
        def pour(plug: socket.socket) -> None:
            head(plug)
            plug.sendall(start)
            while True:
                plug.sendall(piece)

        return pour

    claim = {"body_sha256": "0" * 64}
    with serving(pours(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65536)) as port:
        assert ("TOO_LARGE", "error") == ((it := judged(local(port), expected=claim, max_body=100_000)).code, it.outcome.value)
        assert "VERIFIED" == judged(local(port)).code
    with serving(pours(b"", b"HTTP/1.1 102 Wait\r\n\r\n")) as port:
        assert "TIMED_OUT" == judged(local(port), expected=claim, timeout=0.5).code


def test_the_body_of_a_wrong_status_is_not_read():
    """What failed already costs nothing more, and says that it failed."""
    with serving(says(message(b"x" * 5_000_000, status="500 Oh"))) as port:
        assert "STATUS_DIFFERS" == judged(local(port), expected={"json": {"/a": 1}}, max_body=10).code


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_bomb_is_not_unpacked(encoding):
    """A hundred megabytes in a hundred kilobytes: no more is unpacked than may be read. Asked for was the body as it is."""
    small = gzip.compress(b"0" * 50_000_000) if encoding == "gzip" else zlib.compress(b"0" * 50_000_000)
    with serving(says(message(small, f"Content-Encoding: {encoding}"))) as port:
        result = judged(local(port), expected={"json": {"": 0}})
    assert ("TOO_LARGE", "error") == (result.code, result.outcome.value)


def test_a_body_that_came_packed_is_read_all_the_same():
    """Also in several packs; not if nobody here knows the packing."""
    packed = gzip.compress(BODY[:5]) + gzip.compress(BODY[5:])
    for answer in (message(packed, "Content-Encoding: GZIP"), message(zlib.compress(BODY), "Content-Encoding: deflate")):
        with serving(says(answer)) as port:
            assert "VERIFIED" == judged(local(port), expected={"json": {"/status": "ok"}}).code
    with serving(says(message(BODY, "Content-Encoding: gzip, br"))) as port:
        assert "ENCODING_UNKNOWN" == judged(local(port), expected={"json": {"/status": "ok"}}).code


def test_a_look_that_is_called_off_ends_at_once():
    """Whoever waits for the answer is woken."""
    cancel = Cancel()
    with serving(keeps_silent) as port:
        timer = threading.Timer(0.2, cancel.set)
        timer.start()
        begun = time.monotonic()
        assert "CALLED_OFF" == judged(local(port), timeout=30, cancel=cancel).code
        assert time.monotonic() - begun < 5
        timer.join()
        assert "error" == judged(local(port), timeout=30, cancel=cancel).outcome


def test_a_service_that_flaps_is_shown():
    """It holds at last, and the tries before it are kept with what they found."""
    answers = itertools.chain([503, 503], itertools.repeat(200))

    def flaps(plug: socket.socket) -> None:
        head(plug)
        plug.sendall(message(b"", status=f"{next(answers)} X"))

    claim = {"url": "", "status": 200}
    with serving(flaps) as port:
        item = Evidence("api_response", "up", {**claim, "url": f"http://127.0.0.1:{port}/"}, {"allow_private": True})
        assert EvidenceVerifier().verify_evidence(item)
    assert (True, 3) == (item.result.flaky, len(item.result.attempts))
    assert ["STATUS_DIFFERS", "STATUS_DIFFERS", "VERIFIED"] == [each["code"] for each in item.result.attempts]


# Attacks by way of names, redirects and secrets.


def redirecting(*locations: str) -> Callable[[socket.socket], None]:
    steps = iter(locations)

    def answer(plug: socket.socket) -> None:
        head(plug)
        location = next(steps, None)
        plug.sendall(OK if location is None else message(b"", f"Location: {location}", status="302 Found"))

    return answer


def test_redirects_are_followed_only_as_far_as_is_allowed():
    """None by default; a circle ends."""
    with serving(redirecting("/b", "c?d#e")) as port:
        result = judged(local(port, "/a"), redirects=2)
    assert ("VERIFIED", 2) == (result.code, result.found["redirects"])
    with serving(redirecting("/b", "/c", "/d")) as port:
        assert "TOO_MANY_REDIRECTS" == judged(local(port, "/a"), redirects=2).code
    with serving(redirecting(*["/a"] * 100)) as port:
        assert "TOO_MANY_REDIRECTS" == judged(local(port, "/a"), redirects=10).code


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ("http://169.254.169.254/latest/meta-data/", "ADDRESS_REFUSED"),
        ("http://[fe80::1]/", "ADDRESS_REFUSED"),
        ("http://[::ffff:169.254.169.254]/", "ADDRESS_REFUSED"),
        ("file:///etc/passwd", "REDIRECT_REFUSED"),
        ("gopher://here.test/", "REDIRECT_REFUSED"),
        ("http://user:pass@here.test/", "REDIRECT_REFUSED"),
        ("http://here.test\\@evil.test/", "REDIRECT_REFUSED"),
        ("http://here.test:99999/", "REDIRECT_REFUSED"),
        ("http://b\u00fccher.test/", "REDIRECT_REFUSED"),
    ],
)
def test_a_redirect_leads_nowhere_that_evidence_could_not_name(target, code):
    """Also where private addresses are allowed."""
    with serving(redirecting(target)) as port:
        result = judged(local(port), redirects=5)
    assert (code, "error") == (result.code, result.outcome.value)
    assert "pass@" not in result.message


def test_a_redirect_to_a_private_address_is_judged_like_the_first():
    """A public service cannot send the look inside."""
    claim = Evidence("api_response", "an answer", {"url": "http://public.test/", "status": 200}, {"redirects": 3})
    asked: list[str] = []

    def resolver(name: str, family: int) -> Sequence[str]:
        asked.append(name)
        return ["127.0.0.1"]

    found = ApiResponse(resolver).observe(claim, Surroundings("/", timeout=5))
    assert ("ADDRESS_REFUSED", ["public.test"]) == (found.code, asked)


def test_a_name_that_changes_its_answer_reaches_nothing_else():
    """It is asked for once per request; the connection goes to what was judged."""
    answers = iter([["127.0.0.1"], ["127.0.0.1"], ["169.254.169.254"]])
    count: list[str] = []

    def rebinding(name: str, family: int) -> Sequence[str]:
        count.append(name)
        return next(answers)

    with serving(redirecting("/b", "/c")) as port:
        assert "ADDRESS_REFUSED" == judged(local(port), resolver=rebinding, redirects=5).code
    assert ["here.test"] * 3 == count


def test_secrets_come_from_the_environment_and_go_to_the_named_host_only():
    """Evidence names a variable that was meant for it; what it redirects to elsewhere learns nothing."""
    heard: list[bytes] = []
    elsewhere: list[bytes] = []
    environ = {"AGENTOS_HEADER_TOKEN": "Bearer hunter2", "AGENTOS_HEADER_BAD": "a\r\nX: y", "HOME": "/root"}
    by_name = {"Authorization": "AGENTOS_HEADER_TOKEN"}
    with serving(says(OK, heard=elsewhere)) as other:
        moved = message(b"", f"Location: http://other.test:{other}/", status="302 Found")
        with serving(says(moved, heard=heard)) as port:
            result = judged(local(port), environ=environ, redirects=3, headers_ref=by_name)
    assert "VERIFIED" == result.code
    assert b"\r\nAuthorization: Bearer hunter2\r\n" in heard[0]
    assert b"hunter2" not in elsewhere[0]
    assert "hunter2" not in f"{result.message}{result.found}{result.expected}"
    for variable in ("AGENTOS_HEADER_GONE", "AGENTOS_HEADER_BAD"):
        result = judged("http://here.test/", environ=environ, headers_ref={"X": variable})
        assert ("SECRET_MISSING", "error") == (result.code, result.outcome.value)
        assert "X: y" not in result.message


# TLS.


@contextmanager
def tls(answer: Callable[[socket.socket], None], names: list[str] | None = None) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)

    def noted(_: object, name: str, __: object) -> None:
        if names is not None:
            names.append(name)

    context.sni_callback = noted

    def speak(plug: socket.socket) -> None:
        with context.wrap_socket(plug, server_side=True) as wrapped:
            answer(wrapped)

    with serving(speak) as port:
        yield port


def test_a_certificate_is_checked_against_the_name_that_was_claimed(monkeypatch):
    """Though the connection goes to an address: the name is asked for, and must be in the certificate."""
    names: list[str] = []
    with tls(says(OK), names) as port:
        result = judged(f"https://here.test:{port}/")
        assert ("TLS_UNTRUSTED", "error") == (result.code, result.outcome.value)
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        assert "VERIFIED" == judged(f"https://here.test:{port}/").code
        assert "VERIFIED" == judged(f"https://127.0.0.1:{port}/").code
        assert "TLS_UNTRUSTED" == judged(f"https://other.test:{port}/").code
        assert "VERIFIED" == judged(f"https://other.test:{port}/", verify_tls=False).code
    assert {"here.test", "other.test", None} == set(names)


def test_a_service_that_does_not_speak_tls_fails_and_one_that_hangs_in_it_does_not(monkeypatch):
    """Garbage for a handshake is an answer that is broken; silence is no answer."""
    with serving(lambda plug: plug.sendall(OK)) as port:
        assert "BROKEN_ANSWER" == judged(f"https://here.test:{port}/").code
    with serving(keeps_silent) as port:
        begun = time.monotonic()
        assert "TIMED_OUT" == judged(f"https://here.test:{port}/", timeout=0.3).code
        assert time.monotonic() - begun < 3


def test_nobody_is_led_from_https_to_http(monkeypatch):
    """There the answer could be anybody's."""
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    with tls(redirecting("http://here.test/")) as port:
        assert "REDIRECT_REFUSED" == judged(f"https://here.test:{port}/", redirects=3).code


# What is not there.


def test_without_the_extra_nothing_is_known(monkeypatch):
    """It says what to install."""
    monkeypatch.setitem(sys.modules, "httpcore2", None)
    result = judged("http://here.test/")
    assert ("NOT_INSTALLED", "pip install 'agentos-recovery[http]'") == (result.code, result.hint)
