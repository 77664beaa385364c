"""What the package shows to the outside, and what it pulls in."""

import ast
import subprocess
import sys
from pathlib import Path

import mtsa
import mtsa.masks
import mtsa.nn

ATTENTION = Path(mtsa.nn.__file__).parent

USE_WITHOUT_EXTRAS = '''
import sys

class Without:
    """A finder that does not find some packages, as if they were not installed."""

    def __init__(self, finder):
        self.finder = finder

    def __getattr__(self, name):
        return getattr(self.finder, name)

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"numpy", "transformers", "typer", "rich", "matplotlib"}:
            return None
        return self.finder.find_spec(name, path, target)

sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
try:
    import numpy
except ImportError:
    pass
else:
    raise SystemExit("numpy can still be imported")

import torch
import mtsa

x = torch.randn(2, 5, 14, requires_grad=True)
keep = torch.tensor([[True] * 5, [True, True, False, False, False]])
for form in ("paper", "released"):
    layer = mtsa.MultiMaskAttention(14, 2, form=form)
    layer(x, keep).sum().backward()
    layer.explain(x, keep)
mtsa.Source2Token(14)(x, keep).sum().backward()
four = [torch.randn(1, 2, 5, 3, requires_grad=True) for _ in range(4)]
for backend in ("auto", "reference", "factored", "blocked"):
    mtsa.tensorized_attention(*four, masks="forward, backward", backend=backend).sum().backward()
assert torch.isfinite(x.grad).all()
print("worked")
'''

NEW_MODULES = """
import sys
import torch
before = set(sys.modules)
import mtsa
new = {name.split(".")[0] for name in set(sys.modules) - before}
print(" ".join(sorted(new)))
"""


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)


def test_the_public_names_are_these():
    assert sorted(mtsa.__all__) == [
        "Explanation",
        "MultiMaskAttention",
        "Source2Token",
        "__version__",
        "backend_table",
        "compare",
        "count_fallbacks",
        "explain_backend",
        "load",
        "masks",
        "tensorized_attention",
        "train",
    ]
    assert all(hasattr(mtsa, name) for name in mtsa.__all__)


def test_the_public_masks_are_these():
    assert sorted(mtsa.masks.__all__) == [
        "And",
        "Backward",
        "Distance",
        "Forward",
        "Full",
        "Mask",
        "NoSelf",
        "Or",
        "Window",
        "from_attn_mask",
        "from_key_padding_mask",
        "register_mask",
    ]
    assert all(hasattr(mtsa.masks, name) for name in mtsa.masks.__all__)


def test_importing_the_package_imports_none_of_the_extras():
    result = run(NEW_MODULES)
    assert result.returncode == 0, result.stderr
    found = set(result.stdout.split())
    assert "mtsa" in found
    assert not found & {"transformers", "typer", "rich", "matplotlib", "hypothesis", "pytest"}


def test_the_package_works_where_only_torch_is_installed():
    result = run(USE_WITHOUT_EXTRAS)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "worked"


def imports(file):
    """(how many dots, module) of every import statement in a file."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.level, node.module or ""


def test_the_mechanism_imports_torch_and_itself_alone():
    files = sorted(ATTENTION.rglob("*.py"))
    assert len(files) > 10
    known = {file.stem for file in files} | {"", "kernels"}
    for file in files:
        for level, module in imports(file):
            if level == 0:
                top = module.split(".")[0]
                inside = module == "mtsa.nn" or module.startswith("mtsa.nn.")
                kernel = top == "triton" and file.name.startswith("triton_")  # these files are imported on CUDA only
                assert top == "torch" or inside or kernel or top in sys.stdlib_module_names, f"{file.name} imports {module}"
            else:
                assert level == 1, f"{file.name} imports from outside its folder"
                assert module.split(".")[0] in known


ROOMS = (
    "nn",
    "encoders",
    "data",
    "corpora",
    "models",
    "metrics",
    "training",
    "tasks",
    "inference",
    "interop",
    "serve",
    "bench",
    "model_selection",
    "cli",
)
DOORS = {"messages", "files", "machine", "masks", "errors", "progress"}  # small modules that every room may use
CONTRACT = {"mtsa.tasks.base", "mtsa.tasks.encoded", "mtsa.tasks.registry"}  # what comes before the tasks works on it


def top_level_modules(file):
    """The modules that importing a file imports."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}


def test_rooms_import_only_what_lies_upstream():
    source = ATTENTION.parent
    assert all((source / room / "__init__.py").exists() for room in ROOMS)
    assert {file.parent.name for file in source.glob("*/__init__.py")} <= {*ROOMS, "recipes"}
    for number, room in enumerate(ROOMS):
        upstream = set(ROOMS[: number + 1]) | DOORS
        if room == "cli":
            upstream |= {"layer_demo", "demo", ""}
        if room == "model_selection":
            upstream |= {"baselines"}
        for file in sorted((source / room).rglob("*.py")):
            for level, module in imports(file):
                if level == 0 and module.split(".")[0] == "mtsa":
                    target = [*module.split("."), ""][1]
                    late = room == "tasks" and target == "inference" and module not in top_level_modules(file)
                    fine = target in upstream or module in CONTRACT or late or room in ("bench", "cli")
                    assert fine, f"{room}/{file.name} imports {module}"


def test_the_workbench_names_its_extra_where_it_is_missing():
    code = USE_WITHOUT_EXTRAS.split("try:")[0] + (
        "import mtsa\ntry:\n    mtsa.train\nexcept ModuleNotFoundError as error:\n    print(error)\n"
    )
    result = run(code)
    assert "pip install 'mtsa[train]'" in result.stdout, result.stderr


def test_the_public_function_and_layer_say_what_they_raise():
    documented = (mtsa.tensorized_attention, mtsa.explain_backend, mtsa.MultiMaskAttention, mtsa.Source2Token)
    assert all("Raises:" in thing.__doc__ for thing in documented)
