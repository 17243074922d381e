"""How fast the HTTP API takes deliveries in, beside an echo on the same server software."""
