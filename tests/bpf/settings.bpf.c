// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Every kind of global and of map that a command line may set: a program that keeps a sample if
 * what it was given adds up to `want`.
 *
 * Hook:   perf_event.
 * Maps:   limits   index -> a number
 *         weights  index -> struct weight
 *         by_cpu   index -> a number of each CPU
 *         chosen   process -> whether it counts
 * Cost:   a look-up in each map.
 */
#include "bpfperf.h"

enum speed {
	SPEED_SLOW,
	SPEED_FAST,
};

struct weight {
	__u32 low;
	__u32 high;
};

const volatile __u8 small = 0;
const volatile __s32 below = 0;
const volatile __u64 large = 0;
const volatile _Bool flag = 0;
const volatile enum speed speed = SPEED_SLOW;
const volatile char word[16] = "";
const volatile __u32 numbers[4] = {};
const volatile struct weight weight = {};

/* Globals that are no constants: with a value at the start, and without. */
__u64 want = 0;
__u64 scale = 3;

/* What it added up to. */
__u64 sum;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4);
	__type(key, __u32);
	__type(value, __u64);
} limits SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, struct weight);
} weights SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} by_cpu SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16);
	__type(key, __u32);
	__type(value, __u8);
} chosen SEC(".maps");

SEC("perf_event")
int on_clock(void *ctx)
{
	__u64 total = small + large + flag + speed + word[0] + weight.low + weight.high;
	__u32 first = 0;
	__u32 last = 3;
	__u32 pid = bpf_get_current_pid_tgid() >> 32;
	__u64 *number;
	__u8 *choice;
	struct weight *both;

	total += below;
	total += numbers[0] + numbers[1] + numbers[2] + numbers[3];
	number = bpf_map_lookup_elem(&limits, &first);
	total += number ? *number : 0;
	number = bpf_map_lookup_elem(&limits, &last);
	total += number ? *number : 0;
	both = bpf_map_lookup_elem(&weights, &first);
	total += both ? both->low + both->high : 0;
	number = bpf_map_lookup_elem(&by_cpu, &first);
	total += number ? *number : 0;
	choice = bpf_map_lookup_elem(&chosen, &pid);
	total += choice ? *choice : 0;
	sum = total * scale;
	return sum == want;
}

const char LICENSE[] SEC("license") = "Dual BSD/GPL";
