"""Text in and out: tokenizers, chat templates, text of a growing sequence of tokens, and the settings beside a model.

What lies in a model's folder says how its text is made: `tokenizer.json`, `tokenizer_config.json`,
`chat_template.jinja`, `genai_config.json`, `generation_config.json`. Two packages do the work and are asked for when
they are first needed: ``pip install 'refeed[text]'`` brings `tokenizers`, and `jinja2` for chat templates.

Examples
--------
>>> tokenizer = refeed.text.Tokenizer.beside("decoder/model.onnx")             # doctest: +SKIP
>>> settings = refeed.text.ModelSettings.beside("decoder/model.onnx")          # doctest: +SKIP
>>> generator = refeed.Generator(model)                                        # doctest: +SKIP
>>> generator.append(tokenizer.encode("Once upon a time"))                     # doctest: +SKIP
>>> stream = refeed.text.TextStream(tokenizer, stop=["The end"])               # doctest: +SKIP
>>> for token in generator.stream(eos_token_id=settings.eos_token_ids[0]):     # doctest: +SKIP
...     print(stream.push(token.token), end="")
"""

from refeed.text.chat_template import ChatTemplate
from refeed.text.model_settings import ModelSettings
from refeed.text.text_stream import TextStream
from refeed.text.tokenizer import Tokenizer

__all__ = ["ChatTemplate", "ModelSettings", "TextStream", "Tokenizer"]
