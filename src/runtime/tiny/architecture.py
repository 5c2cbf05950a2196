"""The four tiny architectures as data: the metadata and tensors of each, with how every tensor is filled.

Names and shapes are what llama.cpp's loaders ask for (`qwen35.cpp`, `gemma3.cpp`, `mamba2.cpp` and `qwen3.cpp` in its
`src/models`). Shapes are numpy's, slowest axis first: a matrix is (outputs, inputs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Literal

from runtime.tiny import vocabulary

Kind = Literal["hybrid", "swa", "recurrent", "dense"]

HEAD_SIZE = 32
# Two query heads share one key head, so a width holds an even number of heads.
WIDTH_STEP = 2 * HEAD_SIZE
WIDEST = 4096  # weighs some gigabytes
CONTEXT_LENGTH = 262_144
SLIDING_WINDOW = 128
CONV_KERNEL = 4
EPSILON = 1e-6

# Bias of the recurrent layers' time step. A state decays by softplus(SLOW), about 1/1100, a token: with -4 (1/55)
# twenty changed tokens are forgotten after 380 others, with -7 they still change the output after 2,000.
SLOW = -7.0

Value = int | float | list[int]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A float32 tensor: every value is `mean` + `std` × a standard normal draw, but `zero_rows` hold zeros."""

    name: str
    shape: tuple[int, ...]
    std: float = 0.0
    mean: float = 0.0
    zero_rows: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Architecture:
    """What a model file holds beside its vocabulary.

    `name` is llama.cpp's; keys of `metadata` lack the "name." prefix that they have in the file.
    """

    name: str
    n_layers: int
    metadata: dict[str, Value]
    tensors: tuple[Tensor, ...]


def architecture(kind: Kind, width: int) -> Architecture:
    """The architecture of a tiny model of `kind`, `width` floats wide (a multiple of `WIDTH_STEP`)."""
    return _BUILDERS[kind](width)


def _matrix(name: str, n_out: int, n_in: int) -> Tensor:
    """A weight that keeps the variance of its input."""
    return Tensor(f"{name}.weight", (n_out, n_in), std=1 / sqrt(n_in))


def _norm(name: str, *shape: int) -> Tensor:
    return Tensor(f"{name}.weight", shape, mean=1.0)


def _outer(width: int) -> Iterator[Tensor]:
    n_vocab = len(vocabulary.entries())
    yield Tensor("token_embd.weight", (n_vocab, width), std=0.05)
    yield _norm("output_norm", width)
    # A head of its own: were it tied to the embeddings, the last token alone would decide what comes next. A row of
    # zeros is never the likeliest, so that outputs are printable text and as long as the caller asked for.
    yield Tensor("output.weight", (n_vocab, width), std=1.0, zero_rows=vocabulary.unspoken())


def _feed_forward(block: str, width: int) -> Iterator[Tensor]:
    yield _matrix(f"{block}.ffn_gate", 2 * width, width)
    yield _matrix(f"{block}.ffn_up", 2 * width, width)
    yield _matrix(f"{block}.ffn_down", width, 2 * width)


