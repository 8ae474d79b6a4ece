"""A scenario's literals are read without importing it."""

from __future__ import annotations

import ast
import textwrap
from pathlib import Path

import pytest

from gradmatrix.core.errors import UserError
from gradmatrix.core.model import Relation, Role, Scenario
from gradmatrix.judge.causes import Cause
from gradmatrix.run import scenarios
from tests.factories import make_lock, make_variant

FOLDER = Path(__file__).parent.parent.parent / "scenarios"

# The names are a contract, because results are found by them. The roles are c (control),
# r (reported), m (remedy) and i (misuse).
CONTRACT = {
    "t5_classifier": """
        c torch_adamw
        r hf_adafactor hf_adamw
        m set_grad_enabled enable_grad_forward closure_enable_grad manual_optimization
        c bf16_mixed printed_torch_adamw
        r without_head printed anomaly_mode
        i detached no_grad_t5 no_grad_forward
    """,
    "qwen2_rmsnorm": """
        c cast_alone full full_reentrant full_non_reentrant
        r frozen_embeddings_reentrant lora_reentrant lora_default
        m lora_non_reentrant lora_input_grads no_checkpointing requires_grad_after_cast autocast
        m cuda_autocast
        c full_printed input_grads_printed
        r lora_printed
    """,
    "amp_manual_optimization": """
        c full_precision iterative
        r reported automatic torch_only mixed_parameter inference_mode
        m autocast_off fresh_autocast cache_disabled clear_cache
    """,
    "frozen_parameters": """
        c healthy
        i all_frozen all_frozen_checkpointing lr_zero other_parameters rewrapped_loss
        r frozen_embeddings_reentrant lora_reentrant dpo_lora_reentrant half_weights
        m float32_weights input_grads
        r dpo_logged lora_checked lora_hooked frozen_embeddings_hooked
        i all_frozen_checked
    """,
    "grpo_lora": """
        c full
        r reported reentrant non_reentrant peft_config bfloat16 batch_16 loss_checked
        m input_grads no_checkpointing
        i constant_reward constant_reward_checked
    """,
    "llama_factory": """
        c lora_non_reentrant lora_without_marks lora_without_hook
        r lora freeze full dpo lora_printed
        m lora_no_checkpointing freeze_no_checkpointing full_no_checkpointing dpo_no_checkpointing
        i lora_without_both freeze_without_marks
    """,
    "tied_embeddings": """
        c untied_save_embed untied_save_head untied_save_both merge_save_both_untied
        r tied_save_embed tied_save_both tied_lora_head tied_tokens_list tied_tokens_different
        r tied_save_both_ensure tied_lora_both_ensure untied_save_embed_ensure
        r merge_save_embed merge_save_both merge_lora_head merge_lora_both_ensure
        m tied_save_both_by_hand merge_save_both_config merge_lora_both_cloned
    """,
    "left_padding": """
        c sdpa_right llama_right_eager llama_right_sdpa
        r sdpa_bool sdpa_one_layer sdpa_all_smallest multihead
        r llama_left_sdpa llama_left_all_sdpa llama_empty_sdpa
        m sdpa_smallest sdpa_unmasked sdpa_nan_to_num multihead_no_weights llama_left_eager
    """,
}
ROLES = {"c": Role.CONTROL, "r": Role.REPORTED, "m": Role.REMEDY, "i": Role.MISUSE}

SCRIPT = '''
"""Sums of two.

More about it.
"""

import a_library_that_nobody_has

NEEDS = ("torch>=2.0", "trl")

VARIANTS = {
    "plain": {"role": "control", "summary": "as it is"},
    "even": {"role": "remedy", "summary": "as it could be", "cures": ("frozen", "zero")},
    "odd": {"role": "misuse", "summary": "as it should not be", "needs": ("torch",)},
}

AGREE = [("plain", "even")]

raise SystemExit("imported")
'''
PAIR = '("plain", "even")'


def with_options(**options: object) -> str:
    """The pair of the script with a third part."""
    return f'("plain", "even", {options!r})'


def load(folder: Path, text: str) -> Scenario:
    """The scenario of a script with this text."""
    path = folder / "sums.py"
    path.write_text(textwrap.dedent(text).lstrip(), encoding="utf-8")
    return scenarios.load(path)


def complaint(folder: Path, text: str) -> str:
    """The error that a user reads about a script with this text."""
    with pytest.raises(UserError) as raised:
        load(folder, text)
    return str(raised.value)


