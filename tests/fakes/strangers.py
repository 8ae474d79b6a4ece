"""Scripts of someone else, which train in ways that no cell does: one function for each.

Nothing says which of their parameters should learn. `python tests/fakes/strangers.py FOLDER NAME…`
traces each of them in a process of its own and leaves its observation in FOLDER/NAME.
"""

# ruff: noqa: ANN401, D102, D103, FBT003, N812, PLW2901  (scripts as people write them)
# mypy: disallow-subclassing-any=False, disallow-untyped-decorators=False

from __future__ import annotations

import copy
import itertools
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import nn

from gradmatrix.observe import trace

if TYPE_CHECKING:
    from collections.abc import Callable

OUTCOMES: dict[str, str] = {}
"""What ``trace`` must say about each script."""
SCRIPTS: dict[str, Callable[[], None]] = {}


def says(outcome: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """List a script, with its outcome."""

    def keep(script: Callable[[], None]) -> Callable[[], None]:
        SCRIPTS[script.__name__], OUTCOMES[script.__name__] = script, outcome
        return script

    return keep


healthy, unseen = says("trains"), says("update:unseen")

STEPS = 8


def listed(
    where: dict[str, Callable[[], None]],
) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """List a script in ``where`` by its name."""

    def keep(script: Callable[[], None]) -> Callable[[], None]:
        where[script.__name__] = script
        return script

    return keep


def layers(*sizes: int) -> nn.Sequential:
    pairs = [(nn.Linear(a, b), nn.Tanh()) for a, b in itertools.pairwise(sizes)]
    return nn.Sequential(*itertools.chain.from_iterable(pairs))[:-1]


def batch(*shape: int) -> torch.Tensor:
    return torch.randn(*(shape or (16, 4)))


def error(output: torch.Tensor) -> torch.Tensor:
    return (output - 1).square().mean()


def train(
    loss: Callable[[], torch.Tensor], *optimizers: torch.optim.Optimizer, steps: int = STEPS
) -> None:
    for _ in range(steps):
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss().backward()
        for optimizer in optimizers:
            optimizer.step()


def sgd(*modules: nn.Module, lr: float = 0.1) -> torch.optim.Optimizer:
    return torch.optim.SGD([p for module in modules for p in module.parameters()], lr=lr)


# Kinds of tensors.


@healthy
def double_precision() -> None:
    model = layers(4, 8, 1).double()
    train(lambda: error(model(batch().double())), sgd(model))


@healthy
def huge_loss_in_double_precision() -> None:
    model = layers(4, 8, 1).double()
    train(lambda: error(model(batch().double())) * 1e200, sgd(model, lr=1e-202))


@healthy
def tiny_gradient_in_double_precision() -> None:
    model = layers(4, 8, 1).double()
    train(lambda: error(model(batch().double())) * 1e-60, sgd(model, lr=1e59))


@healthy
def complex_weight() -> None:
    weight = nn.Parameter(torch.randn(4, 4, dtype=torch.complex128))
    train(lambda: error((batch().cdouble() @ weight).abs()), torch.optim.Adam([weight], lr=0.01))


@healthy
def sparse_embedding() -> None:
    table = nn.Embedding(100, 8, sparse=True)
    ids = torch.arange(10)
    train(lambda: error(table(ids)), torch.optim.SparseAdam(list(table.parameters())))


@healthy
def half_precision() -> None:
    model = layers(4, 8, 1).bfloat16()
    train(lambda: error(model(batch().bfloat16())), sgd(model))


class Tagged(torch.Tensor):
    """A tensor of a class of its own."""


@healthy
def subclassed_parameter() -> None:
    weight = nn.Parameter(torch.randn(4, 4).as_subclass(Tagged))
    train(lambda: error(batch() @ weight).as_subclass(torch.Tensor), torch.optim.SGD([weight], 0.1))


@healthy
def meta_parameter_beside() -> None:
    model, shadow = layers(4, 8, 1), nn.Linear(4, 4, device="meta")
    train(lambda: error(model(batch())), sgd(model, shadow))


class Opaque(torch.Tensor):
    """A tensor that nobody may look into outside of the model."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__ in {"vector_norm", "equal", "norm"}:
            raise NotImplementedError(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


@healthy
def opaque_parameter_beside() -> None:
    model = layers(4, 8, 1)
    model.register_parameter("scale", nn.Parameter(torch.ones(1).as_subclass(Opaque)))
    train(lambda: error(model(batch()) * model.scale.as_subclass(torch.Tensor)), sgd(model))


# Updates by hand.


@healthy
def added_to_data() -> None:
    model = layers(4, 8, 1)
    for _ in range(STEPS):
        model.zero_grad()
        error(model(batch())).backward()
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.data.add_(parameter.grad, alpha=-0.1)


@healthy
def subtracted_without_graph() -> None:
    weight, bias = torch.randn(4, 1, requires_grad=True), torch.zeros(1, requires_grad=True)
    for _ in range(STEPS):
        error(batch() @ weight + bias).backward()
        with torch.no_grad():
            for leaf in (weight, bias):
                leaf -= 0.1 * leaf.grad
                leaf.grad.zero_()


@healthy
def copied_back() -> None:
    model = layers(4, 8, 1)
    for _ in range(STEPS):
        gradients = torch.autograd.grad(error(model(batch())), list(model.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter.copy_(parameter - 0.1 * gradient)


@healthy
def new_tensors() -> None:
    weights = [torch.randn(4, 8, requires_grad=True), torch.randn(8, 1, requires_grad=True)]
    for _ in range(STEPS):
        loss = error(torch.tanh(batch() @ weights[0]) @ weights[1])
        gradients = torch.autograd.grad(loss, weights)
        weights = [
            (w - 0.1 * g).detach().requires_grad_() for w, g in zip(weights, gradients, strict=True)
        ]


@healthy
def functional_call() -> None:
    model = layers(4, 8, 1)
    state = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def loss(state: dict[str, torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
        return error(torch.func.functional_call(model, state, (inputs,)))

    for _ in range(STEPS):
        gradients = torch.func.grad(loss)(state, batch())
        state = {name: value - 0.1 * gradients[name] for name, value in state.items()}


@healthy
def ensemble() -> None:
    models = [layers(4, 8, 1) for _ in range(3)]
    state, _ = torch.func.stack_module_state(models)
    state = {name: value.detach() for name, value in state.items()}
    base = copy.deepcopy(models[0]).to("meta")

    def loss(state: dict[str, torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
        return error(torch.func.functional_call(base, state, (inputs,)))

    step = torch.func.vmap(torch.func.grad(loss), in_dims=(0, None))
    for _ in range(STEPS):
        gradients = step(state, batch())
        state = {name: value - 0.1 * gradients[name] for name, value in state.items()}


@healthy
def inner_loop() -> None:
    model = layers(4, 8, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def outer() -> torch.Tensor:
        fast = dict(model.named_parameters())
        for _ in range(2):
            loss = error(torch.func.functional_call(model, fast, (batch(),)))
            gradients = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
            fast = {n: p - 0.1 * g for (n, p), g in zip(fast.items(), gradients, strict=True)}
        return error(torch.func.functional_call(model, fast, (batch(),)))

    train(outer, optimizer)


@healthy
def first_order_inner_loop() -> None:
    """Reptile: a copy learns by hand, and the model moves towards it."""
    model = layers(4, 8, 1)
    for _ in range(STEPS):
        learner = copy.deepcopy(model)
        for _ in range(2):
            gradients = torch.autograd.grad(error(learner(batch())), list(learner.parameters()))
            with torch.no_grad():
                for parameter, gradient in zip(learner.parameters(), gradients, strict=True):
                    parameter -= 0.1 * gradient
        with torch.no_grad():
            for slow, fast in zip(model.parameters(), learner.parameters(), strict=True):
                slow += 0.5 * (fast - slow)


class Descent:
    """An optimizer of its own class."""

    def __init__(self, parameters: list[torch.Tensor], lr: float) -> None:
        self.parameters, self.lr = parameters, lr

    def zero_grad(self) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.sub_(self.lr * parameter.grad)


@healthy
def own_optimizer() -> None:
    model = layers(4, 8, 1)
    train(lambda: error(model(batch())), Descent(list(model.parameters()), 0.1))


@healthy
def own_optimizer_and_an_unused_layer() -> None:
    model = layers(4, 8, 1)
    model.spare = nn.Linear(4, 4)
    train(lambda: error(model[:3](batch())), Descent(list(model.parameters()), 0.1))


@healthy
def flat_vector_of_scipy() -> None:
    """As scipy's minimize does it: values go in, gradients come out."""
    model = layers(4, 8, 1).double()
    inputs = batch().double()
    vector = nn.utils.parameters_to_vector(model.parameters()).detach().numpy()
    for _ in range(STEPS):
        nn.utils.vector_to_parameters(torch.from_numpy(vector), model.parameters())
        model.zero_grad()
        error(model(inputs)).backward()
        gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        vector = vector - 0.1 * gradient.numpy()


@healthy
def lbfgs() -> None:
    model, inputs = layers(4, 8, 1), batch()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = error(model(inputs))
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)


