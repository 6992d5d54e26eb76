//! /proc, /sys, tracefs, files on disk.

pub mod files;
