//! Records that survive kill -9: a ring in a mapped file on tmpfs.
