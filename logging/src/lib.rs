//! Gate, record, lanes, tracing subscriber.
