"""Fakes that users get too: a model server, a fault-injecting store, the store conformance suite."""
