//! A machine that runs the instructions of filters, for tests.
