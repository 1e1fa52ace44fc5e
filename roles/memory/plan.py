"""What a model will take of each device and of the RAM, as llama.cpp itself tells it before a weight is loaded."""

from __future__ import annotations

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


class Plan(Seen):
    """A split of the model, and what it takes. `digest` is of everything that it was made from: release, model,
    settings, cards. `offloaded` layers of `layers` are on a device, as llama.cpp counts them (its output layer too).
    `state`: MiB of all contexts that do not grow with -c, which is recurrent state and the KV cache of sliding windows:
    what llama-server copies into the RAM for each context checkpoint."""

    digest: str
    gpu_layers: int
    n_cpu_moe: int | None
    layers: int
    offloaded: int
    devices: tuple[Share, ...]
    host: Share
    state: int = 0
