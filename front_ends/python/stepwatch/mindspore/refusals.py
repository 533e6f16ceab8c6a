"""Programs that cannot be watched, and the words in which they are refused."""

from __future__ import annotations

from typing import Any

GRAPH_MODE = (
    "MindSpore is in GRAPH_MODE: hooks of cells, parameters and optimizers are compiled into the graph and call no "
    "monitor, so nothing is collected; call mindspore.set_context(mode=mindspore.PYNATIVE_MODE) before training; "
    "collection begins at the next step in that mode, and training goes on without rows until then"
)
NO_STEP = (
    "no update of the optimizer was seen, so no step has ended: pass set_monitor the optimizer that is called, or call "
    "Watch.end_step; a training step that mindspore.jit compiles as a whole calls no hook and is not watched"
)
INSTALL = (
    'stepwatch.mindspore needs MindSpore: pip install "mindspore>=2.10" "numpy<2" (the wheel of 2.10 is built for '
    "numpy 1); for PyTorch use stepwatch.TrainerMon"
)


def require_mindspore() -> Any:
    """Return the module `mindspore`.

    Raises
    ------
    ImportError
        It is not installed; the message names the package to install.
    """
    try:
        import mindspore
    except ImportError as error:
        raise ImportError(f"{INSTALL} ({error})") from error
    return mindspore


def is_graph_mode() -> bool:
    """Return whether MindSpore compiles cells as a whole."""
    import mindspore

    return bool(mindspore.get_context("mode") == mindspore.GRAPH_MODE)


def check_model(model: Any) -> None:
    """Refuse what is no cell of MindSpore.

    Raises
    ------
    TypeError
    """
    from mindspore import nn

    if _is_of_adapter(model):
        raise TypeError(
            f"model is a {_name_of(model)} of a torch-like layer on MindSpore (MSAdapter, mindtorch), which is not "
            "supported: its parameters and optimizers are not those of MindSpore; accepted: a mindspore.nn.Cell"
        )
    if not isinstance(model, nn.Cell):
        raise TypeError(
            f"model should be a mindspore.nn.Cell or a list of them, found {_name_of(model)}; for a torch.nn.Module "
            "use stepwatch.TrainerMon"
        )


def check_optimizer(optimizer: Any) -> None:
    """Refuse an optimizer whose updates have no hooks.

    Raises
    ------
    TypeError
    """
    from mindspore import nn

    if not isinstance(optimizer, nn.Cell) or not hasattr(optimizer, "parameters"):
        raise TypeError(
            f"optimizer should be a mindspore.nn.Optimizer, found {_name_of(optimizer)}; optimizers of torch-like "
            "layers on MindSpore (MSAdapter, mindtorch) are not supported"
        )


def _is_of_adapter(model: Any) -> bool:
    layers = ("msadapter", "mindtorch", "mindnlp")
    return any(kind.__module__.partition(".")[0] in layers for kind in type(model).__mro__)


def _name_of(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
