// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The least that a program of a probe can do: it counts its runs, before anything else.
 *
 * Hook:   uprobe on what UPROBE_AT names: PATH:FUNCTION.
 * Maps:   none but the count.
 * Cost:   an atomic addition.
 */
#include "bpfperf.h"

#ifndef UPROBE_AT
#define UPROBE_AT "libc.so.6:getppid"
#endif

__u64 n_hits;

SEC("uprobe/" UPROBE_AT)
int counted(void *ctx)
{
	__sync_fetch_and_add(&n_hits, 1);
	return 1;
}

const char LICENSE[] SEC("license") = "Dual BSD/GPL";