@healthy
def input_image() -> None:
    model = layers(4, 8, 1).requires_grad_(False)
    image = torch.zeros(1, 4, requires_grad=True)
    train(lambda: error(model(image)), torch.optim.Adam([image], lr=0.1))


@healthy
def adversarial_image() -> None:
    model, image = layers(4, 8, 1), torch.zeros(1, 4)
    for _ in range(STEPS):
        image.requires_grad_()
        [gradient] = torch.autograd.grad(error(model(image)), [image])
        image = (image - 0.1 * gradient.sign()).detach()


@healthy
def langevin_sampler() -> None:
    """Langevin dynamics: a new leaf in each iteration."""
    position = torch.zeros(4)
    for _ in range(STEPS):
        position = position.detach().requires_grad_()
        position.square().sum().sub(position.sum()).backward()
        assert position.grad is not None
        position = position - 0.1 * position.grad + 0.1 * torch.randn(4)


@healthy
def optimizer_that_never_steps() -> None:
    """It only carries the learning rate; the update is by hand."""
    model = layers(4, 8, 1)
    optimizer = sgd(model)
    for _ in range(4 * STEPS):
        optimizer.zero_grad()
        error(model(batch())).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= optimizer.param_groups[0]["lr"] * parameter.grad


@healthy
def hand_update_beside_an_optimizer() -> None:
    model = nn.ModuleDict({"body": layers(4, 8), "head": nn.Linear(8, 1)})
    optimizer = sgd(model["body"])
    for _ in range(STEPS):
        model.zero_grad()
        error(model["head"](model["body"](batch()))).backward()
        optimizer.step()
        with torch.no_grad():
            for parameter in model["head"].parameters():
                parameter -= 0.1 * parameter.grad


