"""Position encodings, softmax biases and output gates: measured for attention sinks and length extrapolation, in JAX.

The subpackages are folders at the top of the repository: `leadline.model` (arrays to arrays), `leadline.tokenization` (text to
ids and back) and `leadline.experiments` (configurations, training, measurements, results). Importing this package imports none
of them.
"""
