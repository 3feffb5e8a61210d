"""How well fits know, from few runs, which configurations run out of GPU memory."""
