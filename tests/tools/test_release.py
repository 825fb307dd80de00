#!/usr/bin/env python3
"""tools/release: what it refuses, and how it ends a package's files. Argument: the source root."""
import os
import pathlib
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv[1])


class Release(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        for name in ("meson.build", "include/md/md.h", "data/CHANGES.md"):
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.tree / name)

    def ran(self, *words):
        return subprocess.run([sys.executable, ROOT / "tools" / "release", *words], env=os.environ | {"RELEASE_ROOT": str(self.tree)}, capture_output=True, text=True, check=False)

    def change(self, name, old, new):
        text = (self.tree / name).read_text(encoding="utf-8")
        self.assertIn(old, text)
        (self.tree / name).write_text(text.replace(old, new, 1), encoding="utf-8")

    def test_this_tree_has_one_version(self):
        ran = self.ran("version")
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))

    def test_versions_that_differ(self):
        self.change("include/md/md.h", "#define MD_VERSION_PATCH 0", "#define MD_VERSION_PATCH 9")
        ran = self.ran("version")
        self.assertEqual(ran.returncode, 1)
        self.assertRegex(ran.stderr, r"md.h says \d+\.\d+\.9, meson.build \d+\.\d+\.0")

    def test_wheels_for_new_systems_only(self):
        """Of a wheel's tag, which functions of newer glibcs raise."""
        made = runpy.run_path(str(ROOT / "tools" / "release"))
        made["check_tag"]("multidispatch-0.2.0-cp311-abi3-manylinux_2_34_x86_64.whl")
        for tag in ("manylinux_2_35_x86_64", "linux_x86_64"):
            with self.assertRaisesRegex(made["Failed"], tag):
                made["check_tag"](f"multidispatch-0.2.0-cp311-abi3-{tag}.whl")

    def test_a_version_without_a_date(self):
        heading = next(line for line in (self.tree / "data/CHANGES.md").read_text(encoding="utf-8").splitlines() if line.startswith("## "))
        self.change("data/CHANGES.md", heading, heading.partition(" (")[0] + " (not released)")
        ran = self.ran("version")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("(not released)', not '", ran.stderr)

    def test_a_tag_that_is_there(self):
        def git(*words):
            subprocess.run(["git", "-C", self.tree, "-c", "user.name=x", "-c", "user.email=x@example.org", *words], check=True, capture_output=True)
        git("init", "-q")
        git("add", "-A")
        git("commit", "-qm", "all: files")
        self.assertEqual(self.ran("tree", "version").returncode, 0)
        self.assertIn("== version: done before", self.ran().stdout)
        (self.tree / "dist" / ".version").unlink()
        self.change("meson.build", "license", "licence")
        self.assertIn("changes that are not committed", self.ran("tree").stderr)
        self.assertEqual(self.ran("version").returncode, 0)
        self.assertFalse((self.tree / "dist" / ".version").exists())  # it says nothing of the commit
        number = next(line.split("'")[1] for line in (self.tree / "meson.build").read_text(encoding="utf-8").splitlines() if "version: '" in line)
        git("tag", f"v{number}")
        self.assertIn(f"there is a tag v{number} already", self.ran("version").stderr)

    def test_what_was_made(self):
        ran = self.ran("tag")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("dist/ lacks an archive (multidispatch-", ran.stderr)
        number = re.search(r"version: '([\d.]+)'", (self.tree / "meson.build").read_text(encoding="utf-8"))[1]
        for name in (f"multidispatch-{number}.tar.gz", f"multidispatch-{number}-py3-none-any.whl", "multidispatch_0.0.1_amd64.deb"):
            (self.tree / "dist" / name).write_text(name, encoding="utf-8")
        self.assertIn(f"dist/ lacks a package (multidispatch_{number}_*.deb)", self.ran("tag").stderr)  # what is there is of another version
        (self.tree / "dist" / f"multidispatch_{number}_amd64.deb").write_text("", encoding="utf-8")
        ran = self.ran("tag")
        self.assertEqual((ran.returncode, ran.stdout.count("  multidispatch"), ran.stdout.count("0.0.1")), (0, 3, 0))
        self.assertIn("git tag -s v", ran.stdout)

    def test_words(self):
        self.assertEqual(self.ran("nosuchstep").returncode, 2)
        steps = self.ran("--list").stdout.splitlines()
        self.assertEqual([line.split()[0] for line in steps], ["tree", "version", "figures", "tests", "archive", "wheel", "package", "manual", "tag"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
