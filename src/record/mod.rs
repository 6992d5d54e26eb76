//! Recording: plan, synthesis, pump, sideband, finish.

pub mod sideband;
