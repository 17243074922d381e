"""The mutants that take long to try still fit the code."""

import pytest

from tests.mutants.test_checks_are_checked import MUTANTS, ROOT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_text_that_a_mutant_replaces_is_there(mutant: Mutant) -> None:
    text = (ROOT / "src" / "duly" / mutant.file).read_text()
    assert mutant.before in text, "the file no longer contains the text; update the mutant"
