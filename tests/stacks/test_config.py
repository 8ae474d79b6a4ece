"""matrix.toml → validated model."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Steps
from gradmatrix.stacks import config
from gradmatrix.stacks.generate import REQUIREMENTS, Releases, Snapshots, Window

TODAY = dt.date(2026, 1, 31)
SCENARIOS = ("frozen_parameters", "t5_classifier")
RUN = """
[run]
devices = ["cpu"]
scenarios = ["t5_classifier"]
"""
STACK = """
[[stacks]]
name = "old"
python = "3.11"
as_of = 2025-03-31
requirements = ["torch==2.6.0", "trl"]
"""


def load(folder: Path, text: str) -> config.Matrix:
    """The matrix of ``text``."""
    path = folder / "matrix.toml"
    path.write_text(text, encoding="utf-8")
    return config.load(path, SCENARIOS, TODAY)


def complaint(folder: Path, text: str) -> str:
    """The error that a user reads about ``text``."""
    with pytest.raises(UserError) as raised:
        load(folder, text)
    return str(raised.value)


def test_the_projects_own_matrix_is_valid() -> None:
    """The published matrix.toml can be read, and it has three core stacks."""
    root = Path(__file__).parent.parent.parent
    names = [path.stem for path in (root / "scenarios").glob("*.py")]
    loaded = config.load(root / "matrix.toml", names)
    assert [stack.name for stack in loaded.core] == [
        "lightning-2.0.3",
        "transformers-4.57-torch-2.13",
        "torch-2.13",
    ]


def test_every_stack_of_ours_pins_both_lightnings_alike() -> None:
    """The package lightning requires pytorch-lightning without a pin.

    Each stack asks for the same version of both.
    """
    root = Path(__file__).parent.parent.parent
    names = [path.stem for path in (root / "scenarios").glob("*.py")]
    for stack in config.load(root / "matrix.toml", names).stacks:
        asked = {text for text in stack.requirements if text.startswith("lightning")}
        assert {f"pytorch-{text}" for text in asked} <= set(stack.requirements), stack.name


def test_a_stack_is_read_with_its_date(tmp_path: Path) -> None:
    """A TOML date becomes a date, requirements keep their order."""
    stack = load(tmp_path, RUN + STACK).stack("old")
    assert (stack.as_of, stack.requirements, stack.core) == (
        dt.date(2025, 3, 31),
        ("torch==2.6.0", "trl"),
        False,
    )


def test_packages_that_may_be_built_have_canonical_names(tmp_path: Path) -> None:
    """As the resolver prints them; without the key, nothing is built."""
    text = RUN + STACK
    assert load(tmp_path, text).stack("old").build == ()
    allowed = text.replace("[[stacks]]", '[[stacks]]\nbuild = ["Lit", "a_b"]')
    assert load(tmp_path, allowed).stack("old").build == ("lit", "a-b")


def test_today_stays_a_word(tmp_path: Path) -> None:
    """The word "today" is resolved when the stack is locked, not when the file is read."""
    assert (
        load(tmp_path, RUN + STACK.replace("2025-03-31", '"today"')).stack("old").as_of == "today"
    )


def test_steps_have_defaults(tmp_path: Path) -> None:
    """The [steps] table may be left out."""
    assert load(tmp_path, RUN + STACK).steps == Steps()


def test_an_unknown_stack_gets_a_suggestion(tmp_path: Path) -> None:
    """A mistyped stack name is answered with the nearest one."""
    with pytest.raises(UserError, match="perhaps you meant 'old'"):
        load(tmp_path, RUN + STACK).stack("olt")


def test_a_missing_file_says_where_to_run(tmp_path: Path) -> None:
    """The error says that the command must run in a checkout."""
    with pytest.raises(UserError, match=r"no file matrix\.toml"):
        config.load(tmp_path / "matrix.toml", SCENARIOS, TODAY)


def test_a_syntax_error_names_its_line(tmp_path: Path) -> None:
    """The error has the file and the line."""
    assert "at line 2," in complaint(tmp_path, "[run]\ndevices == 1\n")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("devices", "device", ["unknown key 'device' in [run]", "perhaps you meant 'devices'"]),
        (
            "python =",
            "pyhton =",
            ["unknown key 'pyhton' in stack 'old'", "perhaps you meant 'python'"],
        ),
        ('name = "old"\n', "", ["lacks the key 'name' in stack number 1"]),
        ('["cpu"]', '["cuda:0"]', ["unknown device 'cuda:0'", "perhaps you meant 'cuda'"]),
        ('["cpu"]', '"cpu"', ["in [run], key 'devices'", "expected `array`"]),
        ('["cpu"]', "[]", ["names no device"]),
        (
            '["t5_classifier"]',
            '["t5_clasifier"]',
            ["unknown scenario 't5_clasifier'", "perhaps you meant 't5_classifier'"],
        ),
        (
            'name = "old"',
            'name = "old"\nscenarios = ["t5"]',
            ["scenario 't5' in stack 'old', which does not exist", "t5_classifier"],
        ),
        ('"3.11"', '"3.11.4"', ['write it like "3.11"']),
        ('"3.11"', "3.11", ["in stack 'old', key 'python'", "expected `str`"]),
        ("2025-03-31", '"2025-03-31"', ["is not a date", "without quotes"]),
        ("2025-03-31", "2026-02-01", ["is in the future", 'as_of = "today"']),
        ("2025-03-31", "2025-03-31T10:00:00", ["is not a date"]),
        ('"trl"', '"trl=>1"', ["unreadable requirement 'trl=>1' in stack 'old'"]),
        ('"trl"', '"trl @ file:///x.whl"', ["which is a URL"]),
        ('["torch==2.6.0", "trl"]', "[]", ["in stack 'old', key 'requirements'"]),
        ('"old"', '"../old"', ["unsafe", "file name"]),
        (
            "[[stacks]]",
            '[[stacks]]\nbuild = ["lit>1"]',
            ["'lit>1' in the key 'build' of stack 'old'", "without versions"],
        ),
        ("[run]", "[run]\nthreads = 0", ["in [run], key 'threads'", ">= 1"]),
        ("[run]", "[runs]", ["unknown key 'runs'", "perhaps you meant 'run'"]),
    ],
)
def test_what_is_wrong_is_reported_in_the_words_of_the_file(
    tmp_path: Path, old: str, new: str, expected: list[str]
) -> None:
    """Each error names the table, the key and what was expected."""
    message = complaint(tmp_path, (RUN + STACK).replace(old, new, 1))
    assert [text for text in expected if text not in message] == [], message


def test_stack_names_that_differ_in_case_only_are_refused(tmp_path: Path) -> None:
    """Two stacks would share a file on some file systems."""
    assert "two stacks called 'OLD'" in complaint(
        tmp_path, RUN + STACK + STACK.replace('"old"', '"OLD"')
    )


def test_an_unknown_key_of_the_second_stack_is_reported_by_its_name(tmp_path: Path) -> None:
    """The error has the stack's name and not a number."""
    second = STACK.replace('"old"', '"new"') + "cor = true\n"
    assert "unknown key 'cor' in stack 'new'" in complaint(tmp_path, RUN + STACK + second)


