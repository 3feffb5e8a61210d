"""How often the drift alarm is false, and how soon it is raised: simulated histories."""
