"""`make demo`: a lakehouse kept healthy by Airflow and Spark, end to end, with the checks that prove it."""
