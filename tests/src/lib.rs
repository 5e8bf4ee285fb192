//! Simulation, conformance, scenarios, peers, tidy and arrows.
