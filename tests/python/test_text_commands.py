"""The commands that generate text, beside onnxruntime and the `tokenizers` package on the shipped decoder."""

import io
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import generation_models
import numpy as np
import onnx
import onnxruntime
import pytest
import refeed
import tokenizers
from refeed.__main__ import main
from refeed.commands.live_text import LiveText

Capture = pytest.CaptureFixture[str]
SETTINGS = ("tokenizer.json", "tokenizer_config.json", "generation_config.json")


@pytest.fixture(scope="module")
def shipped(root: pathlib.Path) -> pathlib.Path:
    return root / "python" / "refeed" / "data" / "demo" / "model.onnx"


@pytest.fixture(scope="module")
def official(shipped: pathlib.Path) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_file(str(shipped.parent / "tokenizer.json"))


def run(capsys: Capture, *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def greedy(path: pathlib.Path, prompt: Sequence[int], count: int, ends: Sequence[int] = ()) -> list[int]:
    """Decode with onnxruntime from nothing each time, so that no cache and no position can be wrong."""
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    feeds: dict[str, Any] = {}
    for value in session.get_inputs():
        if value.name.startswith("past"):
            feeds[value.name] = np.zeros([1, value.shape[1], 0, value.shape[3]], np.float32)
    ids = list(prompt)
    for _ in range(count):
        length = len(ids)
        feeds |= {
            "input_ids": np.array([ids]),
            "attention_mask": np.ones((1, length), np.int64),
            "position_ids": np.arange(length)[None],
        }
        ids.append(int(session.run(["logits"], feeds)[0][0, -1].argmax()))
        if ids[-1] in ends:
            break
    return ids[len(prompt) :]


def end_of(shipped: pathlib.Path) -> int:
    made: int = json.loads((shipped.parent / "generation_config.json").read_text())["eos_token_id"]
    return made


def test_a_text_is_continued_as_onnxruntime_continues_it(
    capsys: Capture, shipped: pathlib.Path, official: tokenizers.Tokenizer
) -> None:
    want = greedy(shipped, official.encode("Once upon a time").ids, 24)
    code, out, err = run(capsys, "generate", shipped, "Once upon a time", "--max-new-tokens", 24)
    assert code == 0
    # The text alone, so that it can be piped; what it cost goes to standard error.
    assert out == official.decode(want) + "\n"
    assert re.search(r"per new token +[\d.]+ ms, \d+ tokens/s", err)
    assert run(capsys, "generate", shipped.parent, "Once upon a time", "--max-new-tokens", 24)[1] == out


def test_files_say_what_the_command_line_does_not(
    capsys: Capture, shipped: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    for name in ("model.onnx", *SETTINGS):
        shutil.copy(shipped.parent / name, tmp_path / name)
    said = {"eos_token_id": 0, "do_sample": True, "temperature": 0.8, "top_k": 5, "max_new_tokens": 6, "num_beams": 2}
    (tmp_path / "generation_config.json").write_text(json.dumps(said))
    code, out, err = run(capsys, "generate", tmp_path, "Once upon a time", "--seed", 4, "--json")
    assert code == 0
    said_line = (
        "from generation_config.json: eos_token_id 0, max_new_tokens 6, do_sample true, temperature 0.8, top_k 5"
    )
    assert said_line in err.splitlines()
    assert "not used: num_beams of generation_config.json" in err.splitlines()
    given = ("--temperature", 0.8, "--top-k", 5, "--max-new-tokens", 6)
    want = json.loads(run(capsys, "generate", shipped, "Once upon a time", "--seed", 4, "--json", *given)[1])
    assert json.loads(out)["tokens"] == want["tokens"]
    code, out, err = run(capsys, "generate", tmp_path, "Once upon a time", "--json", "--temperature", 0, "--ignore-eos")
    assert "from generation_config.json: max_new_tokens 6, top_k 5" in err.splitlines()
    plain = json.loads(run(capsys, "generate", shipped, "Once upon a time", "--json")[1])
    assert json.loads(out)["tokens"] == plain["tokens"][:6]


def test_json_for_machines(capsys: Capture, shipped: pathlib.Path, official: tokenizers.Tokenizer) -> None:
    ids = official.encode("There was once").ids
    code, out, _ = run(capsys, "generate", shipped, "There was once", "--max-new-tokens", 9, "--json")
    assert code == 0
    result = json.loads(out)
    assert result["prompt"] == "There was once"
    assert result["prompt_tokens"] == ids
    assert result["tokens"] == greedy(shipped, ids, 9)
    assert result["text"] == official.decode(result["tokens"])
    assert result["finish_reason"] == "length"
    assert result["bindings"][0] == ["past_key_values.0.key", "present.0.key"]
    assert result["first_token_seconds"] > 0
    assert result["tokens_per_second"] > 0


def test_a_text_ends_with_its_end_token(capsys: Capture, shipped: pathlib.Path, official: tokenizers.Tokenizer) -> None:
    end = end_of(shipped)
    prompt = official.encode("<|user|>Who are you?<|end|><|assistant|>").ids
    want = greedy(shipped, prompt, 60, [end])
    assert want[-1] == end
    arguments = ("generate", shipped, "Who are you?", "--chat", "--max-new-tokens", 60, "--json")
    result = json.loads(run(capsys, *arguments)[1])
    assert result["prompt_tokens"] == prompt
    assert result["tokens"] == want
    assert result["finish_reason"] == "eos"
    assert result["text"] == official.decode(want[:-1])
    ignored = json.loads(run(capsys, *arguments, "--ignore-eos")[1])
    assert len(ignored["tokens"]) == 60
    assert ignored["tokens"][: len(want)] == want


def test_stop_strings_are_no_part_of_the_text(capsys: Capture, shipped: pathlib.Path) -> None:
    whole = json.loads(run(capsys, "generate", shipped, "Once", "--max-new-tokens", 40, "--json")[1])["text"]
    # From the middle of the text, so that it begins and ends inside tokens.
    stop = whole[17:23]
    code, out, _ = run(capsys, "generate", shipped, "Once", "--max-new-tokens", 40, "--json", "--stop", stop)
    result = json.loads(out)
    assert code == 0
    assert result["finish_reason"] == "stop"
    assert result["text"] == whole[: whole.index(stop)]
    assert run(capsys, "generate", shipped, "Once", "--stop", stop)[1] == result["text"] + "\n"


def test_draws_are_repeatable_and_differ(capsys: Capture, shipped: pathlib.Path) -> None:
    def text(*options: object) -> str:
        return run(capsys, "generate", shipped, "Once", "--max-new-tokens", 30, "--ignore-eos", *options)[1]

    warm = ("--temperature", 1.5, "--top-k", 50, "--top-p", 0.99, "--min-p", 0.001)
    assert text(*warm, "--seed", 1) == text(*warm, "--seed", 1)
    assert len({text(*warm, "--seed", seed) for seed in range(4)}) > 1
    assert text("--temperature", 1.5, "--top-k", 1, "--seed", 5) == text()


def test_a_prompt_from_standard_input(capsys: Capture, shipped: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("Once upon a time"))
    piped = run(capsys, "generate", shipped, "-", "--max-new-tokens", 5)[1]
    assert piped == run(capsys, "generate", shipped, "Once upon a time", "--max-new-tokens", 5)[1]


def plain(folder: pathlib.Path, shipped: pathlib.Path, *files: str) -> pathlib.Path:
    """Write the shipped decoder without its bindings."""
    message = refeed.load(shipped).to_proto()
    del message.graph.persistent_bindings[:]
    refeed.Model.from_proto(message).save(folder / "model.onnx")
    for name in files:
        shutil.copy(shipped.parent / name, folder)
    return folder / "model.onnx"


def test_nothing_is_bound_by_name_unless_asked(capsys: Capture, shipped: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = plain(tmp_path, shipped, *SETTINGS)
    code, out, err = run(capsys, "generate", path, "Once", "--max-new-tokens", 3)
    assert (code, out) == (1, "")
    assert "--bind known" in err
    assert "past_key_values" in err
    want = run(capsys, "generate", shipped, "Once", "--max-new-tokens", 3)[1]
    code, out, err = run(capsys, "generate", path, "Once", "--max-new-tokens", 3, "--bind", "known")
    assert (code, out) == (0, want)
    assert "scheme kv" in err


def test_names_from_genai_config(capsys: Capture, shipped: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = plain(tmp_path, shipped, *SETTINGS)
    missing = run(capsys, "generate", path, "Once", "--bind", "genai_config")
    assert missing[0] == 1
    assert "--bind genai_config: expected names of caches" in missing[2]
    layers = len(refeed.load(shipped).bindings) // 2
    names = {"past_key_names": "past_key_values.%d.key", "past_value_names": "past_key_values.%d.value"}
    presents = {"present_key_names": "present.%d.key", "present_value_names": "present.%d.value"}
    decoder = {"inputs": names, "outputs": presents, "num_hidden_layers": layers}
    content = {"model": {"decoder": decoder, "context_length": 12, "eos_token_id": end_of(shipped)}}
    (tmp_path / "genai_config.json").write_text(json.dumps(content))
    arguments = ("generate", path, "Once", "--bind", "genai_config", "--json", "--max-new-tokens", 30, "--ignore-eos")
    code, out, err = run(capsys, *arguments)
    assert code == 0
    result = json.loads(out)
    assert len(result["bindings"]) == 2 * layers
    assert "past_key_values.0.key" in err
    # The limit of the model holds, too.
    assert len(result["prompt_tokens"]) + len(result["tokens"]) == 12


def test_what_is_missing_is_one_line(capsys: Capture, shipped: pathlib.Path, tmp_path: pathlib.Path) -> None:
    path = plain(tmp_path, shipped)
    for arguments, text in [
        (["generate", path, "Once", "--bind", "known"], "tokenizer.json"),
        (["generate", path, "--prompt-ids", "1", "--stop", "x", "--bind", "known"], "--stop"),
        (["chat", path, "--bind", "known"], "tokenizer.json"),
        (["generate", shipped, "Once", "--top-p", "7"], "top_p"),
        (["generate", shipped, "--prompt-ids", "100000"], "100000"),
        (["generate", shipped, "\udcff"], "text"),
        (["generate", tmp_path / "none.onnx", "Once"], "none.onnx"),
    ]:
        code, _, err = run(capsys, *arguments)
        assert code == 1, arguments
        assert text in err.splitlines()[-1], (arguments, err)
        assert "Traceback" not in err
    shutil.copy(shipped.parent / "tokenizer.json", tmp_path)
    code, _, err = run(capsys, "chat", path, "--bind", "known")
    assert code == 1
    assert "chat_template" in err.splitlines()[-1]


def chat(capsys: Capture, monkeypatch: pytest.MonkeyPatch, lines: Sequence[str], *options: object) -> tuple[Any, str]:
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
    code, out, err = run(capsys, "chat", *options)
    assert code == 0, err
    return out.splitlines(), err


def test_a_talk_is_what_its_whole_text_gives(
    capsys: Capture, shipped: pathlib.Path, official: tokenizers.Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = ["Hello!", "Who are you?", "Thank you."]
    answers, _ = chat(capsys, monkeypatch, questions, "--max-new-tokens", 40)
    text = ""
    # The package puts the token in front that the template writes itself.
    for question, got in zip(questions, answers, strict=True):
        text += f"<|user|>{question}<|end|><|assistant|>"
        want = greedy(shipped, official.encode(text).ids, 40, [end_of(shipped)])
        assert got == official.decode(want)
        text += f"{got}<|end|>"


def test_a_talk_goes_back_and_forks(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = "Hello!", "What is refeed?"
    (hello, refeed_is), _ = chat(capsys, monkeypatch, [first, second])
    lines, err = chat(capsys, monkeypatch, [first, "Who are you?", "/rewind", second, "/nonsense", "/help"])
    assert (lines[0], lines[2]) == (hello, refeed_is)
    assert "got /nonsense" in err
    assert "/rewind" in err
    lines, _ = chat(capsys, monkeypatch, [first, "/fork", "Who are you?", "/back", second, "/reset", first])
    assert (lines[0], lines[2], lines[3]) == (hello, refeed_is, hello)
    lines, _ = chat(capsys, monkeypatch, [first, "/exit", second])
    assert lines == [hello]


def test_a_turn_evaluates_only_what_is_new(shipped: pathlib.Path) -> None:
    from refeed.commands.chat import Conversation
    from refeed.commands.decoder import OpenedDecoder
    from refeed.runtime import GenerationOptions
    from refeed.text import ModelSettings, Tokenizer

    settings = ModelSettings.beside(shipped)
    opened = OpenedDecoder(refeed.load(shipped), settings, Tokenizer.beside(shipped), None)
    options = GenerationOptions(**settings.option_fields(), max_new_tokens=30)
    talk = Conversation(opened, options)
    quiet = LiveText(on=False)
    talk.ask("Hello!", quiet)
    before = talk.generator.tokens[0]
    talk.ask("Who are you?", quiet)
    # One `append` a turn, and what stood there still stands there.
    assert talk.generator.turns == [0, len(before)]
    assert talk.generator.tokens[0][: len(before)] == before
    talk.rewind()
    assert talk.turns == 1
    talk.ask("Who are you?", quiet)
    assert talk.generator.tokens[0][: len(before)] == before


def test_ctrl_c_stops_an_answer_and_not_the_talk(shipped: pathlib.Path) -> None:
    command = [sys.executable, "-m", "refeed", "chat", str(shipped), "--max-new-tokens", "1000000", "--ignore-eos"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:  # noqa: S603
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("Hello!\n")
        process.stdin.flush()
        # Something of the answer has come.
        assert process.stdout.read(20)
        process.send_signal(signal.SIGINT)
        process.stdin.write("/reset\n/exit\n")
        _, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "questions so far: 0" in err
    assert "Traceback" not in err


def test_bench_as_a_table_and_as_json(capsys: Capture, shipped: pathlib.Path) -> None:
    sizes = ("--prompt-tokens", 9, "--new-tokens", 5, "--rounds", 2)
    code, out, _ = run(capsys, "bench", shipped, *sizes, "--json")
    assert code == 0
    result = json.loads(out)
    assert result["same_tokens"] is True
    assert set(result["sides"]) == {"refeed", "onnxruntime"}
    for side in result["sides"].values():
        assert side["time_to_first_token_seconds"] > 0
        assert side["prefill_tokens_per_second"] == pytest.approx(9 / side["time_to_first_token_seconds"])
        assert side["decode_tokens_per_second"] > 0
        assert side["memory_bytes"] > 0
    assert result["sides"]["refeed"]["state_bytes"] > 0
    code, out, _ = run(capsys, "bench", shipped, *sizes, "--only", "refeed")
    assert code == 0
    assert re.search(r"^time to first token +[\d.]+ ms$", out, re.MULTILINE)
    assert "onnxruntime" not in out


def test_bench_of_a_model_without_caches(capsys: Capture, tmp_path: pathlib.Path) -> None:
    # Its token is the number of columns it is fed: all that there are, at every step.
    onnx.save(generation_models.of_width(), tmp_path / "model.onnx")
    arguments = ("bench", tmp_path, "--prompt-tokens", 3, "--new-tokens", 4, "--rounds", 1, "--json")
    code, out, err = run(capsys, *arguments)
    assert code == 0
    assert "binds no input" in err
    result = json.loads(out)
    assert result["skipped"] == {}
    assert result["same_tokens"] is True


def test_bench_says_when_tokens_differ(capsys: Capture, shipped: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from refeed.commands import bench

    def other(model: Any, options: Any) -> Any:
        decode, live_bytes = bench._refeed(model, options)

        def wrong(prompt: list[int], count: int) -> tuple[list[int], list[float]]:
            tokens, seconds = decode(prompt, count)
            return [*tokens[:-1], tokens[-1] + 1], seconds

        return wrong, live_bytes

    monkeypatch.setitem(bench.MAKERS, "onnxruntime", other)
    monkeypatch.setattr(bench, "_memory", lambda *_: 0)
    code, out, _ = run(capsys, "bench", shipped, "--rounds", 1, "--new-tokens", 2)
    assert code == 1
    assert "CHOSE OTHER TOKENS" in out


def test_the_demo_tells_a_story_and_counts(capsys: Capture, shipped: pathlib.Path) -> None:
    code, out, _ = run(capsys, "demo", "--max-new-tokens", 40)
    assert code == 0
    story = next(line for line in out.splitlines() if line.startswith("Once upon a time"))
    assert len(story.split()) > 20
    table = {}
    for line in out.splitlines():
        label, *cells = re.split(r"\s{2,}", line)
        table[label] = cells
    shapes = [[dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in onnx.load(shipped).graph.input]
    shapes = [shape for shape in shapes if len(shape) == 4]
    row = sum(heads * width * 4 for _, heads, _, width in shapes)
    prompt = len(tokenizers.Tokenizer.from_file(str(shipped.parent / "tokenizer.json")).encode("Once upon a time").ids)
    assert f"{prompt} prompt tokens, 40 new tokens" in out
    kept, fed = table["cache bytes appended per token"]
    assert kept == fed == (f"{row} B" if row < 1024 else f"{row / 1024:.1f} KiB")
    # The caches grow once, at 32 rows; by hand each step copies all.
    kept, fed = table["prefix bytes copied"]
    assert kept == f"{32 * row / 1024:.1f} KiB"
    assert fed == f"{sum(range(prompt, prompt + 39)) * row / 1024:.1f} KiB"
    assert table["cache buffers allocated"] == [str(2 * len(shapes)), str(40 * len(shapes))]
    assert "both ways, each run twice, gave the same tokens" in out
    assert re.search(r"^tokens: (\d+,){24}\.\.\.$", out, re.MULTILINE)
    assert f"cache length: {prompt + 39}" in out


def test_the_demo_of_another_decoder(capsys: Capture, cases: pathlib.Path) -> None:
    model = cases / "dynamo18_llama" / "model.onnx"
    code, out, err = run(capsys, "demo", "--max-new-tokens", 40, "--model", model, "--bind", "known", "--uses", "any")
    assert code == 0
    assert "scheme kv" in err
    # Its attention is recognised, so that no node repeats heads.
    assert "writes the cache again" not in out
    assert "both ways, each run twice, gave the same tokens" in out


def test_the_demo_without_a_tokenizer_says_so(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    code, out, _ = run(capsys, "demo", "--max-new-tokens", 5)
    assert code == 0
    assert "refeed[text]" in out
    assert "gave the same tokens" in out


def terminal(command: list[str], *, both: bool) -> tuple[int, bytes]:
    """Run a command with standard error, or both streams, on a terminal; return its code and what was shown there."""
    parent, child = pty.openpty()
    out = child if both else subprocess.DEVNULL
    with subprocess.Popen(command, stdout=out, stderr=child) as process:  # noqa: S603
        os.close(child)
        shown = b""
        while True:
            try:
                part = os.read(parent, 65536)
            except OSError:
                break
            if not part:
                break
            shown += part
    os.close(parent)
    return process.returncode, shown


def test_a_live_line_only_on_a_terminal() -> None:
    command = [sys.executable, "-m", "refeed", "demo", "--max-new-tokens", "30"]
    quiet = subprocess.run(command, capture_output=True, timeout=120, check=True)  # noqa: S603
    assert quiet.stderr == b""
    code, shown = terminal(command, both=False)
    assert code == 0
    assert b"of 30 tokens" in shown
    assert shown.endswith(b"\r\x1b[K")


def test_the_rate_stands_behind_the_text(shipped: pathlib.Path, capsys: Capture) -> None:
    arguments = ["generate", str(shipped), "Once upon a time", "--max-new-tokens", "400", "--ignore-eos"]
    text = run(capsys, *arguments)[1].rstrip("\n")
    code, shown = terminal([sys.executable, "-m", "refeed", *arguments], both=True)
    assert code == 0
    assert b"tokens/s" in shown
    # Without what is saved, shown and gone back over, it is the text.
    left = re.sub(rb"\x1b7.*?\x1b8|\x1b\[K", b"", shown).replace(b"\r\n", b"\n").decode()
    assert left.startswith(text)


def test_a_model_does_not_steer_a_terminal(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a\tb\x1b[2J\x9bc\u00e9\n"
    live = LiveText()
    live.write(text)
    assert capsys.readouterr().out == text
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    live = LiveText()
    live.write(text)
    assert capsys.readouterr().out == "a\tb\\x1b[2J\\x9bc\u00e9\n"


def test_ctrl_c_prints_the_text_so_far(shipped: pathlib.Path) -> None:
    command = [sys.executable, "-m", "refeed", "generate", str(shipped), "Once", "--max-new-tokens", "1000000"]
    command += ["--ignore-eos"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        assert process.stdout.read(30)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert out.endswith("\n")
    assert re.search(r"^interrupted after \d+ of 1000000 tokens$", err, re.MULTILINE)
    assert "Traceback" not in err


def test_ctrl_c_in_json(capsys: Capture, shipped: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = json.loads(run(capsys, "generate", shipped, "Once", "--json", "--max-new-tokens", 9)[1])["tokens"]
    push = refeed.text.TextStream.push

    def interrupted(stream: refeed.text.TextStream, token: int) -> str:
        if token == whole[2]:
            raise KeyboardInterrupt
        return push(stream, token)

    monkeypatch.setattr(refeed.text.TextStream, "push", interrupted)
    code, out, err = run(capsys, "generate", shipped, "Once", "--json", "--max-new-tokens", 9)
    assert code == 130
    result = json.loads(out)
    assert result["finish_reason"] == "interrupted"
    assert result["tokens"] == whole[: whole.index(whole[2]) + 1]
    assert f"interrupted after {len(result['tokens'])} of 9 tokens" in err


def test_a_terminal_that_cannot_write_a_character(shipped: pathlib.Path, tmp_path: pathlib.Path) -> None:
    for name in SETTINGS:
        shutil.copy(shipped.parent / name, tmp_path)
    shutil.copy(shipped, tmp_path / "model.onnx")
    # A space becomes a letter that ASCII has not.
    tokenizer = json.loads((tmp_path / "tokenizer.json").read_text())
    replacing = {"type": "Replace", "pattern": {"String": " "}, "content": "\u00e9"}
    tokenizer["decoder"] = {"type": "Sequence", "decoders": [tokenizer["decoder"], replacing]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    command = [sys.executable, "-m", "refeed", "generate", str(tmp_path), "Once upon", "--max-new-tokens", "1"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(command, capture_output=True, env=environment, timeout=120, check=True)  # noqa: S603
    assert ended.stdout == b"\\xe9a\n"
