"""The array types every stage speaks."""

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Array = NDArray[np.float64]
Float32 = NDArray[np.float32]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

__all__ = ["Array", "Booleans", "Float32", "Generator", "Integers"]
