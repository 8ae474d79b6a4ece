"""gradmatrix: which training stacks really train, measured on real releases."""
