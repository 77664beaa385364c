"""Options of version 0.2 work with a deprecation warning."""

import pytest
import typer
import typer.main
from typer.testing import CliRunner

from mtsa.cli import app
from mtsa.cli.renamed_options import RENAMED, rename_options


def commands(group):
    """Every command by its name, subcommands included."""
    for name, command in group.commands.items():
        yield name, command
        if hasattr(command, "commands"):
            yield from commands(command)


@pytest.mark.parametrize("name", RENAMED)
def test_the_new_names_are_options_of_the_command(name):
    options = {option for known, command in commands(typer.main.get_command(app)) if known == name
               for parameter in command.params for option in parameter.opts}  # fmt: skip
    assert {new.partition("=")[0] for new in RENAMED[name].values()} <= options
    assert not RENAMED[name].keys() & options or name == "convert"


@pytest.mark.parametrize(("old", "new"), [(["--most", "3"], ["--max-texts", "3"]), (["--most=3"], ["--max-texts=3"])])
def test_old_names_are_replaced_with_a_warning(old, new, capsys):
    assert rename_options(["a", *old], RENAMED["export"]) == ["a", *new]
    assert "--most is deprecated and will be removed in version 0.4; use --max-texts" in capsys.readouterr().err
    assert rename_options(["a", *new], RENAMED["export"]) == ["a", *new]
    assert rename_options(["--", "--most"], RENAMED["export"]) == ["--", "--most"]
    assert capsys.readouterr().err == ""


def test_a_flag_becomes_an_option_with_a_value():
    assert rename_options(["--shared"], RENAMED["pretrain"]) == ["--distributed=fsdp"]


def test_both_names_are_an_error():
    done = CliRunner().invoke(app, ["export", "run", "--most", "3", "--max-texts", "4"])
    assert done.exit_code == 2
    assert "--most is the deprecated name of --max-texts; use only --max-texts" in done.stderr
