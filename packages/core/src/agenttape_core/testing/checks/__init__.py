"""The checks of conformance, in groups; each `test_*` method is one."""
