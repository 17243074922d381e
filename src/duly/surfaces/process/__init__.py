"""What a server is as a process: its address, its descriptors, memory shared with others."""
