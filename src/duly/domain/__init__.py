"""What duly knows: values and decisions, without clock, chance, I/O or await."""
