// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* A program that the verifier refuses: it reads through what a look-up gave without asking whether it
 * found anything, `R0 invalid mem access 'map_value_or_null'`. */
#include "bpfperf.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} limits SEC(".maps");

SEC("perf_event")
int unchecked(void *ctx)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;
	__u64 *limit = bpf_map_lookup_elem(&limits, &pid);

	return *limit != 0;
}

const char LICENSE[] SEC("license") = "Dual BSD/GPL";
