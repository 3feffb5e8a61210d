"""What is believed of many jobs at once, and the options of elastic ones."""
