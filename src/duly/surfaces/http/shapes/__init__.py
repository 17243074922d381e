"""What the routes take and answer, as structs: they are checked by them and documented by them."""
