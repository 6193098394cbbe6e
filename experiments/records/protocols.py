"""What the outcome of a claim on perplexity is by every protocol, where it states one of them."""

from collections.abc import Sequence

from leadline.experiments.config.claim import Claim, Term
from leadline.experiments.config.report import Dims
from leadline.experiments.records.comparison import Choice, related
from leadline.experiments.records.decisions import Outcome
from leadline.experiments.records.sequential import SeedPlan

# The name of the mean over all tokens, of which readings do not speak.
TOKENS = "tokens"
# The dimensions that tell protocols apart.
PROTOCOL_DIMS = ("protocol", "last")


def by_protocol(claim: Claim, choices: Sequence[Choice], plan: SeedPlan, *, exact: bool) -> dict[str, Outcome]:
    """The outcome of a claim by each protocol of leadline.experiments.measure.perplexity that is on record for both sides.

    Empty for claims that speak of no perplexity, or that were measured by one protocol only.
    """
    if not any(part.quantity == "perplexity" for term in claim.compared() for part in term.parts()):
        return {}
    records = [record for choice in choices for arm in choice.values() for record in arm.records]
    last = {entry.dims["last"] for record in records for entry in record.measurements if "last" in entry.dims}
    protocols: dict[str, Dims] = {TOKENS: {}, "sliding": {"protocol": "sliding"}, "documents": {"protocol": "documents"}}
    protocols |= {f"last {count}": {"protocol": "last", "last": count} for count in sorted(last, key=str)}
    outcomes = {}
    for name, dims in protocols.items():
        sides = {side: _with(term, dims) for side in ("left", "right") if isinstance(term := getattr(claim, side), Term)}
        _, n, decision = related(claim.model_copy(update=sides), choices, plan, exact=exact)
        if n:
            outcomes[name] = decision.outcome
    return outcomes if len(outcomes) > 1 else {}


def _with(term: Term, dims: Dims) -> Term:
    """A term whose perplexities are those of another protocol."""
    over = None if term.over is None else _with(term.over, dims)
    kept = {name: value for name, value in term.at.items() if name not in PROTOCOL_DIMS}
    at = kept | dims if term.quantity == "perplexity" else term.at
    return term.model_copy(update={"over": over, "at": at})
