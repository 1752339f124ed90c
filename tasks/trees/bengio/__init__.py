"""Trees of Bengio et al. 2010: classes parted by their confusion, all splits trained together."""
