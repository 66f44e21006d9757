"""Code blocks of pages, run in order; ``python tests/document_blocks.py PAGE ...`` writes their outputs anew, and with
``--check`` only says which ones differ.

Python blocks share one namespace; lines of bash and console blocks that begin with ``rewardmix`` are commands. A block
of text behind one of them is what it prints: the same words, numbers within two percent; ``...`` stands for what may
differ more.
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

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SHELL = ("bash", "console")
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def outputs(path):
    """Run a page in the current folder; for each block of output, (its match in the text, what was printed)."""
    namespace: dict[str, object] = {}
    printed = ""
    for found in FENCE.finditer(path.read_text(encoding="utf-8")):
        kind, block = found.groups()
        if kind == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(block, str(path), "exec"), namespace)
            printed = out.getvalue()
        elif kind in SHELL:
            printed = "".join(run(line) for line in commands_of(block))
        elif kind == "text" and printed:
            yield found, tidy(printed)


def commands_of(block):
    """The lines of a shell block that call rewardmix; a backslash joins lines."""
    lines = block.replace("\\\n", " ").splitlines()
    return [line for line in (line.removeprefix("$ ") for line in lines) if line.startswith("rewardmix ")]


def run(line):
    """What a command prints."""
    command = [sys.executable, "-m", "rewardmix", *shlex.split(line, comments=True)[1:]]
    place = {**os.environ, "PYTHONPATH": str(ROOT / "src")}  # a relative path would not survive the empty folder
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=place)
    assert done.returncode == 0, f"{line}\n{done.stderr}"
    return done.stdout


def tidy(text):
    """Without blank lines and blanks at the ends of lines."""
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines() if line.strip())


def agrees(block, printed):
    """Whether a block is what was printed: the same words, and numbers that a reader would call the same."""
    wanted = [NUMBER.split(part) for part in tidy(block).split("...")]
    pattern = ".*?".join(r"([-+\d.e]+)".join(map(re.escape, words)) for words in wanted)
    found = re.fullmatch(pattern, printed, re.DOTALL)
    shown = [float(number) for part in tidy(block).split("...") for number in NUMBER.findall(part)]
    return found is not None and all(near(*pair) for pair in zip(shown, found.groups(), strict=True))


def near(shown, printed):
    """Within two percent, or half a hundredth."""
    try:
        return abs(shown - float(printed.rstrip("."))) <= max(0.02 * abs(shown), 0.005)
    except ValueError:
        return False


def rewrite(path):
    """Put in what was printed where the page shows something else."""
    text, parts, last = path.read_text(encoding="utf-8"), [], 0
    for found, printed in outputs(path):
        if not agrees(found[2], printed):
            seconds = re.sub(r"in [\d.]+ s ", "in ... s ", printed)
            parts.append(f"{text[last : found.start()]}```text\n{seconds}\n```")
            last = found.end()
            print(f"{path}: {found[2].splitlines()[0][:60]} ...")
    path.write_text("".join(parts) + text[last:], encoding="utf-8")


def check(path):
    """Say which outputs of a page differ from what is printed; whether all agree."""
    differing = [found[2] for found, printed in outputs(path) if not agrees(found[2], printed)]
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
