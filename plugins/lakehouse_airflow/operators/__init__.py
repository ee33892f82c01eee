"""Operators, a module for each verb.

Base classes are in ``base``, the operators of an erasure in ``erasure``, and those of restore, clone, manifests,
constraints and other changes of a table in ``metadata``.
"""
