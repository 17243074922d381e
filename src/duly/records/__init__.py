"""Records: the public values that services return, HTTP encodes and the client decodes."""
