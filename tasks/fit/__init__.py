"""Fitting: stochastic gradient passes, averaging, and the outer loops that ask an oracle for them."""
