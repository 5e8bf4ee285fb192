//! One shard as a value: endpoint, calls, leg adapters, limits, timers.
