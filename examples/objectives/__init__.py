"""Test of the paper's claim: a learner's return in each episode under each credit, beside that credit's optimum."""
