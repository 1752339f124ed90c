"""Features of rows: principal components, feature maps of additive kernels."""
