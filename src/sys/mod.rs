//! The system calls: the only unsafe code.
