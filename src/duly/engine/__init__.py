"""The engine: loops that plan, claim, run, settle, recover and clean up."""
