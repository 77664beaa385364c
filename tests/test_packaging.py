"""The wheel and the source archive: everything in them that the package reads, and an empty environment where they work."""

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BUILD = """
import sys
from setuptools import build_meta
getattr(build_meta, sys.argv[2])(sys.argv[1])
"""
SMOKE = """
import torch, mtsa
layer = mtsa.MultiMaskAttention(64, 4)
x = torch.randn(2, 9, 64, requires_grad=True)
layer(x, torch.ones(2, 9, dtype=torch.bool)).sum().backward()
print(mtsa.__version__, bool(torch.isfinite(x.grad).all()))
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    copy = tmp_path_factory.mktemp("tree") / "mtsa"
    copy.mkdir()
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("this is no git repository")
    for name in listed.stdout.split("\n"):
        if name and (name.startswith("src/") or "/" not in name) and (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes((ROOT / name).read_bytes())
    for what in ("build_sdist", "build_wheel"):
        command = [sys.executable, "-c", BUILD, str(folder), what]
        done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return copy, folder


def test_the_wheel_holds_every_file_of_the_package(built):
    copy, folder = built
    (wheel,) = folder.glob("*.whl")
    there = set(zipfile.ZipFile(wheel).namelist())
    wanted = {path.relative_to(copy / "src").as_posix() for path in (copy / "src").rglob("*") if path.is_file()}
    wanted = {name for name in wanted if ".egg-info/" not in name}
    assert wanted - there == set()
    assert "mtsa/py.typed" in there
    assert not [name for name in there if name.startswith("tests/")]


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler on this machine")
def test_the_wheel_has_the_native_kernel_and_serves_every_python(built):
    _, folder = built
    (wheel,) = folder.glob("*.whl")
    assert "-py3-none-" in wheel.name
    assert "-any" not in wheel.name
    assert any(name.startswith("mtsa/nn/kernels/_cpu.") for name in zipfile.ZipFile(wheel).namelist())


def test_without_a_compiler_the_wheel_is_built_without_the_kernel(built, tmp_path):
    copy, _ = built
    tree = shutil.copytree(copy, tmp_path / "tree", ignore=shutil.ignore_patterns("build", "_cpu*"))
    broken = {**os.environ, "CC": "false", "CXX": "false"}
    command = [sys.executable, "-c", BUILD, str(tmp_path), "build_wheel"]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False, env=broken)
    assert done.returncode == 0, done.stderr
    assert "mtsa: the native CPU kernel was not built" in done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if "/_cpu." in name]
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    told = subprocess.run(
        [sys.executable, "-m", "mtsa", "backends"], capture_output=True, text=True, check=True, env=environment
    )
    assert "not built: no C++ compiler was found at installation" in told.stdout


def test_the_wheel_asks_for_torch_alone(built):
    _, folder = built
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith("METADATA"))
        lines = archive.read(name).decode().splitlines()
    needed = [line for line in lines if line.startswith("Requires-Dist:") and "extra ==" not in line]
    assert len(needed) == 1
    assert needed[0].startswith("Requires-Dist: torch")
    extras = {line.split(": ")[1] for line in lines if line.startswith("Provides-Extra:")}
    assert {"cli", "gpu", "train", "serve", "export", "sentences", "translate", "baselines", "pretrained"} <= extras


def test_the_source_archive_can_be_built_from(built):
    _, folder = built
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.split("/", 1)[1] for name in opened.getnames() if "/" in name}
    assert {"pyproject.toml", "README.md", "LICENSE", "src/mtsa/__init__.py", "src/mtsa/recipes/trec.cpu.toml"} <= names
    assert {"setup.py", "src/mtsa/nn/kernels/cpu.cpp", "src/mtsa/nn/kernels/cpu_vector.inl"} <= names


@pytest.mark.slow
def test_an_empty_environment_with_torch_alone(built, tmp_path):
    """`pip install mtsa` and nothing else: the layer works, and the command says what is missing."""
    _, folder = built
    (wheel,) = folder.glob("*.whl")
    venv.create(tmp_path / "env", with_pip=True)
    python = str(tmp_path / "env" / "bin" / "python")
    quiet = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    install = [python, "-m", "pip", "install", "--quiet", "-c", str(ROOT / "constraints.txt"), str(wheel)]
    done = subprocess.run(install, capture_output=True, text=True, check=False, env=quiet)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([python, "-c", SMOKE], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.split()[-1:] == ["True"], done.stderr
    told = subprocess.run([python, "-m", "mtsa", "backends"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert told.returncode == 2
    assert "pip install 'mtsa[cli]'" in told.stderr
    assert "Traceback" not in told.stderr
