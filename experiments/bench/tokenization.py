"""Training of BPE, a corpus to ids, and single texts to ids, beside the libraries."""

from collections.abc import Mapping
from typing import Any

from experiments.bench.contest import Benchmark, Case, Contestant

OURS, LIBRARIES = "experiments.bench.ours_tokenization", "experiments.bench.peers.tokenizer_libraries"
CORPUS = 10_000_000  # bytes
TRAINED = (1_000, 8_000, 32_000)
VOCABULARY = 8_000
# The text that a unigram model is trained on, which the library takes long for; and the texts that are encoded one by one.
UNIGRAM_CORPUS = 2_000_000
LENGTH, COUNT = 2_000, 200
TRAINING = 1 / 1.5  # ours takes at most 1.5 times as long
ENCODING = 0.9  # within ten per cent


def benchmark() -> Benchmark:
    """Values are checksums of merges and of ids: they are equal, or nothing is timed."""
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
            "training: from text to merges, pre-tokenization by GPT-2's pattern included; the merges are equal",
            "a corpus: from UTF-8 to a file of 16-bit ids with EOS behind each document; leadline also divides it, waits for "
            "the disk, and verifies what it wrote",
            "single texts: one call a text; leadline is what a study uses, the transparent form is our own code",
        ),
    )


def _case(title: str, of_ours: str, of_library: str, settings: Mapping[str, Any], target: float) -> Case:
    ours = Contestant("leadline", f"{OURS}:{of_ours}", settings)
    library = Contestant("tokenizers", f"{LIBRARIES}:{of_library}", settings)
    return Case(title, (ours, library), targets={"tokenizers": target}, tolerance=0.0)


def _training(vocabulary: int) -> Case:
    settings = {"vocabulary": vocabulary, "size": CORPUS}
    return _case(f"BPE training, {vocabulary} ids, {CORPUS // 1_000_000} MB", "train", "train", settings, TRAINING)


def _corpus() -> Case:
    settings = {"vocabulary": VOCABULARY, "size": CORPUS}
    title = f"a corpus to ids, BPE of {VOCABULARY}, {CORPUS // 1_000_000} MB"
    return _case(title, "encode_corpus", "encode_corpus", settings, ENCODING)


def _texts(kind: str, corpus: int, own_library: str, entry: str) -> Case:
    """Texts one by one, by a tokenizer of a kind that a library of its own encodes too."""
    settings = {"vocabulary": VOCABULARY, "size": corpus, "length": LENGTH, "count": COUNT}
    contestants = (
        Contestant("leadline", f"{OURS}:encode_{kind.lower()}", {**settings, "transparent": False}),
        Contestant("leadline, transparent", f"{OURS}:encode_{kind.lower()}", {**settings, "transparent": True}),
        Contestant("tokenizers", f"{LIBRARIES}:encode_{kind.lower()}", settings),
        Contestant(own_library, f"{LIBRARIES}:{entry}", settings),
    )
    return Case(f"{COUNT} single texts of {LENGTH} characters, {kind} of {VOCABULARY}", contestants, tolerance=0.0)