def test_a_script_is_read_and_not_run(tmp_path: Path) -> None:
    """Its imports and statements are not executed."""
    scenario = load(tmp_path, SCRIPT)
    assert ("sums", "Sums of two", (Relation(first="plain", second="even"),)) == (
        scenario.name,
        scenario.title,
        scenario.agree,
    )


def test_variants_keep_their_order_and_take_the_scripts_needs(tmp_path: Path) -> None:
    """A variant may have its own requirements instead."""
    found = [(v.name, v.role, v.summary, v.needs) for v in load(tmp_path, SCRIPT).variants]
    assert [
        ("plain", Role.CONTROL, "as it is", ("torch>=2.0", "trl")),
        ("even", Role.REMEDY, "as it could be", ("torch>=2.0", "trl")),
        ("odd", Role.MISUSE, "as it should not be", ("torch",)),
    ] == found


def test_a_variant_may_say_what_it_cures(tmp_path: Path) -> None:
    """It names causes of a missing gradient. Most variants have none."""
    found = {variant.name: variant.cures for variant in load(tmp_path, SCRIPT).variants}
    assert {"plain": (), "even": ("frozen", "zero"), "odd": ()} == found


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, Relation(first="plain", second="even", rtol=1e-3, only=None)),
        ({"rtol": 0.02}, Relation(first="plain", second="even", rtol=0.02)),
        ({"rtol": 0}, Relation(first="plain", second="even", rtol=0.0)),
        (
            {"only": "first loss", "rtol": 0.5},
            Relation(first="plain", second="even", rtol=0.5, only="first loss"),
        ),
    ],
    ids=str,
)
def test_a_relation_may_state_its_tolerance_and_what_it_is_about(
    tmp_path: Path, options: dict[str, object], expected: Relation
) -> None:
    """A third part has both. By default losses and gradient norms must agree within 0.1 %."""
    scenario = load(
        tmp_path, SCRIPT.replace('("plain", "even")]', f'("plain", "even", {options!r})]')
    )
    assert (expected,) == scenario.agree


def test_the_digest_is_of_what_the_code_does(tmp_path: Path) -> None:
    """Prose, variants and relations may change. Another operator gives another digest."""
    digest = load(tmp_path, SCRIPT).source_digest
    assert (
        digest
        == load(tmp_path, "# said before\n" + SCRIPT.replace("as it is", "as it was")).source_digest
    )
    assert digest != load(tmp_path, SCRIPT + "\nrate = 1 + 1\n").source_digest


