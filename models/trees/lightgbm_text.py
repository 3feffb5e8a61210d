"""LightGBM's text form as plain numbers, read once after the trees were grown."""

import re
from collections.abc import Iterator

import numpy as np

from models.errors import ArtifactError
from models.trees.lookup import MAX_LEAVES, SPLIT_FIELDS, TreeArrays

_LINE = re.compile(
    r"^(num_leaves|split_feature|threshold|decision_type|left_child|right_child|leaf_value"
    r"|cat_boundaries|cat_threshold|is_linear)=(.*)$",
    re.MULTILINE,
)
_CHILDREN = ("left_child", "right_child")
_CATEGORICAL, _MISSING_TYPE, _ZERO_IS_MISSING = 1, 12, 4


def read_trees(text: str) -> TreeArrays:
    """Return the trees of LightGBM's text form.

    Raises
    ------
    ArtifactError
        If the text is damaged, or the leaves of its trees are not constants.
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
    leaves, values = [], []
    splits: list[tuple[float, ...]] = []
    for block in blocks:
        places, order = _leaf_order(block)
        splits += _splits(block, places, len(ends))
        ends += [len(levels) + int(end) for end in block.get("cat_boundaries", [])[1:]]
        levels += [float(word) for word in block.get("cat_threshold", [])]
        leaves.append(float(len(order)))
        leaf_values = [float(value) for value in block["leaf_value"]]
        if len(leaf_values) != len(order):
            raise ValueError("a leaf has no value")
        values += [leaf_values[leaf] for leaf in order]
    return TreeArrays(
        np.array(leaves),
        np.array(splits, dtype=np.float64).reshape(-1, len(SPLIT_FIELDS)).T.copy(),
        np.array(values),
        np.array(levels),
        np.array(ends, dtype=np.float64),
    )


def _leaf_order(block: dict[str, list[str]]) -> tuple[list[int], list[int]]:
    """Return how many leaves lie left of each split, and the leaves from left to right."""
    # A tree of one leaf has no split and no lines about children.
    children = [[int(child) for child in block.get(name, [])] for name in _CHILDREN]
    n_leaves = int(block["num_leaves"][0])
    if not 0 < n_leaves == len(children[0]) + 1 == len(children[1]) + 1 <= MAX_LEAVES:
        raise ValueError("a tree has not the declared leaves")
    places, order = [0] * (n_leaves - 1), list[int]()

    def visit(node: int, parent: int) -> None:
        if node < 0:
            order.append(~node)
            return
        if node <= parent:
            raise ValueError("a child leads backwards")
        visit(children[0][node], node)
        places[node] = len(order)
        visit(children[1][node], node)

    visit(0 if places else -1, -1)
    if sorted(order) != list(range(n_leaves)):
        raise ValueError("its indices form no tree")
    return places, order


def _splits(
    block: dict[str, list[str]], places: list[int], n_sets: int
) -> Iterator[tuple[float, ...]]:
    """Yield the splits of a tree in the form of `models.trees.lookup`."""
    columns = [block.get(name, []) for name in ("split_feature", "threshold", "decision_type")]
    for feature, threshold, decision, place in zip(*columns, places, strict=True):
        kind = int(decision)
        is_category = kind & _CATEGORICAL
        if not is_category and kind & _MISSING_TYPE == _ZERO_IS_MISSING:
            raise ValueError("it takes zero for missing")
        # Sets of levels are numbered within a tree by LightGBM, but across all trees here.
        yield float(feature), float(threshold) + n_sets * is_category, is_category, place
