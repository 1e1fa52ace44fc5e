"""The checks that need a GPU, made ready here for a machine without network.

`python -m tests.gpu.pack` makes a folder with all that such a machine needs; `run.sh` runs there, or here with a
stand-in for the device.
"""
