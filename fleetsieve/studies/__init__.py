"""Studies: what policies, assumptions and intervals are worth, measured on tables whose truth is known."""
