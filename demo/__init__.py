"""`make demo`: load, maintain and erase rows of Delta tables with Airflow and Spark, and check the results."""
