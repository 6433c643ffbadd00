"""The commands, in modules named by the command or by its group. Each parses, calls the core once, and renders."""
