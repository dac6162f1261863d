"""Hostile files and mutants: a typed error or a valid result, in a second, in bounded memory; never a crash.

``REFEED_MUTANTS`` says how many mutants are opened (``make mutants`` opens 20,000).
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hostile import opener
from hostile.files import GOOD, all_files
from hostile.wire import varint
from node_models import node_models

FILES = all_files()
MUTANTS = int(os.environ.get("REFEED_MUTANTS", "600"))
MODELS = Path(__file__).parent.parent / "data" / "models"
MEMORY = 256 << 20
SECONDS = 1.0
# Slow machines: what is measured is the absence of hangs, not the speed.
SLACK = 3.0


def opened(folder: Path) -> list[dict[str, Any]]:
    """What the opener says of every file of a folder."""
    script = Path(opener.__file__)
    environment = {**os.environ, "PYTHONPATH": str(script.parent.parent)}
    done = subprocess.run(  # noqa: S603
        [sys.executable, str(script), str(folder)], capture_output=True, text=True, env=environment, check=False
    )
    reports = [json.loads(line) for line in done.stdout.splitlines()]
    names = sorted(path.name for path in folder.iterdir())
    following = names[len(reports)] if len(reports) < len(names) else "the end"
    assert done.returncode == 0, f"exit {done.returncode} at {following}: {done.stderr[-2000:]}"
    assert [report["file"] for report in reports] == names
    return reports


def check(reports: list[dict[str, Any]], titles: dict[str, str], *, refused: bool) -> None:
    """No accident, no hang, no flood of memory; every hostile file refused by loading and by checking."""
    wrong = []
    for report in reports:
        title = titles[report["file"]]
        for way, (what, seconds, text) in report["ways"].items():
            if what not in ("accepted", "refused"):
                wrong.append(f"{title}: {way}: {what}")
            if seconds > SECONDS * SLACK:
                wrong.append(f"{title}: {way}: {seconds:.1f} s")
            if what == "refused" and not text:
                wrong.append(f"{title}: {way}: an error without a text")
            if refused and way in ("load", "session", "check") and what == "accepted":
                wrong.append(f"{title}: {way}: accepted")
    assert not wrong, "\n".join(wrong)
    growth = reports[-1]["peak"] - reports[0]["peak"]
    assert growth < MEMORY, f"{growth >> 20} MiB more at the end than after the first file"


def test_there_are_enough_and_they_differ() -> None:
    assert len(FILES) >= 150
    assert len(set(FILES.values())) == len(FILES)


def test_every_hostile_file_is_refused(tmp_path: Path) -> None:
    titles = {}
    for index, (title, wire) in enumerate(FILES.items()):
        name = f"{index:04}"
        (tmp_path / name).write_bytes(wire)
        titles[name] = title
    check(opened(tmp_path), titles, refused=True)


def mutant(chance: random.Random, seeds: list[bytes]) -> bytes:
    """A seed with a few bytes flipped, cut, doubled, spliced, or replaced by numbers at the edges."""
    wire = bytearray(chance.choice(seeds))
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(wire) + 1)
        match chance.randrange(6):
            case 0 if at < len(wire):
                wire[at] ^= 1 << chance.randrange(8)
            case 1 if at < len(wire):
                wire[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF])
            case 2:
                del wire[at : at + chance.randint(1, 16)]
            case 3:
                wire[at:at] = wire[at : at + chance.randint(1, 64)]
            case 4:
                wire[at:at] = varint(chance.choice([2**31 - 1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 100]))
            case _:
                other = chance.choice(seeds)
                start = chance.randrange(len(other) + 1)
                wire[at:at] = other[start : start + chance.randint(1, 64)]
    return bytes(wire)


@pytest.mark.timeout(3600)
def test_mutants_do_no_harm(tmp_path: Path) -> None:
    real = [path.read_bytes() for path in sorted(MODELS.rglob("*.onnx")) if path.stat().st_size < 1 << 16]
    seeds = [GOOD, *real, *(wire for _, wire in node_models()[::9] if len(wire) < 4096)]
    assert len(seeds) > 150
    chance = random.Random(20_261_129)  # noqa: S311
    titles = {}
    for index in range(MUTANTS):
        name = f"{index:06}"
        (tmp_path / name).write_bytes(mutant(chance, seeds))
        titles[name] = f"mutant {index}"
    check(opened(tmp_path), titles, refused=False)