@unseen
def evolution_strategy() -> None:
    weight = torch.zeros(4, 1)
    inputs = batch()
    for _ in range(STEPS):
        noise = torch.randn(20, 4, 1)
        score = -(inputs @ (weight + 0.1 * noise) - 1).square().mean(dim=(1, 2))
        weight = weight + 0.1 * (score.view(-1, 1, 1) * noise).mean(0)


@unseen
def evolution_of_a_module() -> None:
    model, inputs = layers(4, 8, 1), batch()
    with torch.no_grad():
        best = error(model(inputs))
        for _ in range(STEPS):
            trial = copy.deepcopy(model)
            for parameter in trial.parameters():
                parameter.data.add_(torch.randn_like(parameter), alpha=0.1)
            if error(trial(inputs)) < best:
                model, best = trial, error(trial(inputs))


@healthy
def search_in_a_module() -> None:
    """Each candidate is put into the module, which runs without gradients."""
    model, inputs = layers(4, 8, 1), batch()
    vector = nn.utils.parameters_to_vector(model.parameters()).detach()
    with torch.no_grad():
        for _ in range(STEPS):
            noise = torch.randn(4, len(vector))
            scores = []
            for each in noise:
                nn.utils.vector_to_parameters(vector + 0.1 * each, model.parameters())
                scores.append(-error(model(inputs)))
            vector = vector + 0.1 * (torch.stack(scores).softmax(0)[:, None] * noise).sum(0)


@unseen
def slopes_only() -> None:
    """Nothing is trained, and nobody said that it should be."""
    model = layers(4, 8, 1)
    inputs = batch().requires_grad_()
    [slope] = torch.autograd.grad(model(inputs).sum(), inputs)
    torch.func.jacrev(lambda each: model(each).sum())(slope)


# True and harmless.


@healthy
def wasserstein_with_penalty() -> None:
    critic, generator = layers(2, 16, 1), layers(4, 16, 2)
    first = torch.optim.Adam(critic.parameters(), lr=1e-3)
    second = torch.optim.Adam(generator.parameters(), lr=1e-3)
    for round_ in range(4 * STEPS):
        real, fake = batch(16, 2), generator(batch()).detach()
        mixed = (real + fake).div(2).requires_grad_()
        [slope] = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        penalty = (slope.norm(dim=1) - 1).square().mean()
        first.zero_grad()
        (critic(fake).mean() - critic(real).mean() + 10 * penalty).backward()
        first.step()
        if round_ % 5 == 4:
            second.zero_grad()
            (-critic(generator(batch())).mean()).backward()
            second.step()