SNAPSHOTS = '[generate.snapshots]\nevery = "quarter"\nfrom = 2024-12-31\n'
RELEASES = '[generate.releases]\npackage = "trl"\nbase = "old"\n'
WINDOW = "[generate.window]\nquarters = 2\n"
ALL = STACK + SNAPSHOTS + RELEASES + WINDOW


def test_five_lines_are_a_matrix(tmp_path: Path) -> None:
    """It has a table of snapshots only. Scenarios, devices and steps have defaults."""
    loaded = load(tmp_path, SNAPSHOTS + 'python = "3.11"\nrequirements = ["torch", "trl"]\n')
    days = ["2024-12-31", "2025-03-31", "2025-06-30", "2025-09-30", "2025-12-31"]
    assert [f"snapshot-{day}" for day in days] == [stack.name for stack in loaded.stacks]
    assert (("cpu", "cuda"), ("frozen_parameters", "t5_classifier")) == (
        loaded.run.devices,
        loaded.run.scenarios,
    )


def test_the_example_is_eight_quarters_in_five_lines() -> None:
    """The sentence in the documentation and its example file agree."""
    path = Path(__file__).parent.parent / "examples" / "eight_quarters.toml"
    assert 5 == len(path.read_text(encoding="utf-8").splitlines())
    assert 8 == len(config.load(path, ["sums"], dt.date(2026, 11, 21)).stacks)


