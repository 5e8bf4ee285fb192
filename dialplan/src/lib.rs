//! TOML to a checked, compiled dialplan; matching and step evaluation.
