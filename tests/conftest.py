import os
import signal
import sys

# Tests run in parallel processes, so each uses one thread. This must be set before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def default_signals():
    """Interrupts and hang-ups have their default effect, also under a shell that ignores them (&, nohup)."""
    defaults = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in defaults.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def run():
    """Return a function that runs a command, checks its exit code, and returns its standard output."""

    from typer.testing import CliRunner

    from stopwise import cli

    def invoke(*arguments, code=0):
        result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code, result.output
        return result.stdout

    return invoke


@pytest.fixture
def refusal(monkeypatch, capsys):
    """Return a function that runs a command that must fail, and returns its one-line error message."""

    from stopwise import cli

    def invoke(*arguments):
        monkeypatch.setattr(sys, "argv", ["stopwise", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        message = capsys.readouterr().err
        assert ended.value.code == 2
        assert message.startswith("stopwise: ")
        assert message.count("\n") == 1
        return message

    return invoke
