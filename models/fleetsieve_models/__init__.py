"""The mathematics of FleetSieve as Pyomo models: numbers in, ConcreteModel out."""
