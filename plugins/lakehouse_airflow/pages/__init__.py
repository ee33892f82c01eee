"""The pages of the lakehouse on Airflow's server: tables, versions, loads, maintenance and erasures.

``application`` has the FastAPI app, ``routes`` has a module for each page, and ``views`` has the functions that make
the values of templates from records and logs. No page writes. To start a run, the browser calls Airflow's API.
"""
