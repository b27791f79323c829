"""Make a tiny Llama in a folder: its configuration and a tokenizer, no weights (`--load-format dummy` draws them at random).

    python tiny_model.py FOLDER [--heads 8]

Run it with the Python of the vLLM environment, which has `tokenizers`. The tokenizer has 1,024 tokens of printable ASCII: a load
generator counts an answer without text as an error, and here every token that a random model can say prints: `<s>` and its like are
ordinary tokens.
"""

from __future__ import annotations

import argparse
import itertools
import json
import string
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

VOCABULARY = 1024
SPECIAL = ("<unk>", "<s>", "</s>")


def vocabulary() -> list[str]:
    """The tokens in order: the special ones, every printable letter, then pairs of small letters after a word break."""
    letters = [*sorted(set(string.printable) - set(string.whitespace)), "▁"]
    pairs = ["▁" + "".join(pair) for pair in itertools.product(string.ascii_lowercase, repeat=2)]
    more = ["▁" + letter for letter in string.ascii_lowercase]
    triples = ["".join(triple) for triple in itertools.product(string.ascii_lowercase, repeat=3)]
    return [*SPECIAL, *letters, *more, *pairs, *triples][:VOCABULARY]


def merges(tokens: list[str]) -> list[tuple[str, str]]:
    """How byte-pair encoding puts the longer tokens together, shorter ones first."""
    known = set(tokens)
    long = sorted((token for token in tokens if len(token) > 1 and token not in SPECIAL), key=len)
    return [(token[:-1], token[-1]) for token in long if token[:-1] in known]


def make(folder: Path, heads: int = 8) -> None:
    """Write config.json, tokenizer.json and tokenizer_config.json."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens = vocabulary()
    numbered = {token: number for number, token in enumerate(tokens)}
    assert len(numbered) == VOCABULARY
    tokenizer = Tokenizer(models.BPE(vocab=numbered, merges=merges(tokens), unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="never")
    tokenizer.save(str(folder / "tokenizer.json"))
    chat = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    kind = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 4096, "chat_template": chat}
    _write(folder / "tokenizer_config.json", kind)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 32 * heads,
        "intermediate_size": 512,
        "num_hidden_layers": 4,
        "num_attention_heads": heads,
        "num_key_value_heads": max(1, heads // 2),
        "head_dim": 32,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "torch_dtype": "bfloat16",
        "hidden_act": "silu",
        "bos_token_id": 1,
        "eos_token_id": 2,
        "tie_word_embeddings": False,
    }
    _write(folder / "config.json", config)


def _write(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--heads", type=int, default=8)
    given = parser.parse_args()
    make(given.folder, given.heads)
    print(given.folder)
