"""What an App offers, a file for each thing: checks what it is given and asks the store's ports."""