def test_typed_stacks_come_first(tmp_path: Path) -> None:
    """They keep the order of the file. The stacks of rules follow."""
    names = [stack.name for stack in load(tmp_path, RUN + ALL).stacks]
    assert ["old", "snapshot-2024-12-31"] == names[:2]


def test_generated_stacks_are_core_only_where_the_table_says_so(tmp_path: Path) -> None:
    """A quick run must stay quick."""
    assert [] == [stack.name for stack in load(tmp_path, SNAPSHOTS).core]
    assert 5 == len(load(tmp_path, SNAPSHOTS + "core = true\n").core)


def test_tables_are_read_as_rules(tmp_path: Path) -> None:
    """Missing keys get their defaults, and the base is the stack that the rule names."""
    snapshots, releases, window = load(tmp_path, ALL).rules
    assert Snapshots(every="quarter", since=dt.date(2024, 12, 31)) == snapshots.rule
    assert (Releases(package="trl", base="old"), "old") == (
        releases.rule,
        releases.base and releases.base.name,
    )
    assert Window(quarters=2, requirements=REQUIREMENTS) == window.rule


def test_there_may_be_several_tables_of_a_kind(tmp_path: Path) -> None:
    """The place of each has its number."""
    text = STACK + RELEASES.replace("[generate.releases]", "[[generate.releases]]")
    placed = load(tmp_path, text + '[[generate.releases]]\npackage = "torch"\nbase = "old"\n').rules
    places = ["[[generate.releases]] number 1", "[[generate.releases]] number 2"]
    assert places == [rule.place for rule in placed]


def test_a_snapshot_may_be_a_base(tmp_path: Path) -> None:
    """It needs no index either."""
    text = SNAPSHOTS + RELEASES.replace('"old"', '"snapshot-2025-03-31"')
    assert [None, "snapshot-2025-03-31"] == [
        rule.base and rule.base.name for rule in load(tmp_path, text).rules
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "every =",
            "evry =",
            ["unknown key 'evry' in [generate.snapshots]", "perhaps you meant 'every'"],
        ),
        (
            'every = "quarter"',
            'every = "week"',
            ["[generate.snapshots], key 'every'", 'write "month" or "quarter"'],
        ),
        ('every = "quarter"\n', "", ["lacks the key 'every' in [generate.snapshots]"]),
        ("from = 2024-12-31\n", "", ["lacks the key 'from' in [generate.snapshots]"]),
        ("from = 2024-12-31", 'from = "2024-12-31"', ["key 'from'", "without quotes"]),
        (
            "from = 2024-12-31",
            "from = 2026-02-01",
            ["[generate.snapshots], which is in the future"],
        ),
        (
            "from = 2024-12-31",
            "from = 2025-02-01\nuntil = 2025-01-01",
            ["from = 2025-02-01 after until = 2025-01-01"],
        ),
        (
            "from = 2024-12-31",
            'from = 2024-12-31\npython = "3"',
            ["in [generate.snapshots]", 'like "3.11"'],
        ),
        (
            "from = 2024-12-31",
            "from = 2024-12-31\nrequirements = []",
            ["[generate.snapshots], key 'requirements'"],
        ),
        (
            "from = 2024-12-31",
            'from = 2024-12-31\nrequirements = ["a=>1"]',
            ["unreadable requirement 'a=>1'"],
        ),
        (
            "from = 2024-12-31",
            'from = 2024-12-31\nprefix = "../x"',
            ["prefix name '../x', which is unsafe"],
        ),
        (
            "from = 2024-12-31",
            'from = 2024-12-31\nprefix = ""',
            ["prefix name '', which is unsafe"],
        ),
        (
            "[generate.snapshots]",
            "[generate.snapshot]",
            ["[generate.snapshot]", "perhaps you meant 'snapshots'"],
        ),
        (
            "[generate.snapshots]",
            "[generated.snapshots]",
            ["unknown key 'generated'", "perhaps you meant 'generate'"],
        ),
        (
            'base = "old"',
            'base = "odl"',
            ["base = 'odl' in [generate.releases]", "perhaps you meant 'old'"],
        ),
        (
            'package = "trl"',
            'package = "peft"',
            ["'peft' in [generate.releases], which old does not ask for"],
        ),
        ('package = "trl"', 'package = "trl>1"', ["package = 'trl>1'", "without a version"]),
        ('base = "old"', 'base = "old"\nwhich = "last"', ["key 'which'", '"all" or "last-patch"']),
        (
            'base = "old"',
            'base = "old"\nfrom = "new"',
            ["from = 'new' in [generate.releases], which is not a release"],
        ),
        ('base = "old"', 'base = "old"\nfrom = 4.5', ["from = '4.5'", "a version in quotes"]),
        ('base = "old"', 'base = "old"\nfrom = "2"\nuntil = "1"', ["from = '2' after until = '1'"]),
        ('base = "old"', 'base = "old"\nexactly = ["x"]', ["exactly = 'x' in [generate.releases]"]),
        ("quarters = 2", "quarters = 0", ["[generate.window], key 'quarters'", ">= 1"]),
        (
            "quarters = 2",
            "quarters = 2\nmonths = 100000",
            ["[generate.window], key 'months'", "<= 1200"],
        ),
        (
            "quarters = 2",
            "quarter = 2",
            ["unknown key 'quarter' in [generate.window]", "'quarters'"],
        ),
        (SNAPSHOTS, "[generate]\nsnapshots = 3\n", ["no table in [generate.snapshots]"]),
    ],
)
def test_what_is_wrong_is_reported_with_the_name_of_the_table(
    tmp_path: Path, old: str, new: str, expected: list[str]
) -> None:
    """Each error names the table, the key and what was expected."""
    assert ALL.count(old) == 1
    message = complaint(tmp_path, ALL.replace(old, new))
    assert [text for text in expected if text not in message] == [], message


