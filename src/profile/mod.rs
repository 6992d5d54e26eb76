//! Samples to histograms and call trees.
