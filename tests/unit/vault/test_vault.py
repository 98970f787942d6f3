"""The vault: what was kept comes back byte for byte, or reading says by name that it cannot."""

from __future__ import annotations

import errno
import hashlib
import os
import random
import stat
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentos.errors import ContentDamagedError, ContentMissingError, StoreUnavailableError, VaultFullError
from agentos.vault import keeping, objects
from agentos.vault.keeping import ChangedError
from agentos.vault.objects import DELTA, MOST_IN_MEMORY, MalformedError
from agentos.vault.vault import Vault
from tests.unit.vault.conftest import Keep

MIB = 1 << 20


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def text(lines: int, seed: int = 1) -> list[bytes]:
    numbers = random.Random(seed)
    return [f"{numbers.getrandbits(160):040x}\n".encode() for _ in range(lines)]


def copied(vault: Vault, digest: str, to: Path) -> bytes:
    descriptor = os.open(to, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        assert vault.copy(digest, descriptor) == os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)
    return to.read_bytes()


# Coming back.


def test_hardly_anything_is_nothing_to_be_different_from(vault: Vault, keep: Keep):
    """An earlier version of a few bytes serves no difference."""
    digest = keep(b"x" * 500, keep(b"tiny"))
    assert (b"x" * 500, objects.ZSTD) == (vault.read(digest), vault.header(digest).kind)


@given(versions=st.lists(st.binary(max_size=3000), min_size=1, max_size=5))
def test_whatever_was_encoded_comes_back(versions: list[bytes]):
    """Each as a difference to the one before, where that is smaller, and whole where it is not."""
    contents: dict[bytes, bytes] = {}
    base = None
    for data in versions:
        stored = objects.encoded(data, base)
        digest = hashlib.sha256(data).digest()
        assert data == objects.decoded(stored, contents.__getitem__)
        contents[digest] = data
        base = objects.Base(digest, data, objects.header_of(stored).place + 1)


@pytest.mark.parametrize("size", [0, 1, 127, 128, 5000, MIB, MOST_IN_MEMORY + 1, 3 * MOST_IN_MEMORY])
@pytest.mark.parametrize("kind", ["random", "zeros"])
def test_content_of_any_size_comes_back(vault: Vault, tmp_path: Path, size: int, kind: str):
    """From memory, from an open file, to memory and to an open file; what is large goes through in pieces."""
    data = os.urandom(size) if kind == "random" else bytes(size)
    (tmp_path / "source").write_bytes(data)
    with vault.keeping() as session, open(tmp_path / "source", "rb", buffering=0) as source:
        digest = session.add_open(source.fileno(), size=size, expected=sha(data))
        session.settle()
    assert digest == sha(data)
    assert vault.read(digest) == data == copied(vault, digest, tmp_path / "copy")
    assert vault.size(digest) <= size + 100 if kind == "random" else vault.size(digest) < 10_000


def test_equal_content_is_kept_once(vault: Vault, keep: Keep):
    """Whoever keeps it, and however often."""
    for _ in range(3):
        keep(b"the same" * 100)
    other = Vault(vault.root)
    with other.keeping() as session:
        session.add(b"the same" * 100)
        session.settle()
    assert [sha(b"the same" * 100)] == list(vault.digests())


def test_a_text_that_changes_in_one_line_takes_a_few_bytes_a_version(vault: Vault, keep: Keep):
    """A hundred versions take less than three copies, and each of them comes back."""
    lines = text(2500)
    versions, like = [], None
    for number in range(100):
        lines[number * 7 % len(lines)] = f"changed in step {number}\n".encode()
        versions.append(b"".join(lines))
        like = keep(versions[-1], like)
    assert sum(vault.size(sha(each)) for each in versions) < 3 * len(versions[0])
    assert versions == [vault.read(sha(each)) for each in versions]
    assert [number % objects.RUN for number in range(100)] == [vault.header(sha(each)).place for each in versions]


def test_a_version_is_read_through_few_others(vault: Vault, keep: Keep):
    """However many there are, six differences lie between one and a whole one; and it is the same for two that stand on one."""
    lines = text(300)
    versions: list[str] = []
    for number in range(objects.RUN + 3):
        lines[number] = f"changed in step {number}\n".encode()
        versions.append(keep(b"".join(lines), versions[-1] if versions else None))

    def depth(digest: str) -> int:
        header = vault.header(digest)
        return 1 + depth(header.base.hex()) if header.kind == objects.DELTA else 0

    assert [number % objects.RUN for number in range(objects.RUN + 3)] == [vault.header(each).place for each in versions]
    assert [number.bit_count() for number in range(objects.RUN)] + [0, 1, 1] == [depth(each) for each in versions]
    other = keep(b"".join([*lines[:-1], b"another end\n"]), versions[6])
    assert (7, versions[6]) == (vault.header(other).place, vault.header(other).base.hex())


