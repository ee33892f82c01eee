"""The pages, a module for each. FastAPI resolves annotations at run time, so these modules do not postpone them."""
