"""How fast the HTTP API accepts deliveries, compared with an echo on the same server software."""
