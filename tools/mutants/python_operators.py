"""The faults of operators.py for Python text. Sites are found in the syntax tree, in the bodies of functions.

Texts, comments, annotations, defaults and decorators are no sites."""

import ast

from operators import Fault, OTHER_CONSTANT

NEGATED = {ast.Eq: "!=", ast.NotEq: "==", ast.Lt: ">=", ast.GtE: "<", ast.Gt: "<=", ast.LtE: ">", ast.Is: "is not",
           ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in"}
SHIFTED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
OTHER_EXTREME = {"min": "max", "max": "min"}
LEAVES = (ast.Return, ast.Continue, ast.Break, ast.Raise)
# Dropped, they only leak or say less.
KEPT = ("close", "unlink", "warn", "warning", "debug", "info", "print", "rmtree")


class Places:
    """Offsets of nodes: the tree counts lines, and bytes of UTF-8 in them."""

    def __init__(self, text):
        self.text, self.lines, self.starts = text, text.splitlines(True), [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))

    def at(self, line, column):
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def of(self, node):
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)


def comparisons(node, places):
    left = node.left
    for operator, right in zip(node.ops, node.comparators):
        start, end = places.of(left)[1], places.of(right)[0]
        is_plain = places.text[start:end].strip(" ") in NEGATED.values()  # no parenthesis, no line's end
        for name, table in (("compare", NEGATED), ("bound", SHIFTED)):
            if is_plain and type(operator) in table:
                yield Fault(name, start, end, f" {table[type(operator)]} ")
        left = right


def conditions(node, places):
    """Each operand replaced by what leaves the decision to the others."""
    for value in node.values:
        yield Fault("condition", *places.of(value), "True" if isinstance(node.op, ast.And) else "False")


def checks(node, places):
    if isinstance(node.body[0], LEAVES) and not node.orelse:
        start, end = places.of(node.test)
        yield Fault("check", start, end, f"False and ({places.text[start:end]})")


def steps(node, places):
    start, end = places.of(node.left)[1], places.of(node)[1]
    if places.text[start:end] in (" + 1", " - 1"):
        yield Fault("bound", start, end, "")


def statements(node, places):
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(node, ast.Expr) and not isinstance(call, ast.Call):
        return  # a text, or a yield
    named = call and (call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", ""))
    # A name that is never set is an error that every test notices.
    is_name = isinstance(node, ast.Assign) and any(isinstance(t, (ast.Name, ast.Tuple)) for t in node.targets)
    if named not in KEPT and not is_name:
        yield Fault("statement", *places.of(node), "pass")


def constants(node, places):
    value = node.value
    if isinstance(value, ast.Constant) and repr(value.value).lower() in OTHER_CONSTANT:
        other = OTHER_CONSTANT[repr(value.value).lower()]
        yield Fault("constant", *places.of(value), other.capitalize() if isinstance(value.value, bool) else other)


def extremes(node, places):
    if isinstance(node.func, ast.Name) and node.func.id in OTHER_EXTREME:
        yield Fault("extreme", *places.of(node.func), OTHER_EXTREME[node.func.id])


FINDERS = ((ast.Compare, comparisons), (ast.BoolOp, conditions), (ast.If, checks), (ast.BinOp, steps), (ast.Call, extremes),
           ((ast.Expr, ast.AugAssign, ast.Assign), statements), ((ast.Return, ast.Assign), constants))


def faults_of(text):
    """All sites of a file, in order."""
    places, found = Places(text), set()
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        for node in (n for statement in function.body for n in ast.walk(statement)):
            for kinds, finder in FINDERS:
                if isinstance(node, kinds):
                    found.update(finder(node, places))
    return sorted(found, key=lambda f: (f.start, f.end, f.operator, f.text))
