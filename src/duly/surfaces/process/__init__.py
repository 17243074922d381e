"""The server as an operating system process: socket, descriptors, notices, shared memory."""
