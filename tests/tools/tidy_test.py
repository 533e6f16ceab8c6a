"""The English rules of tools/tidy.py, and its notes about large classes."""

from __future__ import annotations

import pytest

import tidy

PAGE = "docs/page.md"
HEADER = "include/stepwatch/monitor.h"
HELP = "controller/cli/main.cc"


@pytest.mark.parametrize("opening", "What Of Who Whose Whoever Whatever Nothing None Nobody".split())
def test_a_sentence_without_a_leading_subject_is_refused(opening: str) -> None:
    assert tidy.english_findings(PAGE, [f"{opening} comes first."])
    assert tidy.english_findings(PAGE, [f"A row is complete. {opening} comes second."])
    assert tidy.english_findings(PAGE, [f"- {opening} begins an entry."])


@pytest.mark.parametrize(
    "sentence",
    [
        "The value falls to nought.",
        "The rank failed lately.",
        "The job waits in vain.",
        "The job waits for ever.",
        "The row is written all the same.",
        "The handler serves whoever connects.",
        "The edit comes in the midst of a step.",
        "The pattern is none.",
        "The patterns are none.",
        "The rank tells its step.",
        "The step is told.",
        "The log says it.",
        "The cause is said.",
        "The rank hears it.",
        "The signal was heard.",
        "The text is no number.",
        "The texts are no numbers.",
    ],
)
def test_an_odd_word_is_refused(sentence: str) -> None:
    assert tidy.english_findings(PAGE, [sentence])


@pytest.mark.parametrize(
    "sentence",
    [
        "The monitor reports each row once.",
        "There is no limit, and the job is no longer paused.",
        'The event `told` has the text "What was heard".',
        "The list of runs names the rank whose step is late.",
    ],
)
def test_plain_english_is_accepted(sentence: str) -> None:
    assert tidy.english_findings(PAGE, [sentence]) == []


def test_code_blocks_of_a_page_are_not_prose() -> None:
    assert tidy.english_findings(PAGE, ["```", "What a command prints", "```"]) == []


def test_comments_of_public_headers_and_help_texts_are_prose() -> None:
    odd = "What the monitor does"
    assert tidy.english_findings(HEADER, [f"int steps = 0;  // {odd}"])
    assert tidy.english_findings(HEADER, [f'std::string text = "{odd}";']) == []
    assert tidy.english_findings(HELP, [f'command->description("{odd}\\n");'])


def test_sentences_of_all_comments_begin_with_their_subject() -> None:
    assert tidy.english_findings("src/step/plan_switch.cc", ["  // What the monitor does."])
    assert tidy.english_findings("src/step/plan_switch.cc", ["// The plan. Of two, the newer one."])
    assert tidy.english_findings("src/step/plan_switch.cc", ["// Returns `None`.", 'Log("What");']) == []


@pytest.mark.parametrize(("functions", "is_noted"), [(26, True), (25, False)])
def test_a_class_with_many_member_functions_is_noted(functions: int, is_noted: bool) -> None:
    declared = "".join(f"  void F{number}(int value) {{ value_ = value; }}\n" for number in range(functions))
    text = f"class Wide {{\n public:\n{declared}  // void Comment();\n private:\n  int value_ = 0;\n}};\n"
    notes = tidy.class_notes("src/wide.h", text)
    assert notes == (["note: src/wide.h: Wide has 26 member functions; 25 are many"] if is_noted else [])
