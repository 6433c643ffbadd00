"""The long work on a catalog as Spark jobs: DataFrames, joins, and functions over Arrow batches, so that they run on a
classic session and over Spark Connect alike. What is found is a DataFrame; this process holds counts.
"""
