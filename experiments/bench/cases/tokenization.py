"""Training BPE, encoding a corpus and encoding single texts, beside the libraries."""

from collections.abc import Mapping
from typing import Any

from leadline.experiments.bench.contest import Benchmark, Case, ours, peer

CORPUS = 10_000_000  # bytes
TRAINED = (1_000, 8_000, 32_000)
VOCABULARY = 8_000
# Bytes that the library trains a unigram model on, which takes long; and the texts that are encoded one by one.
UNIGRAM_CORPUS = 2_000_000
LENGTH, COUNT = 2_000, 200
TRAINING = 1 / 1.5  # leadline may take 1.5 times as long
ENCODING = 0.9  # and 11 % longer


def benchmark() -> Benchmark:
    """Values are checksums of merges and of ids, which must be equal before anything is timed."""
    return Benchmark(
        "tokenization",
        "How long do training and encoding take beside the libraries?",
        (
            *(_training(vocabulary) for vocabulary in TRAINED),
            _corpus(),
            _texts("BPE", CORPUS, "tiktoken", "encode_ranks"),
            _texts("unigram", UNIGRAM_CORPUS, "sentencepiece", "encode_sentencepiece"),
        ),
        (
            "training: from text to merges, with pre-tokenization by GPT-2's pattern; the merges are equal",
            "a corpus: from UTF-8 to a file of 16-bit ids with EOS after each document; leadline also splits it, syncs the "
            "file and verifies what it wrote",
            "single texts: one call for each text; leadline is what a study uses, the transparent form is its Python code",
        ),
    )


def _case(title: str, entry: str, settings: Mapping[str, Any], target: float) -> Case:
    contestants = ours(f"tokenization:{entry}", settings), peer("tokenizers", f"tokenizer_libraries:{entry}", settings)
    return Case(title, contestants, targets={"tokenizers": target}, tolerance=0.0)


def _training(vocabulary: int) -> Case:
    settings = {"vocabulary": vocabulary, "size": CORPUS}
    return _case(f"BPE training, {vocabulary} ids, {CORPUS // 1_000_000} MB", "train", settings, TRAINING)


def _corpus() -> Case:
    settings = {"vocabulary": VOCABULARY, "size": CORPUS}
    title = f"a corpus to ids, BPE of {VOCABULARY}, {CORPUS // 1_000_000} MB"
    return _case(title, "encode_corpus", settings, ENCODING)


def _texts(kind: str, corpus: int, specialist: str, entry: str) -> Case:
    """Texts one by one. `specialist` is the library for this kind of tokenizer besides `tokenizers`."""
    settings = {"vocabulary": VOCABULARY, "size": corpus, "length": LENGTH, "count": COUNT}
    contestants = (
        ours(f"tokenization:encode_{kind.lower()}", {**settings, "transparent": False}),
        ours(f"tokenization:encode_{kind.lower()}", {**settings, "transparent": True}, "leadline, transparent"),
        peer("tokenizers", f"tokenizer_libraries:encode_{kind.lower()}", settings),
        peer(specialist, f"tokenizer_libraries:{entry}", settings),
    )
    return Case(f"{COUNT} single texts of {LENGTH} characters, {kind} of {VOCABULARY}", contestants, tolerance=0.0)
