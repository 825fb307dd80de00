#!/usr/bin/env python3
"""No public function is missing from the pairs that are fuzzed. Arguments: fuzz_pairs, md.h."""

import pathlib
import re
import subprocess
import sys

program, header = sys.argv[1:3]
text = re.sub(r"/\*.*?\*/", "", pathlib.Path(header).read_text(encoding="utf-8"), flags=re.S)
public = set(re.findall(r"MD_API[^;(]*?\b(md_\w+)\(", text))
listed = subprocess.run([program, "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
wrong = sorted(public ^ set(listed)) + sorted({name for name in listed if listed.count(name) > 1})
print(f"{len(public)} public functions, {len(listed)} listed")
if wrong or not public:
    sys.exit(f"missing, twice, or not public: {' '.join(wrong)}")
