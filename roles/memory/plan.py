"""What a model will take of each device and of the RAM, as llama.cpp itself tells it before a weight is loaded."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from roles.observation import Seen


class Share(Seen):
    """What one device holds; MiB. `device` is llama.cpp's name (CUDA0, RPC0, Host)."""

    device: str
    model: int
    context: int
    compute: int

    @property
    def total(self) -> int:
        return self.model + self.context + self.compute


class Budget(Seen):
    """What a device has, what is kept free of it, and the `room` that model, context and compute have; MiB."""

    device: str
    name: str
    total: int
    reserve: int
    margin: int
    overhead: int
    limit: int | None
    room: int


class Split(Seen):
    """Where the layers go, in llama.cpp's own options; None for one that is left out. `tensor_split`: the proportions
    of several devices. `to_come`: which of these nobody knows before the plan is made."""

    gpu_layers: int
    n_cpu_moe: int | None = None
    n_cpu_ffn: int | None = None
    tensor_split: tuple[int, ...] = ()
    to_come: tuple[str, ...] = ()


class Tried(Split):
    """A split that llama.cpp was asked about; `lacking` MiB on the tightest device, 0 and less where it fits."""

    devices: tuple[Share, ...]
    lacking: int


class Plan(Split):
    """A split of the model, and what it takes. `inputs` is everything that it was made from (release, model, settings,
    cards), and `digest` theirs. `offloaded` layers of `layers` are on a device, as llama.cpp counts them (its output
    layer too).

    `made`: it is no prediction of a dry run. `checked`: llama.cpp was asked; otherwise there are no figures. `problem`:
    why it does not fit, empty where it does; `nothing_fits`: nor does any other split of this model. `moe_layers` have
    experts, and those of `moe_layers_on_cpu` are not on a device. `tried` is in order, the split with most on the
    devices first; `calls` counts the questions. `state`: MiB of all contexts that do not grow with -c, which is
    recurrent state and the KV cache of sliding windows: what llama-server copies into the RAM for each context
    checkpoint. `repacked`: MiB of weights that the CPU copies into an order of its own, beside those of `host`.
    """

    digest: str
    inputs: dict[str, Any] = Field(default_factory=dict)
    release: str = ""
    backend: str = ""
    made: bool = True
    checked: bool = True
    problem: str = ""
    nothing_fits: bool = False
    layers: int
    offloaded: int
    moe_layers: int = 0
    moe_layers_on_cpu: int = 0
    devices: tuple[Share, ...]
    host: Share
    state: int = 0
    repacked: int = 0
    budgets: tuple[Budget, ...] = ()
    tried: tuple[Tried, ...] = ()
    calls: int = 0

    @property
    def better(self) -> Tried | None:
        """The next split with more on the devices; None where there is none, or none was asked about."""
        return self._beside(-1)

    @property
    def worse(self) -> Tried | None:
        """The next split with less on the devices."""
        return self._beside(1)

    def _beside(self, step: int) -> Tried | None:
        splits = [(one.gpu_layers, one.n_cpu_moe, one.n_cpu_ffn) for one in self.tried]
        own = (self.gpu_layers, self.n_cpu_moe, self.n_cpu_ffn)
        at = splits.index(own) + step if own in splits else -1
        return self.tried[at] if 0 <= at < len(self.tried) else None