class Encoder(nn.Module):
    """A backbone with a classifier, and access to what is before it."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.fc = layers(4, 8, 8), nn.Linear(8, 5)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        self.features = self.body(inputs)
        return self.fc(self.features)


class Bootstrap(nn.Module):
    """BYOL: the features are taken by a hook, the classifier runs for nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.online = Encoder()
        self.predictor = layers(8, 8, 8)
        self.target = copy.deepcopy(self.online)

    def forward(self, one: torch.Tensor, two: torch.Tensor) -> torch.Tensor:
        self.online(one)
        guess = self.predictor(self.online.features)
        with torch.no_grad():
            self.target(two)
        return -F.cosine_similarity(guess, self.target.features.detach()).mean()

    @torch.no_grad()
    def follow(self) -> None:
        pairs = zip(self.target.parameters(), self.online.parameters(), strict=True)
        for slow, fast in pairs:
            slow.mul_(0.9).add_(fast, alpha=0.1)


@healthy
def bootstrap_your_own_latent() -> None:
    model = Bootstrap()
    optimizer = sgd(model)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(batch(), batch()).backward()
        optimizer.step()
        model.follow()


@healthy
def unused_head_in_this_phase() -> None:
    model = nn.ModuleDict({"body": layers(4, 8), "one": nn.Linear(8, 1), "two": nn.Linear(8, 3)})
    train(lambda: error(model["one"](model["body"](batch()))), sgd(model))


@healthy
def one_of_several_square_heads() -> None:
    heads = nn.ModuleDict({name: nn.Linear(8, 8) for name in ("one", "two", "three")})
    body = layers(4, 8)

    def loss() -> torch.Tensor:
        hidden = body(batch())
        outputs = [head(hidden) for head in heads.values()]
        return error(outputs[0]) + error(outputs[2])

    train(loss, sgd(heads, body))


@healthy
def recurrence_without_inputs() -> None:
    model, head = nn.LSTM(3, 8, batch_first=True), nn.Linear(4, 8)

    def loss() -> torch.Tensor:
        state = head(batch(2, 4))[None]
        return error(model(torch.zeros(2, 5, 3), (state, state))[0])

    train(loss, sgd(model, head))


@says("gradient:partial")
def inputs_that_are_all_zeros() -> None:
    model = layers(4, 8, 1)
    train(lambda: error(model(torch.zeros(16, 4))), sgd(model))


@healthy
def pooler_beside_the_tokens() -> None:
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.layer = nn.Embedding(10, 8), nn.Linear(8, 8)
            self.pooler = nn.Sequential(nn.Linear(8, 8), nn.Tanh())

        def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            hidden = self.layer(self.embedding(ids))
            return hidden, self.pooler(hidden[:, 0])

    model, head = Tokens(), nn.Linear(8, 1)
    ids = torch.arange(10).view(2, 5)
    train(lambda: error(head(model(ids)[0].mean(1))), sgd(model, head))


class Experts(nn.Module):
    """Each input goes to one expert; the last ones get none."""

    def __init__(self, *, always: bool) -> None:
        super().__init__()
        self.always = always
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(4))
        self.head = nn.Linear(4, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        chosen = torch.arange(len(inputs)) % 2
        out = torch.zeros_like(inputs)
        for number, expert in enumerate(self.experts):
            rows = (chosen == number).nonzero().squeeze(1)
            if self.always or len(rows):
                out = out.index_add(0, rows, expert(inputs[rows]))
        return self.head(out)


@healthy
def experts_that_do_not_run() -> None:
    model = Experts(always=False)
    train(lambda: error(model(batch())), sgd(model))


@healthy
def experts_with_an_empty_input() -> None:
    model = Experts(always=True)
    train(lambda: error(model(batch())), sgd(model))


@healthy
def value_learning_with_a_target() -> None:
    """DQN: one module has both networks, the optimizer holds all, the target is copied."""
    agent = nn.ModuleDict({"online": layers(4, 8, 2), "target": layers(4, 8, 2)})
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-3)
    for round_ in range(4 * STEPS):
        with torch.no_grad():
            goal = 1 + 0.9 * agent["target"](batch()).max(1).values
        optimizer.zero_grad()
        (agent["online"](batch()).max(1).values - goal).square().mean().backward()
        optimizer.step()
        if round_ % 2:
            agent["target"].load_state_dict(agent["online"].state_dict())


