"""The command line."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import graphs
import onnx
import pytest
import refeed
from refeed.__main__ import main

Capture = pytest.CaptureFixture[str]


def run(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_the_installed_command_and_the_module_are_the_same() -> None:
    for command in (["refeed"], [sys.executable, "-m", "refeed"]):
        program = [os.path.join(os.path.dirname(sys.executable), command[0])] if len(command) == 1 else command
        ended = subprocess.run([*program, "--version"], capture_output=True, text=True, check=True)  # noqa: S603
        assert ended.stdout.strip() == f"refeed {refeed.__version__}"


def test_inspect_says_what_bindings_will_do(capsys: Capture, cases: pathlib.Path) -> None:
    path = cases / "dynamo18_llama" / "model.onnx"
    code, out, _ = run(capsys, "inspect", path)
    assert code == 0
    assert "bindings: none" in out
    assert "refeed can run this model" in out
    assert re.search(r"^  Concat +\d+$", out, re.MULTILINE)
    assert re.search(r"payloads moved because they are not aligned: \d+", out)
    code, out, _ = run(capsys, "inspect", path, "--bind", "known", "--uses", "any")
    assert code == 0
    for name in ("past_key_values.0.key", "past_key_values.1.value"):
        assert re.search(rf"{re.escape(name)} +<- +present.* in place", out)
    assert "scheme kv" in out


def test_recognition_can_be_turned_off(capsys: Capture, cases: pathlib.Path) -> None:
    path = cases / "optimum_llama" / "model.onnx"
    bind = ["--bind", "known", "--uses", "any"]
    code, out, _ = run(capsys, "inspect", path, *bind)
    assert code == 0
    assert re.search(r"^attention at node \d+", out, re.MULTILINE)
    code, out, _ = run(capsys, "inspect", path, *bind, "--no-recognize-attention")
    assert code == 0
    assert "attention at node" not in out
    answers = []
    for switch in ([], ["--no-recognize-attention"]):
        arguments = ["--prompt-ids", "1,5,3", "--max-new-tokens", "4", "--json", *switch]
        code, out, _ = run(capsys, "generate", path, *bind, *arguments)
        assert code == 0
        answers.append(json.loads(out)["tokens"])
    assert len(answers[0]) == 4
    assert answers[0] == answers[1]
    code, out, _ = run(capsys, "bench", path, *bind, "--only", "refeed", "--json", "--rounds", "1", *switch)
    assert code == 0
    assert json.loads(out)["sides"]["refeed"]["time_to_first_token_seconds"] > 0
    help_text = []
    for command in ("generate", "chat", "bench", "inspect"):
        with pytest.raises(SystemExit):
            run(capsys, command, "--help")
        help_text.append(capsys.readouterr().out)
    assert all("--no-recognize-attention" in text for text in help_text)


def test_inspect_lists_what_is_missing(capsys: Capture, tmp_path: pathlib.Path) -> None:
    node = onnx.helper.make_node("NoSuchOperator", ["x"], ["y"])
    info = graphs.info("x", graphs.FLOAT, [2]), graphs.info("y", graphs.FLOAT, [2])
    path = tmp_path / "odd.onnx"
    onnx.save(graphs.model([node], [info[0]], [info[1]]), path)
    code, out, _ = run(capsys, "inspect", path)
    assert code == 1
    assert "cannot run this model: NoSuchOperator" in out


def test_bind_writes_a_model_that_is_bound(capsys: Capture, tmp_path: pathlib.Path) -> None:
    source, target = tmp_path / "plain.onnx", tmp_path / "bound.onnx"
    onnx.save(graphs.accumulate(), source)
    code, out, _ = run(capsys, "bind", source, target, "--bind", "past=present", "--uses", "any", "--publish", "once")
    assert code == 0
    assert "past" in out
    assert "a pair" in out
    assert out.endswith(f"wrote {target}\n")
    model = refeed.load(target)
    assert [(b.input, b.output, b.publish) for b in model.bindings] == [("past", "present", "once")]
    assert model.binding_uses == "any"
    assert refeed.load(source).bindings == []
    code, _, _ = run(capsys, "bind", source, target, "--bind", "past -> present", "--publish", "past=if_present")
    assert code == 0
    assert refeed.load(target).bindings[0].publish == "if_present"


def test_bind_names_both_files_it_writes(capsys: Capture, cases: pathlib.Path, tmp_path: pathlib.Path) -> None:
    target = tmp_path / "bound.onnx"
    source = cases / "mobius_llama" / "model.onnx"
    code, out, _ = run(capsys, "bind", source, target, "--bind", "known", "--uses", "any")
    assert code == 0
    assert out.endswith(f"wrote {target}\nwrote {target}.data\n")
    assert (tmp_path / "bound.onnx.data").exists()
    code, out, _ = run(capsys, "inspect", target)
    assert code == 0
    assert "bindings (uses: any):" in out


@pytest.mark.parametrize(
    "arguments",
    [
        ["generate", "x", "--prompt-ids", "1,a"],
        ["generate", "x", "--prompt-ids", "-1"],
        ["generate", "x", "--prompt-ids", "1", "--max-new-tokens", "0"],
        ["generate", "x"],
        ["generate", "x", "a text", "--prompt-ids", "1"],
        ["generate", "x", "a text", "--top-k", "0"],
        ["generate", "x", "a text", "--eos-token-id", "-1"],
        ["chat", "x", "--temperature", "warm"],
        ["bench"],
        ["bench", "x", "--only", "other"],
        ["bench", "x", "--rounds", "0"],
        ["bind", "x", "y"],
        ["inspect", "x", "--uses", "any"],
        ["generate", "x", "--prompt-ids", "1", "--publish", "once"],
        ["demo", "--uses", "any"],
        ["nonsense"],
        [],
    ],
    ids=" ".join,
)
def test_wrong_command_lines(arguments: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--bind", "past=present,delta"], "INPUT=OUTPUT"),
        (["--bind", "past=present", "--publish", "once", "--publish", "always"], "one policy"),
        (["--bind", "past=present", "--publish", "never"], "never"),
        (["--bind", "nonsense"], "unknown naming scheme"),
    ],
)
def test_wrong_bindings(options: list[str], text: str, capsys: Capture, tmp_path: pathlib.Path) -> None:
    source = tmp_path / "plain.onnx"
    onnx.save(graphs.accumulate(), source)
    code, _, err = run(capsys, "bind", source, tmp_path / "out.onnx", *options)
    assert code == 1
    assert text in err
    assert not (tmp_path / "out.onnx").exists()


def test_missing_files_are_one_line(capsys: Capture, tmp_path: pathlib.Path) -> None:
    code, _, err = run(capsys, "inspect", tmp_path / "missing.onnx")
    assert code == 1
    assert err.count("\n") == 1
    assert "missing.onnx" in err


def test_commands_bind_nothing_unasked(capsys: Capture, cases: pathlib.Path) -> None:
    code, _, err = run(capsys, "generate", cases / "dynamo18_llama" / "model.onnx", "--prompt-ids", "1,2")
    assert code == 1
    assert "--bind known" in err


def test_generate_writes_a_trace(capsys: Capture, cases: pathlib.Path, tmp_path: pathlib.Path) -> None:
    trace = tmp_path / "trace.json"
    code, out, _ = run(
        capsys,
        "generate",
        cases / "dynamo18_llama" / "model.onnx",
        *("--prompt-ids", "1,2,3", "--max-new-tokens", "4", "--bind", "known", "--uses", "any", "--trace", trace),
    )
    assert code == 0
    entries = json.loads(trace.read_text())["traceEvents"]
    products = [entry for entry in entries if entry["ph"] == "X" and entry["name"] == "MatMul"]
    assert len(products) % 4 == 0
    assert products
    assert "total us" in out
    assert "MatMul" in out


@pytest.mark.parametrize(
    "case", ["dynamo18_llama", "optimum_llama", "optimum_gpt2", "dynamo20_phi3", "genai_llama_fp32", "mobius_llama"]
)
def test_generate_makes_the_stored_tokens(capsys: Capture, cases: pathlib.Path, case: str) -> None:
    import numpy as np

    manifest = json.loads((cases / "manifest.json").read_text())["cases"]
    entry = next(entry for entry in manifest if entry["name"] == case)
    reference = next(ref for ref in entry["refs"] if ref["file"] == "ref_b1.npz")
    stored = np.load(cases / case / "ref_b1.npz")
    prompt = stored["step0/in/input_ids"]
    assert prompt.shape[0] == 1
    want = reference["tokens"][0]
    code, out, _ = run(
        capsys,
        "generate",
        cases / case / entry["model"],
        *("--prompt-ids", ",".join(map(str, prompt[0]))),
        *("--max-new-tokens", len(want), "--bind", "known", "--uses", "any"),
    )
    assert code == 0
    assert f"tokens: {','.join(map(str, want))}\n" in out
    assert "scheme kv" in out
    assert "tokens/s" in out
    first = run(
        capsys,
        "generate",
        cases / case / entry["model"],
        *("--prompt-ids", ",".join(map(str, prompt[0])), "--eos-token-id", want[1]),
        *("--max-new-tokens", len(want), "--bind", "known", "--uses", "any"),
    )
    assert f"tokens: {','.join(map(str, want[:2]))}\n" in first[1]


def test_ctrl_c_prints_what_there_is(cases: pathlib.Path) -> None:
    model = cases / "dynamo18_llama" / "model.onnx"
    command = [sys.executable, "-m", "refeed", "generate", str(model), "--prompt-ids", "1,2,3", "--bind", "known"]
    command += ["--uses", "any", "--max-new-tokens", "10000000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        # The report of the binding comes before the first token.
        while "binding uses" not in process.stdout.readline():
            assert process.poll() is None
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    tokens = re.search(r"^tokens: (\d+(?:,\d+)+)$", out, re.MULTILINE)
    assert tokens is not None, (out[-300:], err)
    assert f"interrupted after {tokens[1].count(',') + 1} of 10000000 tokens" in err
    assert "Traceback" not in err
