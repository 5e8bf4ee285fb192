//! Session descriptions: view, answer, direction (RFC 8866, RFC 3264).
