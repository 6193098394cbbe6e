"""Mistakes in the keys, values and names of a configuration, each with what is said of it."""

from pathlib import Path

import pytest

from tests.experiments.configured import EXTRAPOLATION, SINKS, complaint_of, configured_arms

POSITION = "model.position"
SCALING = f"{POSITION}.scaling"
MIXED = "model={ window = 4, windowed = [true, false] }"
# Words for a study of Bigram-Backcopy, and what is said of them.
MISTAKES = [
    ("model.widht=64", "model.widht: unknown key; did you mean 'width'?"),
    ("model.gate={kind='output', pre='head'}", "model.gate.per: this key is required"),
    ("trian.steps=3", "trian: unknown key; did you mean 'train'?"),
    ("train.schedule={kind='cosine', last=0.1}", "train.schedule.last: unknown key; valid here: final, kind"),
    ("model.layers=0", "model.layers = 0", "greater than 0"),
    ("train.learning_rate=0.0", "train.learning_rate = 0.0", "greater than 0"),
    ("train.learning_rate=nan", "train.learning_rate = nan", "finite"),
    ("train.beta2=1.0", "train.beta2 = 1.0", "less than 1"),
    ("train.steps=true", "train.steps = True: should be a valid integer"),
    ("train.steps='60'", "train.steps = '60': should be a valid integer"),
    ("train.steps=60.0", "train.steps = 60.0: should be a valid integer"),
    (f"train.steps={2**63}", f"train.steps = '{2**63}': should be a valid integer"),
    ("train.learning_rate='0.1'", "train.learning_rate = '0.1': should be a valid number"),
    ("train.steps=3\nseeds=[4]", r"train.steps = '3\nseeds=[4]': should be a valid integer"),
    (f"train.steps={'[' * 5000}1{']' * 5000}", "train.steps = '[[[["),
    (
        f"sweep={{ 'train.batch' = {list(range(1, 200))}, 'train.steps' = {list(range(1, 200))} }}",
        "makes 39601 arms, and a study has",
    ),
    ("train.steps=many", "train.steps = 'many'", "integer"),
    ("data.length=8", "data.length = 8", "greater than or equal to 16"),
    ("data.kind=texts", "data", "'texts'"),
    ("data.triggers=64", "data", "triggers = 64", "vocabulary of 64"),
    ("measure.sink.epsilon=1.0", "measure.sink.epsilon = 1.0", "less than 1"),
    ("measure.sink.token=65", "measure.sink", "token 65", "length 64"),
    ("seeds=[]", "seeds", "at least 1"),
    ("seeds=[-1]", "seeds.0 = -1", "greater than or equal to 0"),
    ("seeds=[1, 0, 1]", "seeds", "1 is there twice"),
    ("study=a/b", "study", "'a/b' names a folder"),
    (f"study={'x' * 101}", "study", "has 101 characters; 100 are the most"),
    *(
        (f"study={name}", f"study = '{name}': results folders have a file or folder of this name")
        for name in ("index.html", "bench", "tensorboard", "wandb")
    ),
    ("study=claims", "study = 'claims': the tables of the ledger have this name"),
    ("tables=[{title='T', name='../T', columns=['loss']}]", "tables.0.name = '../T'", "pattern"),
    ("figures=[{kind='step', name='a/b', caption='C', quantities=['loss']}]", "figures.0.name = 'a/b'", "pattern"),
    ("tables=[{title='T', columns=['loss']}, {title='U', columns=['loss']}]", "tables: '' is there twice"),
    ("model.norm=batch", "model.norm = 'batch'", "'rms' or 'layer'"),
    (("model.width=36", "model.heads=4"), "model", "head dimension 9 is odd"),
    ("model.head_dim=7", "model", "head dimension 7 is odd"),
    ("model.heads=3", "model", "width 32 does not divide into 3 heads"),
    ("model.kv_heads=4", "model", "kv_heads 4 does not divide heads 2"),
    ("model.windowed=[true]", "windowed = [True]", "set window"),
    (("model.window_position={kind='nope'}", "model.window=4"), "window_position is that", "windowed = [true, false]"),
    (("model.window_sink=learned", "model.window=4"), "window_sink is that", "windowed = [true, false]"),
    (
        ("model.window=4", "model.windowed=[true, false]", "model.window_sink=learned", "model.sink={kind='fixed', logit=0.0}"),
        "sink and window_sink are trained at one rate",
    ),
    ("model.chunked=true", "set window to its size"),
    (("model.width=33", "model.head_dim=8", "model.position=sinusoidal"), "width 33 is odd"),
    (
        "model.position={kind='rope', base=1e2, scaling={kind='longrope', factor=2.0, original_length=1}}",
        "greater than or equal to 2",
    ),
    (
        (
            "model.window=4",
            "model.windowed=[true, false]",
            "model.window_position={kind='rope', base=1e2, scaling={kind='dynamic_ntk', per='query'}}",
        ),
        "give both the same scaling.per",
    ),
    *(
        ((MIXED, f"model.window_position={{kind='{kind}'{more}}}"), f"window_position.kind = '{kind}' is of all layers or none")
        for kind, more in (("t5", ""), ("kerple", ""), ("learned", ""), ("sinusoidal", ""), ("pope", ", base=1e2"))
    ),
    ((MIXED, f"{POSITION}=cope", "model.window_position=alibi"), "model: position.kind = 'cope' is of all layers or none"),
    *(
        (
            (MIXED, f"model.window_position={{kind='rope', base=1e2, {other}}}"),
            "give both the same interleaved, grid and number",
        )
        for other in ("interleaved=true", "sections=[4, 4]", "sections=[4, 4], grid=[4]")
    ),
    ((MIXED, "model.window_position={kind='rope', base=1e2, p=0.3}"), "p = 0.3 is not a whole number of 8 pairs; 0.25 is"),
    (("model.experts=2", "model.active_experts=3"), "active_experts = 3 is more than the 2 experts"),
    ("model.joint_qk_norm=true", "set qk_norm = true"),
    (("model.document_mask=true", "model.scalable_softmax=true"), "choose one of the two"),
    ("model.document_mask=true", "data.kind = 'backcopy' has no documents"),
    ("model.encoder.layers=1", "has no position 'rope': take \"sinusoidal\""),
    (
        ("model.encoder.layers=1", "model.position={kind='t5', buckets=7}"),
        "an encoder has half of the buckets for each direction: 7 must be even, and 4 or more",
    ),
    ("model.zero_padding_embedding=true", "id 0 is padding beside an encoder alone; leave it out"),
    (("model.encoder.layers=1", "model.position=nope"), "data.kind = 'backcopy' has no sources"),
    (
        (
            "model.encoder.layers=1",
            "model.position={kind='learned', capacity=9}",
            "model.norm_placement=sandwich",
            "model.window=3",
        ),
        *("leave position.capacity out", "not 'sandwich'", "leave window out"),
    ),
    ("train.label_smoothing=1.0", "train.label_smoothing = 1.0", "less than 1"),
    ("data={kind='transduction', task='numbers', size=10}", "size = 10: numbers have at most 9 digits"),
    (
        ("data={kind='transduction', task='numbers', size=9}", "measure.transduction.sizes=[10]"),
        "measure.transduction.sizes: numbers have at most 9 digits, not 10",
    ),
    ("measure.transduction.sizes=[2]", "[measure.transduction] does not measure data.kind = 'backcopy'"),
    ("data={kind='grid', sizes=[4, 2]}", "reach = 2 leaves a grid of [4, 2]"),
    (("data={kind='grid', sizes=[4, 5]}", f"{POSITION}={{kind='axial', grid=[4]}}"), "grid = [4]", "[4, 5] is [5]"),
    (("data={kind='grid', sizes=[4, 5]}", "measure.grid.factors=[[1, 1, 2]]"), "[1, 1, 2] are not those of 2 axes"),
    (
        ("data={kind='grid', sizes=[4, 5]}", f"{POSITION}={{kind='learned', capacity=40}}", "measure.grid.factors=[[1, 3]]"),
        "measure.grid.factors: learned positions end at 40 tokens: nothing is measured at 60",
    ),
    ("measure.grid.factors=[[1, 1]]", "[measure.grid] does not measure data.kind = 'backcopy'"),
    ("model.sink={kind='fixed', logit=nan}", "nan"),
    (
        ("model.sink={kind='learned'}", "model.normalizer={kind='softpick'}"),
        'softpick\' has none: set sink = { kind = "none" }',
    ),
    ("model.sink={kind='key_bias', dims=17}", "sink.dims = 17: the key has 16 channels"),
    (("model.sink={kind='key_bias'}", f"{POSITION}={{kind='pope', base=1e2}}"), '"pope" cannot have a key bias'),
    ("model.normalizer={kind='clipped', low=0.1}", "model.normalizer"),
    ("model.normalizer={kind='clipped', high=0.9}", "model.normalizer"),
    ("model.soft_cap=0", "model.soft_cap"),
    (f"{POSITION}.base=inf", "model.position.base = inf", "finite"),
    (f"{POSITION}.kind=ropr", "model.position.kind = 'ropr': unknown; did you mean 'rope'?"),
    (f"{POSITION}={{kind='learned', scaling={{kind='pi', factor=2.0}}}}", '"learned" has no frequencies', '"rope"'),
    (f"{POSITION}=[{{kind='alibi'}}, {{kind='nope'}}]", "model.position", "one position encoding at a time"),
    (f"{POSITION}.sections=[4, 5]", "sections [4, 5] divide 9 pairs, a head has 8"),
    ((f"{POSITION}.sections=[4, 4]", f"{POSITION}.grid=[2, 2]"), "grid of 3 axes", "as many sections, not 2"),
    (f"{POSITION}.partial=0.3", "partial = 0.3", "0.25 is"),
    ((f"{POSITION}.partial=0.5", f"{POSITION}.p=0.5"), "partial and p"),
    (f"{POSITION}.temperature={{}}", "nope_every = 4"),
    (f"{POSITION}={{kind='axial', grid=[2, 2]}}", "3 axes", "head dimension 16", "multiple of 6"),
    (f"{POSITION}={{kind='t5', furthest=16}}", "furthest = 16 must be above 16"),
    (f"{SCALING}={{kind='yarn', factor=0.5}}", "model.position.scaling.factor = 0.5", "or equal to 1"),
    (f"{SCALING}={{kind='yarn', factor=2.0, beta_fast=1.0}}", "beta_fast 1.0", "beta_slow 1.0"),
    ((f"{POSITION}.base=1.0", f"{SCALING}={{kind='yarn', factor=2.0}}"), "YaRN", "base"),
    (("model.head_dim=2", f"{SCALING}={{kind='ntk', factor=2.0}}"), "head dimension 2", "NTK"),
    (f"{SCALING}={{kind='longrope', factor=2.0, short=[1, 1], long=[2, 2]}}", "short has 2 factors", "one a pair, 8 in all"),
    ((f"{POSITION}.base=1.0", f"{SCALING}={{kind='longrope', factor=2.0}}"), "LongRoPE without short", "base"),
    (
        f"{SCALING}={{kind='yarn', factor=2.0, attention_factor=1, attention_multiplier=1}}",
        "attention_factor is final",
        "give one",
    ),
    (f"{SCALING}={{kind='llama3', factor=2.0, high_frequency_factor=1.0}}", "high_frequency_factor 1.0"),
    ("arms.odd.model.head_dim=3", "arms.odd: model: the head dimension 3 is odd"),
    ("arms.lost.model.widht=3", "arms.lost: model.widht: unknown key; did you mean 'width'?"),
    ("arms.lost.modl.width=4", "arms.lost.modl: unknown key; did you mean 'model'?"),
    ("arms={ 'a/b' = {} }", "'a/b' names a folder"),
    ("arms={ '.hidden' = {} }", "'.hidden' names a folder"),
    ("sweep={ 'model.head_dim' = [4, 5] }", "arms.base_head_dim=5: model: the head dimension 5 is odd"),
    ("sweep={ 'train.steps' = [] }", "sweep.train.steps"),
    ("sweep.train={}", "sweep.train = {}: should be a list"),
    ("sweep={ 'train.steps' = [3, 5, 3] }", "sweep.train.steps: '3' is there twice"),
    ("arms.a=3", "arms.a = 3"),
    (("arms.rope={}", "arms.b.start=rop"), "arms.b.start = 'rop': no arm of this study; did you mean 'rope'?"),
    ("arms.b.start=3", "arms.b.start = 3: no arm of this study"),
    ("arms.b.start=b", "arms.b.start = 'b': these arms start from each other in a circle: b"),
    (("arms.b.start=c", "arms.c.start=b"), "these arms start from each other in a circle: b, c"),
    (("arms.third={}", "only=['thirt']"), "only: no arm is called 'thirt'; did you mean 'third'?"),
    ("arms.b.strat=b", "arms.b.strat: unknown key; did you mean 'start'?"),
    ("arms={ a_b = {}, c = { label = 'a b' } }", "the arms a_b and c are both called 'a b': give each a label of its own"),
]
LEFT = "left = { quantity = 'loss', arm = 'gated' }"
CLAIM = f"claims=[{{ id = 'a', statement = 'S.', {LEFT}, relation = 'below', right = 1.0 }}]"
OVER = "{ quantity = 'loss', arm = 'gated', over = { quantity = 'loss', arm = 'q' } }"
FIGURE = "kind = 'step', name = 'n', caption = 'C.', quantities = ['loss']"
NAMES = ("sweep={ 'train.batch' = [4, 8] }", "arms={ a_b = {}, b = { label = 'B' } }", "selectors={ gated = {} }")
STREAMING = "measure.streaming={ tokens = 64, full_attention = 32, stride = 4 }"
# The same for a study of text.
MISTAKES_OF_TEXT = [
    (f"{POSITION}={{kind='learned'}}", "learned positions end at 16 tokens: nothing is measured at 32"),
    (
        (f"{POSITION}={{kind='learned', capacity=32}}", "measure.sink.length=33"),
        "measure.sink.length: learned positions end at 32 tokens: nothing is measured at 33",
    ),
    (
        (f"{POSITION}={{kind='learned', capacity=40}}", "measure.prompts={lengths = [33]}"),
        "measure.prompts.lengths, with 8 tokens for an answer: learned positions end at 40 tokens: nothing is measured at 41",
    ),
    (("model.document_mask=true", STREAMING), "a stream runs across documents; leave out [measure.streaming]"),
    (
        ("model.document_mask=true", "measure={ ablation = {}, interventions = { length = 16 } }"),
        "model.document_mask: an intervention has one first token, and a row has several documents; leave out [measure.abl",
        "leave out [measure.interventions]",
    ),
    ("measure.perplexity.last=17", "measure.perplexity.last = 17 is more than the 16 tokens of a window"),
    ("measure.perplexity.stride=16", "stride = 16 is not below the 16 tokens of a window: leave it out for windows that"),
    (("measure.perplexity.extensions=['yarn']", f"{POSITION}.base=1.0"), "YaRN"),
    (("measure.perplexity.extensions=['ntk']", "model.head_dim=2"), "NTK"),
    (
        (MIXED, "model.window_position={kind='xpos', base=1e2, scale_base=0.1}"),
        "data.length: the decay of xPos leaves the range of float32 at ",
    ),
    ((MIXED, "model.window_position={kind='xpos', base=1e2}", STREAMING), 'window_position.kind = "xpos" cannot be streamed'),
    (("data.length=8", "measure.ablation.map=8"), "data.length: norms and scores count from token 9 on, and a text has 8"),
    ("measure.context.lengths=[16, 8]", "measure.context.lengths: norms and scores count from token 9 on, and a text has 8"),
    ("measure.sink={ length = 17, token = 17 }", "token = 17 is none of the 16 tokens of measure.perplexity.lengths; lower it"),
    (("measure.sink={ length = 17, token = 17 }", "measure.ablation={}"), "token = 17 is none of the 16 tokens of data.length"),
    ("data.corpus=book.txt", "study.toml: data.corpus: 'book.txt' is neither ", "stdlib"),
    ("data.corpus={ parts = [{ corpus = ['a'], weight = 0 }] }", "data.corpus.parts.0.weight = 0: should be greater than 0"),
    ("data.corpus={ parts = [{ corpus = ['a'], weight = -1.0 }] }", "data.corpus.parts.0.weight = -1.0: should be greater"),
    ("data.corpus={ parts = [{ corpus = ['a'], weigth = 1.0 }] }", "data.corpus.parts.0.weight: this key is required"),
    ("data.corpus={ parts = [{ corpus = ['a'], weight = 1.0, x = 1 }] }", "parts.0.x: unknown key; valid here: corpus, w"),
    ("data.corpus={ parts = [{ corpus = 'a', weight = 1.0 }] }", "data.corpus.parts.0.corpus: 'a' is neither "),
    ("data.corpus={ parts = [] }", "data.corpus.parts = []: "),
    ("data.corpus={ part = [] }", "data.corpus.parts: this key is required"),
    ((*NAMES, CLAIM.replace("gated", "gatd")), "claim a: [selectors] lacks 'gatd'; did you mean 'gated'?"),
    ((*NAMES, CLAIM.replace("1.0", OVER)), "claim a: [selectors] lacks 'q'; valid here: gated"),
    ((*NAMES, "claims=[{ id = 'a', statement = 'S.', function = 'm:f', arms = 'gats' }]"), "'gats'; did you mean 'gated'?"),
    (
        (*NAMES, "claims=[{ id = 'a', statement = 'S.', function = 'm:f', arms = 'gated', log = true }]"),
        "claim a: a function takes no log: leave them out",
    ),
    ((*NAMES, CLAIM.replace("right", "arms = 'gated', right")), "claim a: arms are those of a function"),
    (
        (*NAMES, CLAIM.replace("'below', right = 1.0", "'within', bounds = [0.0, 1.0], factor = 2.0")),
        'claim a: relation = "within" has bounds, and takes no factor',
    ),
    ((*NAMES, CLAIM.replace("1.0", "0.0, log = true")), "claim a: log = true compares logarithms: give numbers above 0, not 0"),
    ((*NAMES, "tables=[{ title = 'T', columns = ['loss'], labels = ['B', 'C'] }]"), "labels: no arm is called 'C'; valid"),
    (
        (*NAMES, f"figures=[{{ {FIGURE}, key = 'data.length' }}]"),
        'a figure of kind = "step" does not read key: leave it out',
    ),
    ((*NAMES, f"figures=[{{ {FIGURE}, labels = ['a_b'] }}]"), "figures.0.labels: no arm is called 'a_b'; did you mean 'a b'?"),
]
BOUND = 'study = "bounds"\nexact = { kind = "base_bound", lengths = [64] }\n'
# And for one that trains nothing.
MISTAKES_OF_EXACT = [
    (word, f"a study with [exact] trains nothing: leave out {word.partition('=')[0]}")
    for word in (
        "seeds=[0]",
        "explored=[1]",
        "most_seeds=4",
        "sweep={ 'train.steps' = [1] }",
        "measure={ every = 5 }",
        "arms={}",
    )
]
STUDIES = ((SINKS, MISTAKES), (EXTRAPOLATION, MISTAKES_OF_TEXT), (BOUND, MISTAKES_OF_EXACT))


