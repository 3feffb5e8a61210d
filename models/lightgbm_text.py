"""LightGBM's text form as plain numbers: read once, when the trees were grown."""

import re

import numpy as np

from models.errors import ArtifactError
from models.trees import SPLIT_FIELDS, TreeArrays

_LINE = re.compile(
    r"^(num_leaves|split_feature|threshold|decision_type|left_child|right_child|leaf_value"
    r"|cat_boundaries|cat_threshold|is_linear)=(.*)$",
    re.MULTILINE,
)
_CATEGORICAL = 1


def read_trees(text: str) -> TreeArrays:
    """Return the trees of LightGBM's text form.

    Raises
    ------
    ArtifactError
        If the text tells no trees, or trees whose leaves are no constants.
    """
    body = text.partition("\nend of trees")[0]
    blocks = [
        {name: value.split() for name, value in _LINE.findall(block)}
        for block in body.split("\nTree=")[1:]
    ]
    try:
        return _join(blocks)
    except (KeyError, ValueError, IndexError) as error:
        raise ArtifactError(f"The trees are damaged: {error}") from error


def _join(blocks: list[dict[str, list[str]]]) -> TreeArrays:
    if any(block.get("is_linear", ["0"]) != ["0"] for block in blocks):
        raise ValueError("their leaves are no constants")
    ends: list[int] = []
    levels: list[float] = []
    splits = [np.empty((len(SPLIT_FIELDS), 0))]
    for block in blocks:
        # A tree of one leaf has no split, and no line that tells of one.
        rows = np.array([[float(v) for v in block.get(name, [])] for name in SPLIT_FIELDS])
        is_category = rows[SPLIT_FIELDS.index("decision_type")].astype(np.int64) & _CATEGORICAL
        # The sets of levels are numbered within a tree there and among all trees here.
        rows[SPLIT_FIELDS.index("threshold")] += len(ends) * is_category
        splits.append(rows)
        ends += [len(levels) + int(end) for end in block.get("cat_boundaries", [])[1:]]
        levels += [float(word) for word in block.get("cat_threshold", [])]
    leaves = [float(block["num_leaves"][0]) for block in blocks]
    values = [float(value) for block in blocks for value in block["leaf_value"]]
    return TreeArrays(
        np.array(leaves),
        np.concatenate(splits, axis=1),
        np.array(values),
        np.array(levels),
        np.array(ends, dtype=np.float64),
    )
