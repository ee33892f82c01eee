"""The pages of the lakehouse on Airflow's server: all tables, a table, a version, and the start of a run.

``application`` has the FastAPI app, ``routes`` a module for each page, ``views`` the functions that make values of
templates from records and logs. No page writes anything: a run is started by Airflow's own API.
"""
