"""Runs in the tools that people keep runs in: TensorBoard, MLflow, Weights & Biases, Optuna. Never part of a result."""
