"""The paper's claim measured: what a learner earns by episode under each credit, beside that credit's exact optimum."""
