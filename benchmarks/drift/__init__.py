"""How often the drift alarm is false, and how soon it is raised, in simulated histories."""
