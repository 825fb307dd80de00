"""Faults that tools/mutate puts into C text: each operator finds its sites in the bodies of functions.

A site is a Fault: the range of the text that it replaces, by what, and the operator's name. Comments, texts and
preprocessor lines are no sites, and neither are functions that call kill(): a fault there could end other processes."""

import collections
import platform
import re

Fault = collections.namedtuple("Fault", "operator start end text")

NEGATED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
SHIFTED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
COMPARISON = re.compile(r"(?<![<>=!\-])(==|!=|<=|>=|<|>)(?![<>=])")
STEP = re.compile(r"(?<=[\w)\]]) [+-] 1\b(?![.\w])")
EXTREME = re.compile(r"\bMD_(MIN|MAX)\b(?=\()")
# On x86 loads acquire, stores release, and read-modify-write operations are barriers, whatever is asked for: the faulty
# program has the same order but for what the compiler moves. No test can see that; ThreadSanitizer's build does.
KEEPS_ORDER = platform.machine() in ("x86_64", "AMD64", "i686")
ORDER = re.compile(r"\bmemory_order_(acquire|release|acq_rel|seq_cst)\b")
IF = re.compile(r"\bif (?=\()")
LEAVES = re.compile(r"\s*(return|continue|break|goto)\b")
TRY = re.compile(r"^[ \t]+(MD_TRY)(?=\()", re.M)
CONSTANT = re.compile(r"(?:\breturn |[^=!<>]= )(true|false|0|1|-1)(?=;)")
OTHER_CONSTANT = {"true": "false", "false": "true", "0": "1", "1": "0", "-1": "0"}
LVALUE = r"\*?[A-Za-z_]\w*(?:(?:->|\.)\w+|\[[^\];]*\])*"
STATEMENT = re.compile(rf"^[ \t]+((?:{LVALUE}(?:\+\+|--| (?:[-+*/%&|^]|<<|>>)?= [^;]*)|(?:\(void\))?[a-z_]\w*\([^;]*\));)$", re.M)
# Without these a process leaks, hangs or says less to the log: that is no fault of a result. The rest is no call, or
# is an operator of its own.
KEPT = re.compile(r"\b\w*(unlock|free|finish|destroy|close|release|delete|unref|decref|prefetch|log|nvtx|assert|MD_TRY|return|if|for|while|"
                  r"switch|sizeof|va_start|va_end|else|do|unused)\w*\b *\(")
DANGEROUS = re.compile(r"\bkill\(")


def masked(text):
    """The text with comments, texts, characters and preprocessor lines blanked; lines and columns stay."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0))
    text = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', blank, text, flags=re.S)
    text = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.M)
    return re.sub(r"\bassert\([^;]*\);", blank, text)


def bodies(mask):
    """Ranges of functions' bodies, found by their layout: both braces stand in column 0."""
    for opened in re.finditer(r"\)[^;{}]*\n\{\n", mask):
        closed = mask.find("\n}", opened.end() - 1)
        if closed >= 0 and not DANGEROUS.search(mask, opened.end(), closed):
            yield opened.end(), closed + 1


def closing(mask, start):
    """The place behind the parenthesis that closes the one at start."""
    depth = 0
    for i in range(start, len(mask)):
        depth += mask[i] in "([{"
        depth -= mask[i] in ")]}"
        if depth == 0:
            return i + 1
    return len(mask)


def operand_end(mask, start, end):
    """Where the operand that begins at start ends: at an operator that binds less, at its depth."""
    i = start
    while i < end:
        if mask[i] in "([{":
            i = closing(mask, i)
            continue
        if mask[i] in ")]};,?:" or mask.startswith(("&&", "||"), i):
            break
        i += 1
    return i


def operand_start(mask, start, end):
    """Where the operand that ends at end begins; start: the body's."""
    depth, i = 0, end
    while i > start:
        c = mask[i - 1]
        depth += c in ")]}"
        if c in "([{" and depth == 0 or depth == 0 and (c in ";,?:{}" or mask[i - 2:i] in ("&&", "||")):
            break
        if depth == 0 and (re.match(r"[^=!<>]= $", mask[i - 3:i]) or mask[i - 7:i] == "return "):
            break
        depth -= c in "([{"
        i -= 1
    while i < end and mask[i].isspace():
        i += 1
    return i


def conditions(mask, start, end):
    for match in re.compile(r"&&|\|\|").finditer(mask, start, end):
        left, right = operand_start(mask, start, match.start()), operand_end(mask, match.end(), end)
        behind = match.end() + len(mask[match.end():right]) - len(mask[match.end():right].lstrip())
        yield Fault("condition", left, behind, "")
        yield Fault("condition", match.start() - (mask[match.start() - 1] == " "), right, "")


def checks(text, mask, start, end):
    for match in IF.finditer(mask, start, end):
        opened = match.end()
        closed = closing(mask, opened)
        if LEAVES.match(mask, closed):
            yield Fault("check", opened, closed, f"(0 && {text[opened:closed]})")
    for match in TRY.finditer(mask, start, end):
        yield Fault("check", match.start(1), match.end(1), "(void)")


def statements(mask, start, end):
    for match in STATEMENT.finditer(mask, start, end):
        before = mask[start - 2:match.start()].rstrip()
        whole = match.group(1)
        if (before.endswith((";", "{", "}", ")")) or before.endswith("else")) and not KEPT.search(whole) and \
                whole.count("(") == whole.count(")") and "{" not in whole:
            yield Fault("statement", match.start(1), match.end(1), ";")


def faults_of(text):
    """All sites of a file, in order."""
    mask, found = masked(text), []
    for start, end in bodies(mask):
        for match in COMPARISON.finditer(mask, start, end):
            found.append(Fault("compare", match.start(1), match.end(1), NEGATED[match.group(1)]))
            if match.group(1) in SHIFTED:
                found.append(Fault("bound", match.start(1), match.end(1), SHIFTED[match.group(1)]))
        found += [Fault("bound", m.start(), m.end(), "") for m in STEP.finditer(mask, start, end)]
        found += [Fault("extreme", m.start(1), m.end(1), "MAX" if m.group(1) == "MIN" else "MIN")
                  for m in EXTREME.finditer(mask, start, end)]
        if not KEEPS_ORDER:
            found += [Fault("order", m.start(1), m.end(1), "relaxed") for m in ORDER.finditer(mask, start, end)]
        found += [Fault("constant", m.start(1), m.end(1), OTHER_CONSTANT[m.group(1)])
                  for m in CONSTANT.finditer(mask, start, end)]
        found += [*conditions(mask, start, end), *checks(text, mask, start, end), *statements(mask, start, end)]
    return sorted(found, key=lambda f: (f.start, f.end, f.operator, f.text))


def apply(text, fault):
    return text[:fault.start] + fault.text + text[fault.end:]


def lines_of(text, fault):
    """The lines that the fault changes, before and after, without indentation; lines are joined by a blank."""
    first = text.rfind("\n", 0, fault.start) + 1
    last = text.find("\n", fault.end)
    last = len(text) if last < 0 else last
    changed = text[first:fault.start] + fault.text + text[fault.end:last]
    return " ".join(text[first:last].split()), " ".join(changed.split())
