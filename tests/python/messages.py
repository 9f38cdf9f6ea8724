"""The texts of TensorBow for its users: warnings, reasons and errors, read from the code.

A text has "…" for every inserted value. An expression that cannot be read as a text is an
AssertionError, so that nothing is overlooked.
"""

from __future__ import annotations

import ast
import dataclasses
import pathlib
import re
from collections.abc import Iterator

ROOT = pathlib.Path(__file__).parents[2]
RUNS = (
    "cc/checkpoint",
    "cc/coordination",
    "cc/feeds",
    "cc/program",
    "cc/replicas",
    "cc/trainer",
    "cc/training",
)
GRAPHS = ("cc/analysis", "cc/graph", "cc/passes")
HOLE = "…"
_SENTENCE = 40  # characters of the shortest


@dataclasses.dataclass(frozen=True)
class Message:
    """A text, and its place in the code.

    Attributes:
      where: file and line.
      kind: "warning", "reason", or the exception's class.
      text: with holes, white space collapsed.
    """

    where: str
    kind: str
    text: str


def collapsed(text: str) -> str:
    """Replaces several holes by one, and any white space by a space."""
    return re.sub(rf"{HOLE}+", HOLE, re.sub(r"\s+", " ", text)).strip()


def without_lines(text: str) -> str:
    """Returns the text without the lines of the program that follow operations."""
    return re.sub(r" \([^()]*\.py:\d+\)", "", text)


def literal_length(text: str) -> int:
    """Returns the number of characters that are not holes."""
    return len(text.replace(HOLE, ""))


# ------------------------------------------------------------------------------ Python


def python_text(node: ast.expr) -> str:
    """Returns the text that an expression makes."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = [v.value if isinstance(v, ast.Constant) else HOLE for v in node.values]
        return "".join(str(part) for part in parts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return python_text(node.left) + python_text(node.right)
    return HOLE


def python_warnings(source: str, where: str = "") -> Iterator[Message]:
    """Returns the arguments of `warnings.warn` and loggers, except those from the native
    runtime."""
    tree = ast.parse(source)
    handed_on = {
        ast.unparse(node.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.For) and ast.unparse(node.iter).endswith("take_warnings()")
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if ast.unparse(node.func).rpartition(".")[2] not in ("warn", "warning"):
            continue
        text = collapsed(python_text(node.args[0]))
        if text == HOLE and ast.unparse(node.args[0]) in handed_on:
            continue
        assert literal_length(text) > 0, f"{where}:{node.lineno}: no text in {ast.unparse(node)}"
        yield Message(f"{where}:{node.lineno}", "warning", text)


def python_raises(source: str, where: str = "") -> Iterator[Message]:
    """Returns raised errors, with the longest text among their arguments."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            texts = [collapsed(python_text(argument)) for argument in node.exc.args]
            kind = ast.unparse(node.exc.func).rpartition(".")[2]
            yield Message(f"{where}:{node.lineno}", kind, max(texts, key=len, default=""))


def python_returns(source: str, function: str, where: str = "") -> Iterator[Message]:
    """Returns the texts that a function returns."""
    for made in ast.walk(ast.parse(source)):
        if not isinstance(made, ast.FunctionDef) or made.name != function:
            continue
        for node in ast.walk(made):
            if isinstance(node, ast.Return) and node.value is not None:
                yield Message(
                    f"{where}:{node.lineno}", "return", collapsed(python_text(node.value))
                )


