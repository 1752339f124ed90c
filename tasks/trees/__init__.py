"""Trees over classes: structure, descent, growing (Deng et al.)."""