def test_a_difference_to_what_is_not_there_is_not_made(vault: Vault, keep: Keep):
    """An earlier version that is missing or damaged is no base; the content is kept whole."""
    data = b"".join(text(100))
    assert vault.header(keep(data, "0" * 64)).kind != objects.DELTA


def test_what_a_difference_stands_on_is_durable_before_it(vault: Vault, keep: Keep, monkeypatch: pytest.MonkeyPatch):
    """Whoever kept it may have died before its name was, and a power cut would take what was built on it along."""
    vault.synced = False
    lines = text(300)
    chain: list[str] = []
    for number in range(4):
        lines[number] = f"changed {number}\n".encode()
        chain.append(keep(b"".join(lines), chain[-1] if chain else None))
    synced: list[str] = []
    monkeypatch.setattr(keeping.Keeping, "_sync", lambda _, path: synced.append(path))
    later = Vault(vault.root)
    with later.keeping() as round_:
        fifth = round_.add(b"".join([*lines[:-1], b"another end\n"]), like=chain[3])
        round_.settle()
    assert (4, chain[0]) == (later.header(fifth).place, later.header(fifth).base.hex())
    assert vault.path_of(chain[0]) in synced
    synced.clear()
    again = Vault(vault.root)
    with again.keeping() as round_:
        assert round_.has(chain[3])
        round_.settle()
    # The fourth is a difference to the third, and that to the first, which was seen to just now.
    assert {vault.path_of(chain[each]) for each in (3, 2)} <= set(synced)
    synced.clear()
    with Vault(vault.root).keeping() as round_:
        assert all(map(round_.has, (chain[3], chain[2], chain[0], fifth)))
        round_.settle()
    assert [] == synced


def test_what_was_written_to_is_not_taken_for_durable(vault: Vault, keep: Keep):
    """The mark of it is its time, and whoever writes changes that; a sync that failed leaves nothing to be marked."""
    digest = keep(b"kept" * 100)
    assert vault.is_marked(digest)
    Path(vault.path_of(digest)).write_bytes(Path(vault.path_of(digest)).read_bytes())
    assert not vault.is_marked(digest)
    with pytest.raises(ContentMissingError):
        vault.is_marked("0" * 64)


@pytest.mark.parametrize("many", [1, 40])
def test_whichever_of_many_syncs_fails_nothing_is_kept(vault: Vault, monkeypatch: pytest.MonkeyPatch, many: int):
    """Few are waited for one after the other, many together; all have ended before it is said, and nothing has its name."""
    real, asked = keeping.Keeping._sync, []

    def fails_once(self: keeping.Keeping, path: str) -> None:
        asked.append(path)
        real(self, path)
        if len(asked) == many:
            raise OSError(errno.EIO, "lost")

    monkeypatch.setattr(keeping.Keeping, "_sync", fails_once)
    with vault.keeping() as session:
        for number in range(many):
            session.add(b"%d" % number)
        with pytest.raises(StoreUnavailableError):
            session.settle()
    assert (many, many, []) == (len(asked), len(set(asked)), list(vault.digests()))
    monkeypatch.undo()
    with vault.keeping() as session:
        digests = [session.add(b"%d" % number) for number in range(many)]
        session.settle()
    assert [b"%d" % number for number in range(many)] == [vault.read(digest) for digest in digests]


def test_a_sync_that_fails_keeps_nothing(vault: Vault, monkeypatch: pytest.MonkeyPatch):
    """Neither the content nor its name, be it the file or the folder that is not taken by the disk."""

    def fails(*_: object) -> None:
        raise OSError(errno.EIO, "lost")

    for owner, name in ((keeping.Keeping, "_sync"), (keeping, "sync_path")):
        with monkeypatch.context() as broken, vault.keeping() as round_:
            broken.setattr(owner, name, fails)
            digest = round_.add(b"kept" * 100)
            with pytest.raises(StoreUnavailableError):
                round_.settle()
        assert not vault.has(digest)
    assert [] == list(vault.digests())