def python_assignments(source: str, name: str, where: str = "") -> Iterator[Message]:
    """Returns the texts assigned to a variable of that name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            text = collapsed(python_text(node.value))
            if literal_length(text) > 0:
                yield Message(f"{where}:{node.lineno}", "reason", text)


# --------------------------------------------------------------------------------- C++

_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"')
_GLUE = re.compile(r"[\s,()]*(?:absl::(?:StrCat|StrFormat)\(|std::string\()*[\s,()]*")
_FORMATTED = re.compile(r"%[-+.\d]*[a-z]")


def balanced(source: str, begin: int) -> str:
    """Returns the text between the parenthesis at `begin` and the one that closes it."""
    depth, at = 0, begin
    while True:
        literal = _LITERAL.match(source, at)
        if literal:
            at = literal.end()
            continue
        depth += {"(": 1, ")": -1}.get(source[at], 0)
        at += 1
        if depth == 0:
            return source[begin + 1 : at - 1]


def statement(source: str, begin: int) -> str:
    """Returns the text between `begin` and the next semicolon outside of literals."""
    at = begin
    while source[at] != ";":
        literal = _LITERAL.match(source, at)
        at = literal.end() if literal else at + 1
    return source[begin:at]


def cc_text(expression: str) -> str:
    """Returns the text that an expression makes: its literals, with holes between them."""
    parts = _LITERAL.split(re.sub(r"//[^\n]*", "", expression))
    text = ""
    for number, part in enumerate(parts):
        if number % 2:
            unescaped = part.replace('\\"', '"').replace("\\n", "\n")
            text += _FORMATTED.sub(HOLE, unescaped)
        elif not _GLUE.fullmatch(part):
            text += HOLE
    return collapsed(text)


def _line(source: str, at: int) -> int:
    return source.count("\n", 0, at) + 1


def cc_warnings(source: str, where: str = "") -> Iterator[Message]:
    """Returns the arguments of the warning sinks `warn_(…)`, `warn()(…)`, `Warn(…)` and
    `LOG(WARNING)`, and what functions `…Text(…)` return for them."""
    handed_on = {"text", "std::move(warn)"}
    found = []
    sinks = r"(?<![\w:.>])(?:warn_|Warn)\(|(?:training_|warnings)->Warn\(|\bwarn\(\)\("
    for call in re.finditer(sinks, source):
        argument = balanced(source, call.end() - 1)
        if not re.fullmatch(r"\w+Text\(.*\)", argument.strip(), re.S):
            found.append((call.start(), argument))
    for made in re.finditer(r"^std::string \w+Text\(.*?^}", source, re.M | re.S):
        for call in re.finditer(r"\breturn ", made[0]):
            returned = statement(made[0], call.end())
            if literal_length(cc_text(returned)) >= _SENTENCE:
                found.append((made.start() + call.start(), returned))
    for call in re.finditer(r"LOG\((?:WARNING|ERROR)\)\s*<<", source):
        found.append((call.start(), statement(source, call.end())))
    for at, argument in found:
        # A declaration has a type.
        if argument.strip() in handed_on or argument.startswith("const std::string&"):
            continue
        text = cc_text(argument)
        assert literal_length(text) > 0, f"{where}:{_line(source, at)}: no text in {argument}"
        yield Message(f"{where}:{_line(source, at)}", "warning", text)


def cc_errors(source: str, where: str = "") -> Iterator[Message]:
    """Returns the arguments of `absl::…Error(…)`."""
    for call in re.finditer(r"absl::(\w+Error)\(", source):
        text = cc_text(balanced(source, call.end() - 1))
        yield Message(f"{where}:{_line(source, call.start())}", call[1], text)


def cc_calls(source: str, function: str, where: str = "") -> Iterator[Message]:
    """Returns the arguments of a function that passes an error on."""
    for call in re.finditer(rf"\b{function}\(", source):
        text = cc_text(balanced(source, call.end() - 1))
        if literal_length(text) > 0:
            yield Message(f"{where}:{_line(source, call.start())}", function, text)


def cc_reasons(source: str, where: str = "") -> Iterator[Message]:
    """Returns the values assigned to a member with the reason why a run is not divided."""
    for found in re.finditer(r"\b(?:ambiguous|doubt|why_?|why_central)\s*=\s", source):
        text = cc_text(statement(source, found.end()))
        if literal_length(text) > 0:
            yield Message(f"{where}:{_line(source, found.start())}", "reason", text)


def cc_returns(source: str, function: str, where: str = "") -> Iterator[Message]:
    """Returns the texts that a function returns."""
    body = re.search(rf"^[\w:]+ {function}\(.*?^}}", source, re.M | re.S)
    assert body, f"{where} has no {function}"
    for found in re.finditer(r"\breturn ", body[0]):
        text = cc_text(statement(body[0], found.end()))
        if literal_length(text) > 0:
            yield Message(f"{where}:{_line(source, body.start() + found.start())}", "reason", text)


# ---------------------------------------------------------------------- the whole code


def _files(folder: str, *endings: str) -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / folder).rglob("*")):
        if path.suffix in endings:
            yield str(path.relative_to(ROOT)), path.read_text()


def all_warnings() -> list[Message]:
    """Returns all warnings."""
    found: list[Message] = []
    for where, source in _files("tensorbow", ".py"):
        found += python_warnings(source, where)
    for folder in ("cc", "tf_ops"):
        for where, source in _files(folder, ".cc", ".h"):
            found += cc_warnings(source, where)
    return found


def all_reasons() -> list[Message]:
    """Returns the reasons in warnings why learners do not share the training of a run or a Keras
    model."""
    found: list[Message] = []
    for where, source in _files("tensorbow/keras", ".py"):
        found += [
            dataclasses.replace(m, kind="reason")
            for m in python_raises(source, where)
            if m.kind == "CannotTraceError"
        ]
        found += python_assignments(source, "reason", where)
    for folder in (*RUNS, "cc/session"):
        for where, source in _files(folder, ".cc"):
            found += cc_reasons(source, where)
    facts = "cc/graph/op_facts.cc"
    found += cc_reasons((ROOT / facts).read_text(), facts)
    for file, function in (
        ("cc/feeds/sparse_rows.cc", "WhyNotByRows"),
        ("cc/trainer/central_gate.cc", "CentralGate::WhyOneLearner"),
    ):
        found += cc_returns((ROOT / file).read_text(), function, file)
    return found


def row_reasons() -> list[Message]:
    """Returns why operations have no row type, or exchanges no place."""
    found: list[Message] = []
    for folder in ("cc/analysis/row_types", "cc/passes/program"):
        for where, source in _files(folder, ".cc"):
            for call in re.finditer(r"\b(Unknown|UnknownNumbers|Misplaced)\(", source):
                text = cc_text(balanced(source, call.end() - 1))
                reason = text.removeprefix(HOLE).strip()
                if call[1] == "UnknownNumbers":
                    reason += " by the number of all rows"
                if literal_length(reason) > 0:
                    at = f"{where}:{_line(source, call.start())}"
                    found.append(Message(at, "reason", f"{HOLE} '{HOLE}' {reason}"))
    for where, source in _files("cc/program", ".cc"):
        for call in re.finditer(r"return (?=absl::StrCat\(\s*\"learners' values of)", source):
            text = cc_text(statement(source, call.end()))
            found.append(Message(f"{where}:{_line(source, call.start())}", "reason", text))
    return found


def all_errors() -> list[Message]:
    """Returns every error that has a text."""
    found: list[Message] = []
    for where, source in _files("tensorbow", ".py"):
        found += python_raises(source, where)
    for folder in ("cc", "tf_ops"):
        for where, source in _files(folder, ".cc", ".h"):
            found += cc_errors(source, where)
    loader = "tensorbow/_runtime/loader.py"
    source = (ROOT / loader).read_text()
    for message in python_returns(source, "explain_load_failure", loader):
        found.append(dataclasses.replace(message, kind="ImportError"))
    # The messages of hosts, which become an UnavailableError or AbortedError.
    for file, function in (
        ("cc/synchroniser/hosts/host_rounds.cc", "Break"),
        ("cc/cluster/cluster.cc", "push_back"),
    ):
        for message in cc_calls((ROOT / file).read_text(), function, file):
            found.append(dataclasses.replace(message, kind="UnavailableError"))
    rounds = "cc/synchroniser/hosts/host_rounds.cc"
    for message in cc_reasons((ROOT / rounds).read_text(), rounds):
        found.append(dataclasses.replace(message, kind="AbortedError"))
    return [m for m in found if literal_length(m.text) > 0]
