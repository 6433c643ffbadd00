"""The output of commands: text for people, lines for pipes, JSON and CSV for programs."""
