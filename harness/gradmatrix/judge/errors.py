"""What to do about the errors that torch raises when a script trains in a way that cannot work."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradmatrix.core.observation import Observation

NOT_FOR_BACKWARD = (
    "Leave torch.inference_mode() out where backward needs the tensor: use torch.no_grad() in its"
    " place if it needs no gradient, or clone() the tensor outside of inference mode."
)
ADVICE = {
    r"inference (?:tensors?|mode)": NOT_FOR_BACKWARD,
    r"derivative for (?:aten::)?floor_divide is not implemented": (
        "Use / in place of //, such as loss / steps. `//` rounds down, so it has no gradient."
    ),
    r"derivative for \S+ is not implemented": (
        "Use an operation that has a derivative; or detach() its input, if what is computed from it"
        " is a constant for the loss."
    ),
    r"(?:not support|compatible with) sparse gradients": (
        "Leave sparse=True out. Or give these parameters to torch.optim.SparseAdam (SGD and Adagrad"
        " take them too), and all others to an optimizer of their own: SparseAdam takes sparse"
        " gradients only."
    ),
    r"not support dense gradients": (
        "Give this optimizer only the parameters of layers with sparse=True, and all others to an"
        " optimizer of their own, such as Adam."
    ),
    r"returned an incorrect number of gradients": (
        "Return one value for each input of forward, in the same order: its gradient, or None if"
        " the input needs none."
    ),
    r"did not return a loss from the inputs": (
        "Give the model its labels: call their column as forward calls the argument, mostly"
        " `labels`. Trainer leaves out the columns that forward has no argument for. Or compute the"
        " loss yourself: compute_loss_func, or a compute_loss of your own."
    ),
    r"num_samples should be a positive integer value, but got num_samples=0": (
        "The dataset is empty. Print its length where it is made, after every filter, split and"
        " preparation: a max_length that cuts all answers off leaves nothing, too."
    ),
    r"differentiated Tensors? do(?:es)? not require grad": (
        "Make the inputs of torch.autograd.grad require a gradient before the forward pass:"
        " x.requires_grad_(True)."
    ),
    r"not have been used in the graph": (
        "Give torch.autograd.grad the tensor that the forward pass used: a copy or a slice of it is"
        " another tensor. With allow_unused=True the gradient is None."
    ),
    r"implicitly created only for scalar": (
        "Reduce the loss to one number before backward: loss.mean() or loss.sum()."
    ),
    r"can't optimize a non-leaf": (
        "Give the optimizer a leaf: x.detach().requires_grad_(True), or nn.Parameter(x), made after"
        " x was moved or computed."
    ),
    r"change requires_grad flags of leaf": (
        "Use x.detach() to stop the gradient at a tensor that was computed. To freeze a model, set"
        " requires_grad of its parameters before the forward pass."
    ),
    r"call numpy\(\) on Tensor that requires grad": (
        "Use x.detach().numpy() for what is only logged. What the loss needs must stay a tensor."
    ),
    r"floating[ -]point and complex dtype can require": (
        "Convert it to floating point first: x.float(). Whole numbers have no gradient."
    ),
    r"support the deepcopy protocol": (
        "Copy a computed tensor with x.detach().clone(). Before a module is copied, remove the"
        " outputs that it keeps as attributes."
    ),
    r"missing 1 required positional argument: 'closure'": (
        "Give step a closure: a function that clears the gradients, computes the loss, calls"
        " backward and returns the loss."
    ),
    r"Target modules? .*not found in the base model": (
        "Print the model and give target_modules the names of its linear layers, as they are"
        ' printed; or target_modules="all-linear". They have other names in each kind of model.'
    ),
    r"appear in more than one parameter group": "Give each parameter to one group only.",
    r"empty parameter list": (
        "Register modules and parameters as attributes of the model. A generator such as"
        " model.parameters() is used up after one pass: make a list of it."
    ),
    r"unscale_\(\) has already been called|unscale_\(\) is being called after step": (
        "Call scaler.step(optimizer) and then scaler.update() once in each step; unscale_ comes at"
        " most once before them."
    ),
    r"No inf checks were recorded": (
        "When scaler.step is called, something that the optimizer holds needs a gradient: call"
        " scaler.scale(loss).backward() before it and zero_grad after it, and give the optimizer"
        " the parameters that the loss uses."
    ),
    r"unscale FP16 gradients": (
        "Keep the weights in float32, such as model.float(), and compute under autocast: a"
        " GradScaler does not take gradients in float16."
    ),
    r"finished reduction in the prior iteration": (
        "Some parameters took no part in the loss: use their output in the loss, freeze them, or"
        " give DistributedDataParallel find_unused_parameters=True."
    ),
    r"mark a variable ready only once": (
        "Checkpoint with use_reentrant=False, or give DistributedDataParallel static_graph=True."
    ),
    r"target dtype to be Long|scalar type (?:Long|Byte) but|multi-target not|probabilities, got": (
        "For classes, give the loss one whole number for each row of scores: targets.long(), of"
        " shape [rows], and not one-hot rows. A target of floats is read as probabilities, and has"
        " the shape of the scores."
    ),
    r"be between 0 and 1$|Target size .* must be the same as|can't be cast to .* type Long": (
        "A binary cross-entropy compares scores and targets of one shape, and the targets are"
        " floats. With scores of any size use binary_cross_entropy_with_logits, and no sigmoid;"
        " binary_cross_entropy takes probabilities."
    ),
    r"Expected more than 1 value per channel when training": (
        "A batch normalisation cannot train on a single row: pass drop_last=True to the"
        " DataLoader, or use GroupNorm or LayerNorm."
    ),
    r"params argument given to the optimizer should be an iterable|can only optimize Tensors": (
        "Give the optimizer a flat list of tensors: model.parameters(), or [x] for one tensor."
    ),
    r"doesn't match the size of optimizer's group|different number of parameter groups": (
        "Build the optimizer from the same parameters, in the same groups, as the one that was"
        " saved: a layer that was added or frozen since changes them. Else begin with a new state."
    ),
    r"(?:same|two) devices?\b|different devices?\b": (
        "Move the model and its data to one device, the model before the optimizer is built."
    ),
    r"same dtype|expected scalar type|Input type .* and (?:weight|bias) type|Found dtype": (
        "Give the data and the parameters one dtype, such as x.float(); train in half precision"
        " under autocast."
    ),
    r"Target -?\d+ is out of bounds|index out of range in self|device-side assert": (
        "Check the largest index: labels go from 0 to classes - 1, and indices of an embedding stay"
        " below its size."
    ),
    r"'(?:float|int|NoneType|numpy\.\w+)' object has no attribute 'backward'": (
        "Call backward on the tensor of the loss itself: without .item(), and returned by the"
        " function that computes it."
    ),
}
"""What helps against an error, by a pattern of its message."""
WRONG_SHAPE = re.compile(
    r"returned an invalid gradient at index (\d+) - got \[([\d, ]*)\] but expected shape"
    r" compatible with \[([\d, ]*)\]"
)
ABOUT = {
    "function": "The backward of `{}` returned it",
    "operation": "`{}` is used",
    "sparse": "The gradients of `{}` are sparse, because of sparse=True",
    "idle": "`{}` got no gradient in the last step of DistributedDataParallel",
    "columns": "The data has columns that the model did not get: `{}`",
    "text": "An optimizer got the text `{}` where a number belongs",
    "limits": "No row of the data is left after its preparation, with `{}`",
    "inference": "Inference mode was entered by `{}`",
    "cleared": "The gradients of {} were cleared after backward and before the scaler's step",
    "elsewhere": "Backward did not reach the parameters that {} was given",
    "unasked": "Backward was not called, so what {} holds has no gradient",
}
"""What to say of the culprit of an error, by its kind."""
FOR_KIND = {
    "text": (
        "Make it a number where it is read: float(…). In a YAML file write 4.0e-3: YAML reads 4e-3,"
        " without a point, as a text."
    ),
    "cleared": "Call zero_grad after scaler.step, or before backward.",
    "elsewhere": (
        "Build the optimizer from the parameters that the loss uses: those of the model that runs."
    ),
    "unasked": "Call scaler.scale(loss).backward(), with the parentheses, before scaler.step.",
}
"""What helps against an error whose culprit is of this kind."""
NONE = re.compile(r"\bNoneType\b")
NO_LEAF = re.compile(r"\.grad attribute of a Tensor that is not a leaf")


def advise_on_shape(message: str) -> str:
    """What to do if a function of the script gave a gradient of a wrong shape; empty if not."""
    wrong = WRONG_SHAPE.search(message)
    if wrong is None:
        return ""
    index, got, expected = wrong.groups()
    if got.split(", ") == expected.split(", ")[::-1]:
        return (
            f"Return the transpose of gradient {index} (they are counted from 0): with .t(), or"
            " with the factors of the product exchanged."
        )
    return (
        "Return a gradient of the shape of each input of forward, in the same order; they are"
        " counted from 0."
    )


def advise_on_error(seen: Observation) -> str:
    """What to do about the exception that ended the script; empty if that is not known."""
    assert seen.raised is not None
    message = seen.raised.message
    if seen.culprit is not None and seen.culprit.kind in FOR_KIND:
        return FOR_KIND[seen.culprit.kind]
    known = next(
        (text for what, text in ADVICE.items() if re.search(what, message, re.IGNORECASE)), ""
    )
    known = known or advise_on_shape(message)
    if known or not NONE.search(message):
        return known
    if any(NO_LEAF.search(warned.message) for warned in seen.warnings):
        return (
            "Make the tensor a leaf again: x = x.detach().requires_grad_(True). Only leaves keep"
            " their gradient; x.retain_grad() keeps that of a computed tensor."
        )
    if ".grad" in "".join(seen.raised.traceback.splitlines()[-3:]):
        return (
            "Its .grad is None: backward did not reach this tensor, or was not called since its"
            " gradient was cleared. Check that it requires a gradient and that the loss uses it."
            " w = w - rate * w.grad makes a new tensor, which has none: write w -= rate * w.grad."
        )
    return ""
