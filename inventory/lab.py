"""The throwaway hosts that `make demo` boots on this machine; what is special about them is data, in tests/lab."""

from tests.lab.host import hosts as _hosts
from tests.lab.inventory import entry as _entry

lab_hosts = [_entry(host) for host in _hosts().values()]
