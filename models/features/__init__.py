"""What regressors see: rows as matrices of numbers, codes of levels and data sheets."""
