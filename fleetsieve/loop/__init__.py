"""Which cell to measure next, and when to stop: costs, beliefs, policies, stop rules, and the state that they work on."""
