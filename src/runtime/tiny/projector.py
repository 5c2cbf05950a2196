"""Tiny projectors as data: what turns an image or a recording into embeddings of a tiny model, random like the model.

Names and shapes are what llama.cpp's loader asks for (`clip.cpp` and `models/` in its `tools/mtmd`). Shapes are
numpy's, slowest axis first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Literal

from runtime.tiny.architecture import EPSILON, Tensor

ProjectorKind = Literal["gemma3", "qwen2vl", "qwen3vl", "internvl", "qwen3a"]
"""gemma3: 16 tokens for every image. qwen2vl and qwen3vl: as many as the image has 16 × 16 squares, M-RoPE positions
with a model that knows them. internvl: 16 tokens for each tile of a large image and for the whole of it. qwen3a: 13
tokens for each second of audio."""

HIDDEN = 32
FEED_FORWARD = 64
IMAGE_SIZE = 64
PATCH_SIZE = 8
MERGE = 2
MEL_BINS = 128
TOKENS_PER_CHUNK = 13
_CHANNELS = 8

Value = bool | int | float | str | list[float]


@dataclass(frozen=True, slots=True)
class Projector:
    """What a projector file holds; keys of `metadata` are complete."""

    metadata: dict[str, Value]
    tensors: tuple[Tensor, ...]


def projector(kind: ProjectorKind, width: int) -> Projector:
    """The projector of `kind` for a model that is `width` floats wide."""
    return _BUILDERS[kind](width)


def _metadata(tower: Literal["vision", "audio"], kind: str, width: int) -> dict[str, Value]:
    return {
        f"clip.has_{tower}_encoder": True,
        "clip.projector_type": kind,
        "clip.use_gelu": True,
        f"clip.{tower}.embedding_length": HIDDEN,
        f"clip.{tower}.feed_forward_length": FEED_FORWARD,
        f"clip.{tower}.block_count": 1,
        f"clip.{tower}.projection_dim": width,
        f"clip.{tower}.attention.head_count": 2,
        f"clip.{tower}.attention.layer_norm_epsilon": EPSILON,
    }


def _vision_metadata(kind: str, width: int) -> dict[str, Value]:
    return {
        **_metadata("vision", kind, width),
        "clip.vision.image_size": IMAGE_SIZE,
        "clip.vision.patch_size": PATCH_SIZE,
        "clip.vision.image_mean": [0.5, 0.5, 0.5],
        "clip.vision.image_std": [0.5, 0.5, 0.5],
    }


def _linear(name: str, n_out: int, n_in: int, *, bias: bool = True) -> Iterator[Tensor]:
    yield Tensor(f"{name}.weight", (n_out, n_in), std=1 / sqrt(n_in))
    if bias:
        yield Tensor(f"{name}.bias", (n_out,))


def _norm(name: str, size: int = HIDDEN) -> Iterator[Tensor]:
    yield Tensor(f"{name}.weight", (size,), mean=1.0)
    yield Tensor(f"{name}.bias", (size,))


def _encoder(tower: Literal["v", "a"], *, fused: bool = False) -> Iterator[Tensor]:
    """One transformer layer and the norm after it; `fused` keeps queries, keys and values in one matrix."""
    block = f"{tower}.blk.0"
    yield from _norm(f"{block}.ln1")
    yield from _norm(f"{block}.ln2")
    if fused:
        yield from _linear(f"{block}.attn_qkv", 3 * HIDDEN, HIDDEN)
    else:
        for name in ("attn_q", "attn_k", "attn_v"):
            yield from _linear(f"{block}.{name}", HIDDEN, HIDDEN)
    yield from _linear(f"{block}.attn_out", HIDDEN, HIDDEN)
    yield from _linear(f"{block}.ffn_up", FEED_FORWARD, HIDDEN)
    yield from _linear(f"{block}.ffn_down", HIDDEN, FEED_FORWARD)
    yield from _norm(f"{tower}.post_ln")


def _patches(name: str) -> Tensor:
    n_in = 3 * PATCH_SIZE * PATCH_SIZE
    return Tensor(name, (HIDDEN, 3, PATCH_SIZE, PATCH_SIZE), std=1 / sqrt(n_in))


def _places(more: int = 0) -> Tensor:
    return Tensor("v.position_embd.weight", ((IMAGE_SIZE // PATCH_SIZE) ** 2 + more, HIDDEN), std=0.5)


def _gemma3(width: int) -> Projector:
    def tensors() -> Iterator[Tensor]:
        yield _patches("v.patch_embd.weight")
        yield Tensor("v.patch_embd.bias", (HIDDEN,))
        yield _places()
        yield from _encoder("v")
        # Stored the other way round than every other matrix.
        yield Tensor("mm.input_projection.weight", (HIDDEN, width), std=1 / sqrt(HIDDEN))
        yield Tensor("mm.soft_emb_norm.weight", (HIDDEN,), mean=1.0)

    metadata = {**_vision_metadata("gemma3", width), "clip.vision.projector.scale_factor": MERGE}
    return Projector(metadata, tuple(tensors()))


def _internvl(width: int) -> Projector:
    def tensors() -> Iterator[Tensor]:
        yield Tensor("v.class_embd", (HIDDEN,), std=0.5)
        yield _patches("v.patch_embd.weight")
        yield Tensor("v.patch_embd.bias", (HIDDEN,))
        yield _places(more=1)  # the class has a place too
        yield from _encoder("v")
        merged = HIDDEN * MERGE * MERGE
        yield from _norm("mm.model.mlp.0", merged)
        yield from _linear("mm.model.mlp.1", width, merged)
        yield from _linear("mm.model.mlp.3", width, width)

    metadata = {**_vision_metadata("internvl", width), "clip.vision.projector.scale_factor": MERGE}
    return Projector(metadata, tuple(tensors()))


def _qwen_patches() -> Iterator[Tensor]:
    """Of two frames each; a still image is shown twice."""
    yield _patches("v.patch_embd.weight")
    yield _patches("v.patch_embd.weight.1")


def _qwen_merger(width: int) -> Iterator[Tensor]:
    merged = HIDDEN * MERGE * MERGE
    yield from _linear("mm.0", merged, merged)
    yield from _linear("mm.2", width, merged)


def _qwen_metadata(kind: str, width: int) -> dict[str, Value]:
    return {**_vision_metadata(kind, width), "clip.vision.spatial_merge_size": MERGE}


def _qwen2vl(width: int) -> Projector:
    tensors = (*_qwen_patches(), *_encoder("v"), *_qwen_merger(width))
    return Projector(_qwen_metadata("qwen2vl_merger", width), tensors)


def _qwen3vl(width: int) -> Projector:
    patch_bias = Tensor("v.patch_embd.bias", (HIDDEN,))
    tensors = (*_qwen_patches(), patch_bias, _places(), *_encoder("v", fused=True), *_qwen_merger(width))
    return Projector(_qwen_metadata("qwen3vl_merger", width), tensors)


def _qwen3a(width: int) -> Projector:
    def tensors() -> Iterator[Tensor]:
        n_in = 1
        for number in (1, 2, 3):
            yield Tensor(f"a.conv2d.{number}.weight", (_CHANNELS, n_in, 3, 3), std=1 / sqrt(9 * n_in))
            yield Tensor(f"a.conv2d.{number}.bias", (_CHANNELS,))
            n_in = _CHANNELS
        # Three convolutions halve the mel bins each.
        yield from _linear("a.conv_out", HIDDEN, _CHANNELS * MEL_BINS // 8, bias=False)
        yield Tensor("a.position_embd.weight", (TOKENS_PER_CHUNK, HIDDEN), std=0.5)
        yield from _encoder("a")
        yield from _linear("mm.a.mlp.1", HIDDEN, HIDDEN)
        yield from _linear("mm.a.mlp.2", width, HIDDEN)

    return Projector({**_metadata("audio", "qwen3a", width), "clip.audio.num_mel_bins": MEL_BINS}, tuple(tensors()))


_BUILDERS: dict[ProjectorKind, Callable[[int], Projector]] = {
    "gemma3": _gemma3,
    "qwen2vl": _qwen2vl,
    "qwen3vl": _qwen3vl,
    "internvl": _internvl,
    "qwen3a": _qwen3a,
}
