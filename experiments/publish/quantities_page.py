"""The page of terms and quantities: what each word and each measured number is."""

from collections.abc import Iterator

from leadline.experiments.publish.table import markdown_text
from leadline.experiments.records.quantities import QUANTITIES, Quantity
from leadline.experiments.records.references import cite

TERMS = {
    "study": "one question, in one TOML file, with the models that answer it",
    "arm": "one setting of a study; every arm is trained with every seed",
    "record": "the configuration, the numbers and the origin of one arm and seed, in one file",
    "group": "the arms and seeds that train at once in one compiled program, because they differ in values alone",
    "recipe": "the settings of training, such as the learning rate, the schedule and the number of steps",
    "explored": "seeds that a recipe was chosen on; verdicts leave them out",
    "attention sink": "a token that receives much attention from nearly all queries, whatever it says; mostly the first one",
    "BOS": "a token that stands before every sequence",
    "Bigram-Backcopy": (
        "a generated task (Guo et al. 2024): each token is drawn from a fixed table by the token before it, but what follows "
        "one of a few trigger tokens is a copy of the token before the trigger; attention is needed after triggers alone"
    ),
    "extension": "other frequencies of RoPE for texts longer than those of the training, such as PI or YaRN",
    "protocol": (
        "over which tokens a perplexity is averaged: all of a window, its last positions, its second half, or each document"
    ),
    "part": (
        "of recall: answers at distances within the reach that the base bound predicts, or beyond it; of retrieval: evidence "
        "in the first eighth, the middle quarter or the last eighth of a context"
    ),
    "span": "of a stream: all of it, its start, or the targets that are sampled to be computed again",
    "policy": (
        "how a stream is read: through a cache of initial and newest tokens (streaming), in windows that are computed again "
        "for each target (recomputed), or at once (full)"
    ),
    "claim": "a statement with the comparison that decides it",
    "precondition": "what a claim needs to be tested, such as a sink in the baseline; measured in the same records",
    "ledger": "all claims with their verdicts",
    "look": "a number of seeds at which claims are judged, of a plan that adds seeds",
    "case": "one of several arms, or pairs of arms, that a claim speaks of",
    "margin": "by how much one seed supports a claim; positive where it does",
    "intervention": "a change of a trained model while it is measured, such as the value of the first token set to 0",
}
QUANTITIES_OF_RECORDS = """
A quantity is a number that is measured. Its name stands in records and in the TOML of studies, its heading in tables and
figures. t counts the tokens of a sequence from 0; v, k and x are values, keys and the residual stream.

| name | heading | unit | meaning | for each | source |
|---|---|---|---|---|---|
"""


def quantities_page() -> str:
    """The page in Markdown, which `leadline schema --into docs` writes."""
    terms = "".join(f"| {term} | {meaning} |\n" for term, meaning in TERMS.items())
    rows = "".join(f"| {' | '.join(_row(quantity))} |\n" for quantity in QUANTITIES.values())
    return f"# Terms and quantities\n\n| term | meaning |\n|---|---|\n{terms}{QUANTITIES_OF_RECORDS}{rows}"


def _row(quantity: Quantity) -> Iterator[str]:
    yield f"`{quantity.name}`"
    for text in (quantity.heading, quantity.unit, quantity.meaning, ", ".join(quantity.axes).replace("_", " ")):
        yield markdown_text(text)
    yield markdown_text(cite(quantity.source)) if quantity.source else ""
