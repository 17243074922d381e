"""Export and import: the entries of an export file, and how they are read and checked."""
