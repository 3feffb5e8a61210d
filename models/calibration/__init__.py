"""Half widths of prediction intervals, and which way they lean."""
