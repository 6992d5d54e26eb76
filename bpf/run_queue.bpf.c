// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Tells of each time that a thread could run and waited long for a CPU: how long, who had the CPU
 * meanwhile, and how long it ran then.
 *
 * Hook:   raw_tp/sched_wakeup, raw_tp/sched_wakeup_new and raw_tp/sched_switch (Linux 4.17).
 * Maps:   runnable        thread -> struct turn, from when it can run until it sleeps
 *         waits           log2 of the wait in us -> how many of all waits
 *         __bpf_stdout__  struct event, sent by the thread itself as it leaves the CPU, so that
 *                         the sample's process, thread, comm and call chain are its own
 * Cost:   a map update for each wake-up, two look-ups and an update or a deletion for each switch.
 */
#include "bpfperf.h"

#define N_SLOTS 32

/* How long a thread waits, in ns, before it is worth telling. */
const volatile __u64 min_ns = 1000000;
/* The process whose threads are looked at; 0 is every process. */
const volatile __u32 only_pid = 0;

/* Waits that were told, and those that were too short. */
__u64 told;
__u64 passed_over;

/* What is sent. */
struct event {
	/* How long it could run and did not. */
	__u64 waited_ns;
	/* How long it ran then. */
	__u64 ran_ns;
	/* The thread that had the CPU until then, its process, and its name. */
	__u32 after_tid;
	__u32 after_pid;
	char after_comm[16];
};

/* Nothing reads this: it has the type written to the object's BTF. */
const struct event *event_type __attribute__((unused));

/* A thread's turn: it waits, then it runs. */
struct turn {
	__u64 runnable_since;
	/* 0 while it waits. */
	__u64 running_since;
	__u32 after_tid;
	__u32 after_pid;
	char after_comm[16];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} __bpf_stdout__ SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 10240);
	__type(key, __u32);
	__type(value, struct turn);
} runnable SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, N_SLOTS);
	__type(key, __u32);
	__type(value, __u64);
} waits SEC(".maps");

/* `task_struct.__state` as it was called before Linux 5.14. */
struct task_struct___named_state {
	long state;
} __attribute__((preserve_access_index));

static __always_inline _Bool is_runnable(struct task_struct *task)
{
	struct task_struct___named_state *old = (void *)task;

	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state) == 0;
	return BPF_CORE_READ(old, state) == 0;
}

static __always_inline void waits_from(struct task_struct *task, __u64 now)
{
	struct turn turn = { .runnable_since = now };
	__u32 tid = BPF_CORE_READ(task, pid);

	/* The idle thread never waits. */
	if (tid == 0 || (only_pid && (__u32)BPF_CORE_READ(task, tgid) != only_pid))
		return;
	/* Whoever is awake already goes on waiting, or running. */
	bpf_map_update_elem(&runnable, &tid, &turn, BPF_NOEXIST);
}

static __always_inline void count(__u64 waited_ns)
{
	__u64 rest = waited_ns / 1000;
	__u64 *slot;
	__u32 log2 = 0;

	for (__u32 shift = 16; shift; shift /= 2) {
		if (rest >> shift) {
			rest >>= shift;
			log2 += shift;
		}
	}
	slot = bpf_map_lookup_elem(&waits, &log2);
	if (slot)
		__sync_fetch_and_add(slot, 1);
}

/* `task` gets the CPU, which `prev` had. */
static __always_inline void runs_from(struct task_struct *task, struct task_struct *prev, __u64 now)
{
	__u32 tid = BPF_CORE_READ(task, pid);
	struct turn *turn = bpf_map_lookup_elem(&runnable, &tid);

	if (!turn)
		return;
	if (turn->running_since) {
		/* It left the CPU unseen, so nobody knows when it began to wait. */
		bpf_map_delete_elem(&runnable, &tid);
		return;
	}
	turn->running_since = now;
	turn->after_tid = BPF_CORE_READ(prev, pid);
	turn->after_pid = BPF_CORE_READ(prev, tgid);
	bpf_probe_read_kernel_str(turn->after_comm, sizeof(turn->after_comm), &prev->comm);
	count(now - turn->runnable_since);
}

/* `task`, which is the current one, leaves the CPU. */
static __always_inline void leaves(void *ctx, struct task_struct *task, __u64 now)
{
	__u32 tid = BPF_CORE_READ(task, pid);
	struct turn *turn = bpf_map_lookup_elem(&runnable, &tid);
	struct event event = {};

	if (!turn)
		return;
	if (turn->running_since) {
		event.waited_ns = turn->running_since - turn->runnable_since;
		if (event.waited_ns >= min_ns) {
			event.ran_ns = now - turn->running_since;
			event.after_tid = turn->after_tid;
			event.after_pid = turn->after_pid;
			__builtin_memcpy(event.after_comm, turn->after_comm, sizeof(event.after_comm));
			bpf_perf_event_output(ctx, &__bpf_stdout__, BPF_F_CURRENT_CPU, &event,
					      sizeof(event));
			__sync_fetch_and_add(&told, 1);
		} else {
			__sync_fetch_and_add(&passed_over, 1);
		}
	}
	bpf_map_delete_elem(&runnable, &tid);
}

/*
 * The arguments: whether it is preempted, the thread that leaves, the one that comes. This program
 * is the first in the object, hence attached first, lest a turn begin whose end is not seen.
 */
SEC("raw_tp/sched_switch")
int switches(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *prev = (struct task_struct *)ctx->args[1];
	struct task_struct *next = (struct task_struct *)ctx->args[2];
	__u64 now = bpf_ktime_get_ns();

	leaves(ctx, prev, now);
	if (ctx->args[0] || is_runnable(prev))
		waits_from(prev, now);
	runs_from(next, prev, now);
	return 0;
}

SEC("raw_tp/sched_wakeup")
int wakes(struct bpf_raw_tracepoint_args *ctx)
{
	waits_from((struct task_struct *)ctx->args[0], bpf_ktime_get_ns());
	return 0;
}

SEC("raw_tp/sched_wakeup_new")
int wakes_first(struct bpf_raw_tracepoint_args *ctx)
{
	waits_from((struct task_struct *)ctx->args[0], bpf_ktime_get_ns());
	return 0;
}

const char LICENSE[] SEC("license") = "Dual BSD/GPL";
