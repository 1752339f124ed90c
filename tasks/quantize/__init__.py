"""Product quantisation: k-means codebooks, encode, decode, products on codes (Harchaoui et al., section 4)."""
