"""The options of a store of states, and its complaints."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from spanparse.cli.output import warning_line

if TYPE_CHECKING:
    from runtime.store import StoreOptions

RamBytes = Annotated[
    int | None,
    typer.Option(
        "--ram-bytes",
        metavar="B",
        min=1,
        help="Keep the ends of prompts, in memory of so many bytes beside the checkpoints. No state is larger. "
        "[default: 1 GiB with --disk or --redis]",
    ),
]
Disk = Annotated[str | None, typer.Option("--disk", metavar="DIR", help="… and in files, which outlive the process.")]
DiskBytes = Annotated[
    int | None, typer.Option("--disk-bytes", metavar="B", min=1, help="Most bytes of these files. [default: 10 GiB]")
]
Redis = Annotated[
    str | None, typer.Option("--redis", metavar="URL", help="… and in a Redis server, which several machines share.")
]
RedisBytes = Annotated[
    int | None, typer.Option("--redis-bytes", metavar="B", min=1, help="Most bytes in the server. [default: 1 GiB]")
]


def store_options(
    ram_bytes: int | None, disk: str | None, disk_bytes: int | None, redis: str | None, redis_bytes: int | None
) -> StoreOptions | None:
    """What the options say; None without any. Raises `typer.BadParameter` for a size of nothing."""
    for place, size, name in ((disk, disk_bytes, "--disk"), (redis, redis_bytes, "--redis")):
        if place is None and size is not None:
            raise typer.BadParameter(f"{name}-bytes needs {name}")
    if ram_bytes is None and disk is None and redis is None:
        return None
    from runtime.store import StoreOptions

    usual = StoreOptions()
    return StoreOptions(
        usual.ram_bytes if ram_bytes is None else ram_bytes,
        disk,
        usual.disk_bytes if disk_bytes is None else disk_bytes,
        redis,
        usual.redis_bytes if redis_bytes is None else redis_bytes,
    )


@contextmanager
def complaints() -> Iterator[None]:
    """Inside the block what a store warns of is said on standard error; it does not stop the command."""
    logger, handler = logging.getLogger("runtime.store"), _Warnings(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Warnings(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        warning_line(record.getMessage())
