"""Test that control characters in a log reach a terminal escaped."""

import ast
import os
import pty
import subprocess
import sys
import threading

import pytest

import rewardmix
from rewardmix.cli import terminal

ROOT = os.path.dirname(rewardmix.__file__)
CLIPBOARD = "\x1b]52;c;ZXZpbA==\x07"
"""Control sequence that sets the clipboard on many terminals."""
REVERSED_TEXT = "\u202eevil\u2066"
HOSTILE = f"{CLIPBOARD}{REVERSED_TEXT}\x9b31m\x7f"
WRITERS = {"service/refit.py", "service/server.py"}
"""Files that write to standard streams for programs: a worker process and lines of JSON."""


def run_on_terminal(*arguments, cwd):
    """Return the output that a terminal receives, and the exit code."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "COLUMNS": "200"}
    process = subprocess.Popen(
        [sys.executable, "-m", "rewardmix", *arguments], stdin=follower, stdout=follower, stderr=follower, cwd=cwd,
        env=environment,
    )  # fmt: skip
    os.close(follower)
    received = []

    def read_all():
        while True:
            try:
                block = os.read(leader, 65536)
            except OSError:  # the other side is closed
                return
            if not block:
                return
            received.append(block)

    reader = threading.Thread(target=read_all)
    reader.start()
    code = process.wait()
    reader.join()
    os.close(leader)
    return b"".join(received).decode("utf-8", "replace"), code


def check_escaped(text):
    for sequence in ("\x1b]", "\x07", "\u202e", "\u2066", "\x9b", "\x7f"):
        assert sequence not in text, f"{sequence!r} in {text!r}"


@pytest.fixture
def hostile_log(tmp_path):
    rows = ["episode,step,state,action,reward"]
    for episode in range(40):
        reward = episode % 2
        rows += [f'{episode},0,"{HOSTILE}a","{HOSTILE}x",{reward}', f'{episode},1,"{HOSTILE}b",y,{reward}']
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return tmp_path


def test_names_from_a_log_reach_a_terminal_escaped(hostile_log):
    for arguments in (("fit", "log.csv"), ("diagnose", "log.csv"), ("fit", "log.csv", "--json", "--out", "again")):
        sent, code = run_on_terminal(*arguments, cwd=hostile_log)
        assert code == 0, sent
        check_escaped(sent)
        assert "\\u001b]52;c;ZXZpbA==\\u0007" in sent or arguments[0] == "diagnose"


def test_errors_and_usage_reach_a_terminal_escaped(tmp_path):
    for arguments in (("describe", HOSTILE), (f"--{HOSTILE}",), ("describe", "hard", HOSTILE)):
        sent, code = run_on_terminal(*arguments, cwd=tmp_path)
        assert code == 2
        check_escaped(sent)


def test_an_option_without_its_value_is_one_line(tmp_path):
    """Typer prints this error without the usage of the command."""
    done = subprocess.run(
        [sys.executable, "-m", "rewardmix", "simulate", "shop", "--out=x.json", "--seed"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "rewardmix: Option '--seed' requires an argument.\n"


def test_exactly_the_control_characters_are_escaped():
    control_characters = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))}
    control_characters |= set("\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    for code in (*range(0xD800), *range(0xE000, 0x11000)):
        shown = terminal.escape_control_characters(chr(code))
        assert shown == (f"\\u{code:04x}" if chr(code) in control_characters else chr(code))


def test_tables_are_escaped_in_every_cell(capsys):
    terminal.print_table(f"T{HOSTILE}", [f"c{HOSTILE}", "n"], [[f"r{HOSTILE}", "1"]])
    shown = capsys.readouterr().out
    check_escaped(shown)
    assert shown.count("\\u001b]52") == 3


def test_lines_and_bars_are_escaped(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with terminal.stage_progress() as stages:
        stages.update(HOSTILE, f"{HOSTILE}[red]", 1, 2)
        stages.update("other", "", 1, 2)
    with terminal.progress_bar(HOSTILE, 1.0) as show:
        show(1.0, f"{HOSTILE}[red]")
    with terminal.status_line() as show_line:
        show_line(f"{HOSTILE}[red]")
    terminal.print_status(HOSTILE)
    check_escaped(capsys.readouterr().err)


def test_documents_in_files_are_unchanged(monkeypatch, capsys):
    terminal.write_document(f"{HOSTILE}\nline\n")
    assert capsys.readouterr().out == f"{HOSTILE}\nline\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    terminal.write_document(f"{HOSTILE}\nline\n")
    shown = capsys.readouterr().out
    check_escaped(shown)
    assert shown.endswith("\nline\n")


def test_only_the_terminal_module_writes_to_the_terminal():
    """Only ``cli/terminal.py`` writes to the terminal."""
    for folder, _, names in os.walk(ROOT):
        for name in (name for name in names if name.endswith(".py")):
            path = os.path.join(folder, name)
            relative_path = os.path.relpath(path, ROOT).replace(os.sep, "/")
            if relative_path == "cli/terminal.py" or relative_path in WRITERS:
                continue
            with open(path, encoding="utf-8") as file:
                tree = ast.parse(file.read())
            for node in ast.walk(tree):
                if not isinstance(node, ast.Call):
                    continue
                function = ast.unparse(node.func)
                writers = ("print", "typer.echo", "typer.secho", "warnings.warn", "traceback.print_exc", "os.write")
                writers += ("sys.stdout.write", "sys.stderr.write")
                assert function not in writers, f"{relative_path}:{node.lineno} writes by {function}"
