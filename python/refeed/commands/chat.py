"""`refeed chat`: a conversation with a model, whose state is kept from turn to turn."""

import argparse
import contextlib
import sys
from typing import Any

import refeed
from refeed.commands import binding, session
from refeed.commands.decoder import OpenedDecoder, add_generation_options, open_decoder
from refeed.commands.generate import answer
from refeed.commands.live_text import LiveText
from refeed.decoding import shipped_model
from refeed.runtime import GenerationOptions, Generator, RuntimeSessionOptions
from refeed.text import TextStream

__all__ = ["Conversation", "add_parser"]

HELP = """/rewind   take the last question and its answer back
/fork     go on in a copy of the conversation; /back returns to where it was left
/reset    begin again
/exit     leave, as Ctrl-D does; Ctrl-C stops an answer, or forgets a line
/help     this"""


def add_parser(commands: Any) -> None:
    """Add the command."""
    parser = commands.add_parser("chat", help="talk with a model")
    parser.add_argument(
        "model",
        metavar="MODEL",
        nargs="?",
        default=shipped_model(),
        help="path of an exported decoder; the shipped one",
    )
    add_generation_options(parser, 512)
    parser.add_argument("--system", metavar="TEXT", help="a message of the system before the first turn")
    binding.add_options(parser)
    session.add_options(parser)
    parser.set_defaults(run=run)


class Conversation:
    """Messages, and a generator that has seen them.

    Each turn the whole conversation is written by the chat template, because templates may write earlier messages
    differently when more follow. Of what the generator has seen, the part that is still the same is kept.

    Parameters
    ----------
    opened : OpenedDecoder
        The model, with a tokenizer and its chat template.
    options : GenerationOptions
        How answers are generated.
    system : str, optional
        A message of the system.
    stop : list of str
        Texts that end an answer.
    built : RuntimeSessionOptions, optional
        Settings of the state.
    """

    def __init__(
        self,
        opened: OpenedDecoder,
        options: GenerationOptions,
        system: str | None = None,
        stop: tuple[str, ...] = (),
        built: RuntimeSessionOptions | None = None,
    ) -> None:
        self._tokenizer = opened.needed_tokenizer()
        self._options = options
        self._stop = stop
        self._first = [{"role": "system", "content": system}] if system else []
        self.messages = list(self._first)
        self.generator = Generator(opened.model, options, session_options=built)
        # Renders now: a folder without a template, or one that knows no system, is told before the first question.
        self._tokenizer.chat_template.render([*self._first, {"role": "user", "content": "?"}])

    @property
    def turns(self) -> int:
        """The number of questions."""
        return sum(message["role"] == "user" for message in self.messages)

    def ask(self, question: str, live: LiveText) -> str:
        """Add a question, generate the answer, and return its text. A question that cannot be asked is taken back."""
        asked = [*self.messages, {"role": "user", "content": question}]
        ids = self._tokenizer.encode_chat(asked)
        if self._options.max_length is not None and len(ids) >= self._options.max_length:
            raise refeed.ValueTypeError(
                f"the conversation has {len(ids)} tokens, and the model sees {self._options.max_length}; see /rewind"
            )
        self._continue_with(ids)
        made = answer(self.generator, self._options, TextStream(self._tokenizer, self._stop, ids), live)
        self.messages = [*asked, {"role": "assistant", "content": made.text}]
        return made.text

    def rewind(self) -> None:
        """Take the last question and its answer back."""
        while self.messages and self.messages.pop()["role"] != "user":
            pass

    def reset(self) -> None:
        """Begin again."""
        self.messages = list(self._first)
        self.generator.reset()

    def fork(self) -> "Conversation":
        """Return a copy that goes its own way; the retained values are shared."""
        made: Conversation = object.__new__(Conversation)
        made.__dict__.update(self.__dict__, messages=list(self.messages), generator=self.generator.fork())
        return made

    def _continue_with(self, ids: list[int]) -> None:
        """Let the generator have seen, or be about to see, exactly these tokens."""
        seen = self.generator.tokens[0] if self.generator.length else []
        same = 0
        while same < min(len(seen), len(ids) - 1) and seen[same] == ids[same]:
            same += 1
        if same == 0:
            self.generator.reset()
        elif same < len(seen):
            self.generator.truncate(same)
        self.generator.append(ids[self.generator.length :])


def run(options: argparse.Namespace) -> int:
    """Read questions and print answers until the input ends."""
    opened = open_decoder(options)
    opened.check_inputs()
    built = session.session_options(options)
    conversation = Conversation(opened, opened.options(options), options.system, opened.stop(options), built)
    opened.tell(options)
    left: list[Conversation] = []
    terminal = sys.stdin.isatty()
    if terminal:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  # lines can be edited and called again
        print("/help lists the commands", file=sys.stderr)
    while True:
        try:
            line = input("> " if terminal else "").strip()
        except EOFError:
            if terminal:
                print()
            return 0
        except KeyboardInterrupt:
            if not terminal:
                raise
            # Forgets the line, as shells do.
            print("\n/exit or Ctrl-D leaves", file=sys.stderr)
            continue
        if line == "/exit":
            return 0
        if line == "/help":
            print(HELP, file=sys.stderr)
        elif line == "/rewind":
            conversation.rewind()
        elif line == "/reset":
            conversation.reset()
        elif line == "/fork":
            left.append(conversation)
            conversation = conversation.fork()
        elif line == "/back":
            if not left:
                print("/back: expected a /fork before, got none", file=sys.stderr)
                continue
            conversation = left.pop()
        elif line.startswith("/"):
            print(f"expected one of the commands that /help lists, got {line}", file=sys.stderr)
            continue
        elif line:
            live = LiveText()
            try:
                conversation.ask(line, live)
            except refeed.Error as error:
                print(f"refeed chat: {error}", file=sys.stderr)
                continue
            except KeyboardInterrupt:
                # Before the first token, or after the last one: nothing of this turn is kept.
                print("interrupted", file=sys.stderr)
                continue
            live.finish()
            continue
        if line.startswith("/") and line != "/help":
            print(f"questions so far: {conversation.turns}", file=sys.stderr)
