"""Executors of clusters: Ray and Slurm. Without this folder, work runs on this machine."""
