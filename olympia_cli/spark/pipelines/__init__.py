"""Long work on a catalog as Spark jobs.

Jobs use DataFrames, joins, and functions over Arrow batches, so they run on a classic session and over Spark Connect.
Results are DataFrames; the driver holds counts.
"""
