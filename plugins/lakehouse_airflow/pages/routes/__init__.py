"""The pages, a module for each page.

FastAPI resolves annotations at run time, so these modules do not postpone annotations.
"""
