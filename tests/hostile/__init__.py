"""Templates that mean harm, and a process in which they may do it."""
