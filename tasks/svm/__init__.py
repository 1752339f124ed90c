"""Support vector machines: kernel functions, solvers, banks of classifiers."""