def _attention(block: str, width: int, *, gated: bool = False) -> Iterator[Tensor]:
    """Grouped-query attention with normed queries and keys; `gated` doubles the query for an output gate."""
    yield _norm(f"{block}.attn_norm", width)
    yield _matrix(f"{block}.attn_q", 2 * width if gated else width, width)
    yield _matrix(f"{block}.attn_k", width // 2, width)
    yield _matrix(f"{block}.attn_v", width // 2, width)
    yield _matrix(f"{block}.attn_output", width, width)
    # Sharper than a fresh norm: near-uniform attention blurs all prefixes into one and outputs into loops.
    yield Tensor(f"{block}.attn_q_norm.weight", (HEAD_SIZE,), mean=2.0)
    yield _norm(f"{block}.attn_k_norm", HEAD_SIZE)


def _attention_metadata(width: int) -> dict[str, Value]:
    n_heads = width // HEAD_SIZE
    return {
        "feed_forward_length": 2 * width,
        "attention.head_count": n_heads,
        "attention.head_count_kv": n_heads // 2,
        "attention.key_length": HEAD_SIZE,
        "attention.value_length": HEAD_SIZE,
    }


def _dense(width: int) -> Architecture:
    def tensors() -> Iterator[Tensor]:
        yield from _outer(width)
        for layer in range(n_layers):
            block = f"blk.{layer}"
            yield from _attention(block, width)
            yield _norm(f"{block}.ffn_norm", width)
            yield from _feed_forward(block, width)

    n_layers = 4
    metadata = {**_attention_metadata(width), "rope.freq_base": 1e6}
    return Architecture("qwen3", n_layers, metadata, tuple(tensors()))


def _swa(width: int) -> Architecture:
    def tensors() -> Iterator[Tensor]:
        yield from _outer(width)
        for layer in range(n_layers):
            block = f"blk.{layer}"
            yield from _attention(block, width)
            yield _norm(f"{block}.post_attention_norm", width)
            yield _norm(f"{block}.ffn_norm", width)
            yield from _feed_forward(block, width)
            yield _norm(f"{block}.post_ffw_norm", width)

    # Gemma 3's own pattern: five sliding layers, then one that sees everything.
    n_layers = 6
    metadata = {
        **_attention_metadata(width),
        "attention.sliding_window": SLIDING_WINDOW,
        "rope.freq_base": 1e6,
        "rope.freq_base_swa": 1e4,
    }
    return Architecture("gemma3", n_layers, metadata, tuple(tensors()))


def _recurrent(width: int) -> Architecture:
    def tensors() -> Iterator[Tensor]:
        yield from _outer(width)
        for layer in range(n_layers):
            block = f"blk.{layer}"
            yield _norm(f"{block}.attn_norm", width)
            yield _matrix(f"{block}.ssm_in", inner + conv_channels + n_heads, width)
            yield Tensor(f"{block}.ssm_conv1d.weight", (conv_channels, CONV_KERNEL), std=0.5)
            yield Tensor(f"{block}.ssm_conv1d.bias", (conv_channels,))
            yield Tensor(f"{block}.ssm_dt.bias", (n_heads,), mean=SLOW)
            yield Tensor(f"{block}.ssm_a", (n_heads, 1), mean=-1.0)
            # No way round the state: beside a direct one, slow states hardly count.
            yield Tensor(f"{block}.ssm_d", (n_heads, 1))
            yield _norm(f"{block}.ssm_norm", 1, inner)
            yield _matrix(f"{block}.ssm_out", width, inner)

    n_layers = 4
    inner = 2 * width
    n_heads = inner // HEAD_SIZE
    conv_channels = inner + 2 * HEAD_SIZE
    metadata: dict[str, Value] = {
        "feed_forward_length": 0,
        "attention.head_count": 0,
        "ssm.conv_kernel": CONV_KERNEL,
        "ssm.inner_size": inner,
        "ssm.state_size": HEAD_SIZE,
        "ssm.time_step_rank": n_heads,
        "ssm.group_count": 1,
    }
    return Architecture("mamba2", n_layers, metadata, tuple(tensors()))


def _hybrid(width: int) -> Architecture:
    def tensors() -> Iterator[Tensor]:
        yield from _outer(width)
        for layer in range(n_layers):
            block = f"blk.{layer}"
            if (layer + 1) % attention_interval == 0:
                yield from _attention(block, width, gated=True)
            else:
                yield from delta_net(block)
            yield _norm(f"{block}.post_attention_norm", width)
            yield from _feed_forward(block, width)

    def delta_net(block: str) -> Iterator[Tensor]:
        yield _norm(f"{block}.attn_norm", width)
        yield _matrix(f"{block}.attn_qkv", conv_channels, width)
        yield _matrix(f"{block}.attn_gate", width, width)
        yield Tensor(f"{block}.ssm_conv1d.weight", (conv_channels, CONV_KERNEL), std=0.5)
        yield Tensor(f"{block}.ssm_dt.bias", (n_heads,), mean=SLOW)
        yield Tensor(f"{block}.ssm_a", (n_heads,), mean=-1.0)
        yield _matrix(f"{block}.ssm_beta", n_heads, width)
        yield _matrix(f"{block}.ssm_alpha", n_heads, width)
        yield _norm(f"{block}.ssm_norm", HEAD_SIZE)
        yield _matrix(f"{block}.ssm_out", width, width)

    # Recurrent layers stand before and after the attention layer, so its cache depends on them and the output on both.
    n_layers, attention_interval = 6, 4
    n_heads = width // HEAD_SIZE
    n_key_heads = n_heads // 2
    conv_channels = width + 2 * n_key_heads * HEAD_SIZE
    metadata = {
        **_attention_metadata(width),
        "full_attention_interval": attention_interval,
        "rope.freq_base": 1e6,
        "rope.dimension_count": HEAD_SIZE,
        "rope.dimension_sections": [6, 5, 5, 0],
        "ssm.conv_kernel": CONV_KERNEL,
        "ssm.inner_size": width,
        "ssm.state_size": HEAD_SIZE,
        "ssm.time_step_rank": n_heads,
        "ssm.group_count": n_key_heads,
    }
    return Architecture("qwen35", n_layers, metadata, tuple(tensors()))


_BUILDERS: dict[Kind, Callable[[int], Architecture]] = {
    "hybrid": _hybrid,
    "swa": _swa,
    "recurrent": _recurrent,
    "dense": _dense,
}
