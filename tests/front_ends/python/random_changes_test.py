"""Random changes of model and optimizer in mid-run: each row is torch's own number, and no row is missing."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("stepwatch", reason="the Python package is not installed")

from jobs import rows, write_config

import stepwatch
import torch

STEPS, LAYERS, WIDTH = 24, 4, 5
KINDS = ("grad_unreduced", "grad_reduced")


class Training:
    """A training that is changed at random."""

    def __init__(self, dice: random.Random, tmp_path: Path) -> None:
        self.dice = dice
        torch.manual_seed(dice.randrange(1 << 30))
        layers = [layer for _ in range(LAYERS) for layer in (torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh())]
        self.model = torch.nn.Sequential(*layers)
        self.optimizer = self.new_optimizer()
        config = write_config(tmp_path / "config.json", wg_distribution=True, param_distribution=True)
        self.monitor = stepwatch.watch(self.model, self.optimizer, config, dynamic=False, output_dir=tmp_path)

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
        place = 2 * self.dice.randrange(LAYERS)
        old, new = self.model[place], torch.nn.Linear(WIDTH, WIDTH)
        self.model[place] = new
        self.exchange(dict(zip(old.parameters(), new.parameters())))

    def replace_parameter(self) -> None:
        layer = self.layer()
        old = layer.weight
        layer.weight = torch.nn.Parameter(old.detach() * 0.9)
        self.exchange({old: layer.weight})

    def exchange(self, new_of: dict[Any, Any]) -> None:
        for group in self.optimizer.param_groups:
            group["params"] = [new_of.get(each, each) for each in group["params"]]
        for old in new_of:
            self.optimizer.state.pop(old, None)

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

        weight = self.layer().weight
        if weight.requires_grad:
            weight.register_post_accumulate_grad_hook(hook)

    def changes(self) -> list[Callable[[], None]]:
        return [
            self.freeze,
            self.unfreeze,
            self.replace_module,
            self.replace_parameter,
            self.another_optimizer,
            self.swap_in_place,
            self.add_hook,
        ]

    def step(self) -> dict[str, float]:
        """Train one step, and return torch's norms of the gradients."""
        self.optimizer.zero_grad()
        loss = self.model(torch.randn(3, WIDTH)).pow(2).mean()
        if loss.requires_grad:
            loss.backward()
        named = self.model.named_parameters()
        norms = {name: float(each.grad.double().norm()) for name, each in named if each.grad is not None}
        self.optimizer.step()
        return norms


@pytest.mark.parametrize("number", [*range(4), *(pytest.param(each, marks=pytest.mark.long) for each in range(4, 40))])
def test_rows_are_torch_s_numbers_of_the_model_as_it_is(tmp_path: Path, number: int) -> None:
    dice = random.Random(f"{os.environ['STEPWATCH_SEED']} {number}")
    training = Training(dice, tmp_path)
    expected, told, settled = [], [], 0
    for _ in range(STEPS):
        change = dice.choice(training.changes()) if dice.random() < 0.3 else None
        if change is not None:
            change()
        told.append(change.__name__ if change else "")
        expected.append(training.step())
    training.monitor.close()
    for step in range(STEPS):
        for kind in KINDS:
            found = rows(tmp_path, kind, step)
            table = {row["name"]: float(row["norm"]) for row in found}
            assert len(table) == len(found), (step, told)
            wanted = expected[step]
            if told[step]:  # seen when the step ends: until then a row may be missing, and none may be wrong
                wanted = {name: norm for name, norm in wanted.items() if name in table}
            else:
                settled += 1
            assert table == pytest.approx(wanted, rel=1e-5), (kind, step, told)
    assert settled > 10
