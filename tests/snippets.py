"""Run the Python snippets of a page, and check the numbers in their comments.

`run` runs one ```python block of a Markdown page. A comment after a `print(...)`, on the same lines
or alone on the lines below, states the output: each number in the comment must be among the
printed numbers, in the same order, within one unit of its last digit.
"""

import ast
import builtins
import re
import sys
import traceback
import warnings
from pathlib import Path

NUMBER = re.compile(r"(?<![\w.])[-−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)", re.ASCII)


def blocks(page, language="python"):
    """Return the fenced blocks of one language on a page."""
    return re.findall(rf"```{language}\n(.*?)```", Path(page).read_text(), re.S)


def numbers(text):
    """Return the numbers in a text as strings, without thousands separators."""
    return [found.strip(",").replace(",", "").replace("−", "-") for found in NUMBER.findall(text)]


def tolerance(number):
    """Return one unit of the last digit of a number.

    >>> tolerance("0.59"), tolerance("44"), tolerance("1e-05")
    (0.01, 1.0, 1e-05)
    """
    mantissa, _, exponent = number.partition("e")
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def missing(comment, printed):
    """Return the first number of a comment that was not printed in its order, or None.

    >>> missing("0.59, then 0.94", "0.1 0.5882 [0.2]\\n2.0 0.9412")
    >>> missing("0.59, then 0.94", "0.94 0.59")
    '0.94'
    """
    shown = iter(float(number) for number in numbers(printed))
    for number in numbers(comment):
        unit = tolerance(number) * (1.0 + 1e-9)
        if not any(abs(value - float(number)) <= unit for value in shown):
            return number
    return None


def stated(code):
    """Return {first line of a print statement: its comment}; lines count from 1."""
    lines = code.splitlines()
    found = {}
    for node in ast.walk(ast.parse(code)):
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            continue
        if getattr(node.value.func, "id", None) != "print":
            continue
        last = node.end_lineno
        while last < len(lines) and lines[last].lstrip().startswith("#"):
            last += 1
        comments = [line.partition("  # ")[2] for line in lines[node.lineno - 1 : node.end_lineno]]
        comments += [line.lstrip(" #") for line in lines[node.end_lineno : last]]
        found[node.lineno] = " ".join(filter(None, comments))
    return found


def run(code):
    """Run a snippet and return its faults: a traceback, or sentences about wrong numbers."""
    comments, printed = stated(code), {}

    def record(*values, **options):
        line = sys._getframe(1).f_lineno
        start = max((first for first in comments if first <= line), default=line)
        printed[start] = printed.get(start, "") + " ".join(map(str, values)) + "\n"
        builtins.print(*values, **options, file=sys.stderr)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(compile(code, "<snippet>", "exec"), {"__name__": "__main__", "print": record})
    except BaseException:
        return [traceback.format_exc()]
    faults = []
    for line, comment in comments.items():
        number = missing(comment, printed.get(line, ""))
        if number is not None:
            said = printed.get(line, "nothing").strip()
            faults.append(f"line {line}: the comment says {number}, which is not printed: {said}")
    return faults
