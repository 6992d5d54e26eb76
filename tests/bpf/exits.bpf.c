// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Sends two kinds of samples of each process that ends: by a ring buffer and by a perf-event array.
 *
 * Hook:   raw_tp/sched_process_exit (Linux 4.17).
 * Maps:   __bpf_stdout__  struct event
 *         endings         struct event, the same; a ring buffer (Linux 5.8)
 * Cost:   both, for each thread that ends.
 */
#include "bpfperf.h"

/* The process whose end is told; 0 is every process. */
const volatile __u32 only_pid = 0;

struct event {
	__u64 lived_ns;
	__u32 pid;
	__s32 exit_code;
	char comm[16];
};

const struct event *event_type __attribute__((unused));

__u64 told;

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} __bpf_stdout__ SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 64 * 1024);
} endings SEC(".maps");

struct task_struct___exit {
	__s32 exit_code;
} __attribute__((preserve_access_index));

SEC("raw_tp/sched_process_exit")
int exits(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = (struct task_struct *)ctx->args[0];
	struct task_struct___exit *with_code = (void *)task;
	struct event event = {};

	event.pid = BPF_CORE_READ(task, tgid);
	/* Of a process, not of each of its threads. */
	if (event.pid != (__u32)BPF_CORE_READ(task, pid) || (only_pid && event.pid != only_pid))
		return 0;
	event.lived_ns = bpf_ktime_get_ns() - BPF_CORE_READ(task, start_time);
	event.exit_code = BPF_CORE_READ(with_code, exit_code);
	bpf_get_current_comm(event.comm, sizeof(event.comm));
	bpf_perf_event_output(ctx, &__bpf_stdout__, BPF_F_CURRENT_CPU, &event, sizeof(event));
	bpf_ringbuf_output(&endings, &event, sizeof(event), 0);
	__sync_fetch_and_add(&told, 1);
	return 0;
}

const char LICENSE[] SEC("license") = "Dual BSD/GPL";
