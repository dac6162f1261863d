"""Text in and out: tokenizers, chat templates, text of a growing sequence of tokens, and the settings beside a model.

What lies in a model's folder says how its text is made: `tokenizer.json`, `tokenizer_config.json`,
`chat_template.jinja`, `genai_config.json`, `generation_config.json`. Two packages do the work and are asked for when
they are first needed: ``pip install 'refeed[text]'`` brings `tokenizers`, and `jinja2` for chat templates.

Examples
--------
>>> text = refeed.text.TextGenerator("decoder/model.onnx", max_new_tokens=50)  # doctest: +SKIP
>>> text.append("Once upon a time")                                            # doctest: +SKIP
>>> for piece in text.stream():                                                # doctest: +SKIP
...     print(piece, end="", flush=True)
"""

from refeed.text.chat_template import ChatTemplate
from refeed.text.model_settings import ModelSettings
from refeed.text.text_generator import GeneratedText, TextGenerator
from refeed.text.text_stream import TextStream
from refeed.text.tokenizer import Tokenizer

__all__ = ["ChatTemplate", "GeneratedText", "ModelSettings", "TextGenerator", "TextStream", "Tokenizer"]
