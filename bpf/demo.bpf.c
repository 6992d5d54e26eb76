// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * A BPF program that costs time one can see: it hashes on each chosen system call of one process.
 *
 * It carries owner-given metadata, as a program in production should: the variables named
 * `bpf_metadata_*` in .rodata say whose it is, and travel with a recording.
 */
#include "bpfperf.h"

#define ROUNDS 512

/* The system call that is paid for, by its number on this machine. */
const volatile __u64 syscall_nr = 0;
/* The process that pays; 0 is every process. Its number is that of the PID namespace below. */
const volatile __u32 target_pid = 0;
/* The device and inode of /proc/self/ns/pid, where target_pid was seen. */
const volatile __u64 pidns_dev = 0;
const volatile __u64 pidns_ino = 0;

const char bpf_metadata_owner[] SEC(".rodata") = "bpfperf";
const char bpf_metadata_purpose[] SEC(".rodata") = "demo: a program that costs CPU";
const __u32 bpf_metadata_version SEC(".rodata") = 1;

/* What the hashing came to, so that the compiler cannot leave it out; and how often. */
__u64 last_hash;
__u64 n_hits;

static __noinline __u64 demo_hash(__u64 seed)
{
	__u64 hash = seed ^ 0xcbf29ce484222325ULL;

	for (int i = 0; i < ROUNDS; i++)
		hash = (hash ^ (hash >> 29) ^ i) * 0x100000001b3ULL;
	return hash;
}

SEC("raw_tp/sys_enter")
int demo_sys_enter(struct bpf_raw_tracepoint_args *ctx)
{
	struct bpf_pidns_info seen = {};
	struct task_struct *task;

	if (ctx->args[1] != syscall_nr)
		return 0;
	if (target_pid) {
		if (bpf_get_ns_current_pid_tgid(pidns_dev, pidns_ino, &seen, sizeof(seen)))
			return 0;
		if (seen.tgid != target_pid)
			return 0;
	}
	task = (struct task_struct *)bpf_get_current_task();
	last_hash = demo_hash(BPF_CORE_READ(task, start_time) + n_hits);
	n_hits++;
	return 0;
}

const char LICENSE[] SEC("license") = "Dual BSD/GPL";
