"""What a log says reaches a terminal as text, never as something that the terminal obeys."""

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
"""Sets the clipboard of whoever looks, on many terminals."""
TURNED = "\u202eevil\u2066"
HOSTILE = f"{CLIPBOARD}{TURNED}\x9b31m\x7f"
WRITERS = {"service/refitting.py", "service/serving.py"}
"""Files that write elsewhere: an answer to the process that started it, and lines of JSON."""


def on_terminal(*arguments, cwd):
    """(what a terminal was sent, exit code) of a command."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "COLUMNS": "200"}
    process = subprocess.Popen(
        [sys.executable, "-m", "rewardmix", *arguments], stdin=follower, stdout=follower, stderr=follower, cwd=cwd,
        env=environment,
    )  # fmt: skip
    os.close(follower)
    sent = []

    def listen():
        while True:
            try:
                piece = os.read(leader, 65536)
            except OSError:  # nobody writes to it any more
                return
            if not piece:
                return
            sent.append(piece)

    listener = threading.Thread(target=listen)
    listener.start()
    code = process.wait()
    listener.join()
    os.close(leader)
    return b"".join(sent).decode("utf-8", "replace"), code


def check_clean(text):
    for piece in ("\x1b]", "\x07", "\u202e", "\u2066", "\x9b", "\x7f"):
        assert piece not in text, f"{piece!r} in {text!r}"


@pytest.fixture
def hostile_log(tmp_path):
    rows = ["episode,step,state,action,reward"]
    for episode in range(40):
        paid = episode % 2
        rows += [f'{episode},0,"{HOSTILE}a","{HOSTILE}x",{paid}', f'{episode},1,"{HOSTILE}b",y,{paid}']
    (tmp_path / "log.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return tmp_path


def test_names_from_a_log_reach_a_terminal_escaped(hostile_log):
    for arguments in (("fit", "log.csv"), ("check", "log.csv"), ("fit", "log.csv", "--json", "--out", "again")):
        sent, code = on_terminal(*arguments, cwd=hostile_log)
        assert code == 0, sent
        check_clean(sent)
        assert "\\u001b]52;c;ZXZpbA==\\u0007" in sent or arguments[0] == "check"


def test_errors_and_usage_reach_a_terminal_escaped(tmp_path):
    for arguments in (("describe", HOSTILE), (f"--{HOSTILE}",), ("describe", "hard", HOSTILE)):
        sent, code = on_terminal(*arguments, cwd=tmp_path)
        assert code == 2
        check_clean(sent)


def test_an_option_without_its_value_is_one_line(tmp_path):
    """typer shows no usage for it, and began it in another way than all other errors."""
    done = subprocess.run(
        [sys.executable, "-m", "rewardmix", "simulate", "shop", "--out=x.json", "--seed"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "rewardmix: Option '--seed' requires an argument.\n"


def test_every_character_that_a_terminal_obeys_is_escaped_and_no_other():
    obeyed = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))}
    obeyed |= set("\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    for code in (*range(0xD800), *range(0xE000, 0x11000)):
        shown = terminal.visible(chr(code))
        assert shown == (f"\\u{code:04x}" if chr(code) in obeyed else chr(code))


def test_tables_are_escaped_in_every_cell(capsys):
    terminal.show_table(f"T{HOSTILE}", [f"c{HOSTILE}", "n"], [[f"r{HOSTILE}", "1"]])
    shown = capsys.readouterr().out
    check_clean(shown)
    assert shown.count("\\u001b]52") == 3


def test_lines_and_bars_are_escaped(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with terminal.watching() as stages:
        stages.tell(HOSTILE, f"{HOSTILE}[red]", 1, 2)
        stages.tell("other", "", 1, 2)
    with terminal.bar(HOSTILE, 1.0) as show:
        show(1.0, f"{HOSTILE}[red]")
    with terminal.live_line() as show_line:
        show_line(f"{HOSTILE}[red]")
    terminal.remark(HOSTILE)
    check_clean(capsys.readouterr().err)


def test_a_document_that_goes_to_a_file_is_as_it_is(monkeypatch, capsys):
    terminal.write_document(f"{HOSTILE}\nline\n")
    assert capsys.readouterr().out == f"{HOSTILE}\nline\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    terminal.write_document(f"{HOSTILE}\nline\n")
    shown = capsys.readouterr().out
    check_clean(shown)
    assert shown.endswith("\nline\n")


def test_nothing_else_writes_to_the_terminal():
    """Only ``cli/terminal.py`` writes to what people look at."""
    for folder, _, names in os.walk(ROOT):
        for name in (name for name in names if name.endswith(".py")):
            path = os.path.join(folder, name)
            place = os.path.relpath(path, ROOT).replace(os.sep, "/")
            if place == "cli/terminal.py" or place in WRITERS:
                continue
            with open(path, encoding="utf-8") as file:
                tree = ast.parse(file.read())
            for node in ast.walk(tree):
                if not isinstance(node, ast.Call):
                    continue
                called = ast.unparse(node.func)
                ways = ("print", "typer.echo", "typer.secho", "warnings.warn", "traceback.print_exc", "os.write")
                ways += ("sys.stdout.write", "sys.stderr.write")
                assert called not in ways, f"{place}:{node.lineno} writes by {called}"
