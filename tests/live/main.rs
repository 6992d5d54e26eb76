//! Tests on the running kernel. Where it will not let them, they say why and pass, unless
//! `BPFPERF_LIVE=1` asks for all of them.
