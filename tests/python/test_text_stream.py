"""Text of tokens that come one by one, against the text of all of them at once."""

import random
from collections.abc import Iterable, Sequence

import hypothesis
import hypothesis.strategies as st
import pytest
import refeed
from refeed.text import TextStream


class Pieces:
    """Tokens are pieces of bytes; a text of them is what Python makes of the bytes."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = list(pieces)
        self.longest = 0

    def decode(self, ids: Iterable[int]) -> str:
        listed = list(ids)
        self.longest = max(self.longest, len(listed))
        return b"".join(self.pieces[i] for i in listed).decode("utf-8", errors="replace")


class Words:
    """Tokens are words, with a space before each but the first, as sentence pieces are decoded."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)

    def decode(self, ids: Iterable[int]) -> str:
        return " ".join(self.words[i] for i in ids)


def cut(text: bytes, seed: int) -> list[bytes]:
    rng, pieces = random.Random(seed), []  # noqa: S311
    while text:
        length = rng.randint(1, 5)
        pieces.append(text[:length])
        text = text[length:]
    return pieces


def collect(stream: TextStream, count: int) -> tuple[list[str], str]:
    parts = [stream.push(i) for i in range(count)]
    return parts, stream.finish()


def first_stop(text: str, stop: Sequence[str]) -> tuple[str, str | None]:
    """The naive model: look at every place of the whole text in order, whether a stop string ends there."""
    for end in range(1, len(text) + 1):
        fitting = [one for one in stop if text.endswith(one, 0, end)]
        if fitting:
            met = max(fitting, key=len)
            return text[: end - len(met)], met
    return text, None


@hypothesis.example(text="0" + 7 * "\U00010000", seed=1)  # nine tokens in a row end inside a character
@hypothesis.given(text=st.text(max_size=60), seed=st.integers(0, 1 << 20))
def test_all_parts_together_are_the_text(text: str, seed: int) -> None:
    tokens = Pieces(cut(text.encode(), seed))
    parts, rest = collect(TextStream(tokens), len(tokens.pieces))
    assert "".join(parts) + rest == text
    if "\N{REPLACEMENT CHARACTER}" not in text:
        assert rest == ""
        assert all("\N{REPLACEMENT CHARACTER}" not in part for part in parts)
    # The window does not grow with the text.
    assert tokens.longest <= 20


@hypothesis.example(text="\U00010000\U00010000\x80" * 2 + "\U00010000\U00010000", content=b"", seed=14)
@hypothesis.given(text=st.text(max_size=20), content=st.binary(max_size=80), seed=st.integers(0, 1 << 20))
def test_bytes_that_are_no_text_never_stop_the_stream(text: str, content: bytes, seed: int) -> None:
    tokens = Pieces(cut(text.encode() + content + b"end", seed))
    parts, rest = collect(TextStream(tokens), len(tokens.pieces))
    shown = "".join(parts) + rest
    # How many signs stand for broken bytes depends on the cuts; what is whole before and after them is there.
    assert shown.startswith(text)
    assert shown.endswith("end")
    assert tokens.longest <= 20


@hypothesis.example(text="béaa", stop=["a", "éaa"], seed=0)
@hypothesis.given(
    text=st.text("abé", max_size=24),
    stop=st.lists(st.text("abé", min_size=1, max_size=4), max_size=3),
    seed=st.integers(0, 1 << 20),
)
def test_stop_strings_across_tokens(text: str, stop: list[str], seed: int) -> None:
    tokens = Pieces(cut(text.encode(), seed))
    stream = TextStream(tokens, stop)
    want, met = first_stop(text, stop)
    shown = ""
    for i in range(len(tokens.pieces)):
        shown += stream.push(i)
        # Nothing is ever taken back.
        assert want.startswith(shown)
    shown += stream.finish()
    assert shown == want
    assert (stream.stopped is None) == (met is None)
    if met is not None:
        assert stream.stopped in stop
        assert stream.push(0) == stream.finish() == ""


def test_a_character_of_several_tokens_comes_whole() -> None:
    tokens = Pieces([b"a", b"\xe2", b"\x82", b"\xac", b"b"])
    stream = TextStream(tokens)
    assert [stream.push(i) for i in range(5)] == ["a", "", "", "\N{EURO SIGN}", "b"]
    assert stream.finish() == ""


def test_a_character_that_is_cut_off_shows_at_the_end() -> None:
    stream = TextStream(Pieces([b"a", b"\xe2\x82"]))
    assert [stream.push(0), stream.push(1)] == ["a", ""]
    assert stream.finish() == "\N{REPLACEMENT CHARACTER}"


def test_what_may_become_a_stop_string_is_held_back() -> None:
    stream = TextStream(Pieces([b"one#", b"#", b"two##", b"#", b"three"]), ["###"])
    assert [stream.push(i) for i in range(4)] == ["one", "", "##two", ""]
    assert stream.stopped == "###"
    assert stream.push(4) == ""
    unfinished = TextStream(Pieces([b"one#"]), ["###"])
    assert unfinished.push(0) == "one"
    assert unfinished.finish() == "#"


def test_the_prompt_decides_about_the_first_space() -> None:
    words = Words(["once", "upon", "a", "time"])
    alone, after = TextStream(words), TextStream(words, prompt=[0, 1])
    assert "".join(alone.push(i) for i in (2, 3)) == "a time"
    assert "".join(after.push(i) for i in (2, 3)) == " a time"


@pytest.mark.parametrize("stop", ["word", ["a", ""]])
def test_wrong_stop_strings(stop: Sequence[str]) -> None:
    with pytest.raises(refeed.ValueTypeError, match="stop"):
        TextStream(Pieces([b"a"]), stop)
