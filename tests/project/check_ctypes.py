#!/usr/bin/env python3
"""The library can be loaded late, and the structs that tools/judge_md.py declares for ctypes are those of md/types.h: names, order, offsets, sizes. Arguments: the source root, the library, a C compiler."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT, LIBRARY, CC = sys.argv[1:4]
STRUCTS = {"Tensor": "md_tensor", "Arg": "md_arg", "ContextOptions": "md_context_options", "OpOptions": "md_op_options", "Choice": "md_choice"}


def declared():
    """{struct of md/types.h: [(field, offset)], and ("", size)} as Python has them."""
    os.environ["JUDGE_LIB"] = LIBRARY
    spec = importlib.util.spec_from_file_location("judge_md", pathlib.Path(ROOT) / "tools" / "judge_md.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    import ctypes
    out = {}
    for name, struct in STRUCTS.items():
        cls = getattr(module, name)
        out[struct] = [(field[0], getattr(cls, field[0]).offset) for field in cls._fields_] + [("", ctypes.sizeof(cls))]
    return out


def ask_compiler(python):
    """The same fields as the compiler places them."""
    lines = ["#include <md/md.h>", "#include <stdio.h>", "#include <stddef.h>", "int main(void) {"]
    for struct, fields in python.items():
        for field, _ in fields[:-1]:
            lines.append(f'printf("{struct} {field} %zu\\n", offsetof({struct}, {field}));')
        lines.append(f'printf("{struct} - %zu\\n", sizeof({struct}));')
    lines.append("}")
    with tempfile.TemporaryDirectory() as folder:
        source, program = pathlib.Path(folder) / "layout.c", pathlib.Path(folder) / "layout"
        source.write_text("\n".join(lines), encoding="utf-8")
        subprocess.run([*CC.split(), "-I", str(pathlib.Path(ROOT) / "include"), "-o", str(program), str(source)], check=True)
        text = subprocess.run([str(program)], stdout=subprocess.PIPE, text=True, check=True).stdout
    out = {}
    for line in text.splitlines():
        struct, field, at = line.split()
        out.setdefault(struct, []).append(("" if field == "-" else field, int(at)))
    return out


def main():
    python = declared()
    c = ask_compiler(python)
    bad = [f"{s}.{f or '(size)'}: {at} in Python, {dict(c[s])[f]} in C" for s, fields in python.items() for f, at in fields if dict(c[s])[f] != at]
    print("\n".join(bad) or f"{sum(map(len, python.values()))} places agree")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