@pytest.mark.parametrize(("text", "words", "parts"), [(text, words, parts) for text, rows in STUDIES for words, *parts in rows])
def test_a_mistake_names_its_file_its_key_and_what_is_right(
    tmp_path: Path, text: str, words: str | tuple[str, ...], parts: list[str]
) -> None:
    message = complaint_of(tmp_path, text, *([words] if isinstance(words, str) else words))
    assert all(line.startswith(str(tmp_path / "study.toml")) for line in message.splitlines())
    assert [part for part in parts if part not in message] == []


def test_a_list_is_not_called_short_for_its_wrong_elements(tmp_path: Path) -> None:
    assert len(complaint_of(tmp_path, SINKS, "seeds=[-1]").splitlines()) == 1
    assert len(complaint_of(tmp_path, SINKS, "seeds=[]").splitlines()) == 1


TABLES = "tables=[{ title = 'T', columns = ['loss'], labels = ['B', 'a b, batch 4'] }]"
LEARNED = f"{POSITION}={{kind='learned'}}"


@pytest.mark.parametrize(
    ("words", "labels"),
    [
        ((LEARNED, "measure.perplexity.lengths=[16]"), ["base"]),
        ((f"{POSITION}={{kind='learned', capacity=64}}",), ["base"]),
        (("measure.perplexity.stride=8",), ["base"]),
        ((*NAMES, CLAIM, TABLES), ["a b, batch 4", "a b, batch 8", "B, batch 4", "B, batch 8"]),
        ((f"{POSITION}=alibi",), ["base"]),
        ((f"{POSITION}.p=0.28", "model.head_dim=100"), ["base"]),
        ((MIXED, f"{POSITION}=nope", "model.window_position={kind='rope', base=1e2, interleaved=true}"), ["base"]),
        ((MIXED, f"{POSITION}=alibi", "model.window_position={kind='xpos', base=1e2}"), ["base"]),
        (("sweep={ train.batch = [4, 8] }",), ["base, batch 4", "base, batch 8"]),
    ],
)
def test_what_fits_together_is_no_mistake(tmp_path: Path, words: tuple[str, ...], labels: list[str]) -> None:
    assert [arm.label for arm in configured_arms(tmp_path, EXTRAPOLATION, *words)] == labels


YARN = "{ base = 10.0, scaling = { kind = 'yarn', factor = 2.0 } }"


@pytest.mark.parametrize(("table", "missing"), [("{ kind = 'rope' }", "base"), ("{ base = 10.0 }", "kind"), (YARN, "kind")])
def test_rope_without_its_base_or_kind(tmp_path: Path, table: str, missing: str) -> None:
    text = SINKS.replace('{ kind = "rope", base = 10000.0 }', table)
    assert complaint_of(tmp_path, text).endswith(f"model.position.{missing}: this key is required")
