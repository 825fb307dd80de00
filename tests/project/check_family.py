#!/usr/bin/env python3
"""Proves that a family is two files and a row: adds TOY to a copy of the tree, builds the copy and runs the family.

Arguments: the source root, the command that runs Meson, the C compiler's command. Nothing else of the copy is changed:
where more is needed to add a family of a kind that exists, this test fails to build or to find it."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

FOLDERS = ("include", "src", "tools", "data/ops", "data/wisdom")
FILES = ("meson.build", "meson.options", "meson_options.txt", "data/meson.build", "data/CHANGES.md")
OPTIONS = [f"-D{name}=disabled" for name in ("tests", "man", "python", "cuda", "blas")]
ROW_BEFORE = "  ['host/point/scatter', ['host/scatter.c']],\n"

# Two files and a row. The toy runs elements by an odd loop: a template of its own, with the kind of sweeps.
TOY_ROW = "  ['host/point/toy', ['host/toy.c']],\n"
TOY = {
    "src/family/host/point/toy.c": """/* Family toy: elementwise stages, one row after the other. */
#include "family/host/point/sweep.h"
#include "family/numeric.h"

enum { STRIDED };

static bool spec_of(void *spec, const md_fa_target *target, const md_fa_config *config)
{
    (void)target;
    *(md_fa_sweep *)spec = (md_fa_sweep){.source = "host/toy.c", .is_strided = config->value[STRIDED]};
    return true;
}

static bool applies(const md_fa_target *target)
{
    return md_fa_stage(target)->kind == MD_ST_POINTWISE && md_fa_stage(target)->n_stores == 1;
}

const md_fa_family md_fa_host_toy = {
    .name = "toy",
    .device = MD_DEV_HOST,
    .n_fields = 1,
    .field = {{"strided", 1, 2, {0, 1}}},
    .kind = &md_fa_host_sweep_kind,
    .spec_of = spec_of,
    .applies = applies,
    .numeric = md_fa_class_sweep,
};
""",
    "src/kernels/host/toy.c": """/* Elementwise stages: a block is rows, or a part of one. */
#include "md_config.h"
#include "prelude.h"
#include "md_expr.h"

MD_EXPORT void md_kernel(const md_params *p, int64_t first, int64_t last, void *scratch)
{
    const int64_t points = md_points(p), lanes = md_lanes(p);
    const int64_t rows = lanes < MD_BLOCK_POINTS ? MD_BLOCK_POINTS / lanes : 1;
    const int64_t pieces = lanes < MD_BLOCK_POINTS ? 1 : (lanes + MD_BLOCK_POINTS - 1) / MD_BLOCK_POINTS;
    (void)scratch;
    for (int64_t b = first; b < last; b++)
        for (int64_t point = b / pieces * rows; point < md_min_si(b / pieces * rows + rows, points); point++) {
            const int64_t lane = b % pieces * MD_BLOCK_POINTS;
            md_sweep(p, point, point + 1, lane, pieces == 1 ? lanes : md_min_si(lane + MD_BLOCK_POINTS, lanes));
        }
}
""",
}


def run(*command, **options):
    done = subprocess.run([str(c) for c in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, check=False, **options)
    if done.returncode:
        sys.exit(f"{' '.join(str(c) for c in command)} failed:\n{done.stdout[-6000:]}")
    return done.stdout


def copy(root, to):
    for name in FOLDERS:
        if (root / name).is_dir():
            shutil.copytree(root / name, to / name)
    for name in FILES:
        if (root / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, to / name)
    if (root / "subprojects").is_dir():
        shutil.copytree(root / "subprojects", to / "subprojects")


def add_toy(tree):
    for name, text in TOY.items():
        if (tree / name).exists():
            sys.exit(f"{name} exists: the toy needs another name")
        (tree / name).write_text(text, encoding="utf-8")
    rows = tree / "src/kernels/meson.build"
    text = rows.read_text(encoding="utf-8")
    if text.count(ROW_BEFORE) != 1:
        sys.exit(f"{rows} has no row {ROW_BEFORE.strip()}")
    rows.write_text(text.replace(ROW_BEFORE, TOY_ROW + ROW_BEFORE), encoding="utf-8")


def check_runs(mdctl, folder):
    environment = {**os.environ, "MD_DEVICE": "host", "MD_CACHE_DIR": str(folder / "store")}
    listed = run(mdctl, "explain", "gelu", "--sizes", "i=3, j=1000", env=environment)
    if "toy/" not in listed:
        sys.exit(f"the family is not among the candidates:\n{listed}")
    for sizes in ("i=1, j=1", "i=3, j=1000", "i=2, j=100003"):
        told = run(mdctl, "run", "gelu", "--sizes", sizes, env={**environment, "MD_PIN": "gelu:toy/strided1"})
        print(told.strip())
        if "toy/strided1" not in told or "WRONG" in told:
            sys.exit(f"the family does not serve {sizes}:\n{told}")


def main():
    root, meson = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2].split()
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        tree = folder / "tree"
        copy(root, tree)
        add_toy(tree)
        run(*meson, "setup", tree / "build", tree, "--buildtype=plain", "-Ddefault_library=static", *OPTIONS,
            env={**os.environ, "CC": sys.argv[3]})
        run(*meson, "compile", "-C", tree / "build", "mdctl")
        check_runs(tree / "build/tools/mdctl/mdctl", folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
