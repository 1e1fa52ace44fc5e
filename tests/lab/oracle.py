"""What the tests of plans share: models with their headers, and a deployed host that is asked about them."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from roles import remote
from roles.memory import decide
from roles.memory.observe import MEMORY
from roles.memory.plan import Plan
from roles.model import gguf_header
from roles.observation import Observation
from roles.remote import Script
from roles.wishes import Anatomy, ModelPin, PinnedFile, Wishes
from tests.lab import models, twins
from tests.lab.common import run
from tests.lab.host import LabHost
from tests.unit import hosts

PLACE = "srv/oracle"
LONGEST = 32 << 20  # bytes of a header
PROGRAM = Path(__file__).with_name("oracle_program.py")


@dataclass(frozen=True)
class Model:
    """A file on this machine: with all its weights, or a twin."""

    path: Path

    @functools.cached_property
    def header(self) -> gguf_header.Header:
        with self.path.open("rb") as file:
            return gguf_header.parsed(file.read(LONGEST), self.path.stat().st_size)

    @functools.cached_property
    def first_bytes(self) -> bytes:
        with self.path.open("rb") as file:
            return file.read(self.header.length)

    @functools.cached_property
    def anatomy(self) -> Anatomy:
        return gguf_header.anatomy([self.header])

    def wishes(self, **settings: Any) -> Wishes:
        """An inventory that has the planner find what it leaves open."""
        data = {**hosts.HUB_DATA, "backend": "rpc", "rpc_servers": ["127.0.0.1:1"], "flash_attention": "on"}
        file = PinnedFile(self.path.name, self.path.stat().st_size, "d" * 64, "https://hub.test/")
        pin = ModelPin("owner/name", "c" * 40, "some", (file,), self.anatomy)
        return replace(hosts.wishes(data, **settings), model=pin)


@dataclass(frozen=True)
class Bench:
    """A deployed host that has a release, and files below /srv for the tests."""

    host: LabHost
    bin: str

    def put(self, path: Path) -> str:
        """The file there; one that is all holes stays so."""
        target = self.host.root / PLACE / path.name
        if not target.exists():
            run(["cp", "--sparse=always", str(path), str(target)], timeout=120)
        return f"/{PLACE}/{path.name}"

    def ask(self, load: bool, lists: Sequence[Sequence[str]], limit: int = 0) -> list[Any]:
        """What llama-fit-params predicts, or what llama-server takes once loaded, for each list of options."""
        questions = json.dumps([{"load": load, "words": words} for words in lists])
        (self.host.root / PLACE / "ask").write_text(
            remote.stdin(Script(PROGRAM.read_text("utf-8"), (questions, self.bin, str(limit)), python=True))
        )
        answers: list[Any] = json.loads(self.dev(f"python3 -ISB - < /{PLACE}/ask"))
        return answers

    def plans(self, model: Model, settings: Sequence[dict[str, Any]]) -> list[Plan | str]:
        """What the planner, as it is sent to a host, makes of the header with each; the sentence where it refuses."""
        told = self.planner([self.planning(model, each)[1] for each in settings], ask_on=False)
        return [Plan.model_validate_json(out) if out else err for out, err in told]

    def smaller(self, model: Model, settings: dict[str, Any], others: Sequence[Model]) -> str:
        """The sentence where nothing of the model fits, after the others were asked about in this order."""
        seen, first = self.planning(model, settings)
        [(out, err)] = self.planner([first])
        assert out, err
        pins = [(other.wishes().model, (other.first_bytes,)) for other in others]
        known = [(pin, header) for pin, header in pins if pin]
        decision = decide.asked_on(model.wishes(**settings), json.loads(out), known, "", None, seen)
        [(out, err)] = self.planner([decision.steps[0].script])
        assert not out, out
        return err

    def planning(self, model: Model, settings: dict[str, Any]) -> tuple[Observation, Script]:
        """A host without the model, and the question that it is asked."""
        wishes = model.wishes(**settings)
        seen = hosts.converged(wishes, model={**hosts.ABSENT, "sidecar": None}).replace(MEMORY, plans={})
        [step] = decide.planned(wishes, (model.first_bytes,), None, seen).steps
        return seen, step.script

    def planner(self, scripts: Sequence[Script], **changes: Any) -> list[list[str]]:
        """What the planner prints and what it says in error, for each; `changes` are of what it is told."""
        folder, changes = self.host.root / PLACE, {"bin": self.bin, "folder": "/tmp/oracle/plans", **changes}
        for number, script in enumerate(scripts):
            told = json.dumps(json.loads(script.args[0]) | changes)
            (folder / f"{number}.job").write_text(remote.stdin(replace(script, args=(told,))))
        self.dev(
            f"for n in $(seq 0 {len(scripts) - 1}); do"
            f" python3 -ISB - < /{PLACE}/$n.job > /{PLACE}/$n.out 2> /{PLACE}/$n.err || true; done"
        )
        return [[(folder / f"{number}.{end}").read_text() for end in ("out", "err")] for number in range(len(scripts))]

    def dev(self, script: str) -> str:
        return self.host.sh(script, user="dev", timeout=600).stdout


def all_models(folder: Path) -> dict[str, Model]:
    """Two with weights, and a twin of each further kind."""
    kinds = {"recurrent": twins.recurrent, "sliding": twins.sliding_window, "mla": twins.compressed, "big": twins.big}
    made = {name: Model(make().write(folder / f"{name}.gguf")) for name, make in kinds.items()}
    return {"moe": Model(models.cached_tiny_moe()), "gemma": Model(models.cached_gemma()), **made}
