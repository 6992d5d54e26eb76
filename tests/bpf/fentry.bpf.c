// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Programs on the entry and the exit of a kernel function, which need BPF trampolines.
 *
 * Hook:   fentry and fexit on do_nanosleep (Linux 5.5, with CONFIG_FUNCTION_TRACER).
 * Maps:   none but the globals.
 * Cost:   one count each.
 */
#include "bpfperf.h"

__u64 n_entries;
__u64 n_exits;

SEC("fentry/do_nanosleep")
int on_sleep(__u64 *ctx)
{
	__sync_fetch_and_add(&n_entries, 1);
	return 0;
}

SEC("fexit/do_nanosleep")
int on_slept(__u64 *ctx)
{
	__sync_fetch_and_add(&n_exits, 1);
	return 0;
}

const char LICENSE[] SEC("license") = "Dual BSD/GPL";
