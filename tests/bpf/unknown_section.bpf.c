// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A program whose section names no hook that there is. */
#include "bpfperf.h"

SEC("moonphase/full")
int on_moon(void *ctx)
{
	return 1;
}

const char LICENSE[] SEC("license") = "Dual BSD/GPL";
