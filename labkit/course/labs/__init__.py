"""The exercises of each lab, one module per lab, beside the notebooks of the same numbers."""
