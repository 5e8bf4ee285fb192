//! The words of the control socket.