@healthy
def target_held_by_nobody() -> None:
    agent = nn.ModuleDict({"online": layers(4, 8, 2), "target": layers(4, 8, 2)})
    optimizer = torch.optim.Adam(agent["online"].parameters(), lr=1e-3)

    def loss() -> torch.Tensor:
        with torch.no_grad():
            goal = 1 + 0.9 * agent["target"](batch()).max(1).values
        return (agent["online"](batch()).max(1).values - goal).square().mean()

    train(loss, optimizer)


@healthy
def critic_in_turn() -> None:
    """The generator's optimizer steps for the first time long after the critic's."""
    generator, critic = layers(4, 8, 2), layers(2, 8, 1)
    first, second = sgd(critic), sgd(generator)
    for round_ in range(40):
        optimizer = second if round_ % 20 == 19 else first
        first.zero_grad()
        second.zero_grad()
        error(critic(generator(batch()))).backward()
        optimizer.step()


@healthy
def frozen_teacher() -> None:
    teacher, student = layers(4, 8, 2).requires_grad_(False), layers(4, 4, 2)
    both = nn.ModuleList([teacher, student])

    def loss() -> torch.Tensor:
        inputs = batch()
        return F.mse_loss(both[1](inputs), both[0](inputs))

    train(loss, sgd(both))


@healthy
def teacher_that_is_not_frozen() -> None:
    both = nn.ModuleList([layers(4, 8, 2), layers(4, 4, 2)])

    def loss() -> torch.Tensor:
        inputs = batch()
        return F.mse_loss(both[1](inputs), both[0](inputs).detach())

    train(loss, sgd(both[1]))


@healthy
def attention() -> None:
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    train(lambda: error(model(batch(2, 5, 8))), sgd(model))


@healthy
def sharpness_aware() -> None:
    """SAM: an optimizer whose own step is never called."""

    class Sharp(torch.optim.Optimizer):
        def __init__(self, parameters: object, lr: float) -> None:
            super().__init__(parameters, {"lr": lr})
            self.inner = torch.optim.SGD(self.param_groups, lr=lr)

        @torch.no_grad()
        def climb(self) -> None:
            for parameter in self.param_groups[0]["params"]:
                self.state[parameter]["old"] = parameter.clone()
                parameter.add_(0.05 * parameter.grad)
            self.zero_grad()

        @torch.no_grad()
        def descend(self) -> None:
            for parameter in self.param_groups[0]["params"]:
                parameter.copy_(self.state[parameter]["old"])
            self.inner.step()
            self.zero_grad()

    model = layers(4, 8, 1)
    optimizer = Sharp(model.parameters(), 0.1)
    for _ in range(STEPS):
        error(model(batch())).backward()
        optimizer.climb()
        error(model(batch())).backward()
        optimizer.descend()


# Mistakes, each of which one of the rules for harmless facts could hide.


@says("update:none")
def update_by_hand_forgotten() -> None:
    model = layers(4, 8, 1)
    for _ in range(STEPS):
        model.zero_grad()
        error(model(batch())).backward()


@says("update:none")
def update_by_hand_times_zero() -> None:
    model, rate = layers(4, 8, 1), 0.0
    for _ in range(STEPS):
        model.zero_grad()
        error(model(batch())).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= rate * parameter.grad


@says("gradient:partial")
def detached_and_updated_by_hand() -> None:
    model = layers(4, 8, 8, 1)
    for _ in range(STEPS):
        model.zero_grad()
        hidden = model[:2](batch()).detach()
        error(model[2:](hidden)).backward()
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.data.add_(parameter.grad, alpha=-0.1)


@says("update:partial")
def one_layer_forgotten_by_hand() -> None:
    model = layers(4, 8, 8, 1)
    for _ in range(STEPS):
        model.zero_grad()
        error(model(batch())).backward()
        for parameter in model[2:].parameters():
            assert parameter.grad is not None
            parameter.data.add_(parameter.grad, alpha=-0.1)


@says("gradient:zero")
def zero_times_by_hand() -> None:
    weight = torch.randn(4, 1, requires_grad=True)
    for _ in range(STEPS):
        loss = 0 * error(batch() @ weight)
        loss.backward()
        with torch.no_grad():
            weight -= 0.1 * weight.grad


