"""Trace-norm regularised multinomial logistic regression (Harchaoui et al. 2012; SPECS section 3)."""
