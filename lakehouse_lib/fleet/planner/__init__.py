"""The planner: which steps of maintenance are due, what they gain and cost, and which fit a budget."""
