//! Recording: plan, synthesis, pump, sideband, finish.
