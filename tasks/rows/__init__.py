"""One matrix of rows in several bodies, all with the same verbs: `X W`, `X' R`, take, decode.

A learner never knows how its rows are stored.
"""

from tasks.rows.base import Rows
from tasks.rows.csr import Csr
from tasks.rows.dense import Dense
from tasks.rows.descriptors import Descriptors
from tasks.rows.images import Images
from tasks.rows.onehot import OneHot
from tasks.rows.pq import PqCodes

__all__ = ["Csr", "Dense", "Descriptors", "Images", "OneHot", "PqCodes", "Rows"]
