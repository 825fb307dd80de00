#!/usr/bin/env python3
"""mdctl bundle from the outside: equal files, C source, statistics, and no compiler where a bundle is. Arguments: mdctl, the source root, the C compiler."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

MDCTL, ROOT, CC = sys.argv[1:4]
FEW = ["--hints", "16,256", "--threads", "2"]
PROGRAM = """#include <md/md.h>
#include <stdio.h>
extern const unsigned char md_bundle[];
extern const size_t md_bundle_size;
int main(void)
{
    md_context *c = NULL;
    md_op *op = NULL;
    md_store_counters n;
    const md_context_options o = {.device = "host", .threads = 2, .hints = "16,256", .cache_dir = "",
                                  .cc = "/nonexistent", .bundle_bytes = md_bundle, .n_bundle_bytes = md_bundle_size};
    if (md_context_create(&c, &o) || md_op_create(&op, c, "gelu", NULL) || md_op_wait(op) || md_store_count(&n, c))
        return puts(md_last_error());
    printf("%d variants, %d compiles\\n", (int)md_op_n_variants(op, 0), (int)n.compiles);
    md_op_destroy(&op);
    md_context_destroy(&c);
    return 0;
}
"""


def mdctl(*args, env=None):
    own = {k: v for k, v in os.environ.items() if not k.startswith("MD_")}
    rates = {"MD_RATES": "20000,12000,60000,60000,2000"}  # a busy machine would be measured anew, with other rates and pools
    own |= {"MD_CACHE_DIR": "", "MD_DEVICE": "host"} | rates | (env or {})
    return subprocess.run([MDCTL, *args], env=own, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False)


class Bundle(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = str(pathlib.Path(self.folder.name) / "a.mdb")

    def make(self, *args, path=None, env=None):
        r = mdctl("bundle", *args, *FEW, "-o", path or self.path, "--json", env=env)
        self.assertEqual(r.returncode, 0, r.stderr)
        return json.loads(r.stdout)

    def test_levels_and_no_compiler(self):
        about = self.make("gelu", "--arch", "x86-64,avx2")
        self.assertEqual((len(about["made_for"]), about["gaps"]), (2, []))
        bare = {"MD_BUNDLE": self.path, "MD_CC": "/nonexistent", "PATH": "", "CUDA_HOME": "/nonexistent"}
        r = mdctl("run", "gelu", "--sizes", "i=33, j=100", *FEW, env=bare)
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        r = mdctl("run", "softmax", "--sizes", "i=33, j=100", *FEW, env=bare)
        self.assertEqual(r.returncode, 1)
        self.assertRegex(r.stderr, r"op softmax, stage 0: no kernel: no bundle has softmax\.0\.")
        os.chmod(self.path, 0o666)
        r = mdctl("run", "gelu", "--sizes", "i=33, j=100", *FEW, env=bare)
        self.assertIn("others may write to it", r.stderr)

    def test_equal_ops_give_equal_files(self):
        first, second = self.make("gelu", "softmax"), self.make("softmax", "gelu", path=self.path + "2")
        self.assertEqual(first["digest"], second["digest"])
        self.assertEqual(pathlib.Path(self.path).read_bytes(), pathlib.Path(self.path + "2").read_bytes())

    def test_statistics(self):
        stats = self.folder.name + "/stats.json"
        r = mdctl("run", "softmax", "--sizes", "i=8, j=100", *FEW, env={"MD_STATS": stats})
        self.assertEqual(r.returncode, 0, r.stderr)
        everything, some = self.make("softmax"), self.make("--from-stats", stats, path=self.path + "2")
        self.assertLess(some["kernels"], everything["kernels"])
        bare = {"MD_BUNDLE": self.path + "2", "MD_CC": "/nonexistent"}
        r = mdctl("run", "softmax", "--sizes", "i=8, j=100", *FEW, env=bare)
        self.assertEqual((r.returncode, r.stderr), (0, ""))

    def test_c_source(self):
        library = pathlib.Path(MDCTL).resolve().parents[2] / "src"
        if not (library / "libmultidispatch.so").exists():
            self.skipTest("the library is static in this build (sanitizers), and needs to be linked as it was made")
        source = self.folder.name + "/kernels.c"
        self.make("gelu", "--c-source", path=source)
        program, binary = pathlib.Path(self.folder.name) / "main.c", self.folder.name + "/main"
        program.write_text(PROGRAM)
        subprocess.run([*CC.split(), "-std=gnu11", "-I", ROOT + "/include", "-I", str(library.parent / "include"), str(program), source, "-o", binary,
                        f"-L{library}", "-lmultidispatch", f"-Wl,-rpath,{library}"], check=True)
        r = subprocess.run([binary], env={"PATH": ""}, capture_output=True, text=True, check=True)
        self.assertRegex(r.stdout, r"^[1-9]\d* variants, 0 compiles$")

    def test_without_a_compiler(self):
        """A bundle without kernels is no success, and no file."""
        r = mdctl("bundle", "softmax", *FEW, "-o", self.path, env={"MD_CC": "/nonexistent"})
        self.assertEqual(r.returncode, 1)
        self.assertIn("mdctl: op softmax, stage 0: no kernel: no working C compiler '/nonexistent'", r.stderr)
        self.assertFalse(os.path.exists(self.path))

    def test_lists(self):
        formula = "scalar s; P@t[i] = P@t[i] * s"
        r = mdctl("bundle", "global_norm", formula, "-o", self.path, "--json", env={"MD_HINTS": "16"})
        self.assertEqual(r.returncode, 0, r.stderr)
        about = json.loads(r.stdout)
        self.assertGreater(about["kernels"], 3)
        self.assertEqual(about["gaps"], [])

    def test_wrong_lines(self):
        for line, said in ((["gelu"], "--output"), (["--output", "x"], "takes formulas"), (["gelu", "--output", "x", "--arch", "sm_12"], "sm_12")):
            r = mdctl("bundle", *line)
            self.assertNotEqual(r.returncode, 0)
            self.assertIn(said, r.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
