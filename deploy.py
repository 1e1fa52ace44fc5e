"""Paddock: from a bare Linux machine to a dependable llama.cpp host.

    pyinfra INVENTORY deploy.py          see what would change, then press Enter
    pyinfra INVENTORY deploy.py --dry    see it only
    pyinfra INVENTORY deploy.py -y       do it

Every setting is a key in the inventory; group_data/all.py shows them all.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from roles import overview
from roles.benchmark.deploy import benchmark
from roles.browser.deploy import browser
from roles.llama_cpp.deploy import llama_cpp, old_releases
from roles.memory.deploy import memory, memory_of_the_file
from roles.model.deploy import model
from roles.packages.deploy import packages
from roles.service.deploy import lingering, service

wishes = overview.begin()  # all hosts' settings are checked here, before any command runs

if wishes:
    wanted = wishes.settings

    overview.checked(name="Check the host", wishes=wishes)
    if wanted.runs("packages"):
        packages(wanted=wanted.llama_cpp)
    if wanted.runs("browser"):
        browser(wanted=wanted.browser)
    if wanted.runs("service"):
        lingering(wishes=wishes)  # before the long jobs: they outlive a lost connection only where the user lingers
    if wanted.runs("llama_cpp"):
        llama_cpp(wishes=wishes)
    if wanted.runs("memory"):
        memory(wishes=wishes)  # before the weights come: what does not fit is not downloaded
    if wanted.runs("model"):
        model(wishes=wishes)
    if wanted.runs("memory"):
        memory_of_the_file(wishes=wishes)  # where the header could not be read ahead
    if wanted.runs("service"):
        service(wishes=wishes)
    if wanted.runs("llama_cpp"):
        old_releases(wishes=wishes)  # after the service, which may still have referred to one
    if wanted.runs("benchmark"):
        benchmark(wishes=wishes)
    if wanted.runs("model"):
        overview.collected(name="Remove models that nothing refers to", wishes=wishes)
    overview.ended(name="Remember and sum up", wishes=wishes)
