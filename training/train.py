"""Train the demo's tokenizer and decoder from nothing, and write them as the demo ships them.

Everything is seeded: the same versions of PyTorch and tokenizers on the same kind of processor give the same model.
"""

import argparse
import itertools
import pathlib
import time

import corpus
import export
import tokenizers
import torch
from decoder import Decoder, Shape
from tokenizers import decoders, models, pre_tokenizers, trainers
from torch.nn import functional as F  # noqa: N812

SEED = 20_260
TOKENIZER_DOCUMENTS = 3_000


def make_tokenizer(vocabulary: int) -> tokenizers.Tokenizer:
    """Train a byte-level pair encoding."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[corpus.END, corpus.USER, corpus.ASSISTANT],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(itertools.islice(corpus.documents(SEED), TOKENIZER_DOCUMENTS), trainer)
    return tokenizer


class Batches:
    """Documents one after the other, cut into rows."""

    def __init__(self, tokenizer: tokenizers.Tokenizer, seed: int) -> None:
        self._tokenizer = tokenizer
        self._documents = corpus.documents(seed)
        self._end = tokenizer.token_to_id(corpus.END)

    def take(self, rows: int, length: int) -> torch.Tensor:
        """Return ids [rows, length + 1]; each row begins with the end of a document before it."""
        made = []
        for _ in range(rows):
            ids = [self._end]
            while len(ids) <= length:
                ids += self._tokenizer.encode(next(self._documents)).ids
            made.append(ids[: length + 1])
        return torch.tensor(made)


def loss_of(decoder: Decoder, ids: torch.Tensor) -> torch.Tensor:
    """Return the mean negative log probability of each id after those before it."""
    return F.cross_entropy(decoder(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())


def train(decoder: Decoder, batches: Batches, options: argparse.Namespace) -> None:
    """Run AdamW with a warm-up and a cosine descent."""
    groups = [
        {"params": [p for p in decoder.parameters() if p.ndim == 2], "weight_decay": 0.05},
        {"params": [p for p in decoder.parameters() if p.ndim != 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=options.rate, betas=(0.9, 0.98))
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.02, total_iters=100)
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps - 100, eta_min=options.rate / 50)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, fall], [100])
    begun = time.monotonic()
    for step in range(options.steps):
        # Short rows first: most of what is to be learnt stands close together.
        length = options.length * (1 + 3 * step // options.steps) // 3
        loss = loss_of(decoder, batches.take(options.tokens // length, length))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(decoder.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 0 or step == options.steps - 1:
            print(f"step {step}: loss {loss.item():.4f}, {time.monotonic() - begun:.0f} s", flush=True)


def main() -> None:
    """Train and write."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=pathlib.Path, help="folder for model.onnx, tokenizer.json and their settings")
    parser.add_argument("--steps", type=int, default=1_500, help="steps of the optimizer (1500)")
    parser.add_argument("--length", type=int, default=384, help="tokens a row in the last third of the steps (384)")
    parser.add_argument("--tokens", type=int, default=2_304, help="tokens a step (2304)")
    parser.add_argument("--rate", type=float, default=4e-3, help="highest learning rate (0.004)")
    parser.add_argument("--start", type=pathlib.Path, metavar="WEIGHTS", help="go on from these weights, on new text")
    parser.add_argument("--save", type=pathlib.Path, metavar="WEIGHTS", help="also write the weights for another run")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    shape = Shape()
    tokenizer = make_tokenizer(shape.vocabulary)
    decoder = Decoder(shape)
    print(f"{sum(p.numel() for p in decoder.parameters())} parameters", flush=True)
    seed = SEED + 1
    if options.start is not None:
        decoder.load_state_dict(torch.load(options.start, weights_only=True))
        seed = SEED + 3
    train(decoder, Batches(tokenizer, seed), options)
    if options.save is not None:
        torch.save(decoder.state_dict(), options.save)
    with torch.no_grad():
        held_out = loss_of(decoder, Batches(tokenizer, SEED + 2).take(32, options.length)).item()
    print(f"loss on stories that it has not seen: {held_out:.4f}")
    options.out.mkdir(parents=True, exist_ok=True)
    export.write(decoder, tokenizer, options.out)


if __name__ == "__main__":
    main()
