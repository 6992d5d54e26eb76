// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The probes of user space that tests/bpf/kinds.bpf.c lacks: the return of a function, and a static
 * probe (USDT).
 *
 * Hook:   uretprobe on CALLED, usdt on PROBED: each PATH:WHAT, given by -D.
 * Maps:   none but the counts.
 * Cost:   an atomic addition.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/usdt.bpf.h>

__u64 n_probed;
__u64 n_called;

SEC("uretprobe/" CALLED)
int on_return(void *ctx)
{
	__sync_fetch_and_add(&n_called, 1);
	return 1;
}

SEC("usdt/" PROBED)
int on_probe(void *ctx)
{
	__sync_fetch_and_add(&n_probed, 1);
	return 0;
}

const char LICENSE[] SEC("license") = "Dual BSD/GPL";
