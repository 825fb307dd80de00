#!/usr/bin/env python3
"""Fills a man page's template with the tables of the code and gives it to scdoc.
Arguments: template, output, scdoc, mdctl, program that prints the library's tables (tables.c), the list of changes.
A line @name@ becomes the table of that name, @file PATH@ the text of a file beside the template, @changes@ the list."""

import json
import pathlib
import re
import subprocess
import sys


def escaped(text):
    return re.sub(r"([\\*_`#\[\]<>])", r"\\\1", text)


def definitions(rows):
    """Entries of a list: (name, what follows it, meaning)."""
    return "\n\n".join(f"*{escaped(name)}*{escaped(more)}\n\t{escaped(meaning)}" for name, more, meaning in rows)


def table(head, rows):
    lines = ["|[ " + "\n:[ ".join(f"*{cell}*" for cell in head)]
    lines += ["|  " + "\n:  ".join(escaped(cell) if cell else " " for cell in row) for row in rows]
    return "\n".join(lines) + "\n"


def operand_list(count):
    return ", ".join("abc"[:count])


def inline(text):
    """A line of Markdown: what stands between backticks or asterisks is bold."""
    parts = re.split(r"`([^`]*)`|\*\*([^*]*)\*\*", text)
    return "".join(escaped(plain) + (f"*{escaped(code or bold)}*" if code or bold else "")
                   for plain, code, bold in zip(parts[::3], parts[1::3] + [None], parts[2::3] + [None]))


def changes(path):
    """The list of changes, Markdown of headings, paragraphs and bullets, as a part of a page."""
    text = pathlib.Path(path).read_text(encoding="utf-8")
    blocks = re.split(r"\n(?=## |- |\n)", text[text.index("\n## "):])
    out = []
    for block in (" ".join(b.split()) for b in blocks):
        if block.startswith("## "):
            out.append(f"\n# {block[3:].upper()}\n")
        elif block.startswith("- "):
            out.append(f"- {inline(block[2:])}")
        elif block:
            out.append(f"\n{inline(block)}\n")
    return "\n".join(out)


def tables(mdctl, print_tables):
    told = json.loads(subprocess.run([mdctl, "help", "--json"], stdout=subprocess.PIPE, check=True).stdout)
    rows = [line.split("\t") for line in
            subprocess.run([print_tables], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()]
    own = {name: [row[1:] for row in rows if row[0] == name] for name in {row[0] for row in rows}}
    return {
        "commands": definitions((f"mdctl {c['name']}", " " + c["arguments"], c["meaning"]) for c in told["commands"]),
        "options": definitions((f"--{o['name']}", " " + o["value"] if o["value"] else "", o["meaning"]) for o in told["options"]),
        "variables": definitions((v["name"], " = " + v["values"].replace("|", " | "), v["meaning"]) for v in told["variables"]),
        "ops": "\n\n".join(f"*{escaped(o['name'])}*\n\t{escaped(o['meaning'])}++\n{escaped(o['formula'])}" for o in told["ops"]),
        "functions": table(["Function", "Result", "Computes"], [(f"{name}({operand_list(int(n))})", type_name, text.replace("md_scalar_", ""))
                                                                for name, n, type_name, text in own["functions"]]),
        "reductions": ", ".join(f"*{row[0]}*" for row in own["reductions"]),
        "scans": ", ".join(f"*{row[0]}*" for row in own["scans"]),
        "dtypes": table(["Type", "Bytes", "Computed in"], own["dtypes"]),
        **{name: table(["At most", " "], [(n, what) for what, n in own[name]]) for name in own if name.startswith("limits")},
    }


def fill(template, found):
    folder = template.parent

    def replaced(match):
        words = match.group(1).split()
        if words[0] == "file":
            return (folder / words[1]).read_text(encoding="utf-8").rstrip().replace("\\", "\\\\")
        return found[words[0]]

    return re.sub(r"^@([\w ./-]+)@$", replaced, template.read_text(encoding="utf-8"), flags=re.M)


def main():
    template, output, scdoc, mdctl, print_tables, list_of_changes = sys.argv[1:]
    text = fill(pathlib.Path(template), tables(mdctl, print_tables) | {"changes": changes(list_of_changes)})
    done = subprocess.run([scdoc], input=text, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == 0:
        pathlib.Path(output).write_text(done.stdout, encoding="utf-8")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
