"""What people do wrong on the command line: each is told in one line, and nothing is a traceback."""

import json
import os
import pathlib
import pty
import select
import shutil
import subprocess
import sys
import time
from typing import Any

import pytest
from refeed.__main__ import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def folder(root: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy of the shipped decoder."""
    made = tmp_path / "demo"
    shutil.copytree(root / "python" / "refeed" / "data" / "demo", made)
    return made


def told(capsys: Capture, *arguments: object) -> str:
    """Return the last line of standard error of a command that fails; no tokens are on standard output."""
    assert main([str(argument) for argument in arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" or captured.out.startswith("from generation_config.json: ")
    assert "Traceback" not in captured.err
    return captured.err.splitlines()[-1]


@pytest.mark.parametrize("command", ["generate", "chat", "bench", "inspect", "bind"])
def test_models_that_are_none(command: str, capsys: Capture, tmp_path: pathlib.Path) -> None:
    rest = {"generate": ("x",), "bind": (tmp_path / "out.onnx", "--bind", "known")}.get(command, ())
    missing = told(capsys, command, tmp_path / "nowhere", *rest)
    assert missing == f"refeed {command}: `{tmp_path}/nowhere`: cannot be opened: No such file or directory"
    empty = told(capsys, command, tmp_path, *rest)
    assert f"{tmp_path}: expected model.onnx or " in empty
    text = tmp_path / "text.onnx"
    text.write_text("nothing of a model")
    assert f"refeed {command}: {text}: not an ONNX model" in told(capsys, command, text, *rest)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("x", "--temperature", "nan"), "temperature: expected a finite number of at least 0, got NaN"),
        (("x", "--temperature", "-1"), "temperature: expected a finite number"),
        (("x", "--top-p", "2"), "top_p: expected a number in (0, 1], got 2"),
        (("x", "--seed", "-1"), "seed: expected an integer from 0 to"),
        (("x", "--seed", "9" * 30), "seed: expected an integer from 0 to"),
        (("x", "--eos-token-id", "640"), "eos_token_id: expected a token of the vocabulary, below 640, got 640"),
        (("x", "--stop", ""), "stop: expected a sequence of texts that are not empty"),
        (("--prompt-ids", "1,640"), "--prompt-ids: expected tokens of the vocabulary, below 640, got 640"),
        (("\udcff",), r"text: expected Unicode, got '\udcff' at place 0"),
        (("x", "--trace", "/nowhere/trace.json"), "--trace: expected a path in a folder that exists"),
        (("x", "--bind", "a=b"), "the graph has no input of that exact name"),
        (("x", "--bind", "genai_config"), "--bind genai_config: expected names of caches beside"),
    ],
)
def test_values_that_mean_nothing(arguments: tuple[str, ...], text: str, capsys: Capture, folder: pathlib.Path) -> None:
    assert text in told(capsys, "generate", folder, *arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("x", "--top-k", "9" * 30),
        ("x", "--max-new-tokens", "0"),
        ("x", "--max-new-tokens", str(2**63)),
        ("--prompt-ids", ""),
        ("--prompt-ids", "1,x"),
        ("--prompt-ids", "-1"),
        ("x", "--eos-token-id", "-1"),
        ("x", "--publish", "once"),
        ("x", "--encoder-feed", "nothing"),
    ],
)
def test_wrong_command_lines(arguments: tuple[str, ...], capsys: Capture, folder: pathlib.Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["generate", str(folder), *arguments])
    assert ended.value.code == 2
    # The usage is that of the command.
    assert capsys.readouterr().err.startswith("usage: refeed generate ")


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("generation_config.json", "{", "expected JSON"),
        ("generation_config.json", "[]", "expected a JSON object, got list"),
        ("generation_config.json", '{"do_sample": true, "temperature": NaN}', "temperature: expected a number"),
        ("generation_config.json", '{"eos_token_id": "a"}', "eos_token_id: expected a whole number"),
        ("genai_config.json", '{"search": 5}', "search: expected an object"),
        ("tokenizer.json", "x", "expected a tokenizer, got"),
        ("chat_template.jinja", "{{ foo(", "chat template: expected a template of jinja2"),
    ],
)
def test_files_beside_the_model(name: str, content: str, text: str, capsys: Capture, folder: pathlib.Path) -> None:
    (folder / name).write_text(content)
    for command in (("generate", folder, "x", "--chat"), ("chat", folder)):
        message = told(capsys, *command)
        assert text in message
        assert name in message or name == "chat_template.jinja"


def test_inputs_that_nothing_gives_a_value(capsys: Capture, cases: pathlib.Path) -> None:
    message = told(capsys, "generate", cases / "optimum_llama", "--prompt-ids", "1,2")
    assert "input past_key_values.0.key: expected a binding or a default" in message
    assert "--bind known --uses any" in message
    assert "input past_key_values.0.key: expected a binding" in told(capsys, "bench", cases / "optimum_llama")
    # A cache of fixed extent needs more than the command knows.
    bound = ("--bind", "known", "--uses", "any", "--json")
    message = told(capsys, "generate", cases / "mobius_llama_static", "--prompt-ids", "1,2", *bound)
    assert "input write_indices: expected a binding or a default" in message
    assert "--bind" not in message
    message = told(capsys, "generate", cases / "real_silero_16k_op15", "--prompt-ids", "1")
    assert "the model has no graph input `input_ids`; it has `input`, `state`, `sr`" in message


def test_a_length_of_the_file_that_the_prompt_has_already(capsys: Capture, folder: pathlib.Path) -> None:
    (folder / "generation_config.json").write_text(json.dumps({"max_length": 2}))
    assert "max_length: expected more than the 3 tokens of row 0, got 2" in told(
        capsys, "generate", folder, "Once upon"
    )
    # Who says how many new ones replaces it.
    assert main(["generate", str(folder), "Once upon", "--max-new-tokens", "2"]) == 0


def test_a_template_that_knows_no_system(capsys: Capture, folder: pathlib.Path) -> None:
    message = told(capsys, "chat", folder, "--system", "Be kind.")
    assert message == "refeed chat: chat template: expected messages of user and assistant, got system"


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, *arguments: object) -> None:
        self._own, there = pty.openpty()
        command = [sys.executable, "-m", "refeed", *map(str, arguments)]
        self.process: Any = subprocess.Popen(  # noqa: S603
            command, stdin=there, stdout=there, stderr=there, start_new_session=True, preexec_fn=_take_terminal
        )
        os.close(there)

    def until(self, text: str, seconds: float = 60.0) -> str:
        """Read until a text comes; fails when it does not."""
        read, end = b"", time.monotonic() + seconds
        while text.encode() not in read:
            assert time.monotonic() < end, read
            if select.select([self._own], [], [], 0.1)[0]:
                try:
                    read += os.read(self._own, 65536)
                except OSError:  # the other side has closed
                    break
        return read.decode(errors="replace")

    def type(self, text: str) -> None:
        os.write(self._own, text.encode())


def _take_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_talk_on_a_terminal(folder: pathlib.Path) -> None:
    """Ctrl-C at the prompt forgets the line, in an answer it stops the answer; Ctrl-D leaves."""
    terminal = Terminal("chat", folder, "--max-new-tokens", 10**6, "--ignore-eos")
    assert "/help lists the commands" in terminal.until("> ")
    terminal.type("half a line")
    terminal.until("half a line")
    time.sleep(1)  # a signal before the line editor waits for the next key is noticed with that key only
    terminal.type("\x03")
    assert "/exit or Ctrl-D leaves" in terminal.until("leaves\r\n> ")
    terminal.type("Who are you?\n")
    terminal.until("very small model")
    terminal.type("\x03")
    terminal.until("> ")
    terminal.type("/rewind\n")
    terminal.until("questions so far: 0")
    terminal.type("/back\n")
    terminal.until("/back: expected a /fork before")
    terminal.type("/help\n")
    terminal.until("/help     this\r\n> ")
    terminal.type("\x04")
    terminal.until("\0", 30)
    assert terminal.process.wait(30) == 0
