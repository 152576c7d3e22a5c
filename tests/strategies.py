"""Hypothesis strategies for demonstration sets."""

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from imitable.demonstrations import Demonstrations

numbers = st.floats(allow_nan=False, allow_infinity=False)
labels = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)  # numpy drops a zero at the end


def label_tuples(size: int) -> st.SearchStrategy[tuple[str, ...] | None]:
    return st.none() | st.lists(labels, min_size=size, max_size=size).map(tuple)


@st.composite
def demonstration_sets(draw: st.DrawFn, *, most: int = 6) -> Demonstrations:
    """Ragged sets of any finite numbers, some or all without returns, with or without sources and names of columns."""
    lengths = draw(st.lists(st.integers(1, 5), min_size=1, max_size=most))
    width = draw(st.integers(1, 4))
    observations = draw(hnp.arrays(np.float64, (sum(lengths) + len(lengths), width), elements=numbers))
    returns = draw(st.none() | hnp.arrays(np.float64, len(lengths), elements=numbers | st.just(np.nan)))
    return Demonstrations(observations, np.array(lengths), returns, draw(label_tuples(len(lengths))), draw(label_tuples(width)))
