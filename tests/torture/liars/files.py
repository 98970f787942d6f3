"""Liars about files, folders and what is in them."""

from __future__ import annotations

import hashlib
import json
import os

from agentos.core.checkpoints import Evidence
from tests.torture.liars.liar import Liar

_HALF = 96 << 10


class HalvesInPlace(Liar):
    """One half of the content is right at times, the other at others; written in place, never both."""

    def __init__(self, *given) -> None:
        super().__init__(*given)
        self.right = [bytes([65 + number]) * _HALF for number in (0, 1)]
        self.path = self.folder / "x"
        self.path.write_bytes(self.right[0] + b"?" * _HALF)
        self.turn = 0

    def claim(self) -> Evidence:
        digest = hashlib.sha256(b"".join(self.right)).hexdigest()
        return Evidence("file_sha256", "x", {"path": "x", "sha256": digest})

    def change(self) -> None:
        # The half that is right goes first, and only then the other one comes.
        with self.path.open("r+b", buffering=0) as file:
            for number, content in ((self.turn, b"?" * _HALF), (1 - self.turn, self.right[1 - self.turn])):
                file.seek(number * _HALF)
                file.write(content)
        self.turn = 1 - self.turn

    def tell_the_truth(self) -> None:
        self.path.write_bytes(b"".join(self.right))


class PrefixInPlace(HalvesInPlace):
    """The same about what a log begins with, while it grows."""

    def claim(self) -> Evidence:
        digest = hashlib.sha256(b"".join(self.right)).hexdigest()
        return Evidence("file_prefix_sha256", "x", {"path": "x", "bytes": 2 * _HALF, "sha256": digest})

    def change(self) -> None:
        super().change()
        with self.path.open("ab") as file:
            file.write(b"more\n")

    def tell_the_truth(self) -> None:
        self.path.write_bytes(b"".join(self.right) + b"more\n")


class SwappedByName(Liar):
    """Two files take each other's name; the right one is never the one that is named."""

    def __init__(self, *given) -> None:
        super().__init__(*given)
        self.right = os.urandom(1 << 16)
        self.wrong = [os.urandom(1 << 16) for _ in range(2)]
        (self.folder / "right").write_bytes(self.right)
        self.tell(self.wrong[0])

    def tell(self, content: bytes) -> None:
        (self.folder / "new").write_bytes(content)
        os.rename(self.folder / "new", self.folder / "x")

    def claim(self) -> Evidence:
        return Evidence("file_sha256", "x", {"path": "x", "sha256": hashlib.sha256(self.right).hexdigest()})

    def change(self) -> None:
        self.tell(self.rng.choice(self.wrong))

    def tell_the_truth(self) -> None:
        self.tell(self.right)


class NeverThatKind(Liar):
    """Something is there at times, and a folder elsewhere; what is there is never a folder."""

    def __init__(self, *given) -> None:
        super().__init__(*given)
        self.path, self.aside = self.folder / "x", self.folder / "aside"
        self.aside.mkdir()

    def claim(self) -> Evidence:
        return Evidence("artifact_exists", "x", {"path": "x", "type": "directory"})

    def change(self) -> None:
        if self.rng.random() < 0.5:
            self.path.write_bytes(b"no folder")
            os.rename(self.aside, self.folder / "further")
        self.path.unlink(missing_ok=True)
        if not self.aside.exists():
            os.rename(self.folder / "further", self.aside)

    def tell_the_truth(self) -> None:
        self.path.unlink(missing_ok=True)
        self.path.mkdir()


class NeverGone(Liar):
    """Something is at the path all the time, and all the time another thing."""

    def __init__(self, *given) -> None:
        super().__init__(*given)
        (self.folder / "x").touch()

    def claim(self) -> Evidence:
        return Evidence("artifact_absent", "x", {"path": "x"})

    def change(self) -> None:
        new = self.folder / "new"
        if self.rng.random() < 0.5:
            new.symlink_to("nowhere")
        else:
            new.write_bytes(b"!")
        os.rename(new, self.folder / "x")

    def tell_the_truth(self) -> None:
        (self.folder / "x").unlink()


class PatternInHalves(HalvesInPlace):
    """The first half of a word and its second half, never both."""

    def claim(self) -> Evidence:
        word = (self.right[0][-9:] + self.right[1][:9]).decode()
        return Evidence("file_contains", "x", {"path": "x", "pattern": word})


class ValuesApart(Liar):
    """Two values of one document, of which one is right at a time; the document is replaced as a whole."""

    def __init__(self, *given) -> None:
        super().__init__(*given)
        self.put({"state": "done", "filler": 0})

    def put(self, document: dict) -> None:
        (self.folder / "new").write_text(json.dumps(document))
        os.rename(self.folder / "new", self.folder / "x.json")

    def claim(self) -> Evidence:
        return Evidence("json_value", "x", {"path": "x.json", "pointer": "/result/ok", "value": True})

    def change(self) -> None:
        self.put(self.rng.choice([{"result": {"ok": 1}}, {"result": [True]}, {"ok": True}, {"result": {"ok": "true"}}]))

    def tell_the_truth(self) -> None:
        self.put({"result": {"ok": True}})
