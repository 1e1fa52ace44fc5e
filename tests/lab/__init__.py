"""The lab: throwaway hosts with a real systemd on one machine.

`python -m tests.lab up` starts one, `python -m tests.lab down` takes everything back. Tests and an inventory read the
running hosts with `hosts()`.
"""

from tests.lab.common import Lab, LabError, the_lab
from tests.lab.host import LabHost, hosts

__all__ = ["Lab", "LabError", "LabHost", "hosts", "the_lab"]
