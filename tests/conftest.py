import os
import sys

# Tests run in parallel processes on few cores: one thread each. Set before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def run():
    """Return a function that runs a command, which must end with `code`, and returns what it printed."""

    from typer.testing import CliRunner

    from stopwise import cli

    def ran(*arguments, code=0):
        result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result.stdout

    return ran


@pytest.fixture
def refusal(monkeypatch, capsys):
    """Return a function that runs a command which must be refused, and returns the one line it says."""

    from stopwise import cli

    def refused(*arguments):
        monkeypatch.setattr(sys, "argv", ["stopwise", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        told = capsys.readouterr().err
        assert ended.value.code == 2
        assert told.startswith("stopwise: ")
        assert told.count("\n") == 1
        return told

    return refused
