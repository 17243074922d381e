"""Export and import: the entries of a file, how they are read and checked."""
