"""Grammars are refused before llama.cpp sees them, and only where they must be."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.llama import lib
from runtime.sampling.gbnf import GrammarFault, check_grammar

FINE = [
    'root ::= "a"',
    'root ::= "yes" | "no" # a remark\n',
    'root ::= item+\nitem ::= "- " [^\\r\\n\\x0b-\\x0c]+ "\\n"',
    "root ::= (\n  [a-z]\n  |\n  [0-9-]\n)* .",
    'root ::= "a"{2} "b"{1,} "c"{0,3} "d"?',
    'root ::= "a" root | ""',
    'root ::= value\r\nvalue ::= "[" (value ("," value)*)? "]"',
    'root ::= ws "x" ws\nws ::= [ \\t\\n]*',
    'root ::= "\\u00e9\\U0001F600é" [\\[\\]]',
    'root ::= "old"\nroot ::= "new"',
    'root ::= "" | []',
    'root ::= ("a" ("b"{100}){100}){100}',
    "root ::= " + "(" * 100 + '"a"' + ")" * 100,
]

REFUSED = [
    ("", "there is no rule named root"),
    ('start ::= "a"', "there is no rule named root"),
    ('root ::= "a', "line 1: not closed"),
    ('root ::= "a"\n\nx ::= [b', "line 3: not closed"),
    ('root ::= ("a"', "line 1: a parenthesis is not closed"),
    ('root ::= "a")', r"line 1: cannot read '\)'"),
    ("root ::= x\n", "line 1: there is no rule named x"),
    ('root = "a"', "line 1: ::= is missing after root"),
    ('root ::= "a"\n| "b"', "line 2: a rule's name is missing"),
    ('root ::= "\\d"', "line 1: unknown escape"),
    ('root ::= "\\x0"', "line 1: unknown escape"),
    ('root ::= "\\ud800"', r"line 1: \\ud800 is no character"),
    ('root ::= "\\U00110000"', r"line 1: \\U00110000 is no character"),
    ("root ::= *", "line 1: nothing stands before a repetition"),
    ('root ::= ""+', "line 1: nothing stands before a repetition"),
    ('root ::= "a"{x}', r"line 1: a repetition is \{n\}"),
    ('root ::= "a"{3,2}', "line 1: a repetition ends before it begins"),
    ('root ::= "a"{2001}', "line 1: more than 2000 repetitions"),
    ('root ::= "a"{99999999999999999999}', r"line 1: a repetition is \{n\}"),
    ('root ::= ("a" ("b"{0,50}){50}){50}', "line 1: repetitions within repetitions"),
    ('root ::= "a"{50}{50}', "line 1: repetitions within repetitions"),
    ("root ::= " + "[a-z]{2000} " * 200, "line 1: more than 200000 elements"),
    ("root ::= " + "(" * 101 + '"a"' + ")" * 101, "line 1: parentheses are nested more than 100 deep"),
    ('root ::= "a"' + "+" * 1000, "line 1: more than 200000 elements"),
    (
        "root ::= r0\n" + "\n".join(f"r{i} ::= r{i + 1}{{0,3}} r{i + 1}{{0,3}}" for i in range(15)) + '\nr15 ::= "a"?',
        "can begin in more than 20000 ways",
    ),
    ('root ::= b{1000} b\nb ::= c{1000}\nc ::= "a"?', "rule root can begin in more than 20000 ways"),
    ("root ::= [z-a]", "line 1: a range ends before it begins"),
    ("root ::= <|end|>", r"line 1: tokens \(<…>\) are not supported"),
    ('root ::= "a" !<[5]>', r"line 1: tokens \(<…>\) are not supported"),
    ('root ::= ("" | "a")*', "rule root repeats without end what may be empty"),
    ('root ::= "b" a+\na ::= "a" |', "rule root repeats without end what may be empty"),
    ('root ::= "a"?*', "rule root repeats without end what may be empty"),
    ("root ::= root", "left recursion: .*root"),
    ('root ::= a "x"\na ::= b | "y"\nb ::= root "z"', "left recursion: .*root → a → b → root|a → b|b → root"),
    ('root ::= empty root "x" | "y"\nempty ::= e\ne ::= ""', "left recursion: .*root"),
    ('root ::= "a"\0', "holds a NUL"),
    ('root ::= "\ud800"', "half of a surrogate pair"),
    ('root ::= "' + "a" * (1 << 18) + '"', "longer than 262144 characters"),
]


def accepted(text):
    sampler = lib.llama_sampler_init_grammar(None, text.encode(), b"root")
    if sampler:
        lib.llama_sampler_free(sampler)
    return bool(sampler)


@pytest.mark.parametrize("text", FINE)
def test_a_grammar_that_llama_cpp_can_follow_is_fine(text):
    check_grammar(text)
    assert accepted(text)


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_a_fault_is_named_by_line_or_rule(text, reason):
    with pytest.raises(GrammarFault, match=reason) as caught:
        check_grammar(text)
    assert "\n" not in str(caught.value)


def test_recursion_that_llama_cpp_would_follow_without_end_is_refused():
    # Its own check sees only rules that are empty by themselves, not through another one.
    with pytest.raises(GrammarFault, match="left recursion"):
        check_grammar('root ::= "a" (e root2)\nroot2 ::= e root2 "x" | "y"\ne ::= f\nf ::= ""')


def sequences(items):
    repeated = st.builds(
        "".join, st.tuples(items, st.sampled_from(["", "", "*", "+", "?", "{0,3}", "{2}", "{1,}", "{0}", "{0}*"]))
    )
    return st.lists(st.lists(repeated, max_size=3).map(" ".join), min_size=1, max_size=3).map(" | ".join)


TERMINALS = st.sampled_from(['"a"', '""', "[a-c]", "[^x]", ".", "root", "one", "two", '"\\x41-"', "[]"])
GRAMMARS = st.tuples(
    *[sequences(st.recursive(TERMINALS, lambda inner: sequences(inner).map("({})".format), max_leaves=6))] * 3
).map(lambda rules: "\n".join(f"{name} ::= {rule}" for name, rule in zip(("root", "one", "two"), rules, strict=True)))


@settings(max_examples=100, deadline=None)
@given(GRAMMARS)
def test_llama_cpp_reads_what_is_let_through(text):
    try:
        check_grammar(text)
    except GrammarFault:
        return
    assert accepted(text)
