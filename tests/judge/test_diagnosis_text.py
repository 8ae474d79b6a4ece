"""The text of a diagnosis: the five reported cases word for word, and a few lines for any other."""

from __future__ import annotations

import typing
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from gradmatrix.core.model import Role
from gradmatrix.core.observation import Observation, Parameter, Raised, Severed
from gradmatrix.judge.causes import Cause, explain, remedy_on_its_stack
from gradmatrix.judge.diagnosis import diagnose, false_alarms
from tests.factories import (
    NO_GRAPH,
    make_cell,
    make_checkpoint,
    make_frame,
    make_lost,
    make_observation,
    make_parameter,
    make_record,
    make_scenario,
    make_stopped,
    make_switch,
    make_variant,
    make_warned,
)

if typing.TYPE_CHECKING:
    from gradmatrix.judge.wording import Diagnosis

GOLDEN = Path(__file__).parent.parent / "golden" / "diagnoses.txt"
ALARM = "None of the inputs have requires_grad=True. Gradients will be None"


def found(seen: Observation) -> Diagnosis:
    """The diagnosis, which must exist."""
    diagnosis = diagnose(seen)
    assert diagnosis is not None
    return diagnosis


STEP = make_frame(638, "transformers/optimization.py", "step")
PRECISION = make_frame(
    114, "lightning/pytorch/plugins/precision/precision_plugin.py", "optimizer_step"
)
LORA = make_checkpoint("model.embed_tokens", modules=29)
ADAPTER = "model.layers.0.self_attn.q_proj.lora_A.default"
IN_LAYER = {"module": ADAPTER, "within": "model.layers.0", "within_type": "Qwen2DecoderLayer"}
REPORTED = {
    "t5_classifier": make_stopped(
        lost=(
            make_lost(
                "t5.shared",
                type="Embedding",
                modules=78,
                entered=False,
                only=True,
                switch=make_switch(PRECISION, decorated=STEP),
            ),
        )
    ),
    "qwen2_rmsnorm": make_stopped(lost=(msgspec.structs.replace(LORA, **IN_LAYER),)),
    "amp_manual_optimization": make_stopped(
        lost=(
            make_lost(
                "network.layers.0",
                type="Linear",
                entered=False,
                switch=make_switch(make_frame(168)),
            ),
            make_lost(
                "network.layers.0",
                type="Linear",
                grad_enabled=True,
                cached=True,
                autocast="cpu:bfloat16",
                switch=make_switch(make_frame(168, function="observe")),
            ),
        )
    ),
    "frozen_parameters": make_observation(
        lost=(
            msgspec.structs.replace(
                LORA, **{**IN_LAYER, "module": "model.layers.0.input_layernorm"}
            ),
        ),
        parameters=(
            *(
                make_parameter("nnnn", name=f"model.layers.{n}.weight", changed=False)
                for n in range(2)
            ),
            make_parameter(name="lm_head.weight"),
        ),
    ),
    "grpo_lora": make_stopped(
        lost=(
            make_lost(
                ADAPTER, entered=False, modules=240, switch=make_switch(decorated=make_frame(1878))
            ),
            msgspec.structs.replace(LORA, **IN_LAYER),
        ),
        warnings=(make_warned(ALARM),),
    ),
}
CURES = {
    "t5_classifier": Cause.CLOSURE,
    "qwen2_rmsnorm": Cause.CHECKPOINT_INPUTS,
    "amp_manual_optimization": Cause.AUTOCAST_CACHE,
    "frozen_parameters": Cause.CHECKPOINT_INPUTS,
    "grpo_lora": Cause.CHECKPOINT_INPUTS,
}


def test_the_five_reported_cases_read_as_they_should() -> None:
    """It has two to six lines. The last one says what to do and names a cell that trains."""
    scenarios = {
        name: make_scenario(name, make_variant("remedy", Role.REMEDY, cures=(cause,)))
        for name, cause in CURES.items()
    }
    records = [make_record(cell=make_cell(scenario=name, variant="remedy")) for name in CURES]
    parts = []
    for name, seen in REPORTED.items():
        diagnosis = found(seen)
        remedy = remedy_on_its_stack(
            diagnosis.cause, scenarios, records, make_cell(scenario=name, variant="reported")
        )
        lines = explain(diagnosis, remedy)
        assert 2 <= len(lines) <= 6
        parts.append("\n".join([name, *(f"  {line}" for line in lines)]))
    assert GOLDEN.read_text(encoding="utf-8") == "\n\n".join(parts) + "\n"


HOWS = (
    "detach",
    "item",
    "grad = None",
    "no_grad",
    "inference_mode",
    "unknown",
    "round",
    "clip_grad_norm_",
    "zeros_like",
)
MESSAGES = (
    NO_GRAPH.message,
    "",
    "Inference tensors cannot be saved",
    "loss is nan",
    "None of the outputs have a grad",
)
SPECIAL: dict[tuple[type, str], st.SearchStrategy[Any]] = {
    (Severed, "how"): st.sampled_from(HOWS),
    (Parameter, "gradients"): st.sampled_from(["", "nn", "zz", "ff", "xx", "zf", "nx"]),
    (Raised, "message"): st.sampled_from(["\n", "\nloss is nan\nsomewhere", *MESSAGES]),
}


def strategy(kind: Any) -> st.SearchStrategy[Any]:  # noqa: ANN401  (a type of any kind)
    """Values of a type as msgspec reads it from JSON."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        parts = {
            field.name: SPECIAL[kind, field.name]
            if (kind, field.name) in SPECIAL
            else strategy(field.type)
            for field in msgspec.structs.fields(kind)
        }
        return st.builds(kind, **parts)
    if origin is Literal:
        return st.sampled_from(inner)
    if origin in (typing.Union, UnionType):
        return st.one_of(*map(strategy, inner))
    if origin is tuple:
        return st.lists(strategy(inner[0]), max_size=2).map(tuple)
    if origin is dict:
        return st.just({})
    plain: dict[Any, st.SearchStrategy[Any]] = {
        NoneType: st.none(),
        str: st.sampled_from(["", "a", "a.b", "layers.1.weight", "nan", *MESSAGES]),
        float: st.floats(allow_nan=False, allow_infinity=False),
        int: st.integers(0, 5),
        bool: st.booleans(),
    }
    return plain[kind]


@given(strategy(Observation))
@settings(max_examples=300, deadline=None)
def test_any_observation_is_explained_in_a_few_lines(seen: Observation) -> None:
    """No observation is too odd: one to five lines, none empty, and at most one line of advice."""
    diagnosis = diagnose(seen)
    lines = diagnosis.text if diagnosis is not None else ("nothing",)
    assert 1 <= len(lines) <= 5
    assert all(line.strip() and "\n" not in line for line in lines)
    assert diagnosis is None or len(explain(diagnosis, None)) <= 6
    false_alarms(seen)
