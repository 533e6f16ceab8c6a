"""Rows of communication operators in a job of two ranks."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from jobs import rows, value, write_config
from rank_programs import run_ranks

JOB = """
from stepwatch import TrainerMon

os.environ.update(MONITOR_OUTPUT_DIR=".", DYNAMIC_MONITOR="false")
model = mlp()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
monitor = TrainerMon("config.json")
monitor.set_monitor(model, optimizer)
before = dist.all_reduce
try:
    for step in range(3):
        model(torch.ones(5, 4)).pow(2).mean().backward()
        for scale in (1.0, 2.0):
            tensor = torch.full((4,), scale * (rank + 1))
            work = dist.all_reduce(tensor, async_op=scale == 2.0)
            if work is not None:
                assert work.wait() is True
            assert tensor[0] == 3 * scale
        gathered = [torch.zeros(2), torch.zeros(2)]
        dist.all_gather(gathered, torch.full((2,), float(rank)))
        if rank == 0:
            dist.send(torch.ones(3), 1)
        else:
            dist.recv(torch.zeros(3), 0)
        optimizer.step()
        optimizer.zero_grad()
except Exception as error:
    print("raised:", type(error), error, flush=True)
monitor.close()
print("closed", dist.all_reduce is not before, flush=True)
"""


def run(folder: Path) -> list[str]:
    printed = run_ranks(folder, JOB)
    assert all("closed True" in lines for lines in printed), printed
    return printed


def of_rank(folder: Path, rank: int, step: int) -> list[dict[str, str]]:
    directory = folder / f"only{rank}"
    directory.mkdir(exist_ok=True)
    for found in folder.glob(f"*-rank{rank}-*"):
        if not (directory / found.name).exists():
            (directory / found.name).symlink_to(found)
    return rows(directory, "other", step)


def test_calls_of_one_operator_in_a_step_are_one_row_for_each_tensor(tmp_path: Path) -> None:
    write_config(tmp_path / "config.json", cc_distribution={"enable": True, "cc_pre_hook": True})
    run(tmp_path)
    for rank in range(2):
        table = of_rank(tmp_path, rank, 1)
        names = [row["name"] for row in table]
        expected = {
            "all_reduce.pre_0",
            "all_reduce.post_0",
            *(f"all_gather.{side}_{i}" for side in ("pre", "post") for i in range(3)),
        }
        expected |= {f"{'recv' if rank else 'send'}.{side}_0" for side in ("pre", "post")}
        assert set(names) == expected and len(names) == len(expected)
        assert {row["vpp_stage"] for row in table} == {"0"}
        mine = rank + 1.0
        assert value(table, "all_reduce.pre_0", "min") == mine and value(table, "all_reduce.pre_0", "max") == 2 * mine
        assert value(table, "all_reduce.pre_0", "mean") == 1.5 * mine
        assert value(table, "all_reduce.post_0", "norm") == pytest.approx(math.sqrt(4 * 9 + 4 * 36))
        assert value(table, "all_gather.post_1", "mean") == 1
        (joined,) = [row for row in table if row["name"] == "all_reduce.post_0"]
        assert (joined["shape"], joined["dtype"]) == ("[4]", "torch.float32")


def test_only_outputs_are_measured_without_the_pre_hook(tmp_path: Path) -> None:
    write_config(tmp_path / "config.json", cc_distribution={"enable": True, "cc_codeline": ["no such line", "line_of"]})
    run(tmp_path)
    assert not of_rank(tmp_path, 0, 1)
    other = tmp_path / "again"
    other.mkdir()
    write_config(other / "config.json", cc_distribution={"enable": True})
    run(other)
    assert {row["name"].split(".")[1].split("_")[0] for row in of_rank(other, 1, 0)} == {"post"}


def test_only_logging_prints_the_stacks_once_and_ends_every_rank(tmp_path: Path) -> None:
    write_config(tmp_path / "config.json", cc_distribution={"enable": True, "cc_log_only": True}, wg_distribution=True)
    printed = run(tmp_path)
    assert all("raised:" in lines and "exit after first step when print cc stack" in lines for lines in printed)
    stacks = [line[line.index("{") :] for line in printed[0].splitlines() if '{"' in line]
    assert len(stacks) == 1 and "{" not in printed[1].replace("{}", "")
    found = json.loads(stacks[0])
    assert set(found) == {"all_reduce", "all_gather", "send"}
    assert any("<string>" in frame or "<module>" in frame for frame in found["send"][0])
    assert found["all_reduce"][0][-1] == "dtype torch.float32; group of 2 ranks: 0, 1"
