"""Gaussian processes around a law: kernels, hyper-parameters, conditioning."""
