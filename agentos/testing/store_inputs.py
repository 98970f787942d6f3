"""What may go into a run store, and what must not: the part of the contract about ids and data.

An id is right or it is refused, and which of the two does not depend on the backend. Used through `StoreContract`.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Any

import pytest

from agentos.errors import CheckpointNotFoundError, InvalidInputError
from agentos.store.runs.contract import CheckpointStore
from agentos.store.runs.inputs import MAX_DATA

MIB = 1 << 20

# Each of these has been a file, a folder, a pattern or a piece of SQL to some store.
HOSTILE_IDS = [
    *(
        "../x",
        "..",
        ".",
        "/etc/passwd",
        "a/b",
        "a\\b",
        "~",
        "-rf",
        "*",
        "%2e%2e",
        "%",
        "_",
        "a.node",
        "last",
        "new",
        "deleted-1",
    ),
    *("con", "NUL.txt", "lpt1", "a:b", "a?", "trailing ", "trailing.", " ", "\t", "\n", "\x01", "\x7f", "\u202e"),
    *("'; drop table runs; --", '"', "{}", "null", "0", "\ufeff", "\uffff", "\U0001f600", "İ", "ß", "\u017f"),
    *("node" * 75, "x" * 512, "\U0001f600" * 512),
]

# Equal to a file system that folds case or composes characters; different to everybody else.
CONFUSABLE_IDS = ["node", "Node", "NODE", "caf\u00e9", "cafe\u0301", "ﬁ", "fi", "ss", "ß"]

REFUSED_IDS = ["", "a\0b", "\0", "\ud800", "a\udfff", "x" * 513, None, 7, b"node", ["node"]]

NOT_DATA = ["text", 7, None, [1, 2], {"a": 1}, (b"x",), 1.5]


class InputsContract:
    """Ids and data."""

    @pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
    def test_bytes_of_every_kind_come_back_as_bytes(self, store: CheckpointStore, kind: Callable[[bytes], Any]) -> None:
        """What was saved comes back, byte for byte, and always as bytes."""
        saved = bytes(range(256)) * 3
        store.save("run", "node", kind(saved))
        assert (bytes, saved) == (type(store.load("run", "node")), store.load("run", "node"))

    def test_a_view_of_anything_is_its_bytes(self, store: CheckpointStore) -> None:
        """A view may be of wider items, or leave some out."""
        store.save("run", "wide", memoryview(b"\1\0\2\0").cast("H"))
        store.save("run", "sparse", memoryview(b"abcdef")[::2])
        assert (b"\1\0\2\0", b"ace") == (store.load("run", "wide"), store.load("run", "sparse"))
        assert [len(b"\1\0\2\0"), len(b"ace")] == [info.size for info in store.list("run")]

    def test_what_goes_in_is_a_copy(self, store: CheckpointStore) -> None:
        """Changing the caller's buffer afterwards changes nothing that is stored."""
        buffer = bytearray(b"before")
        store.save("run", "one", buffer)
        store.save_many("run", [("two", memoryview(buffer))])
        buffer[:] = b"after!"
        assert [b"before", b"before"] == [store.load("run", "one"), store.load("run", "two")]

    def test_empty_data_is_data(self, store: CheckpointStore) -> None:
        """Nothing saved is not the same as something empty saved."""
        store.save("run", "node", b"")
        assert b"" == store.load("run", "node")
        assert [0] == [info.size for info in store.list("run")]

    def test_64_mib_of_data_are_right(self, store: CheckpointStore) -> None:
        """Large data comes back whole."""
        saved = bytes(range(256)) * (64 * MIB // 256)
        store.save("run", "node", saved)
        assert saved == store.load("run", "node")

    def test_more_than_512_mib_are_refused(self, store: CheckpointStore) -> None:
        """Every backend draws the line in the same place, and before it copies anything."""
        with (
            mmap.mmap(-1, MAX_DATA + 1) as pages,
            memoryview(pages) as view,
            pytest.raises(InvalidInputError, match="at most 536,870,912"),
        ):
            store.save("run", "node", view)
        assert [] == store.list_runs()

    @pytest.mark.parametrize("data", NOT_DATA, ids=repr)
    def test_anything_else_is_a_type_error(self, store: CheckpointStore, data: Any) -> None:
        """Text and objects are not encoded behind the caller's back; nothing is stored."""
        with pytest.raises(TypeError, match="bytes, bytearray or memoryview"):
            store.save("run", "node", data)
        with pytest.raises(TypeError, match="bytes, bytearray or memoryview"):
            store.save_many("run", [("fine", b"x"), ("node", data)])
        assert [] == store.list_runs()

    @pytest.mark.parametrize("name", HOSTILE_IDS, ids=ascii)
    def test_a_hostile_id_is_as_good_as_any(self, store: CheckpointStore, name: str) -> None:
        """It names one run and one node, and nothing else."""
        store.save(name, "node", b"run")
        store.save("run", name, b"node")
        assert (b"run", b"node") == (store.load(name, "node"), store.load("run", name))
        assert sorted([name, "run"]) == store.list_runs()
        assert [name] == [info.node_id for info in store.list("run")]
        store.delete("run", name)
        store.delete_run(name)
        assert [] == store.list_runs()

    def test_ids_that_look_alike_stay_apart(self, store: CheckpointStore) -> None:
        """Case and composition count, whatever the file system thinks of them."""
        for name in CONFUSABLE_IDS:
            store.save(name, name, name.encode())
            store.save("run", name, name.encode())
        assert [name.encode() for name in CONFUSABLE_IDS] == [store.load("run", name) for name in CONFUSABLE_IDS]
        assert [name.encode() for name in CONFUSABLE_IDS] == [store.load(name, name) for name in CONFUSABLE_IDS]
        assert sorted([*CONFUSABLE_IDS, "run"]) == store.list_runs()

    def test_a_node_of_one_run_is_none_of_another(self, store: CheckpointStore) -> None:
        """Two names do not become one by standing side by side."""
        store.save("ab", "c", b"1")
        store.save("a", "bc", b"2")
        assert (b"1", b"2") == (store.load("ab", "c"), store.load("a", "bc"))
        with pytest.raises(CheckpointNotFoundError):
            store.load("ab", "bc")

    @pytest.mark.parametrize("name", REFUSED_IDS, ids=ascii)
    def test_an_id_that_cannot_be_kept_is_refused(self, store: CheckpointStore, name: Any) -> None:
        """By every call, with a sentence, and nothing is stored."""
        calls: list[Callable[[], object]] = [
            lambda: store.save(name, "node", b"x"),
            lambda: store.save("run", name, b"x"),
            lambda: store.save_many("run", [("node", b"x"), (name, b"x")]),
            lambda: store.load(name, "node"),
            lambda: store.load("run", name),
            lambda: store.list(name),
            lambda: store.delete(name, "node"),
            lambda: store.delete("run", name),
            lambda: store.delete_run(name),
        ]
        for call in calls:
            with pytest.raises(InvalidInputError, match=r"run_id|node_id"):
                call()
        assert [] == store.list_runs()
