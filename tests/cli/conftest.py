"""What all tests of commands need."""

import pytest
from typer.testing import CliRunner

from stopwise import cli


@pytest.fixture(scope="session")
def run():
    """Return a function that runs a command, which must end with `code`, and returns what it printed."""

    def ran(*arguments, code=0):
        result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result.stdout

    return ran
