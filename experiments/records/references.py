"""The references that studies, claims, tables and quantities cite: one table, by key.

A key is the first author's family name and the year. The year is that of the venue, or of the preprint where none is given.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from leadline.experiments.records.reference import Reference


def cite(key: str) -> str:
    """The citation of a key. KeyError for a key that is in no table."""
    return REFERENCES[key].citation


def bibtex(keys: Iterable[str]) -> str:
    """A BibTeX file of these references, each once, by key. KeyError for a key that is in no table."""
    return "\n".join(REFERENCES[key].bibtex for key in sorted(set(keys)))


def _table(*references: Reference) -> Mapping[str, Reference]:
    table: dict[str, Reference] = {}
    for reference in references:
        if reference.key in table:
            raise ValueError(f"the reference {reference.key!r} is there twice")
        table[reference.key] = reference
    return MappingProxyType(table)


def _paper(key: str, authors: str, year: int, title: str, arxiv: str = "", *, venue: str = "", url: str = "") -> Reference:
    return Reference(key, tuple(authors.split(" and ")), year, title, venue, arxiv, url)


REFERENCES = _table(
    # Attention sinks, normalizers, gates.
    _paper("guo2024", "Guo, Tianyu and others", 2024,
        "Active-Dormant Attention Heads: Mechanistically Demystifying Extreme-Token Phenomena in LLMs", "2410.13835"),
    _paper("gu2025", "Gu, Xiangming and others", 2025,
        "When Attention Sink Emerges in Language Models: An Empirical View", "2410.10781", venue="ICLR"),
    _paper("qiu2025", "Qiu, Zihan and others", 2025,
        "Gated Attention for Large Language Models: Non-linearity, Sparsity, and Attention-Sink-Free", "2505.06708",
        venue="NeurIPS"),
    _paper("zuhri2025", "Zuhri, Zayd Muhammad Kawakibi and Fuadi, Erland Hilman and Aji, Alham Fikri", 2025,
        "Softpick: No Attention Sink, No Massive Activations with Rectified Softmax", "2504.20966"),
    _paper("xiao2024", "Xiao, Guangxuan and others", 2024,
        "Efficient Streaming Language Models with Attention Sinks", "2309.17453", venue="ICLR"),
    _paper("barbero2025", "Barbero, Federico and others", 2025, "Why do LLMs attend to the first token?", "2504.02732"),
    _paper("sun2024", "Sun, Mingjie and others", 2024,
        "Massive Activations in Large Language Models", "2402.17762", venue="COLM"),
    _paper("bondarenko2023", "Bondarenko, Yelysei and Nagel, Markus and Blankevoort, Tijmen", 2023,
        "Quantizable Transformers: Removing Outliers by Helping Attention Heads Do Nothing", "2306.12929", venue="NeurIPS"),
    _paper("miller2023", "Miller, Evan", 2023,
        "Attention Is Off By One", url="https://www.evanmiller.org/attention-is-off-by-one.html"),
    _paper("openai2025", "OpenAI", 2025, "gpt-oss-120b & gpt-oss-20b Model Card", "2508.10925"),
    _paper("ramapuram2024", "Ramapuram, Jason and others", 2024,
        "Theory, Analysis, and Best Practices for Sigmoid Self-Attention", "2409.04431"),
    _paper("wortsman2023", "Wortsman, Mitchell and others", 2023,
        "Replacing softmax with ReLU in Vision Transformers", "2309.08586"),
    _paper("nakanishi2025", "Nakanishi, Ken M.", 2025, "Scalable-Softmax Is Superior for Attention", "2501.19399"),
    _paper("dehghani2023", "Dehghani, Mostafa and others", 2023,
        "Scaling Vision Transformers to 22 Billion Parameters", "2302.05442", venue="ICML"),
    _paper("gemma2024", "Gemma Team", 2024, "Gemma 2: Improving Open Language Models at a Practical Size", "2408.00118"),
    _paper("vaswani2017", "Vaswani, Ashish and others", 2017, "Attention Is All You Need", "1706.03762", venue="NeurIPS"),
    _paper("milakov2018", "Milakov, Maxim and Gimelshein, Natalia", 2018,
        "Online normalizer calculation for softmax", "1805.02867"),
    _paper("dao2022", "Dao, Tri and others", 2022,
        "FlashAttention: Fast and Memory-Efficient Exact Attention with IO-Awareness", "2205.14135", venue="NeurIPS"),
    # Positions.
    _paper("su2021", "Su, Jianlin and others", 2021,
        "RoFormer: Enhanced Transformer with Rotary Position Embedding", "2104.09864"),
    _paper("press2022", "Press, Ofir and Smith, Noah A. and Lewis, Mike", 2022,
        "Train Short, Test Long: Attention with Linear Biases Enables Input Length Extrapolation", "2108.12409", venue="ICLR"),
    _paper("raffel2020", "Raffel, Colin and others", 2020,
        "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer", "1910.10683", venue="JMLR 21"),
    _paper("chi2022", "Chi, Ta-Chung and others", 2022,
        "KERPLE: Kernelized Relative Positional Embedding for Length Extrapolation", "2205.09921", venue="NeurIPS"),
    _paper("li2024", "Li, Shanda and others", 2024,
        "Functional Interpolation for Relative Positions Improves Long Context Transformers", "2310.04418", venue="ICLR"),
    _paper("golovneva2024", "Golovneva, Olga and others", 2024,
        "Contextual Position Encoding: Learning to Count What's Important", "2405.18719"),
    _paper("haviv2022", "Haviv, Adi and others", 2022,
        "Transformer Language Models without Positional Encodings Still Learn Positional Information", "2203.16634",
        venue="Findings of EMNLP"),
    _paper("kazemnejad2023", "Kazemnejad, Amirhossein and others", 2023,
        "The Impact of Positional Encoding on Length Generalization in Transformers", "2305.19466", venue="NeurIPS"),
    _paper("gopalakrishnan2025", "Gopalakrishnan, Anand and others", 2025,
        'Decoupling the "What" and "Where" With Polar Coordinate Positional Embeddings', "2509.10534"),
    _paper("barbero2024", "Barbero, Federico and others", 2024,
        "Round and Round We Go! What makes Rotary Positional Encodings useful?", "2410.06205"),
    _paper("sun2022", "Sun, Yutao and others", 2022, "A Length-Extrapolatable Transformer", "2212.10554"),
    _paper("gehring2017", "Gehring, Jonas and others", 2017,
        "Convolutional Sequence to Sequence Learning", "1705.03122", venue="ICML"),
    _paper("heo2024", "Heo, Byeongho and others", 2024, "Rotary Position Embedding for Vision Transformer", "2403.13298"),
    # Context extension and the base of RoPE.
    _paper("chen2023", "Chen, Shouyuan and others", 2023,
        "Extending Context Window of Large Language Models via Positional Interpolation", "2306.15595"),
    _paper("bloc97", "bloc97", 2023,
        "NTK-Aware Scaled RoPE allows LLaMA models to have extended (8k+) context size without any fine-tuning and minimal "
        "perplexity degradation",
        url="https://www.reddit.com/r/LocalLLaMA/comments/14lz7j5/ntkaware_scaled_rope_allows_llama_models_to_have/"),
    _paper("peng2023", "Peng, Bowen and others", 2023,
        "YaRN: Efficient Context Window Extension of Large Language Models", "2309.00071"),
    _paper("ding2024", "Ding, Yiran and others", 2024,
        "LongRoPE: Extending LLM Context Window Beyond 2 Million Tokens", "2402.13753"),
    _paper("grattafiori2024", "Grattafiori, Aaron and others", 2024, "The Llama 3 Herd of Models", "2407.21783"),
    _paper("gelberg2025", "Gelberg, Yoav and others", 2025,
        "Extending the Context of Pretrained LLMs by Dropping Their Positional Embeddings", "2512.12167"),
    _paper("men2024", "Men, Xin and others", 2024, "Base of RoPE Bounds Context Length", "2405.14591", venue="NeurIPS"),
    _paper("su2024", "Su, Jianlin", 2024,
        "Transformer Upgrade Road 18: Principles for Choosing the Base of RoPE (in Chinese)", url="https://kexue.fm/archives/10122",
    ),
    _paper("liu2023", "Liu, Xiaoran and others", 2023, "Scaling Laws of RoPE-based Extrapolation", "2310.05209"),
    # Retrieval and recall.
    _paper("hsieh2024", "Hsieh, Cheng-Ping and others", 2024,
        "RULER: What's the Real Context Size of Your Long-Context Language Models?", "2404.06654", venue="COLM"),
    _paper("liu2024", "Liu, Nelson F. and others", 2024,
        "Lost in the Middle: How Language Models Use Long Contexts", "2307.03172", venue="TACL 12"),
    _paper("mohtashami2023", "Mohtashami, Amirkeivan and Jaggi, Martin", 2023,
        "Landmark Attention: Random-Access Infinite Context Length for Transformers", "2305.16300", venue="NeurIPS"),
    _paper("lee2023", "Lee, Nayoung and others", 2023, "Teaching Arithmetic to Small Transformers", "2307.03381"),
    _paper("arora2023", "Arora, Simran and others", 2023,
        "Zoology: Measuring and Improving Recall in Efficient Language Models", "2312.04927"),
    # Tokens.
    _paper("petrov2023", "Petrov, Aleksandar and others", 2023,
        "Language Model Tokenizers Introduce Unfairness Between Languages", "2305.15425", venue="NeurIPS"),
    _paper("tao2024", "Tao, Chaofan and others", 2024,
        "Scaling Laws with Vocabulary: Larger Models Deserve Larger Vocabularies", "2407.13623", venue="NeurIPS"),
    _paper("xue2022", "Xue, Linting and others", 2022,
        "ByT5: Towards a Token-Free Future with Pre-trained Byte-to-Byte Models", "2105.13626", venue="TACL 10"),
    _paper("radford2019", "Radford, Alec and others", 2019,
        "Language Models are Unsupervised Multitask Learners", venue="OpenAI",
        url="https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf"),
    _paper("sennrich2016", "Sennrich, Rico and Haddow, Barry and Birch, Alexandra", 2016,
        "Neural Machine Translation of Rare Words with Subword Units", "1508.07909", venue="ACL"),
    _paper("schuster2012", "Schuster, Mike and Nakajima, Kaisuke", 2012,
        "Japanese and Korean Voice Search", venue="ICASSP", url="https://doi.org/10.1109/ICASSP.2012.6289079"),
    _paper("kudo2018", "Kudo, Taku", 2018,
        "Subword Regularization: Improving Neural Network Translation Models with Multiple Subword Candidates", "1804.10959",
        venue="ACL"),
    _paper("provilkov2020", "Provilkov, Ivan and Emelianenko, Dmitrii and Voita, Elena", 2020,
        "BPE-Dropout: Simple and Effective Subword Regularization", "1910.13267", venue="ACL"),
    _paper("conneau2020", "Conneau, Alexis and others", 2020,
        "Unsupervised Cross-lingual Representation Learning at Scale", "1911.02116", venue="ACL"),
    _paper("devlin2019", "Devlin, Jacob and others", 2019,
        "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding", "1810.04805", venue="NAACL"),
    # Blocks and optimisers.
    _paper("shazeer2020", "Shazeer, Noam", 2020, "GLU Variants Improve Transformer", "2002.05202"),
    _paper("zhang2019", "Zhang, Biao and Sennrich, Rico", 2019,
        "Root Mean Square Layer Normalization", "1910.07467", venue="NeurIPS"),
    _paper("ding2021", "Ding, Ming and others", 2021,
        "CogView: Mastering Text-to-Image Generation via Transformers", "2105.13290"),
    _paper("loshchilov2019", "Loshchilov, Ilya and Hutter, Frank", 2019,
        "Decoupled Weight Decay Regularization", "1711.05101", venue="ICLR"),
    _paper("jordan2024", "Jordan, Keller and others", 2024, "Muon: An optimizer for hidden layers in neural networks",
        url="https://kellerjordan.github.io/posts/muon/"),
    _paper("liu2025", "Liu, Jingyuan and others", 2025, "Muon is Scalable for LLM Training", "2502.16982"),
)  # fmt: skip
