"""Which addresses are connected to: each attack is an address, or an answer of a name service, and none gets through."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.core.checkpoints.cancelling import Cancel
from agentos.core.checkpoints.models import Evidence
from agentos.core.checkpoints.observing import Surroundings
from agentos.probes.addresses import _asking, addresses_of, is_private, system_resolver, why_never
from agentos.probes.cannot_see import CannotSee, Deadline

PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
PRIVATE = [
    *("127.0.0.1", "127.8.9.1", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "198.18.0.1", "240.0.0.1"),
    *("::1", "fc00::1", "fd12::1", "fec0::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:100.64.0.1", "2001:db8::1"),
    # Through a gateway, a tunnel and an old form: packets to these reach 127.0.0.1 or 10.0.0.1.
    *("64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:7f00:1::1", "2002:808:808::1", "::7f00:1", "64:ff9b:1::1"),
    "2001:0:5ef5:79fb:0:0:80ff:fffe",
]
NEVER = [
    *("169.254.169.254", "169.254.0.1", "fe80::1", "100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254"),
    *("::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "::a9fe:a9fe", "2001:0:0:0:0:0:5601:5601"),
    *("0.0.0.0", "0.1.2.3", "::", "255.255.255.255", "224.0.0.1", "ff02::1", "::ffff:0.0.0.0", "::ffff:224.0.0.1"),
]
CLAIM = {"host": "name.test", "port": 1}


def asked(*answer: str, host: str = "name.test", **metadata: object) -> list[str]:
    claim = Evidence("network_reachable", "what is claimed", CLAIM, dict(metadata))

    def resolver(name: str, family: int) -> Sequence[str]:
        assert (host, socket.AF_UNSPEC) == (name, family)
        return answer

    return addresses_of(host, claim, Surroundings("/"), Deadline(5), resolver)


def refused(*answer: str, **options: object) -> str:
    with pytest.raises(CannotSee) as refusal:
        asked(*answer, **options)  # type: ignore[arg-type]
    assert "ADDRESS_REFUSED" == refusal.value.unseen.code
    assert not refusal.value.unseen.transient
    return refusal.value.unseen.hint


def test_public_addresses_are_given_in_the_order_of_the_answer():
    """Each once."""
    assert PUBLIC == asked(*PUBLIC, PUBLIC[0])


@pytest.mark.parametrize("address", PRIVATE)
def test_a_private_address_must_be_meant(address):
    """In whatever form it is written, and also between good ones; the hint says how to say it."""
    assert "allow_private" in refused(address)
    refused("8.8.8.8", address)
    assert [address] == asked(address, allow_private=True)


@pytest.mark.parametrize("address", NEVER)
def test_what_hands_out_credentials_or_is_no_host_is_never_connected_to(address):
    """Also where private addresses are allowed, also behind a mapping, a gateway or a tunnel."""
    assert "allow_private" not in refused(address, allow_private=True)
    refused("8.8.8.8", address)


@given(st.ip_addresses(v=4))
def test_a_mapped_address_means_the_one_that_is_mapped(address):
    """An IPv4 address is judged the same in the clothes of an IPv6 one."""
    mapped = f"::ffff:{address}"
    assert (is_private(str(address)), why_never(str(address))) == (is_private(mapped), why_never(mapped))


@given(st.ip_addresses())
def test_every_address_is_judged(address):
    """No address makes the judge raise, and what the standard library calls no global one is never called public."""
    if not address.is_global or address.is_multicast:
        text = str(address)
        mapped = address.version == 6 and (address.ipv4_mapped is not None or text.startswith("64:ff9b::"))
        assert is_private(text) or why_never(text) or mapped


def test_a_name_that_has_no_answer_says_nothing_about_the_world():
    """It is asked again, as a service that starts gets its name late."""

    def unknown(name: str, family: int) -> Sequence[str]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    claim = Evidence("network_reachable", "what is claimed", CLAIM)
    with pytest.raises(CannotSee) as refusal:
        addresses_of("name.test", claim, Surroundings("/"), Deadline(5), unknown)
    unseen = refusal.value.unseen
    assert ("NAME_NOT_RESOLVED", "name.test: Name or service not known", True) == (
        unseen.code,
        unseen.message,
        unseen.transient,
    )
    for answer in ([], [f"8.8.8.{number}" for number in range(33)]):
        with pytest.raises(CannotSee, match=r"has (0|33) addresses"):
            asked(*answer)


@pytest.mark.parametrize("name", ["127.1", "0x7f000001", "2130706433", "0177.0.0.1", "localhost"])
def test_an_address_in_disguise_is_judged_by_what_it_means(name):
    """What is judged is the answer of the system, not how the name looks."""
    claim = Evidence("network_reachable", "what is claimed", CLAIM)
    with pytest.raises(CannotSee) as refusal:
        addresses_of(name, claim, Surroundings("/"), Deadline(5), system_resolver)
    assert "ADDRESS_REFUSED" == refusal.value.unseen.code


def test_a_resolver_that_hangs_is_left_behind_in_time():
    """The question has no limit of its own; who asks has. Once it is answered, nothing of it is left."""
    answered = threading.Event()

    def hangs(name: str, family: int) -> Sequence[str]:
        answered.wait(30)
        return ["8.8.8.8"]

    claim = Evidence("network_reachable", "what is claimed", CLAIM)
    begun = time.monotonic()
    with pytest.raises(CannotSee) as refusal:
        addresses_of("name.test", claim, Surroundings("/"), Deadline(0.1), hangs)
    assert ("TIMED_OUT", True) == (refusal.value.unseen.code, refusal.value.unseen.transient)
    cancel = Cancel()
    threading.Timer(0.1, cancel.set).start()
    with pytest.raises(CannotSee):
        addresses_of("name.test", claim, Surroundings("/", cancel=cancel), Deadline(30), hangs)
    assert time.monotonic() - begun < 5
    for _ in range(14):
        with pytest.raises(CannotSee):
            addresses_of("name.test", claim, Surroundings("/"), Deadline(0.001), hangs)
    with pytest.raises(CannotSee) as refusal:
        addresses_of("name.test", claim, Surroundings("/"), Deadline(5), hangs)
    assert "TOO_MANY_STUCK" == refusal.value.unseen.code
    answered.set()
    for thread in _asking:
        thread.join(5)
    assert ["8.8.8.8"] == addresses_of("name.test", claim, Surroundings("/"), Deadline(5), hangs)
