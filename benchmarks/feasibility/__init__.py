"""How well fits predict from few runs which configurations run out of GPU memory."""
