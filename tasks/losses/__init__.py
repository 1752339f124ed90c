"""Losses as functions of scores: each gives the sum of losses over the rows and the residuals d(loss)/d(scores)."""
