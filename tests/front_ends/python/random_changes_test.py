"""Random changes of model and optimizer in mid-run: each row is torch's own number, and no row is missing."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jobs import gradient_norms, norms, watched, weight_norms
from torch.nn.utils import parametrizations, parametrize, prune

import torch

STEPS, LAYERS, WIDTH = 24, 4, 5
KINDS = ("grad_unreduced", "grad_reduced", "param_origin")

Norms = dict[str, float]


class Training:
    """A training that is changed at random."""

    def __init__(self, dice: random.Random, tmp_path: Path) -> None:
        self.dice = dice
        torch.manual_seed(dice.randrange(1 << 30))
        layers = [layer for _ in range(LAYERS) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh())]
        self.model = torch.nn.Sequential(*layers)
        self.optimizer = self.new_optimizer()
        self.names: dict[Any, str] = {}
        self.monitor = watched(tmp_path, self.model, self.optimizer, wg_distribution=True, param_distribution=True)

    def new_optimizer(self) -> Any:
        kind = self.dice.choice([torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop])
        return kind(self.model.parameters(), lr=1e-3)

    def layer(self) -> Any:
        return self.model[2 * self.dice.randrange(LAYERS)]

    def freeze(self) -> None:
        self.layer().requires_grad_(False)

    def unfreeze(self) -> None:
        self.model.requires_grad_(True)

    def replace_module(self) -> None:
        self.model[2 * self.dice.randrange(LAYERS)] = torch.nn.Linear(WIDTH, WIDTH)
        self.adopt()

    def replace_parameter(self) -> None:
        layer = self.layer()
        name, old = self.dice.choice(list(layer.named_parameters(recurse=False)))
        new = torch.nn.Parameter(old.detach() * 0.9)
        setattr(layer, name, new)
        for group in self.optimizer.param_groups:
            group["params"] = [new if each is old else each for each in group["params"]]
        self.optimizer.state.pop(old, None)

    def put_under_another_name(self) -> None:
        modules = list(self.model._modules.items())
        place = self.dice.randrange(len(modules))
        name, module = modules[place]
        modules[place] = name[len("layer_") :] if name.startswith("layer_") else f"layer_{name}", module
        self.model._modules.clear()
        self.model._modules.update(modules)

    def parametrize(self) -> None:
        layer = self.layer()
        if parametrize.is_parametrized(layer):
            parametrize.remove_parametrizations(layer, "weight")
        elif not is_pruned(layer):
            self.dice.choice([parametrizations.weight_norm, parametrizations.orthogonal])(layer)
        self.adopt()

    def prune(self) -> None:
        layer = self.layer()
        if is_pruned(layer):
            prune.remove(layer, "weight")
        elif not parametrize.is_parametrized(layer):
            prune.random_unstructured(layer, "weight", amount=0.3)
        self.adopt()

    def load_by_assignment(self) -> None:
        state = {name: each * 0.9 for name, each in self.model.state_dict().items()}
        self.model.load_state_dict(state, assign=True)
        self.adopt()

    def clear_hooks(self) -> None:
        for module in self.model.modules():
            if not is_pruned(module):  # it lives by its hook
                module._forward_hooks.clear()
                module._forward_pre_hooks.clear()
        for parameter in self.model.parameters():
            parameter._backward_hooks = parameter._post_accumulate_grad_hooks = None

    def adopt(self) -> None:
        """Train the parameters that are new by the optimizer that there is, or by another one."""
        if self.dice.random() < 0.5:
            self.another_optimizer()
            return
        known = {id(each) for group in self.optimizer.param_groups for each in group["params"]}
        new = [each for each in self.model.parameters() if id(each) not in known]
        if new:
            self.optimizer.add_param_group({"params": new})

    def another_optimizer(self) -> None:
        self.optimizer = self.new_optimizer()
        self.monitor.attach(self.model, self.optimizer)

    def swap_in_place(self) -> None:
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            self.model.load_state_dict({name: each * 0.9 for name, each in self.model.state_dict().items()})
        finally:
            torch.__future__.set_swap_module_params_on_conversion(False)

    def add_hook(self) -> None:
        def hook(own: Any) -> None:
            own.grad.mul_(1.0)

        parameter = self.dice.choice(list(self.layer().parameters()))
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(hook)

    def changes(self) -> list[Callable[[], None]]:
        return [
            self.freeze,
            self.unfreeze,
            self.replace_module,
            self.replace_parameter,
            self.another_optimizer,
            self.swap_in_place,
            self.add_hook,
            self.put_under_another_name,
            self.parametrize,
            self.prune,
            self.load_by_assignment,
            self.clear_hooks,
        ]

    def step(self) -> Step:
        """Train one step, and return torch's norms of it."""
        former = self.names
        self.optimizer.zero_grad()
        loss = self.model(torch.randn(3, WIDTH)).pow(2).mean()
        if loss.requires_grad:
            loss.backward()
        named = dict(self.model.named_parameters())
        step = Step(
            gradient_norms(self.model),
            weight_norms(self.model),
            {name for name, each in named.items() if each.requires_grad},
            {former[each]: name for name, each in named.items() if each in former and former[each] not in named},
        )
        self.optimizer.step()
        self.names = {each: name for name, each in named.items()}
        return step


def is_pruned(module: Any) -> bool:
    return "weight_orig" in module._parameters


@dataclass
class Step:
    """Torch's norms, what is trained, and the names of the step before that are names of other parameters now."""

    gradients: Norms
    weights: Norms
    trained: set[str]
    name_of_former: dict[str, str]

    def check(self, kind: str, table: Norms, is_settled: bool) -> None:
        """Compare the rows of a kind. What has changed is seen when the step ends: until then a row may be missing, or
        stand under its former name, and none may be wrong."""
        norms = self.weights if kind == "param_origin" else self.gradients
        if not is_settled:
            table = {self.name_of_former.get(name, name): value for name, value in table.items()}
        assert table == pytest.approx({name: norms.get(name) for name in table}, rel=1e-5)
        if is_settled:  # a weight that is frozen may keep its rows
            wanted = self.trained if kind == "param_origin" else norms.keys()
            assert wanted <= table.keys()


@pytest.mark.parametrize("number", [*range(4), *(pytest.param(each, marks=pytest.mark.long) for each in range(4, 40))])
def test_rows_are_torch_s_numbers_of_the_model_as_it_is(tmp_path: Path, number: int) -> None:
    dice = random.Random(f"{os.environ['STEPWATCH_SEED']} {number}")
    training = Training(dice, tmp_path)
    expected, changes = [], []
    for step in range(STEPS):
        change = dice.choice(training.changes()) if step > 0 and dice.random() < 0.3 else None
        if change is not None:
            change()
        changes.append(change.__name__ if change else "")
        expected.append(training.step())
    training.monitor.close()
    for step in range(STEPS):
        for kind in KINDS:
            expected[step].check(kind, norms(tmp_path, kind, step), is_settled=not changes[step])
    assert changes.count("") > 5
