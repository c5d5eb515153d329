"""The compiled kernel, which may be left out; everything else about the package is in pyproject.toml."""

import os
import sysconfig
from glob import glob

from setuptools import Extension, setup

# One build for all of CPython from 3.11 on; Python without the global lock has no such interface yet.
limited = not sysconfig.get_config_var("Py_GIL_DISABLED")
# Nothing that changes results from one machine to the next: neither -march=native nor -ffast-math. Nobody
# here waits for floating-point signals, and comparisons that may not raise one can be made on vectors.
flags = ["/O2", "/fp:precise"] if os.name == "nt" else ["-O3", "-ffp-contract=off", "-fno-trapping-math"]

setup(
    ext_modules=[
        Extension(
            "deadweight.sums._kernel",
            [
                f"src/deadweight/sums/{name}.c"
                for name in ("_kernel", "_copies", "_lanes", "_model", "_windows")
            ],
            depends=glob("src/deadweight/sums/*.h"),
            define_macros=[("Py_LIMITED_API", "0x030B0000")] if limited else [],
            extra_compile_args=flags,
            py_limited_api=limited,
            optional=True,  # no compiler, no Python.h: numpy does the work
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if limited else {},
)
