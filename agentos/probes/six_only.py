"""Ask the kernel which IPv6 sockets serve IPv6 only: the tables in /proc do not say it.

Linux answers over netlink, to every user. Where it does not, nothing is known, and that is what is said.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

from agentos.probes.cannot_see import Deadline, timed_out
from agentos.probes.wires import wait_at_most

_SOCK_DIAG, _BY_FAMILY = 4, 20
_REQUEST_DUMP = 0x301
_ERROR, _DONE = 2, 3
_HEADER = struct.Struct("=IHHII")
# Family, protocol, extensions, padding, states; then the socket: its port, and nothing else of it.
_QUESTION = struct.Struct("=BBBxI2s46x")
_ANSWER_SIZE, _INODE_AT, _INODE = 72, 68, struct.Struct("=I")
_ATTRIBUTE = struct.Struct("=HH")
_SIX_ONLY = 11
_STATES = {"tcp": 1 << 10, "udp": 1 << 7}
_PROTOCOLS = {"tcp": socket.IPPROTO_TCP, "udp": socket.IPPROTO_UDP}
_PIECE = 1 << 16


def six_only(proto: str, port: int, deadline: Deadline) -> dict[str, bool | None] | None:
    """Every IPv6 socket that waits at this port, by inode: whether it serves IPv6 only. None: the kernel does not say."""
    question = _QUESTION.pack(socket.AF_INET6, _PROTOCOLS[proto], 0, _STATES[proto], port.to_bytes(2, "big"))
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
            wait_at_most(kernel, deadline)
            kernel.sendto(_HEADER.pack(_HEADER.size + len(question), _BY_FAMILY, _REQUEST_DUMP, 1, 0) + question, (0, 0))
            return dict(_answers(kernel, deadline))
    except TimeoutError:
        # Time that is over is no answer: a look that could not be taken proves nothing.
        raise timed_out("the kernel's sockets") from None
    except (OSError, AttributeError, struct.error):
        return None


def _answers(kernel: socket.socket, deadline: Deadline) -> Iterator[tuple[str, bool | None]]:
    while True:
        wait_at_most(kernel, deadline)
        data = kernel.recv(_PIECE)
        for kind, body in _messages(data):
            if kind == _ERROR:
                raise OSError
            if kind == _DONE:
                return
            known = _attributes(body[_ANSWER_SIZE:]).get(_SIX_ONLY)
            yield str(_INODE.unpack_from(body, _INODE_AT)[0]), bool(known[0]) if known else None


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _HEADER.size:
        size, kind, *_ = _HEADER.unpack_from(data)
        yield kind, data[_HEADER.size : size]
        data = data[_aligned(max(size, _HEADER.size)) :]


def _attributes(data: bytes) -> dict[int, bytes]:
    found = dict[int, bytes]()
    while len(data) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(data)
        found[kind] = data[_ATTRIBUTE.size : size]
        data = data[_aligned(max(size, _ATTRIBUTE.size)) :]
    return found


def _aligned(size: int) -> int:
    """Everything begins at a multiple of four bytes."""
    return (size + 3) & ~3
