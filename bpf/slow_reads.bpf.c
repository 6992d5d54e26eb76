// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Keeps the samples of read(2) calls that took long, with their call chains.
 *
 * Hook:   raw_tp/sys_enter (Linux 4.17) notes when a read began; tracepoint syscalls:sys_exit_read
 *         decides: 0 drops the sample, 1 keeps it. What it drops there no other recorder of the
 *         tracepoint sees either.
 * Maps:   begun   thread -> ns when its read began
 * Cost:   a comparison for each system call; for each read a clock, an update and a deletion.
 */
#include "bpfperf.h"

#ifdef __TARGET_ARCH_x86
#define SYS_READ 0
#else
#define SYS_READ 63
#endif

/* How long a read takes, in ns, before it is worth a sample. */
const volatile __u64 min_ns = 10000000;
/* The process whose reads are looked at; 0 is every process. */
const volatile __u32 only_pid = 0;

/* Reads that were long enough, and those that were not; and the longest, in ns. */
__u64 kept;
__u64 dropped;
__u64 longest_ns;

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 10240);
	__type(key, __u32);
	__type(value, __u64);
} begun SEC(".maps");

/* The fields of syscalls:sys_exit_read, as its format in tracefs tells them. */
struct sys_exit_read {
	__u64 common;
	__s32 syscall_nr;
	__s64 ret;
};

SEC("raw_tp/sys_enter")
int read_begins(struct bpf_raw_tracepoint_args *ctx)
{
	__u64 id, now;
	__u32 tid;

	if (ctx->args[1] != SYS_READ)
		return 0;
	id = bpf_get_current_pid_tgid();
	if (only_pid && id >> 32 != only_pid)
		return 0;
	tid = id;
	now = bpf_ktime_get_ns();
	bpf_map_update_elem(&begun, &tid, &now, BPF_ANY);
	return 0;
}

SEC("tracepoint/syscalls/sys_exit_read")
int slow_read(struct sys_exit_read *ctx)
{
	__u32 tid = bpf_get_current_pid_tgid();
	__u64 *start = bpf_map_lookup_elem(&begun, &tid);
	__u64 took;

	/* Not of the process, or begun before this program came. */
	if (!start)
		return 0;
	took = bpf_ktime_get_ns() - *start;
	bpf_map_delete_elem(&begun, &tid);
	if (took < min_ns || ctx->ret < 0) {
		__sync_fetch_and_add(&dropped, 1);
		return 0;
	}
	if (took > longest_ns)
		longest_ns = took;
	__sync_fetch_and_add(&kept, 1);
	return 1;
}

const char LICENSE[] SEC("license") = "Dual BSD/GPL";
