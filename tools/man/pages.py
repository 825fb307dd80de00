#!/usr/bin/env python3
"""Makes HTML of man pages by mandoc: a page that loads nothing, with links to the others; or the page that lists them.
Arguments: mandoc, output, the pages' names separated by commas, a page or, for the list, all of them."""

import html
import pathlib
import re
import subprocess
import sys

HEAD = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
:root{{--text:#1b1b1b;--ground:#fff;--line:#ccc;--link:#0550ae}}
@media(prefers-color-scheme:dark){{:root{{--text:#e8e8e8;--ground:#161616;--line:#444;--link:#7ab8ff}}}}
body{{font:1rem/1.5 system-ui,sans-serif;color:var(--text);background:var(--ground);max-width:60rem;margin:0 auto;padding:1rem}}
a{{color:var(--link)}} pre,table{{overflow-x:auto;display:block}} td{{padding:.1rem .5rem;vertical-align:top}} h1{{font-size:1.3rem}}
a.permalink{{color:inherit;text-decoration:none}} table.head,table.foot{{color:var(--line);font-size:.8rem}} dd{{margin-left:2rem}}
</style>
</head>
<body>
<nav>{links}</nav>
<main>
"""


def link_of(name):
    return f'<a href="{name}.html">{name[:-2]}({name[-1]})</a>'


def linked(text, names):
    """Names of pages, as <b>md-limits</b>(7), as links."""
    for name in names:
        text = re.sub(rf"<b>{re.escape(name[:-2])}</b>\({name[-1]}\)", link_of(name), text)
    return text


def page(mandoc, path, names):
    body = subprocess.run([mandoc, "-T", "html", "-O", "fragment", path], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.sub(r"<pre>", '<pre tabindex="0">', linked(body, names))


def purpose(path):
    """What a page is about: behind the dash of its section NAME."""
    found = re.search(r'\.SH "?NAME"?\n(?:\.\w+.*\n)*.*? \\?- (.*)', path.read_text(encoding="utf-8"))
    return re.sub(r"\\f[BIR]|\\&|\\", "", found[1]) if found else ""


def main():
    mandoc, output, names, *paths = sys.argv[1:]
    names = names.split(",")
    if len(paths) == 1:
        title, body = pathlib.Path(paths[0]).name, page(mandoc, paths[0], names)
    else:
        items = "".join(f"<li>{link_of(path.name)}: {html.escape(purpose(path))}</li>\n" for path in map(pathlib.Path, paths))
        title, body = "multidispatch", f"<h1>multidispatch: the manual</h1>\n<ul>\n{items}</ul>\n"
    links = " ".join(['<a href="index.html">manual</a>', *map(link_of, names)])
    pathlib.Path(output).write_text(HEAD.format(title=html.escape(title), links=links) + body + "</main>\n</body>\n</html>\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
