// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* An object with a map and without a program. */
#include "bpfperf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lonely SEC(".maps");

const char LICENSE[] SEC("license") = "Dual BSD/GPL";
