//! Writer thread, formats, files.
