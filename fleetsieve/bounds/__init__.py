"""From measurements to bounds: which rows count, what is assumed of the cells that were not measured, the bounds of every cell."""
