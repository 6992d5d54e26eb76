//! /proc, /sys, tracefs, files on disk.
