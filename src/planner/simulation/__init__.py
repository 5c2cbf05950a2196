"""Request traces replayed against policies, by the very code that plans for a server.

blocks, tokens   what a trace is made of: sessions of prompts, and what any two of them share
line, tree       replay of a session on a memory that is a line, or keeps branches
outcome          what a replay gives, request by request and in sum
offline          the least that anyone who knew the future could have evaluated
sweep            many policies and budgets over one trace
advice           which budget pays, and what llama.cpp's own flags could have done
plot             checkpoints over time, as SVG
"""

from __future__ import annotations

from planner.simulation.blocks import read_blocks
from planner.simulation.session import Prompt, Session
from planner.simulation.tokens import token_session

__all__ = ["Prompt", "Session", "read_blocks", "token_session"]
