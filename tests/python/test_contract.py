"""`docs/contract.md`: every rule and promise has a test that cites it, and tests cite nothing else."""

import itertools

import contract


def test_every_rule_has_a_test_and_every_citation_a_rule() -> None:
    rules, tests = contract.rules(), contract.tests()
    cited = {rule for test in tests for rule in test.rules()}
    promises = {promise for test in tests for promise in test.promises()}
    wanted = {promise for of_rule in rules.values() for promise in of_rule}
    assert sorted(set(rules) - cited) == []
    assert sorted(cited - set(rules)) == []
    assert sorted(wanted - promises) == []


def test_every_promise_has_a_test_or_a_reason() -> None:
    """Those that do not hold are on the page, each with its reason, and uncited."""
    all_of_them = {f"S{number:03}" for number in range(1, contract.PROMISES + 1)}
    cited = {promise for test in contract.tests() for promise in test.promises()}
    waived = contract.waived()
    assert sorted(all_of_them - cited - waived) == []
    assert sorted(cited - all_of_them) == []
    assert sorted(waived & cited) == []


def test_rules_are_in_order() -> None:
    numbers = [tuple(map(int, rule.split("."))) for rule in contract.rules()]
    assert numbers == sorted(numbers)
    for before, after in itertools.pairwise(numbers):
        assert after == (*before[:2], before[2] + 1) or after[2] == 1, after


def test_citations_are_found() -> None:
    """A test of the search itself: in names, in docstrings, over several lines."""
    one = contract.Test("file", "s090_to_s092_names", "Rules 3.4.1, 3.4.2 and\n 3.4.10; S005. Not 1.2.3.")
    assert one.rules() == {"3.4.1", "3.4.2", "3.4.10"}
    assert one.promises() == {"S005", "S090", "S091", "S092"}
    assert contract.Test("file", "sum", "Version 3.4.1 of something.").rules() == set()
    kinds = {test.file.rpartition(".")[2] for test in contract.tests()}
    assert kinds == {"py", "rs"}
    names = {test.name for test in contract.rust_tests()}
    assert "AppendLease" in names, "documentation with code counts"
