"""Operators, a module for each verb.

The folder ``base`` has the base classes, ``erasure`` the operators of an erasure, ``maintenance`` the operators of a
maintenance run, and ``metadata`` the operators for restore, clone, manifests, pins, constraints and other changes.
"""
