"""What was evaluated, kept as a prefix tree of sequences, and the requests that move in it."""
