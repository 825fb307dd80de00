#!/usr/bin/env python3
"""The man pages name all that they are about, and roff's tools find no fault in them.
Arguments: source root, mdctl, program that prints the library's tables, folder of the pages."""

import json
import pathlib
import re
import shutil
import subprocess
import sys


def text_of(page):
    """A page without roff's requests and escapes."""
    text = re.sub(r"\\f[BIR]|\\&", "", page.read_text(encoding="utf-8"))
    return text.replace("\\-", "-").replace("\\e", "\\")


def faults(page):
    """What the tools that are here say against a page."""
    said = ""
    if shutil.which("mandoc"):
        said += subprocess.run(["mandoc", "-Tlint", "-Werror", str(page)], stdout=subprocess.PIPE, text=True, check=False).stdout
    if shutil.which("groff"):
        text = ".pl 32000\n" + page.read_text(encoding="utf-8")  # one long page: where pages end is nobody's fault
        said += subprocess.run(["groff", "-man", "-t", "-Kutf8", "-Tutf8", "-wall", "-rLL=100n", "-z"], input=text, encoding="utf-8",
                               stderr=subprocess.PIPE, check=False).stderr
    return said


def main():
    root, mdctl, print_tables, folder = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4])
    told = json.loads(subprocess.run([mdctl, "help", "--json"], stdout=subprocess.PIPE, check=True).stdout)
    rows = [line.split("\t") for line in
            subprocess.run([print_tables], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()]
    header = "".join(p.read_text(encoding="utf-8") for p in (root / "include" / "md").glob("*.h"))
    wanted = {
        "mdctl.1": [f"mdctl {c['name']}" for c in told["commands"]] + [f"--{o['name']}" for o in told["options"]],
        "md-environment.7": [v["name"] for v in told["variables"]],
        "md-formula.7": [row[1] for row in rows if not row[0].startswith("limits")] + [o["name"] for o in told["ops"]],
        "md-limits.7": [word for row in rows if row[0].startswith("limits") for word in row[1:]],
        "multidispatch.3": re.findall(r"^MD_API [^(;]*?(md_\w+)\(", header, flags=re.M)
                           + re.findall(r"^static inline md_arg (md_\w+)\(", header, flags=re.M),
    }
    wanted["md-changes.7"] = re.findall(r"`(md_\w+)`", (root / "data/CHANGES.md").read_text(encoding="utf-8"))
    wanted["md-tutorial.7"] = re.findall(r"^# (.*)", (root / "tools/man/md-tutorial.7.scd").read_text(encoding="utf-8"), flags=re.M)
    n_bad = 0
    terms = {"multidispatch.3": ["family", "stages", "envelope", "pool", "variant", "hints"], "mdctl.1": ["family", "stage", "pool", "variant"],
             "md-environment.7": ["family", "stage", "pool", "variant"], "md-limits.7": ["family", "stage", "envelope", "pool", "variant", "hint"]}
    for name, words in terms.items():  # defined in italics, and not used before
        page = (folder / name).read_text(encoding="utf-8")
        body = page[page.index(".SH DESCRIPTION"):]
        for word in words:
            at = re.search(rf"\\fI{word}\\fR", body)
            before = body[:at.start()] if at else body
            bad = not at or re.search(rf"\b{word}\b", re.sub(r"\\f[BIR]", "", before))
            n_bad += bool(bad)
            if bad:
                print(f"{name}: {word} is not defined at its first use")
    for name, words in wanted.items():
        text, said = text_of(folder / name), faults(folder / name)
        missing = [w for w in words if not re.search(r"(?<![\w-])" + re.escape(w) + r"(?![\w-])", text)] if words else ["anything"]
        n_bad += len(missing) + bool(said) + ("\n@" in text)
        print(f"{name}: {len(words)} names" + "".join(f"\n  does not name {w}" for w in missing) + (f"\n{said}" if said else ""))
    n_bad += check_html(folder, sorted(wanted))
    return 1 if n_bad else 0


def leads(link, name, pages):
    """True if a page has the place that a link on page `name` names."""
    page, _, place = link.partition("#")
    text = pages.get(page or name)
    return text is not None and (not place or f' id="{place}"' in text)


def check_html(folder, names):
    """The pages as HTML, where mandoc made them: each has the words of its man page and loads nothing; links lead to pages."""
    pages = {p.name: p.read_text(encoding="utf-8") for p in folder.glob("*.html")}
    wrong = [f"{name}.html is missing" for name in [*names, "index"] if pages and f"{name}.html" not in pages]
    for name, text in pages.items():
        wrong += [f"{name}: {link} leads nowhere" for link in re.findall(r'href="([^"]*)"', text) if not leads(link, name, pages)]
        places = re.findall(r' id="([^"]*)"', text)
        wrong += [f"{name}: two places are called {place}" for place in sorted(set(places)) if places.count(place) > 1]
        wrong += [f"{name}: loads {what}" for what in re.findall(r"<script|<link|<img|@import|https?://(?!www\.w3\.org)\S+", text)]
        plain = " ".join(re.sub(r"<[^>]*>", "", text).split())
        heads = re.findall(r'(?m)^\.SH "?([^"\n]+?)"?$', (folder / name[:-5]).read_text(encoding="utf-8")) if name != "index.html" else []
        wrong += [f"{name}: lacks the section {head}" for head in heads if head.replace("\\", "") not in plain]
    print("\n".join([f"HTML: {len(pages)} pages", *wrong]))
    return len(wrong)


if __name__ == "__main__":
    sys.exit(main())
