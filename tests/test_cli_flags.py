"""Test that every flag of the command line is the keyword of the library function that its command calls."""

import inspect
import re

import pytest
import typer

import rewardmix as rm
from rewardmix import interop, logs, recovery, report, service, theory
from rewardmix.cli.app import COMMANDS, app

FUNCTIONS = {
    "learn": (rm.learn,),
    "learn-online": (rm.learn_online,),
    "serve": (
        service.serve,
        service.ServeSettings,
        service.RefitSettings,
        service.SessionLimits,
        service.ServerAddress,
    ),
    "evaluate": (rm.evaluate,),
    "diagnose": (rm.diagnose, logs.read_log),
    "fit": (rm.fit, logs.read_log),
    "infer-types": (rm.infer_types, logs.read_log),
    "compare-runs": (rm.compare_runs,),
    "simulate": (rm.simulate, logs.write_log),
    "envs": (),
    "describe": (rm.simulate, rm.evaluate),
    "plan": (rm.plan,),
    "explore": (rm.explore,),
    "theory": (theory.lower_bound, theory.upper_bound, theory.uncertainty_threshold),
    "recover": (rm.recover,),
    "export": (interop.export_pomdp, report.policy_to_dict, service.export_log),
    "report": (report.write_report, rm.learn),
}
"""Functions that each command calls, whose keywords its flags must equal."""

EVERYWHERE = {
    "--json": "output format of the command",
    "--quiet": "output format of the command",
    "--help": "prints the help",
    "--out": "path of the file or folder to write; functions return their result",
    "--import": "modules to import first; a program imports them itself",
    "--open-report": "opens the report; a program calls webbrowser itself",
    "--resume": "continues the checkpoint inside --out; functions have checkpoint_dir",
    "--user-column": "role of the keyword columns: columns={'user': ...}",
    "--time-column": "role of the keyword columns: columns={'time': ...}",
}
"""Flag without a keyword, in any command -> reason."""

EXCEPTIONS = {
    ("learn", "--config"): "file with the settings of the command",
    ("learn-online", "--type-names"): "set in the written run, where the other results have a keyword",
    ("fit", "--scheduler"): "makes the keyword executor",
    ("fit", "--num-processes"): "makes the keyword executor",
    ("infer-types", "--safe-cells"): "format of the written CSV file",
    ("simulate", "--with-propensities"): "passes the policy to write_log, which writes propensities",
    ("explore", "--save-episodes"): "file to write; sets keep_episodes",
    ("recover", "--num-std"): "makes the keyword radius_rule: normal_rule(num_std)",
    ("recover", "--max-rows"): "length of the printed table",
    ("export", "--format"): "selects the function that is called",
    ("export", "--player"): "second file to write",
    ("serve", "--token-file"): "file with the keyword token; a token in an argument is visible to other users",
    ("serve", "--refit"): "passes the keyword learning",
    ("serve", "--refit-every"): "min_new_sessions of RefitSettings",
    ("serve", "--behind-proxy"): "proxy of ServerAddress",
}
"""(command, flag without an equal keyword) -> reason."""


def command_flags(name):
    """Return the long flags of a command and the names of its Python parameters."""
    command = typer.main.get_command(app).commands[name]
    return {
        flag: option.name
        for option in command.params
        for flag in (*option.opts, *option.secondary_opts)
        if "--" in flag
    }


def keywords(name):
    """Return the keywords of the functions that a command calls."""
    return {keyword for function in FUNCTIONS[name] for keyword in inspect.signature(function).parameters}


def test_the_table_lists_every_command():
    assert list(FUNCTIONS) == list(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_flags_equal_keywords(name):
    flags = command_flags(name)
    allowed = {flag for command, flag in EXCEPTIONS if command == name} | set(EVERYWHERE)
    expected = {"--" + keyword.replace("_", "-") for keyword in keywords(name)}
    assert not set(flags) - expected - allowed
    # An exception that has become a keyword, or whose flag is gone, must leave the table.
    assert not {flag for command, flag in EXCEPTIONS if command == name} - (set(flags) - expected)


def test_general_exceptions_are_used():
    flags = {flag for name in COMMANDS for flag in command_flags(name)}
    assert set(EVERYWHERE) - {"--help"} <= flags


@pytest.mark.parametrize("name", COMMANDS)
def test_parameters_of_commands_equal_their_flags(name):
    """``locals()`` of a command is stored in ``result.json``, so its keys must be the flags."""
    renamed = {"--json": "as_json", "--import": "modules"}  # ``json`` hides a module, ``import`` is a Python keyword
    for flag, parameter in command_flags(name).items():
        assert parameter == renamed.get(flag, flag.removeprefix("--").replace("-", "_"))


def test_choices_are_names_of_functions():
    """Values of --method, --counting and --strategy name the functions that a program passes."""
    from rewardmix import exploration

    assert {"maximum_likelihood", "algorithm_3", "spectral"} <= set(recovery.__all__)
    assert {"all_pairs", "selected_pairs"} <= set(exploration.__all__)
    assert {f"{name}_strategy" for name in ("optimistic", "uniform", "state_action")} <= set(exploration.__all__)
    assert {f"{name}_bonus" for name in ("practical", "theory", "paper")} <= set(exploration.__all__)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_complete_sentences_and_fits_80_columns(name):
    from typer.testing import CliRunner

    output = CliRunner().invoke(app, [name, "--help"], prog_name="rewardmix", env={"COLUMNS": "80"}).output
    assert max(map(len, output.splitlines())) <= 80
    command = typer.main.get_command(app).commands[name]
    for option in command.params:
        text = re.sub(r"\s*\[default: .*\]$", "", option.help or "")
        assert text, f"{option.name} has no help"
        assert text.endswith("."), f"{option.name}: {text}"
        assert text[0].isupper() or ":" in text, f"{option.name}: {text}"


def test_the_list_of_commands_cuts_no_help():
    from typer.testing import CliRunner

    output = CliRunner().invoke(app, ["--help"], prog_name="rewardmix", env={"COLUMNS": "80"}).output
    assert "..." not in output.split("Commands:")[1]
