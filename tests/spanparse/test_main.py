"""`python -m spanparse`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from spanparse.cli import main


def test_the_module_is_the_command(capfd: pytest.CaptureFixture[str]) -> None:
    arguments = ["inspect", "no-such-template"]
    command = [sys.executable, "-m", "spanparse", *arguments]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert process.returncode == main(arguments) == 2
    assert process.stderr == capfd.readouterr().err
    assert process.stderr.startswith("spanparse: ")
