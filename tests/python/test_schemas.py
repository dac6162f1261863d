"""The stored table of the official operators, which the tests of the native schemas read, is the installed one's."""

import json

import operator_table


def test_the_stored_table_is_the_official_one() -> None:
    stored = json.loads(operator_table.TABLE.read_text())
    official = operator_table.official()
    names = [(entry["domain"], entry["op_type"]) for entry in stored]
    assert names == [(entry["domain"], entry["op_type"]) for entry in official]
    for ours, theirs in zip(stored, official, strict=True):
        assert ours == theirs, "run tests/python/operator_table.py"
