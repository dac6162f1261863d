"""Random lives of a `Generator` beside a list of tokens that a loop by hand continues."""

import random
from collections.abc import Callable
from typing import Any

import generation_models as models
import pytest
import refeed
from generation_models import after_history, after_recurrent
from refeed import runtime

LIVES = 60
MOMENTS = 14
After = Callable[[list[int], int], list[int]]


def recurrent() -> refeed.Model:
    model, _ = refeed.bind(models.recurrent(), pairs=[("past", "present")])
    return model


class Life:
    """A generator, and what it must be."""

    def __init__(self, generator: Any, after: After, tokens: list[int], turns: list[int]) -> None:
        self.generator, self.after = generator, after
        self.tokens, self.turns = tokens, turns

    def hold(self) -> None:
        assert self.generator.tokens == ([self.tokens] if self.tokens else [])
        assert self.generator.turns == self.turns
        assert self.generator.length == len(self.tokens)

    def append(self, chance: random.Random) -> None:
        new = [chance.randrange(11) for _ in range(chance.randrange(1, 6))]
        self.turns.append(len(self.tokens))
        self.tokens += new
        self.generator.append(new)

    def generate(self, chance: random.Random) -> None:
        count = chance.randrange(0, 8)
        want = self.after(self.tokens, count)
        chunk = chance.choice([None, 1, 2, 5])
        assert self.generator.generate(max_new_tokens=count, prefill_chunk=chunk).tokens == [want]
        self.tokens += want

    def stream(self, chance: random.Random) -> None:
        want = self.after(self.tokens, chance.randrange(0, 6))
        stream = self.generator.stream(max_new_tokens=8)
        assert [next(stream).token for _ in want] == want
        self.tokens += want
        if chance.random() < 0.5:
            stream.close()

    def several(self, chance: random.Random) -> None:
        seed = chance.randrange(1000)
        made = self.generator.generate(
            max_new_tokens=3, num_return_sequences=2, temperature=1e-4, seed=seed, drop_finished=False
        )
        want = self.after(self.tokens, 3)
        assert made.tokens == [want, want]
        self.tokens += want

    def rewind(self, chance: random.Random) -> None:
        turn = chance.randrange(len(self.turns))
        self.generator.rewind(turn)
        self.tokens, self.turns = self.tokens[: self.turns[turn]], self.turns[:turn]

    def truncate(self, chance: random.Random) -> None:
        length = chance.randrange(0, len(self.tokens) + 1)
        self.generator.truncate(length)
        if length < len(self.tokens):
            self.turns = [turn for turn in self.turns if turn < length]
        self.tokens = self.tokens[:length]

    def fork(self, chance: random.Random) -> "Life":
        row = chance.choice([None, 0])
        return Life(self.generator.fork(row), self.after, list(self.tokens), list(self.turns))


@pytest.mark.parametrize(
    ("make", "after"), [(models.bound_history, after_history), (recurrent, after_recurrent)], ids=["grows", "fixed"]
)
def test_lives(make: Callable[[], refeed.Model], after: After) -> None:
    model = make()
    for number in range(LIVES):
        chance = random.Random(number)  # noqa: S311
        lives = [Life(runtime.Generator(model), after, [], [])]
        for _ in range(MOMENTS):
            life = chance.choice(lives)
            if not life.tokens:
                life.append(chance)
            else:
                what = chance.choice(
                    ["append", "generate", "generate", "stream", "several", "rewind", "truncate", "prefill", "fork"]
                )
                if what == "fork":
                    lives.append(life.fork(chance))
                elif what == "prefill":
                    life.generator.prefill()
                else:
                    getattr(life, what)(chance)
            for each in lives:
                each.hold()
        for life in lives:
            if life.tokens:
                life.generate(chance)
                life.hold()