def test_a_difference_whose_base_is_gone_is_not_there(vault: Vault, keep: Keep):
    """Where that may be for a power cut that came before it was durable; kept again, it is kept anew."""
    vault.synced = False
    lines = text(300)
    base = keep(b"".join(lines))
    lines[3] = b"changed\n"
    digest = keep(b"".join(lines), base)
    Path(vault.path_of(base)).unlink()
    later = Vault(vault.root)
    with later.keeping() as round_:
        assert not round_.has(digest)
        assert digest == round_.add(b"".join(lines))
        round_.settle()
    assert b"".join(lines) == later.read(digest)


# What can be read, and by whom.


def test_it_is_private(vault: Vault, keep: Keep):
    """Folders 0700 and files 0600, whatever the umask."""
    old = os.umask(0)
    try:
        path = vault.path_of(keep(b"secret" * 100))
    finally:
        os.umask(old)
    modes = {stat.S_IMODE(os.stat(each).st_mode) for each in (vault.root, os.path.dirname(path), vault.draft())}
    assert ({0o700}, 0o600) == (modes, stat.S_IMODE(os.stat(path).st_mode))


def test_nothing_can_be_read_before_the_round_is_settled(vault: Vault):
    """And nothing is left of a round that is not."""
    with vault.keeping() as session:
        digest = session.add(b"half" * 100)
        assert session.has(digest)
        assert not vault.has(digest)
    assert ([], []) == (list(vault.digests()), os.listdir(vault.draft()))


def test_what_changed_since_it_was_measured_is_not_kept(vault: Vault, tmp_path: Path):
    """The bytes under a digest are those bytes, small or large."""
    for size in (100, MOST_IN_MEMORY + 1):
        (tmp_path / "source").write_bytes(os.urandom(size))
        with vault.keeping() as session, open(tmp_path / "source", "rb", buffering=0) as source:
            with pytest.raises(ChangedError):
                session.add_open(source.fileno(), size=size, expected="1" * 64)
            session.settle()
    assert ([], []) == (list(vault.digests()), os.listdir(vault.draft()))


# Missing and damaged.


def test_what_is_not_there_is_missing_by_name(vault: Vault, keep: Keep):
    """Also from a vault that was never made, and for what is no digest at all."""
    for name in ("0" * 64, "x", "../../etc/passwd", "", "A" * 64):
        with pytest.raises(ContentMissingError, match=r"content|no digest"):
            vault.read(name)
    keep(b"x")
    with pytest.raises(ContentMissingError, match=r"0{64}"):
        vault.size("0" * 64)


@pytest.mark.parametrize("size", [0, 60, 5000, MOST_IN_MEMORY + 100])
def test_damage_is_never_served(vault: Vault, tmp_path: Path, size: int, seed: int):
    """A bit, the end, another content under this name, nothing at all: reading and copying refuse, with the name."""
    rng = random.Random(seed)
    data = rng.randbytes(size)
    (tmp_path / "source").write_bytes(data)
    with vault.keeping() as session, open(tmp_path / "source", "rb", buffering=0) as source:
        digest = session.add_open(source.fileno(), size=size)
        other = session.add(b"another")
        session.settle()
    whole = Path(vault.path_of(digest)).read_bytes()
    harmless = () if size else (ContentDamagedError,)
    damages = [b"", whole[:-1], whole + b"x", Path(vault.path_of(other)).read_bytes()]
    for _ in range(20):
        place = rng.randrange(len(whole))
        damages.append(whole[:place] + bytes([whole[place] ^ 1 << rng.randrange(8)]) + whole[place + 1 :])
    for damage in damages:
        Path(vault.path_of(digest)).write_bytes(damage)
        for read in (vault.read, lambda name: copied(vault, name, tmp_path / "copy")):
            # Nothing is nothing however it says that it is packed: then what comes back is right all the same.
            with nullcontext() if not size else pytest.raises(ContentDamagedError, match=digest), suppress(*harmless):
                assert data == read(digest)


