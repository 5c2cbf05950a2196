"""Templates, conversations and limits put together at random: the invariants hold for all of them."""
