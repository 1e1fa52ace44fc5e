"""How long the service is away for an update that brings a release and a model: for one restart, and no longer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.lab.common import Lab
from tests.lab.deploying import deploy, target, write_inventory
from tests.lab.host import LabHost
from tests.lab.inventory import GEMMA
from tests.lab.prober import Prober
from tests.lab.test_main_job import as_dev, complete
from tests.lab.test_releases import patched, releases

pytestmark = pytest.mark.timeout(1500)

SWITCHED = "home/dev/.local/share/paddock/switch.json"


def test_nothing_is_away_while_a_release_is_built_and_a_model_downloaded_and_verified(
    life: LabHost, deploy_lab: Lab, life_folder: Path
) -> None:
    wanted = target("life", **GEMMA, **patched(life_folder, "outage"))
    before = set(releases(life))
    with Prober(life) as prober:
        run = deploy(deploy_lab, write_inventory(life_folder, [wanted]), "-y", seconds=900)
    assert run.code == 0, run.text
    assert len(set(releases(life)) - before) == 1
    assert f"download {GEMMA['model_file']}" in run.text
    loaded = json.loads((life.root / SWITCHED).read_text())["loaded"]
    print(f"update of release and model: away for {prober.outages} s; from restart to answer {loaded} s")
    assert len(prober.outages) == 1
    assert prober.outages[0] < loaded + 1.5
    back = deploy(deploy_lab, write_inventory(life_folder, [target("life")]), "-y", seconds=900)
    assert back.code == 0, back.text
    as_dev(life, "rm -r ~/.local/share/paddock/models/paddock--gemma-270m")  # other tests find no more than theirs
    assert complete(life)["tokens_predicted"] == 8
