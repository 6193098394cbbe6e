"""The figure of the costs of languages."""

from collections.abc import Sequence

from experiments.publish.costs import dots_by_name
from experiments.publish.figures import Drawing
from experiments.record import StoredRecord
from experiments.studies.tokens import LANGUAGES, languages, relative_cost, tokenizers


def tokens_drawings(stored: Sequence[StoredRecord]) -> list[Drawing]:
    """Tokens of every language relative to the reference, a mark a tokenizer, of the languages that all of them counted."""
    records = [entry.record for entry in stored]
    series = {
        name: {one: value for one in languages(records) if (value := relative_cost(records, name, one)) is not None}
        for name in tokenizers(records)
    }
    shared = [one for one in languages(records) if all(one in found for found in series.values())]
    if not shared:
        return []
    caption = "Tokens of the same text, relative to English, by language and tokenizer"
    rows = [LANGUAGES.get(one, one) for one in shared]
    values = {name: [found[one] for one in shared] for name, found in series.items()}
    return [dots_by_name("tokens_by_language", caption, rows, values, xlabel="tokens, relative to the reference language")]