@says("update:none")
def functional_state_forgotten() -> None:
    model = layers(4, 8, 1)
    state = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def loss(state: dict[str, torch.Tensor], inputs: torch.Tensor) -> torch.Tensor:
        return error(torch.func.functional_call(model, state, (inputs,)))

    for _ in range(STEPS):
        torch.func.grad(loss)(state, batch())


@says("gradient:partial")
def block_whose_output_is_forgotten() -> None:
    class Chain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks, self.head = nn.ModuleList(layers(8, 8) for _ in range(3)), nn.Linear(8, 1)

        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            for number, block in enumerate(self.blocks):
                out = block(hidden)
                if number != 1:
                    hidden = out
            return self.head(hidden)

    model = Chain()
    train(lambda: error(model(batch(16, 8))), sgd(model))


@says("gradient:partial")
def body_without_gradients() -> None:
    model = nn.ModuleDict({"body": layers(4, 8), "head": nn.Linear(8, 1)})

    def loss() -> torch.Tensor:
        with torch.no_grad():
            hidden = model["body"](batch())
        return error(model["head"](hidden))

    train(loss, sgd(model))


@says("gradient:partial")
def body_detached() -> None:
    model = nn.ModuleDict({"body": layers(4, 8), "head": nn.Linear(8, 1)})
    train(lambda: error(model["head"](model["body"](batch()).detach())), sgd(model))


@says("gradient:partial")
def part_of_the_loss_made_anew() -> None:
    model = nn.ModuleDict({"body": layers(4, 8), "one": nn.Linear(8, 1), "two": nn.Linear(8, 1)})

    def loss() -> torch.Tensor:
        hidden = model["body"](batch())
        second = torch.tensor(error(model["two"](hidden)).item(), requires_grad=True)
        return error(model["one"](hidden)) + second

    train(loss, sgd(model))


@says("gradient:partial")
def bias_silenced_by_a_hook() -> None:
    model = layers(4, 8, 1)
    model[0].bias.register_hook(torch.zeros_like)
    train(lambda: error(model(batch())), sgd(model))


@says("gradient:partial")
def dead_layer() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    nn.init.constant_(model[0].bias, -100.0)
    train(lambda: error(model(batch())), sgd(model))


@says("update:partial")
def head_replaced_after_the_optimizer() -> None:
    model = nn.ModuleDict({"body": layers(4, 8), "head": nn.Linear(8, 1)})
    old, optimizer = model["head"], sgd(model)
    model["head"] = nn.Linear(8, 1)
    train(lambda: error(model["head"](model["body"](batch()))), optimizer)
    del old


@says("update:none")
def optimizer_over_a_copy() -> None:
    model = layers(4, 8, 1)
    twin = copy.deepcopy(model)
    train(lambda: error(model(batch())), sgd(twin))


@says("update:partial")
def learning_rate_of_a_group_is_zero() -> None:
    model = layers(4, 8, 1)
    groups = [{"params": model[0].parameters(), "lr": 0.0}, {"params": model[2].parameters()}]
    train(lambda: error(model(batch())), torch.optim.SGD(groups, lr=0.1))


@says("update:none")
def optimizer_never_steps() -> None:
    model = layers(4, 8, 1)
    optimizer = sgd(model)
    for _ in range(4 * STEPS):
        optimizer.zero_grad()
        error(model(batch())).backward()


@says("update:none")
def backward_is_not_called() -> None:
    model = layers(4, 8, 1)
    sgd(model)
    for _ in range(STEPS):
        error(model(batch()))


@says("gradient:none")
def steps_without_backward() -> None:
    model = layers(4, 8, 1)
    optimizer = sgd(model)
    for _ in range(STEPS):
        error(model(batch()))
        optimizer.step()


@says("gradient:nonfinite")
def nonfinite_by_hand() -> None:
    weight = torch.zeros(4, requires_grad=True)
    for _ in range(STEPS):
        weight.grad = None
        (weight.sum().sqrt() * 0 + weight.sum()).backward()
        with torch.no_grad():
            weight -= 0.1 * torch.nan_to_num(weight.grad)
            weight.zero_()


def traced(folder: Path, script: Callable[[], None]) -> None:
    """Trace ``script`` in this process, which then ends."""
    folder.mkdir()
    request = {"schema": 1, "audit": 4, "stop_after": None}
    (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
    trace.begin(str(folder))
    torch.manual_seed(0)
    script()
    os._exit(0)


if __name__ == "__main__":
    for name in sys.argv[2:]:
        child = os.fork()
        if not child:
            traced(Path(sys.argv[1]) / name, SCRIPTS[name])
        os.waitpid(child, 0)
