"""What may be claimed about services, and what is refused before anything is connected to; which claims are about one thing."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.core.checkpoints.kinds import kind_of, urls
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.verifier import EvidenceVerifier

# network_reachable

BAD_ENDPOINT: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"host": ""}, {}, "host's name"),
    ({"host": "http://x"}, {}, "host's name"),
    ({"host": "x/y"}, {}, "host's name"),
    ({"host": "[::1]"}, {}, "host's name"),
    ({"host": "fe80::1%eth0"}, {}, "host's name"),
    ({"host": "b\u00fccher.test"}, {}, "host's name"),
    ({"host": "a b"}, {}, "host's name"),
    ({"host": "a..b"}, {}, "host's name"),
    ({"host": "a.."}, {}, "host's name"),
    ({"host": "."}, {}, "host's name"),
    ({"host": "-rf"}, {}, "host's name"),
    ({"host": "a\n"}, {}, "host's name"),
    ({"host": "x" * 254}, {}, "host's name"),
    ({"host": 7}, {}, "host's name"),
    ({"port": 0}, {}, "from 1 to 65,535"),
    ({"port": 65536}, {}, "from 1 to 65,535"),
    ({"port": True}, {}, "from 1 to 65,535"),
    ({"port": "80"}, {}, "from 1 to 65,535"),
    ({"proto": "udp"}, {}, "one of: tcp"),
    ({"reachable": 1}, {}, "true or false"),
    ({"reachable": None}, {}, "true or false"),
    ({"adress": 1}, {}, "unknown key"),
    ({}, {"allow_private": "yes"}, "true or false"),
    ({}, {"family": 4}, "one of: any, ipv4, ipv6"),
    ({}, {"success_threshold": 0}, "from 1 to 10"),
    ({}, {"timeout": 0}, "number of seconds"),
]


@pytest.mark.parametrize(("expected", "metadata", "said"), BAD_ENDPOINT)
def test_an_endpoint_that_could_never_be_checked_is_refused(expected, metadata, said):
    """By name, before anything is connected to."""
    claim = Evidence("network_reachable", "a service", {"host": "x.test", "port": 1, **expected}, metadata)
    assert not EvidenceVerifier().verify_evidence(claim)
    assert "INVALID_DEFINITION" == claim.result.code
    assert said in f"{claim.result.message} {claim.result.hint}"


def test_one_endpoint_is_one_subject_however_it_is_spelled():
    """A later claim about it takes the place of an earlier one."""

    def subject(host: str) -> str:
        claim = Evidence("network_reachable", "a service", {"host": host, "port": 5432})
        return kind_of(claim).subject(claim, "/base")

    assert {"net:tcp://db.test:5432"} == {subject("db.test"), subject("DB.test"), subject("db.test.")}
    assert {"net:tcp://[::1]:5432"} == {subject("::1"), subject("0:0::1")}


# port_listening


@pytest.mark.parametrize(
    ("expected", "said"),
    [
        ({"port": 0}, "from 1 to 65,535"),
        ({"port": 1.0}, "from 1 to 65,535"),
        ({"proto": "sctp"}, "one of: tcp, udp"),
        ({"ip": "localhost"}, "names are not resolved"),
        ({"ip": "127.1"}, "names are not resolved"),
        ({"ip": "fe80::1%lo"}, "names are not resolved"),
        ({"ip": None}, "must be an address"),
        ({"host": "x"}, "unknown key"),
    ],
)
def test_a_port_that_could_never_be_checked_is_refused(expected, said):
    """By name, before anything is asked."""
    claim = Evidence("port_listening", "a port", {"port": 1, **expected})
    assert not EvidenceVerifier().verify_evidence(claim)
    assert "INVALID_DEFINITION" == claim.result.code
    assert said in f"{claim.result.message} {claim.result.hint}"


def test_a_port_is_a_subject_by_its_address_and_protocol():
    """The same port of another protocol or address is another thing."""

    def subject(**expected: Any) -> str:
        claim = Evidence("port_listening", "a port", {"port": 53, **expected})
        return kind_of(claim).subject(claim, "/base")

    assert ["port:tcp/53", "port:udp/53", "port:tcp/127.0.0.1:53"] == [subject(), subject(proto="udp"), subject(ip="127.0.0.1")]


# api_response

BAD_RESPONSE: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"url": "https://user:hunter2@x.test/"}, {}, "holds credentials"),
    ({"url": "https://hunter2@x.test/"}, {}, "holds credentials"),
    ({"url": "ftp://x.test/"}, {}, "neither http nor https"),
    ({"url": "file:///etc/passwd"}, {}, "neither http nor https"),
    ({"url": "//x.test/"}, {}, "no URL"),
    ({"url": "https://x.test/#a"}, {}, "fragment"),
    ({"url": "https://x.test/a b"}, {}, "no URL"),
    ({"url": "https://x.test/\r\nHost: y"}, {}, "no URL"),
    ({"url": "https://x.test/%zz"}, {}, "no URL"),
    ({"url": "https://x.test\\@y/"}, {}, "no URL"),
    ({"url": "https:///x"}, {}, "names no host"),
    ({"url": "https://x.test:0/"}, {}, "a port that there is not"),
    ({"url": "https://x.test:65536/"}, {}, "a port that there is not"),
    ({"url": "https://[1.2.3.4]/"}, {}, "names no host"),
    ({"url": "https://[::1/"}, {}, "names no host"),
    ({"url": "https://::1/"}, {}, "names no host"),
    ({"url": "https://x.test/" + "a" * 4096}, {}, "longer than"),
    ({"url": 7}, {}, "must be a URL"),
    ({"status": "200"}, {}, "must be a status"),
    ({"status": True}, {}, "must be a status"),
    ({"status": 99}, {}, "must be a status"),
    ({"status": []}, {}, "must be a status"),
    ({"status": [200, 1000]}, {}, "must be a status"),
    ({"status": {}}, {}, "operators"),
    ({"status": {"ge": 0}}, {}, "met by every status"),
    ({"status": {"gt": 600}}, {}, "met by every status, or by none"),
    ({"headers": {}}, {}, "headers to what they must be"),
    ({"headers": {"a b": "x"}}, {}, "which is no header"),
    ({"headers": {"x": ["a"]}}, {}, "operators"),
    ({"headers": {"Content-Length": 7}}, {}, "expected['headers']['Content-Length'] is compared with text, found 7"),
    ({"headers": {"Content-Length": {"gt": 5}}}, {}, "is compared with text"),
    ({"headers": {"x": {"equals": ["a", "b"]}}}, {}, "is compared with text"),
    ({"headers": {"x": {"not": None}}}, {}, "is compared with text"),
    ({"json": {}}, {}, "JSON pointers"),
    ({"json": {"a": 1}}, {}, "JSON pointer"),
    ({"json": {"/a": {}}}, {}, "operators"),
    ({"body_sha256": "abc"}, {}, "64 hexadecimal digits"),
    ({"json": {"/a": 1}}, {"method": "HEAD"}, "no body"),
    ({"body": "x"}, {}, "unknown key"),
    ({}, {"method": "POST"}, "one of: GET, HEAD"),
    ({}, {"redirects": 11}, "from 0 to 10"),
    ({}, {"redirects": True}, "from 0 to 10"),
    ({}, {"max_body": 0}, "from 1"),
    ({}, {"verify_tls": "no"}, "true or false"),
    ({}, {"allow_private": 1}, "true or false"),
    ({}, {"headers_ref": {"Authorization": "HOME"}}, "starts with AGENTOS_HEADER_"),
    ({}, {"headers_ref": {"Authorization": "Bearer hunter2"}}, "starts with AGENTOS_HEADER_"),
    ({}, {"headers_ref": {"Authorization": "AGENTOS_HEADER_"}}, "starts with AGENTOS_HEADER_"),
    ({}, {"headers_ref": {"Host": "AGENTOS_HEADER_X"}}, "no header of the caller's"),
    ({}, {"headers_ref": {"X\r\nY": "AGENTOS_HEADER_X"}}, "no header of the caller's"),
    ({}, {"headers_ref": {}}, "headers to variables"),
    ({"url": "http://x.test/"}, {"headers_ref": {"A": "AGENTOS_HEADER_X"}}, "nobody knows whom"),
    ({}, {"headers_ref": {"A": "AGENTOS_HEADER_X"}, "verify_tls": False}, "nobody knows whom"),
]


@pytest.mark.parametrize(("expected", "metadata", "said"), BAD_RESPONSE)
def test_a_response_that_could_never_be_checked_is_refused(expected, metadata, said):
    """By name, before anything is asked, and without the secrets that it may hold."""
    claim = Evidence("api_response", "an answer", {"url": "https://x.test/", "status": 200, **expected}, metadata)
    assert not EvidenceVerifier().verify_evidence(claim)
    assert "INVALID_DEFINITION" == claim.result.code
    assert said in f"{claim.result.message} {claim.result.hint}"
    assert "hunter2" not in f"{claim.result.message} {claim.result.hint}"


def test_one_url_is_one_subject_however_it_is_spelled():
    """Case of the host and a port that goes without saying make no other thing; the path does."""

    def subject(url: str) -> str:
        claim = Evidence("api_response", "an answer", {"url": url, "status": 200})
        return kind_of(claim).subject(claim, "/base")

    same = {"https://x.test", "HTTPS://X.test:443/", "https://x.test./", "https://X.TEST:0443/"}
    assert {"url:https://x.test/"} == {subject(url) for url in same}
    assert "url:http://[::1]:8080/a?b" == subject("http://[0:0::1]:8080/a?b")
    assert "url:http://x.test/?b" == subject("http://x.test?b")


PIECES = st.sampled_from(
    [
        *("http://x.test", "://", ":", "/", "//", "?", "#", "@", "[", "]", "::1", "x.test", "127.0.0.1", "80", ":8080", "%41"),
        *("\\", " ", "\t", "\r\n", "%", "..", "&a=b", "\u00fc", "\u2044", "\uff0e", "user:pw@", "0x7f.1", ";", "'", "\x00"),
    ]
)
URLS = st.builds("{}{}".format, st.sampled_from(["http://", "HTTPS://", ""]), st.lists(PIECES, max_size=8).map("".join))
PORTS = {"http": 80, "https": 443}


@given(URLS | st.text(max_size=40).map("http://x.test".__add__))
def test_a_url_that_is_read_is_read_the_same_by_another_reader(text):
    """Nobody checks one host and asks another: what is accepted has one meaning, and spelling it anew does not change it."""
    try:
        url = urls.parse(text)
    except ValueError:
        return
    other = urlsplit(text)
    assert (url.scheme, url.host.lower(), url.port) == (other.scheme, other.hostname, other.port or PORTS[url.scheme])
    assert not other.username
    assert not other.fragment
    again = urls.parse(str(url))
    assert (str(url), url.target) == (str(again), again.target)
    assert str(url).isascii()
    assert str(url).isprintable()


# container_running

BAD_CONTAINER: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {}, "either 'id' or 'name'"),
    ({"id": "a" * 64, "name": "web"}, {}, "either 'id' or 'name'"),
    ({"id": "a" * 11}, {}, "12 to 64 hexadecimal digits"),
    ({"id": "A" * 64}, {}, "12 to 64 hexadecimal digits"),
    ({"id": 7}, {}, "12 to 64 hexadecimal digits"),
    ({"name": ""}, {}, "the name of a container"),
    ({"name": "../../images"}, {}, "the name of a container"),
    ({"name": "web?all=1"}, {}, "the name of a container"),
    ({"name": "web\r\nX: y"}, {}, "the name of a container"),
    ({"name": "web/exec"}, {}, "the name of a container"),
    ({"name": "web", "image_digest": "latest"}, {}, "sha256: and 64"),
    ({"name": "web", "health": "good"}, {}, "one of: healthy"),
    ({"name": "web", "started_at": 7}, {}, "as the engine writes it"),
    ({"name": "web", "image": "x"}, {}, "unknown key"),
    ({"name": "web"}, {"runtime": "lxc"}, "one of: docker, podman"),
    ({"name": "web"}, {"socket": "/var/run/docker.sock"}, "not for evidence to choose"),
    ({"name": "web"}, {"success_threshold": 11}, "from 1 to 10"),
    ({"name": "web"}, {"success_threshold": 3, "interval": 5}, "fit 10 s"),
    ({"name": "web"}, {"success_threshold": 3, "timeout": 2}, "fit 2 s"),
    ({"name": "web"}, {"interval": -1}, "seconds between samples"),
    ({"name": "web"}, {"interval": float("nan")}, "nan is not allowed"),
]


@pytest.mark.parametrize(("expected", "metadata", "said"), BAD_CONTAINER)
def test_a_container_that_could_never_be_checked_is_refused(expected, metadata, said):
    """By name, before an engine is asked: what would be part of the question may not end it."""
    claim = Evidence("container_running", "a container", expected, metadata)
    assert not EvidenceVerifier().verify_evidence(claim)
    assert "INVALID_DEFINITION" == claim.result.code
    assert said in f"{claim.result.message} {claim.result.hint}"


def test_a_container_is_a_subject_by_its_engine():
    """Two engines of one machine know nothing of each other's names."""

    def subject(**metadata: Any) -> str:
        claim = Evidence("container_running", "a container", {"name": "web"}, metadata)
        return kind_of(claim).subject(claim, "/base")

    assert ["container:docker/web", "container:podman/web"] == [subject(), subject(runtime="podman")]