def test_only_variants_must_be_there(tmp_path: Path) -> None:
    """Without a docstring the name is the title. Requirements and relations are optional."""
    scenario = load(tmp_path, 'VARIANTS: dict = {"plain": {"role": "control", "summary": "x"}}')
    assert ("sums", (), ()) == (scenario.title, scenario.variants[0].needs, scenario.agree)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("VARIANTS =", "VARIATIONS =", "sums.py has no VARIANTS dictionary."),
        ("VARIANTS = {", "VARIANTS = {}\nOTHERS = {", "sums.py has no VARIANTS dictionary."),
        (
            "VARIANTS = {",
            "VARIANTS = dict(a=1)\nOTHERS = {",
            "sums.py VARIANTS is not a literal: it is read without",
        ),
        (
            "VARIANTS = {",
            "VARIANTS = {[]: 1}\nOTHERS = {",
            "sums.py VARIANTS is not a literal: it is read without",
        ),
        ('("torch>=2.0", "trl")', "tuple(x)", "sums.py NEEDS is not a literal"),
        (
            '("torch>=2.0", "trl")',
            '"torch"',
            "sums.py needs 'torch', which is not a tuple of requirements.",
        ),
        ('("torch>=2.0", "trl")', '("torch=>2",)', "sums.py has an unreadable requirement: "),
        ('("torch>=2.0", "trl")', "(2,)", "sums.py has an unreadable requirement: "),
        ('("torch",)', '("torch",,)', "is not valid Python: invalid syntax in line 13."),
        ('"role": "control", ', "", 'sums.py variant \'plain\' needs "role" and "summary".'),
        (
            '{"role": "control", "summary": "as it is"}',
            '"control"',
            "sums.py variant 'plain' needs \"role\"",
        ),
        ('"plain": {', "1: {", 'sums.py variant 1 needs "role" and "summary".'),
        (
            '"misuse"',
            '"abuse"',
            (
                "sums.py variant 'odd' has the unknown role 'abuse' "
                "(one of control, reported, remedy, misuse)."
            ),
        ),
        ('"misuse"', "[]", "sums.py variant 'odd' has the unknown role []"),
        (
            '("frozen", "zero")',
            '"frozen"',
            "sums.py variant 'even' cures 'frozen', which is not a tuple of causes.",
        ),
        (
            '("frozen", "zero")',
            "(1,)",
            "sums.py variant 'even' cures (1,), which is not a tuple of causes.",
        ),
        (
            '"cures": (',
            '"mends": "odd", "cures": (',
            "sums.py variant 'even' mends 'odd', which is not a tuple of variants.",
        ),
        (
            '"cures": (',
            '"mends": ("od",), "cures": (',
            "sums.py variant 'even' mends the unknown 'od', perhaps you meant 'odd'.",
        ),
        (
            PAIR,
            '("plain", "uneven")',
            "sums.py has ('plain', 'uneven') in AGREE, which is not a pair of its variants.",
        ),
        (
            PAIR,
            '(["plain"], "even")',
            "sums.py has (['plain'], 'even') in AGREE, which is not a pair of its variants.",
        ),
        (
            f"[{PAIR}]",
            '"plain"',
            "sums.py has 'plain' in AGREE, which is not a pair of its variants.",
        ),
        (
            PAIR,
            '("plain",)',
            "sums.py has ('plain',) in AGREE, which is not a pair of its variants.",
        ),
        (
            PAIR,
            '("plain", "plain")',
            "sums.py has ('plain', 'plain') in AGREE, which is not a pair of its variants.",
        ),
        (PAIR, '("plain", "even", {}, {})', "in AGREE, which is not a pair of its variants."),
        (
            PAIR,
            '("plain", "odd")',
            "sums.py has ('plain', 'odd') in AGREE, and 'odd' is a misuse: it cannot train.",
        ),
        (PAIR, f'{PAIR}, ("even", "plain")', "sums.py has 'even' and 'plain' in AGREE twice."),
        (
            PAIR,
            '("plain", "even", 0.1)',
            'sums.py has 0.1 in AGREE, which is not a dictionary such as {"rtol": 0.02}.',
        ),
        (
            PAIR,
            with_options(rtoll=1),
            "has the unknown key 'rtoll' in AGREE, perhaps you meant 'rtol'.",
        ),
        (
            PAIR,
            with_options(first="odd"),
            "has the unknown key 'first' in AGREE, known are: rtol, only.",
        ),
        (
            PAIR,
            with_options(rtol=2),
            "has the rtol 2 in AGREE, which is not a number from 0 to below 1.",
        ),
        (
            PAIR,
            with_options(rtol=-0.1),
            "has the rtol -0.1 in AGREE, which is not a number from 0 to below 1.",
        ),
        (
            PAIR,
            with_options(rtol=True),
            "has the rtol True in AGREE, which is not a number from 0 to below 1.",
        ),
        (
            PAIR,
            with_options(rtol="1e-3"),
            "has the rtol '1e-3' in AGREE, which is not a number from 0 to below 1.",
        ),
        (
            PAIR,
            with_options(only="loss"),
            "has only 'loss' in AGREE, where 'first loss' or 'losses' is allowed.",
        ),
    ],
)
def test_what_is_wrong_is_reported_with_the_file(
    tmp_path: Path, old: str, new: str, expected: str
) -> None:
    """The error says what is wrong, why it matters, and where to look."""
    message = complaint(tmp_path, SCRIPT.replace(old, new, 1))
    assert expected in message
    assert ["  why:  a scenario", "  next: "] == [
        line[:length] for line, length in zip(message.splitlines()[1:], (18, 8), strict=True)
    ]


def test_a_folder_is_read_without_its_private_files(tmp_path: Path) -> None:
    """Scenarios are sorted by name."""
    for name in ("b", "a", "_shared"):
        (tmp_path / f"{name}.py").write_text(SCRIPT, encoding="utf-8")
    assert ["a", "b"] == list(scenarios.load_all(tmp_path))


