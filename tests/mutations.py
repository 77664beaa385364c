"""`python -m tests.mutations`: put bugs into the attention kernels one at a time, and see that the tests notice each.

Every bug is made in a copy of the package, the native kernel is built there, and the tests of `tests/nn` run until one fails.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
KERNEL, CALL, PYTHON = "nn/kernels/cpu_vector.inl", "nn/kernels/cpu.cpp", "nn/kernels/cpu.py"
FACTORED, BLOCKED, FALLBACK, MASKS = "nn/factored.py", "nn/blocked.py", "nn/fallback.py", "nn/masks.py"

BUGS = [
    ("forward mask sees the query itself", MASKS, "Interval(high=1 if self.include_self else 0)", "Interval(high=1)"),
    ("backward mask sees the query itself", MASKS, "Interval(low=0 if self.include_self else 1)", "Interval(low=0)"),
    ("window one key too short", MASKS, "min(self.radius + 1, FAR)", "min(self.radius, FAR)"),
    ("upper end of the range off by one", KERNEL, "a.before[std::clamp(j + high_by, 0L, c.M)]", "a.before[std::clamp(j + high_by + 1, 0L, c.M)]"),
    ("own position not left out", KERNEL, "if (i == t.self[r] || !allowed_at(a, j, i)) { x[i]", "if (!allowed_at(a, j, i)) { x[i]"),
    ("own position not left out of the fast path", KERNEL, "bool holes = t.self[r] >= 0 || c.allowed != nullptr;", "bool holes = c.allowed != nullptr;"),
    ("padding ignored", KERNEL, "if (c.key_mask == nullptr || c.key_mask[b * c.M + i])", "if (true)"),
    ("padding of the first sequence for all", KERNEL, "c.key_mask[b * c.M + i]", "c.key_mask[i]"),
    ("gradients of padded keys not cleared", KERNEL, "clear_padded(c.dv, c.vs, c.key_mask, b, h, c.M, c.D);", ""),
    ("output of padded queries not cleared", KERNEL, "clear_padded(c.out, c.os, c.query_mask, b, h, c.N, c.D);", ""),
    ("mask tensor ignored", KERNEL, "return c.allowed == nullptr || c.allowed[", "return true || c.allowed["),
    ("bias with the wrong sign", KERNEL, "bias[i - low] = -rate *", "bias[i - low] = rate *"),
    ("scale forgotten", KERNEL, "row[i] = from[i] * c.scale;", "row[i] = from[i];"),
    ("scale forgotten in the gradient of q", KERNEL, "to[i] = dq[r * Ip + i] * c.scale;", "to[i] = dq[r * Ip + i];"),
    ("last part of a vector dropped from the scores", KERNEL, "for (long t = 0; t < n; t += W) {", "for (long t = 0; t + W < n; t += W) {"),
    ("sigmoid of large scores wrong", KERNEL, "return x < 0.f ? small : d;", "return small;"),
    ("derivative of the sigmoid left out", KERNEL, "dr[i] * er[i] * (o == nullptr ? 1.f : o[i])", "dr[i] * er[i]"),
    ("maximum of s not subtracted", KERNEL, "vexp(load(s + l, c.D - l) - load(top + l))", "vexp(load(s + l, c.D - l))"),
    ("running maximum not applied to earlier keys", KERNEL, "if (rescale != 1.f) for (long l = 0; l < 2 * Dp; l++) sums[r * 2 * Dp + l] *= rescale;", ""),
    ("gradient of the denominator left out", KERNEL, "store(db + l, -value * load(out + l, c.D - l));", "store(db + l, V{});"),
    ("gradient of s through the values left out", KERNEL, "weight * (value * step + load(dw + l))", "weight * load(dw + l)"),
    ("gradient of k of the last query block only", KERNEL, "add_rows(de + i - from, 1, wide, r0, r1, q, Ip, dk + i * Ip, Ip, Ip);", "add_rows(de + i - from, 1, wide, r1 - 4, r1, q, Ip, dk + i * Ip, Ip, Ip);"),
    ("underflow not flagged", CALL, "constexpr float TINY = 1e-20f;", "constexpr float TINY = 0.f;"),
    ("flagged entries without gradient", KERNEL, "if (flagged) backward_definition(a, false);", ""),
    ("noise of saturated heads kept", CALL, "if (!again.empty()) over_heads(", "if (false) over_heads("),
    ("dropout not rescaled", CALL, "c.grown = (float)(1.0 / c.kept);", "c.grown = 1.f;"),
    ("dropout in the denominator too", KERNEL, "add_rows(p, wide, 1, low, high, rows + Dp, 2 * Dp, sums + r * 2 * Dp + Dp, 2 * Dp, Dp);", "add_rows(dropped + r * wide - from, wide, 1, low, high, rows + Dp, 2 * Dp, sums + r * 2 * Dp + Dp, 2 * Dp, Dp);"),
    ("other dropout factors in the backward pass", KERNEL, "pair_factors(a, t, r, from + start, to, f + start);", "pair_factors(a, t, r, from, to, f + start);"),
    ("dropout of both factors at the whole rate", "nn/spec.py", "return 1.0 - math.sqrt(1.0 - self.dropout_p)", "return self.dropout_p"),
    ("strides of q used for k", PYTHON, "numbers += (tensor.data_ptr(), *tensor.stride()[:3])", "numbers += (tensor.data_ptr(), *q.stride()[:3])"),
    ("empty blocks of queries read stale memory", KERNEL, "if (high == 0) low = 0;", "if (high == 0) low = high = a.keys;"),
    ("gradients from an output rounded to half", PYTHON, "if spec.dtype != torch.float32:", "if False:"),
    ("factored: empty rows not zero", FACTORED, "total.masked_fill(low | self.empty, 1.0)", "total.masked_fill(low, 1.0)"),
    ("blocked: gradient of the denominator left out", BLOCKED, "b = -a * (numerator / total)", "b = 0.0 * a"),
    ("blocked: last block of keys skipped", BLOCKED, "return (seen[0][0], seen[-1][1]) if seen", "return (seen[0][0], seen[-1][0]) if seen"),
    ("long calls: denominators of another head", KERNEL, "c.of_head = true;", "c.of_head = true, h = 0;"),
    ("long calls: dropout drawn anew", PYTHON, "out, total, shift = forward(spec, seed, *tensors, save=not long)", "out, total, shift = forward(spec, None if long else seed, *tensors, save=not long)"),
    ("fallback: values not centred", FALLBACK, "values = values - values.gather(2, weight.argmax(2, keepdim=True))", "values = values - 0.0"),
    ("fallback: centre not added back", FALLBACK, ".add(centre)[:, 0]", "[:, 0]"),
    ("gate: parts of the input exchanged", "nn/linear.py", "start : start + part.shape[-1]", "self.weight.shape[1] - start - part.shape[-1] : self.weight.shape[1] - start"),
    ("fallback: dropout factor left out", FALLBACK, "plain if factor is None else plain * factor[b, h, j]", "plain"),
]  # fmt: skip


def build(package: Path) -> bool:
    """Build the kernel of a copy; whether it compiles."""
    kernels = package / "nn" / "kernels"
    flags = ["-O1", "-std=c++17", "-ffp-contract=fast", "-shared", "-fPIC", "-pthread"]
    command = ["g++", *flags, str(kernels / "cpu.cpp"), "-o", str(kernels / "_cpu.so")]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def noticed(bug: tuple[str, str, str, str], folder: Path) -> str:
    """The first failing test, or "" when none fails."""
    _, file, old, new = bug
    shutil.copytree(ROOT / "src" / "mtsa", folder / "mtsa", ignore=shutil.ignore_patterns("__pycache__", "_cpu*"))
    path = folder / "mtsa" / file
    text = path.read_text(encoding="utf-8")
    if old not in text:
        raise SystemExit(f"{file}: the code to be changed is not there any more: {old}")
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    if not build(folder / "mtsa"):
        raise SystemExit(f"{bug[0]}: the changed kernel does not compile")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-n",
        "2",
        "-m",
        "not slow",
        "-p",
        "no:cacheprovider",
        "tests/nn",
        "tests/properties",
    ]
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=900)
    failures = [line.split(" - ")[0] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if done.returncode != 0 and not failures:
        return "the test process ended"
    return failures[0] if failures else ""


def main() -> int:
    """Try every bug and print what noticed it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*", help="only bugs whose description contains one of these words")
    words = parser.parse_args().words
    chosen = [bug for bug in BUGS if not words or any(word in bug[0] for word in words)]
    missed = 0
    for bug in chosen:
        with tempfile.TemporaryDirectory() as folder:
            found = noticed(bug, Path(folder))
        missed += not found
        print(f"{'noticed' if found else 'MISSED '}  {bug[0]}  {found}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} noticed")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
