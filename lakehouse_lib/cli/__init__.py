"""The command ``lakehouse``. ``main`` is its entry point, and ``commands`` has a module for each of its commands."""
