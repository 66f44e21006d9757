"""Run the code blocks of pages in order.

``python tests/documents/document_blocks.py PAGE ...`` rewrites their outputs; with ``--check`` it prints which differ.

Python blocks share one namespace. Lines of bash and console blocks that begin with ``rewardmix`` are commands. A text
block after one of them is its output: equal words, numbers within two percent; ``...`` matches anything.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SHELL = ("bash", "console")
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def run_blocks(path):
    """Run a page in the current folder; yield (match in the text, what was printed) for each block of output."""
    namespace: dict[str, object] = {}
    printed = ""
    for match in FENCE.finditer(path.read_text(encoding="utf-8")):
        kind, block = match.groups()
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(block, str(path), "exec"), namespace)
            printed = out.getvalue()
        elif kind in SHELL:
            printed = "".join(run_command(line) for line in commands_of(block))
        elif kind == "text" and printed:
            yield match, tidy(printed)


def commands_of(block):
    """Return the lines of a shell block that call rewardmix; a backslash joins lines."""
    lines = block.replace("\\\n", " ").splitlines()
    return [line for line in (line.removeprefix("$ ") for line in lines) if line.startswith("rewardmix ")]


def run_command(line):
    """Return what a command prints."""
    command = [sys.executable, "-m", "rewardmix", *shlex.split(line, comments=True)[1:]]
    variables = {**os.environ, "PYTHONPATH": str(ROOT / "src")}  # absolute, because pages run in another folder
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=variables)
    assert done.returncode == 0, f"{line}\n{done.stderr}"
    return done.stdout


def tidy(text):
    """Remove blank lines and blanks at the ends of lines."""
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines() if line.strip())


def agrees(block, printed):
    """Compare a block with what was printed: equal words, and numbers within the tolerance of ``is_near``."""
    expected = [NUMBER.split(piece) for piece in tidy(block).split("...")]
    pattern = ".*?".join(r"([-+\d.e]+)".join(map(re.escape, words)) for words in expected)
    match = re.fullmatch(pattern, printed, re.DOTALL)
    shown = [float(number) for piece in tidy(block).split("...") for number in NUMBER.findall(piece)]
    return match is not None and all(is_near(*pair) for pair in zip(shown, match.groups(), strict=True))


def is_near(shown, printed):
    """Compare two numbers: within two percent, or 0.005."""
    try:
        return abs(shown - float(printed.rstrip("."))) <= max(0.02 * abs(shown), 0.005)
    except ValueError:
        return False


def rewrite(path):
    """Replace the blocks of a page that differ from what was printed."""
    text, parts, last = path.read_text(encoding="utf-8"), [], 0
    for match, printed in run_blocks(path):
        if not agrees(match[2], printed):
            output = re.sub(r"in [\d.]+ s ", "in ... s ", printed)
            parts.append(f"{text[last : match.start()]}```text\n{output}\n```")
            last = match.end()
            print(f"{path}: {match[2].splitlines()[0][:60]} ...")
    path.write_text("".join(parts) + text[last:], encoding="utf-8")


def check(path):
    """Print which outputs of a page differ; return whether none does."""
    differing = [match[2] for match, printed in run_blocks(path) if not agrees(match[2], printed)]
    for block in differing:
        print(f"{path}: differs from what is printed: {block.splitlines()[0][:60]} ...")
    return not differing


if __name__ == "__main__":
    only_check = "--check" in sys.argv
    pages = [Path(name).resolve() for name in sys.argv[1:] if name != "--check"]
    good = True
    for page in pages:
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            good = (check(page) if only_check else rewrite(page) is None) and good
    sys.exit(not good)
