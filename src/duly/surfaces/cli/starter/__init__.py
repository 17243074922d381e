"""`duly init`: a starter project that runs, with a test."""
