"""Hypothesis strategies for demonstration sets."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from imitable.demonstrations import Demonstrations

numbers = st.floats(allow_nan=False, allow_infinity=False)


@st.composite
def demonstration_sets(draw: st.DrawFn, *, most: int = 6) -> Demonstrations:
    """Ragged sets of any finite numbers, with or without sources."""
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=most))
    width = draw(st.integers(1, 4))
    states = draw(hnp.arrays(np.float64, (sum(lengths) + len(lengths), width), elements=numbers))
    returns = draw(hnp.arrays(np.float64, len(lengths), elements=numbers))
    sources = draw(st.none() | st.lists(st.text(max_size=8), min_size=len(lengths), max_size=len(lengths)).map(tuple))
    return Demonstrations(states, np.array(lengths), returns, sources)
