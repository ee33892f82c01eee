"""Operators, a module for each verb; base classes are in ``base``, the operators of an erasure in ``erasure``."""
