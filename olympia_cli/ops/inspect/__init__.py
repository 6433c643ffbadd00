"""Read-only views of a catalog: log, differences, histories, node files, tree shape and status."""