def test_a_damaged_base_damages_what_stands_on_it(vault: Vault, keep: Keep):
    """It is named, and a circle of differences ends."""
    lines = text(300)
    base = keep(b"".join(lines))
    lines[3] = b"changed\n"
    digest = keep(b"".join(lines), base)
    assert objects.DELTA == vault.header(digest).kind
    Path(vault.path_of(base)).write_bytes(Path(vault.path_of(digest)).read_bytes())
    with pytest.raises(ContentDamagedError):
        vault.read(digest)
    Path(vault.path_of(base)).unlink()
    with pytest.raises(ContentMissingError, match=base):
        vault.read(digest)
    for place in (1, 2, 6, 255):
        circle = objects.Header(objects.DELTA, place, 10, bytes.fromhex(digest)).packed() + b"x" * 9
        Path(vault.path_of(digest)).write_bytes(circle)
        with pytest.raises(ContentDamagedError):
            vault.read(digest)
        assert objects.DELTA != vault.header(keep(b"".join(text(100, seed=place)), digest)).kind


def test_a_bomb_is_not_unpacked():
    """An object that says it is small and unpacks to a lot is malformed before it takes memory."""
    stored = objects.encoded(bytes(64 * MIB))
    header = objects.header_of(stored)
    lying = objects.Header(header.kind, 0, 100, b"").packed() + stored[header.length :]
    with pytest.raises(MalformedError):
        objects.decoded(lying, lambda _: b"")


# Limits.


def test_the_budget_is_kept(tmp_path: Path):
    """What would go over it is refused with the figures; nothing of the round is kept, and smaller things still fit."""
    vault = Vault(str(tmp_path / "vault"), limit=3000)
    with vault.keeping() as session:
        session.add(os.urandom(2000))
        session.settle()
    with vault.keeping() as session:
        session.add(os.urandom(2000))
        with pytest.raises(VaultFullError, match=r"2,0\d\d bytes more would take the vault to 4,0\d\d of 3,000"):
            session.settle()
    with vault.keeping() as session:
        small = session.add(os.urandom(500))
        session.settle()
    assert (2, True) == (len(list(vault.digests())), vault.has(small))


def test_a_vault_that_cannot_be_written_says_so(tmp_path: Path):
    """A file where its folder should be."""
    (tmp_path / "vault").write_text("in the way")
    with pytest.raises(StoreUnavailableError, match="cannot keep content"), Vault(str(tmp_path / "vault")).keeping():
        pass


def test_a_size_that_no_memory_has_is_damage(vault: Vault, keep: Keep):
    """A flipped bit can make the header promise eight exabytes: that is damage, and no error of its own."""
    digest = keep(b"text " * 100)
    path = Path(vault.path_of(digest))
    data = bytearray(path.read_bytes())
    data[len(objects.MAGIC) + 2] ^= 0x80
    path.write_bytes(data)
    with pytest.raises(ContentDamagedError):
        vault.read(digest)


def test_what_lacks_what_it_is_a_difference_to_is_kept_anew(vault: Vault, keep: Keep):
    """It has its name, and nobody can read it: whoever keeps the same content again is not told that it is there."""
    old = "".join(f"line {number}\n" for number in range(500)).encode()
    new = old + b"one more"
    base = keep(old)
    digest = keep(new, like=base)
    assert DELTA == vault.header(digest).kind
    os.unlink(vault.path_of(base))
    os.utime(vault.path_of(digest))  # Whoever kept it did not see it durable.
    with pytest.raises(ContentMissingError):
        vault.read(digest)
    again = Vault(vault.root)
    with again.keeping() as kept:
        kept.add(new)
        kept.settle()
    assert new == vault.read(digest)


def test_what_is_not_even_begun_like_content_is_kept_anew(vault: Vault, keep: Keep):
    """As a power cut leaves what was never synced."""
    digest = keep(b"content")
    os.truncate(vault.path_of(digest), 0)
    again = Vault(vault.root)
    with again.keeping() as kept:
        kept.add(b"content")
        kept.settle()
    assert b"content" == vault.read(digest)


@pytest.mark.parametrize("other", ["link", "pipe", "folder"])
def test_something_else_in_the_place_of_content_is_damage(vault: Vault, keep: Keep, tmp_path: Path, other: str):
    """A link is not followed, a pipe is not waited for."""
    digest = keep(b"content")
    place = Path(vault.path_of(digest))
    (tmp_path / "elsewhere").write_bytes(place.read_bytes())
    place.unlink()
    if other == "link":
        place.symlink_to(tmp_path / "elsewhere")
    elif other == "pipe":
        os.mkfifo(place)
    else:
        place.mkdir()
    with pytest.raises(ContentDamagedError):
        vault.read(digest)
