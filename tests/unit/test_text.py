"""What is shown is safe to show."""

import pytest

from agentos._text import listed, shown


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("a\x1b[31mred", r"a\x1b[31mred"),
        ("line\nbreak\r\t\x7f\x9b", r"line\x0abreak\x0d\x09\x7f\x9b"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\ud800", r"\ud800"),
        ("plain ünïcode", "plain ünïcode"),
    ],
)
def test_nothing_shown_drives_a_terminal(given, expected):
    """Control characters, bidi marks and lone surrogates are spelled out."""
    assert expected == shown(given)


@pytest.mark.parametrize("password", ["secret", "p@ss", "x" * 600, "a:b"])
@pytest.mark.parametrize("limit", [20, 40, 512])
def test_a_password_in_an_address_is_never_shown_not_even_in_part(password, limit):
    """Masking comes before cutting, and an @ in the password ends nothing."""
    text = shown(f"postgresql://user:{password}@host/db", limit)
    assert "secret" not in text
    assert not any(part in text for part in ("p@", "ss@", "xx", "a:b", ":b"))


def test_what_cannot_describe_itself_is_named_by_its_type():
    """A hostile or huge value never breaks the message about it."""

    class Hostile:
        def __repr__(self):
            raise RuntimeError

    assert "<Hostile>" == shown(Hostile())
    assert "<int>" == shown(10**5000)


def test_long_text_and_long_lists_are_cut():
    """A message stays a sentence."""
    assert 512 == len(shown("x" * 10_000))
    assert "a, b, and 2 more" == listed(["a", "b", "c", "d"], 2)
