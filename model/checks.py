"""What a decoder refuses of a text: more tokens than it has positions for, and what it cannot attend to."""

from leadline.model.block import BlockConfig
from leadline.model.context import Context
from leadline.model.positions.tables import PositionTables


def check_length(tokens: int, tables: PositionTables, block: BlockConfig, learned_positions: int, *, parts: int = 1) -> None:
    """Checks that every token of a text has a position, on the device that holds the token.

    Args:
        tokens: of the whole text.
        tables: one row per layer.
        block: the structure of every block.
        learned_positions: length of the learned absolute table, 0 for none.
        parts: devices among which the text is divided.

    Raises:
        ValueError: for a text without tokens; for one that is longer than learned positions, or than tables that have a row
            for each token; for one on several devices if each query rotates all keys.
    """
    if not tokens:
        raise ValueError("a text without tokens: give at least one")
    if parts > 1 and block.table_per == "query":
        raise ValueError("each query of this model rotates all keys: its texts cannot be divided among devices")
    if learned_positions and tokens > learned_positions:
        raise ValueError(f"learned positions end at {learned_positions}: {tokens} tokens are too many")
    if block.table_per != "sequence" and tokens > (end := tables.attention_factor.shape[1]):
        raise ValueError(f"the tables end at {end} positions: {tokens} tokens are too many")


def check_context(context: Context, block: BlockConfig, document_end: int | None) -> None:
    """Checks that a decoder can attend to a text with this context.

    Args:
        context: of the text.
        block: the structure of every block.
        document_end: id of the token that ends a document, None without a document mask.

    Raises:
        ValueError: for interventions in texts of several documents or devices; for `context.documents` where `document_end` is
            set; for bidirectional attention to several documents, over several devices, with a causal bias, or with a softmax
            that is scaled by the position and a table per query.
    """
    documents = document_end is not None or context.documents is not None
    if context.intervention is not None and (context.context_parallel or documents):
        raise ValueError("an intervention has one first token: take texts of one document on one device")
    if document_end is not None and context.documents is not None:
        raise ValueError("documents are those that cfg.document_end ends: leave context.documents out")
    if not context.bidirectional:
        return
    if (bias := block.position_bias) is not None and bias.of_encoder() != bias:
        raise ValueError(f"{bias} is causal, and the text is read both ways: take the bias that of_encoder() gives")
    if context.context_parallel or documents:
        raise ValueError("a text that is read both ways is one document on one device: take causal attention")
    if block.table_per == "query" and block.scalable_softmax:
        raise ValueError("a softmax scaled by the number of keys, read both ways, needs one table per sequence or per token")
