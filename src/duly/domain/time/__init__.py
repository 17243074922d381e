"""Clock time: rules that say when, zones, and the moments they name."""
