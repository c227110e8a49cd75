"""The paper's tables as stages: trainings and evaluations, what they cost, and the table of their results."""