def test_a_typed_stack_wins_where_it_is_the_same(tmp_path: Path) -> None:
    """Its summary stays, and there is only one stack."""
    typed = STACK.replace('"old"', '"snapshot-2025-03-31"') + 'summary = "mine"\n'
    loaded = load(tmp_path, typed + SNAPSHOTS + 'requirements = ["torch==2.6.0", "trl"]\n')
    assert (5, "mine") == (len(loaded.stacks), loaded.stack("snapshot-2025-03-31").summary)


def test_a_typed_stack_that_is_another_is_reported(tmp_path: Path) -> None:
    """Results are found by the name, so two stacks must not share it."""
    message = complaint(tmp_path, STACK.replace('"old"', '"snapshot-2025-03-31"') + SNAPSHOTS)
    assert "a second stack 'snapshot-2025-03-31' in [generate.snapshots]" in message
    assert "a [[stacks]] table gives another stack of that name; set a prefix" in message


def test_two_rules_may_not_give_unlike_stacks_of_one_name(tmp_path: Path) -> None:
    """A prefix keeps them apart."""
    table = SNAPSHOTS.replace("[generate.snapshots]", "[[generate.snapshots]]")
    assert "number 1 gives another stack" in complaint(
        tmp_path, table + table + 'python = "3.12"\n'
    )
    assert 10 == len(load(tmp_path, table + table + 'python = "3.12"\nprefix = "py312"\n').stacks)


def test_rules_that_overlap_give_a_stack_once(tmp_path: Path) -> None:
    """The last month of a quarter ends with the quarter."""
    table = SNAPSHOTS.replace("[generate.snapshots]", "[[generate.snapshots]]")
    assert 13 == len(load(tmp_path, table + table.replace("quarter", "month")).stacks)


def test_a_rule_of_the_future_leaves_no_stack_and_that_is_none(tmp_path: Path) -> None:
    """It gives a stack when its first period is over."""
    assert () == load(tmp_path, SNAPSHOTS.replace("2024-12-31", "2026-01-31")).stacks


def test_without_a_stack_and_a_rule_there_is_no_matrix(tmp_path: Path) -> None:
    """Nothing could run."""
    assert "names no stack" in complaint(tmp_path, RUN)


def test_all_that_stacks_follow_from_is_asked(tmp_path: Path) -> None:
    """A changed rule, base or requirement of the base gives another question."""
    changes = ["", 'which = "all"\n', 'from = "1"\n', "from = 2025-01-01\n"]
    asked = [load(tmp_path, STACK + RELEASES + change).rules[0].asked() for change in changes]
    asked.append(load(tmp_path, STACK.replace("2.6.0", "2.6.1") + RELEASES).rules[0].asked())
    asked.append(load(tmp_path, STACK.replace("3.11", "3.12") + RELEASES).rules[0].asked())
    assert [1] * len(asked) == [asked.count(each) for each in asked]
    with pytest.raises(UserError):
        load(tmp_path, RELEASES)
