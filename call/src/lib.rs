//! Calls, legs, search, bridge, interpreter, record; no technology.
