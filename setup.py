"""Builds the native CPU kernel: a plain shared library, loaded with ctypes, so it needs neither torch nor Python headers.

Without a C++ compiler the package installs all the same, and `mtsa backends` reports that the kernel is missing.
"""

import os
import sys
from typing import Any

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

WINDOWS = sys.platform == "win32"


class BuildKernel(build_ext):
    """Compiles the kernel, or prints one line when that fails."""

    def get_ext_filename(self, fullname: str) -> str:
        return os.path.join(*fullname.split(".")) + (".pyd" if WINDOWS else ".so")

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return []

    def build_extension(self, ext: Extension) -> None:
        try:
            super().build_extension(ext)
        except Exception as error:  # whatever a missing or an old compiler raises
            print("mtsa: the native CPU kernel was not built; slower PyTorch code is used instead", file=sys.stderr)
            print(f"mtsa: {str(error)[:200]}", file=sys.stderr)

    def get_outputs(self) -> list[str]:
        return [path for path in super().get_outputs() if os.path.exists(path)]

    def copy_extensions_to_source(self) -> None:
        built = [ext for ext in self.extensions if os.path.exists(self.get_ext_fullpath(ext.name)) or self._built(ext)]
        self.extensions = built
        super().copy_extensions_to_source()

    def _built(self, ext: Extension) -> bool:
        return os.path.exists(os.path.join(self.build_lib, self.get_ext_filename(self.get_ext_fullname(ext.name))))


class Wheel(bdist_wheel):
    """A wheel for a platform, but for every version of Python."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


kernel = Extension(
    "mtsa.nn.kernels._cpu",
    sources=["src/mtsa/nn/kernels/cpu.cpp"],
    depends=["src/mtsa/nn/kernels/cpu_vector.inl"],
    extra_compile_args=[] if WINDOWS else ["-O3", "-g0", "-std=c++17", "-ffp-contract=fast", "-fvisibility=hidden"],
    extra_link_args=[] if WINDOWS else ["-pthread"],
    language="c++",
)
options: dict[str, Any] = {"ext_modules": [kernel], "cmdclass": {"build_ext": BuildKernel, "bdist_wheel": Wheel}}
setup(**({} if os.environ.get("MTSA_NATIVE") == "0" else options))
