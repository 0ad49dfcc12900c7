"""The ways in which one module can be made wrong: each mutant changes one expression or statement of its text."""

import ast
import copy
import difflib
import gc
import hashlib
from dataclasses import dataclass

COMPARED = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
COMPUTED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult}
RENAMED = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of one module: `before`, from `start` to `end` (in bytes of its text), becomes `after`."""

    path: str
    line: int
    what: str
    start: int
    end: int
    before: str
    after: str

    @property
    def name(self):
        """The same in every run, as long as the module's line reads the same."""
        told = "\0".join((self.path, str(self.line), self.what, str(self.start), self.before, self.after))
        return hashlib.sha256(told.encode()).hexdigest()[:12]

    def applied(self, source):
        """The module's text with this change."""
        data = source.encode()
        return (data[: self.start] + self.after.encode() + data[self.end :]).decode()

    def compiles(self, source):
        """Whether it is Python: what is not would prove nothing."""
        try:
            compile(self.applied(source), self.path, "exec")
        except SyntaxError:
            return False
        return True

    def diff(self, source):
        """The change, for a reader."""
        lines = difflib.unified_diff(
            source.splitlines(), self.applied(source).splitlines(), self.path, f"{self.path} ({self.what})", lineterm="", n=2
        )
        return "\n".join(lines)


def mutants_of(path, source):
    """Every mutant of a module, in the order of its text. A few may not compile."""
    finder = _Finder(path, source)
    gc.disable()  # a generator that is collected in the midst of it breaks CPython's count of the parser's depth
    try:
        finder.visit(ast.parse(source))
    finally:
        gc.enable()
    changed = (mutant for mutant in finder.found if mutant.before != mutant.after)
    return sorted(changed, key=lambda mutant: (mutant.start, mutant.end, mutant.what, mutant.after))


class _Finder(ast.NodeVisitor):
    """Collects mutants. What no test could notice is left out: annotations, log lines, texts of errors."""

    def __init__(self, path, source):
        self.found = []
        self._path = path
        self._source = source.encode()
        self._lines = [0]
        for line in self._source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def _add(self, node, what, after):
        start = self._lines[node.lineno - 1] + node.col_offset
        end = self._lines[node.end_lineno - 1] + node.end_col_offset
        self.found.append(Mutant(self._path, node.lineno, what, start, end, self._source[start:end].decode(), after))

    def _replace(self, node, what, new):
        self._add(node, what, f"({ast.unparse(new)})" if isinstance(new, ast.expr) else ast.unparse(new))

    # -- what is passed over ------------------------------------------------------------------------------------------

    def visit_AnnAssign(self, node):
        if node.value is not None:
            self.visit(node.value)

    def visit_arg(self, node):
        pass

    def visit_JoinedStr(self, node):
        """Texts; before Python 3.12 the parts of one do not even say where they stand."""

    def visit_ClassDef(self, node):
        for statement in node.body:
            self.visit(statement)

    def visit_FunctionDef(self, node):
        for default in [*node.args.defaults, *(default for default in node.args.kw_defaults if default is not None)]:
            self.visit(default)
        for statement in node.body:
            self.visit(statement)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815 - as above

    # -- statements ---------------------------------------------------------------------------------------------------

    def visit_Expr(self, node):
        if isinstance(node.value, ast.Constant) or _logs(node.value):
            return
        self._add(node, "statement removed", "pass")
        self.generic_visit(node)

    def visit_Assign(self, node):
        if any(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            self._add(node, "assignment removed", "pass")
        if [target.id for target in node.targets if isinstance(target, ast.Name)] != ["__all__"]:
            self.visit(node.value)

    def visit_AugAssign(self, node):
        self._add(node, "assignment removed", "pass")
        self.generic_visit(node)

    def visit_Raise(self, node):
        self._add(node, "raise removed", "pass")

    def visit_Delete(self, node):
        self._add(node, "del removed", "pass")

    def visit_Continue(self, node):
        self._add(node, "continue removed", "pass")

    def visit_Return(self, node):
        if node.value is None:
            self._add(node, "return removed", "pass")
            return
        if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self._add(node, "None returned", "return None")
        self.visit(node.value)

    def visit_If(self, node):
        self._negate(node.test)
        self.generic_visit(node)

    # -- expressions --------------------------------------------------------------------------------------------------

    def visit_IfExp(self, node):
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node):
        for test in node.ifs:
            self._negate(test)
        self.generic_visit(node)

    def visit_match_case(self, node):
        """A pattern is passed over; its guard is not."""
        if node.guard is not None:
            self._negate(node.guard)
            self.visit(node.guard)
        for statement in node.body:
            self.visit(statement)

    def visit_Compare(self, node):
        for at, operator in enumerate(node.ops):
            new = copy.deepcopy(node)
            new.ops[at] = COMPARED[type(operator)]()
            self._replace(node, "comparison changed", new)
        self.generic_visit(node)

    def visit_BoolOp(self, node):
        new = copy.deepcopy(node)
        new.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        self._replace(node, "and/or changed", new)
        for at in range(len(node.values)):
            left = node.values[:at] + node.values[at + 1 :]
            self._replace(node, "condition dropped", left[0] if len(left) == 1 else ast.BoolOp(node.op, left))
        self.generic_visit(node)

    def visit_UnaryOp(self, node):
        if isinstance(node.op, ast.Not | ast.USub):
            self._replace(node, "not or minus dropped", node.operand)
        self.generic_visit(node)

    def visit_BinOp(self, node):
        if type(node.op) in COMPUTED and not _is_text(node.left) and not _is_text(node.right):
            new = copy.deepcopy(node)
            new.op = COMPUTED[type(node.op)]()
            self._replace(node, "arithmetic changed", new)
        self.generic_visit(node)

    def visit_Constant(self, node):
        match node.value:
            case bool():
                self._add(node, "constant changed", str(not node.value))
            case int() | float():
                self._add(node, "constant changed", repr(node.value + 1))
            case _:
                pass

    def visit_Call(self, node):
        if _logs(node):
            return
        if isinstance(node.func, ast.Name) and node.func.id in RENAMED:
            self._add(node.func, "function changed", RENAMED[node.func.id])
        self.generic_visit(node)

    def _negate(self, test):
        if not isinstance(test, ast.UnaryOp | ast.Compare):  # of which other mutants are the same
            self._add(test, "condition negated", f"(not ({ast.unparse(test)}))")


def _is_text(node):
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _logs(node):
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "logger"
    )
