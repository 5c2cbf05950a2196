"""What the compiler of llama.cpp has got wrong."""

from __future__ import annotations

import re
from pathlib import Path

_MENDED = 13
_GCC = re.compile(rb"GCC: \([^)]*\) (\d+)\.")


def amx_is_miscompiled(libraries: Path, system_info: bytes) -> bool:
    """Whether what llama.cpp evaluates quantised weights with ends the process with a general protection fault.

    `libraries`: the folder of its shared objects; `system_info`: of `llama_print_system_info`. GCC before 13 does
    not see that an AMX tile configuration is read, and leaves out what writes it (llama.cpp PR 26954). A compiler
    writes its name into what it makes; without one, nothing is wrong.
    """
    if b"AMX_INT8 = 1" not in system_info:
        return False
    versions = (_GCC.search(path.read_bytes()) for path in libraries.glob("libggml-cpu*.so"))
    return any(int(version[1]) < _MENDED for version in versions if version is not None)
