"""The rollout loop: environments, prompts and replies of meta-episodes; trajectories as values and as JSON."""
