"""The browser role: VRAM back from the browsers' local AI models.

pyinfra INVENTORY roles.browser.deploy.alone      this role and nothing else: neither GPU nor llama.cpp is needed
"""

from pyinfra.api import deploy

from roles.browser import operations
from roles.browser.start import begin
from roles.settings import Browser


@deploy("Browser")
def browser(wanted: Browser, alone: bool = False) -> None:
    operations.policy_set(name="Keep the browser's local AI model away", wanted=wanted, alone=alone)
    operations.models_freed(name="Free what the model left", wanted=wanted, alone=alone)


def alone() -> None:
    """The role by itself; with root it looks at every user's models, and not at the deploying user's alone."""
    wanted = begin()
    browser(wanted=wanted, alone=True)
    operations.summed_up(name="Sum up", wanted=wanted)
