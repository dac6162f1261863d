"""Forks, and the end of the interpreter while states run or live on. `make exits` repeats every script."""

import os
import pathlib
import subprocess
import sys

import process_life
import pytest

REPEATS = int(os.environ.get("REFEED_EXITS", "1"))
# One of each kind for every run of the tests; all of them by `make exits`.
FEW = [
    "fork_of_an_idle_state",
    "fork_of_a_running_state",
    "fork_after_the_pool_has_worked",
    "exit_with_a_daemon_in_a_step",
    "exit_with_views_in_globals",
    "exit_with_foreign_memory",
    "exit_handlers_that_run_steps",
]
# Long enough for a slow machine; a process that hangs takes for ever.
PATIENCE = 120


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("name", list(process_life.SCRIPTS) if REPEATS > 1 else FEW)
def test_a_process_ends_well(name: str) -> None:
    for _ in range(REPEATS):
        command = [sys.executable, "-W", "ignore::DeprecationWarning", process_life.__file__, name]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)  # noqa: S603
        told = f"{name} ended with {ended.returncode}\n{ended.stderr}"
        assert (ended.returncode, ended.stdout.split()[-1:]) == (0, ["done"]), told
        assert not ended.stderr, told


def test_the_scripts_are_all_there() -> None:
    assert len(process_life.SCRIPTS) >= 20
    assert set(FEW) <= set(process_life.SCRIPTS)
    assert pathlib.Path(process_life.__file__).name == "process_life.py"
