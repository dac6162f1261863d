"""Random lives of batches in a `Generator`, beside rows that a loop by hand continues."""

import random
from collections.abc import Callable
from typing import Any

import generation_models as models
import numpy as np
import pytest
import refeed
from generation_models import after_history, after_recurrent
from refeed import runtime

LIVES = 60
MOMENTS = 8
After = Callable[[list[int], int], list[int]]


def recurrent() -> refeed.Model:
    model, _ = refeed.bind(models.recurrent(), pairs=[("past", "present")])
    return model


def for_one_row() -> refeed.Model:
    proto = models.of_history()
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = 1
    model, _ = refeed.bind(proto, pairs=[("past", "present")])
    return model


class Batch:
    """A generator, the tokens of its rows, and which of them have gone."""

    def __init__(self, generator: Any, after: After, rows: list[list[int]], gone: set[int]) -> None:
        self.generator, self.after, self.rows, self.gone = generator, after, rows, gone

    def hold(self) -> None:
        assert self.generator.tokens == self.rows

    @property
    def there(self) -> list[int]:
        return [row for row in range(len(self.rows)) if row not in self.gone]

    def follow(self, row: int, count: int, end: int | None) -> list[int]:
        want = self.after(self.rows[row], count)
        return want[: want.index(end) + 1] if end in want else want

    def generate(self, chance: random.Random) -> None:
        end, drops = chance.choice([None, 3, 5, 7]), chance.random() < 0.4
        count, chunk = chance.randrange(1, 9), chance.choice([None, 1, 3])
        options = {"eos_token_id": end, "drop_finished": drops, "max_new_tokens": count, "prefill_chunk": chunk}
        if not self.there:
            with pytest.raises(refeed.ValueTypeError, match="every row has ended"):
                self.generator.generate(**options)
            return
        want = {row: self.follow(row, count, end) for row in self.there}
        made = self.generator.generate(**options)
        assert made.rows == self.there
        assert dict(zip(made.rows, made.tokens, strict=True)) == want
        assert made.finish_reasons == ["eos" if want[row][-1] == end else "length" for row in made.rows]
        self.add(want)
        if drops and len(self.rows) > 1:
            self.gone |= {row for row, tokens in want.items() if tokens[-1] == end}

    def add(self, made: dict[int, list[int]]) -> None:
        for row, tokens in made.items():
            self.rows[row] = self.rows[row] + tokens

    def stream(self, chance: random.Random) -> None:
        if not self.there:
            return
        end, steps = chance.choice([None, 3, 5]), chance.randrange(0, 5)
        wanted = {row: self.follow(row, steps, end) for row in self.there}
        got: dict[int, list[int]] = {row: [] for row in self.there}
        numbers = self.there
        stream = self.generator.stream(max_new_tokens=20, eos_token_id=end, drop_finished=False)
        for _ in range(sum(map(len, wanted.values()))):
            token = next(stream)
            got[numbers[token.sequence]].append(token.token)
        assert got == wanted
        stream.close()
        self.add(got)

    def several(self, chance: random.Random) -> None:
        if not self.there:
            return
        end = chance.choice([None, 3, 5])
        want = {row: self.follow(row, 4, end) for row in self.there}
        how: dict[str, Any] = {"temperature": 1e-4, "seed": 1, "eos_token_id": end}
        if chance.random() < 0.4:
            want = {row: self.follow(row, 4, None) for row in self.there}
            how = {"num_beams": 3}
        made = self.generator.generate(max_new_tokens=4, num_return_sequences=2, **how)
        assert made.rows == [row for row in self.there for _ in range(2)]
        assert dict(zip(made.rows[::2], made.tokens[::2], strict=True)) == want
        self.add(want)

    def fork(self, chance: random.Random) -> "Batch":
        if chance.random() < 0.4:
            return Batch(self.generator.fork(), self.after, [list(row) for row in self.rows], set(self.gone))
        row = chance.randrange(len(self.rows))
        return Batch(self.generator.fork(row), self.after, [list(self.rows[row])], set())

    def append(self, chance: random.Random) -> None:
        if len(self.rows) == 1:
            new = [chance.randrange(11) for _ in range(chance.randrange(1, 4))]
            self.generator.append(new)
            self.add({0: new})


@pytest.mark.parametrize(
    ("make", "after"),
    [(models.bound_history, after_history), (recurrent, after_recurrent), (for_one_row, after_history)],
    ids=["grows", "fixed", "one row"],
)
def test_lives_of_batches(make: Callable[[], refeed.Model], after: After) -> None:
    model = make()
    for number in range(LIVES):
        chance = random.Random(number)  # noqa: S311
        equal, rows = chance.random() < 0.3, chance.randrange(1, 5)
        lengths = [3] * rows if equal else [chance.randrange(1, 6) for _ in range(rows)]
        prompts = [[chance.randrange(11) for _ in range(length)] for length in lengths]
        generator = runtime.Generator(model)
        generator.append(np.array(prompts) if equal else prompts)
        lives = [Batch(generator, after, prompts, set())]
        for _ in range(MOMENTS):
            life = chance.choice(lives)
            what = chance.choice(["generate", "generate", "stream", "several", "prefill", "fork", "append"])
            if what == "fork":
                lives.append(life.fork(chance))
            elif what == "prefill":
                life.generator.prefill()
            else:
                getattr(life, what)(chance)
            for each in lives:
                each.hold()
        for life in lives:
            life.generate(chance)
            life.hold()
