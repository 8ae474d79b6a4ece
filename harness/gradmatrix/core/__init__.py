"""The words of the project: errors, files, text, outcomes, observations. It imports nothing of ours."""
