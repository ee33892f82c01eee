"""Submission of the jobs of ``spark_jobs``."""