@pytest.mark.parametrize(
    ("needs", "expected"),
    [
        ((), None),
        (("torch>=2.0", "Trl"), None),
        (("torch>=2.7",), "needs torch>=2.7, this stack has 2.6.0"),
        (("peft",), "needs peft, which this stack does not have"),
        (("trl>=0.14",), None),
        (("trl>=0.15",), "needs trl>=0.15, this stack has 0.15.0rc1"),
        (("torch", "peft", "trl<0.1"), "needs peft, which this stack does not have"),
    ],
)
def test_the_first_need_that_is_not_met_is_reported(
    needs: tuple[str, ...], expected: str | None
) -> None:
    """Names are compared as the package index does. A pre-release counts as what it is."""
    lock = make_lock(versions={"torch": "2.6.0", "trl": "0.15.0rc1"})
    assert expected == scenarios.unmet(make_variant(needs=needs), lock)


@pytest.mark.parametrize("name", CONTRACT)
def test_a_scenario_of_ours_has_the_variants_and_roles_of_its_contract(name: str) -> None:
    """It may have more variants."""
    found = {
        variant.name: variant.role for variant in scenarios.load(FOLDER / f"{name}.py").variants
    }
    lines = (line.split() for line in CONTRACT[name].split("\n") if line.strip())
    expected = {variant: ROLES[role] for role, *variants in lines for variant in variants}
    assert expected == {variant: role for variant, role in found.items() if variant in expected}


def test_the_scenarios_under_contract_are_all_there() -> None:
    """Results are found by their names. There may be more scenarios."""
    assert set(CONTRACT) <= set(scenarios.load_all(FOLDER))


@pytest.mark.parametrize("name", CONTRACT)
def test_a_scenario_of_ours_imports_nothing_of_this_project(name: str) -> None:
    """It is a page that a user could have written."""
    tree = ast.parse((FOLDER / f"{name}.py").read_bytes())
    imports = [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "." for node in imports if isinstance(node, ast.ImportFrom)}
    assert set() == {found.partition(".")[0] for found in names} & {
        "harness",
        "gradmatrix",
        "inside",
        "tests",
        ".",
    }
    assert "torch" in {found.partition(".")[0] for found in names}


@pytest.mark.parametrize("name", CONTRACT)
def test_a_scenario_of_ours_runs_by_itself(name: str) -> None:
    """It has a train(variant, device, steps) and reads its variant from the command line."""
    tree = ast.parse((FOLDER / f"{name}.py").read_bytes(), feature_version=(3, 9))
    train = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "train"
    ]
    assert [["variant", "device", "steps"]] == [
        [argument.arg for argument in node.args.args] for node in train
    ]
    assert "__main__" in ast.dump(tree.body[-1])


@pytest.mark.parametrize("name", CONTRACT)
def test_a_scenario_of_ours_cures_known_causes(name: str) -> None:
    """They are the causes of a diagnosis, which looks for remedies here."""
    cures = {
        cause
        for variant in scenarios.load(FOLDER / f"{name}.py").variants
        for cause in variant.cures
    }
    assert set() == cures - set(Cause)


@pytest.mark.parametrize("name", sorted(CONTRACT.keys() - {"tied_embeddings", "left_padding"}))
def test_a_remedy_of_ours_says_what_it_cures(name: str) -> None:
    """Remedies against wrong weights and used memory need not: no gradient is missing there.

    What helps attention is no advice for each module with an output of NaN.
    """
    remedies = [v for v in scenarios.load(FOLDER / f"{name}.py").variants if v.role is Role.REMEDY]
    others = {"two_updates_clear_cache", "iterative_cached"}
    assert set() == {variant.name for variant in remedies if not variant.cures} - others


RELATIONS = {
    "checkpointing on and off": ("qwen2_rmsnorm", "full", "full_reentrant"),
    "reentrant and not": ("qwen2_rmsnorm", "full", "full_non_reentrant"),
    "manual and automatic optimisation": ("t5_classifier", "torch_adamw", "torch_adamw_manual"),
    "accumulation by Lightning": ("t5_classifier", "accumulated_4x2", "accumulated_2x4"),
    "accumulation by the Trainer": ("frozen_parameters", "uneven_4x2", "uneven_2x4"),
    "a fresh LoRA and its base model": ("qwen2_rmsnorm", "full", "no_checkpointing"),
    "remedies": ("qwen2_rmsnorm", "no_checkpointing", "lora_input_grads"),
}


@pytest.mark.parametrize("what", RELATIONS)
def test_what_must_agree_is_declared(what: str) -> None:
    """The relations that every stack is judged by."""
    name, *pair = RELATIONS[what]
    assert pair in [
        [relation.first, relation.second]
        for relation in scenarios.load(FOLDER / f"{name}.py").agree
    ]
