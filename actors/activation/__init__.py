"""One conversation in one actor: `Activation` puts the parts together, and each other module is one part; none uses Ray."""
