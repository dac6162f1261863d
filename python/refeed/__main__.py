"""The command `refeed`: inspect, bind, generate, chat, bench, demo."""

import argparse
import io
import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import refeed
from refeed.commands import bench, bind, binding, chat, demo, generate, inspect

__all__ = ["main"]

INTERRUPTED = 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="refeed", description="Stateful ONNX inference on CPU.")
    parser.add_argument("--version", action="version", version=f"refeed {refeed.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (inspect, bind, generate, chat, bench, demo):
        module.add_parser(commands)
    return parser


def _show_warning(message: Warning | str, *_args: Any, **_keywords: Any) -> None:
    print(f"warning: {message}", file=sys.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    Parameters
    ----------
    arguments : sequence of str, optional
        The command line without the program's name; that of the process when None.

    Returns
    -------
    int
        0 for success, 1 for a model or value that cannot be used, 2 for a wrong command line, 130 after Ctrl-C.
    """
    # Models write any character, and not every terminal can.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    parser = _parser()
    options = parser.parse_args(arguments)
    binding.check(options)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            return int(options.run(options))
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has seen enough; nothing is left to be flushed.
        sys.stderr.close()
        return 1
    except UnicodeDecodeError as error:
        print(f"refeed {options.command}: standard input: expected UTF-8, got: {error}", file=sys.stderr)
        return 1
    except (refeed.Error, OSError, MemoryError, OverflowError, ImportError) as error:
        print(f"refeed {options.command}: {_told(error)}", file=sys.stderr)
        return 1


def _told(error: BaseException) -> str:
    """Return an error's text, without the numbers of the operating system."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error) or type(error).__name__
    text = re.sub(r" \(os error \d+\)$", "", error.strerror)
    return text if error.filename is None else f"{error.filename}: {text}"


if __name__ == "__main__":
    sys.exit(main())
