// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Time off the CPU: how long tasks did not run, where they stopped, in which state, and who woke them.
 *
 * Hooks: sched_switch notes the task that leaves a CPU, with its stacks, and settles the account of the
 * one that takes over; sched_waking notes who wakes; task_newtask and sched_process_exit keep the set
 * of watched processes. Each comes twice, as tp_btf and, for kernels that refuse these or know no
 * storage of tasks (before 5.11), as raw_tp, where fields cost a call each. The loader picks one kind.
 *
 * What takes at least threshold_ns becomes a message (struct off_cpu_message) at once; the rest is
 * summed by task, stacks, state and waker (struct off_cpu_key, struct off_cpu_sum), which the
 * loader reads, and takes out where there are many. At the end it asks for what still goes on (iter/task). Its twins of these structures are in src/bpf/off_cpu/message.rs.
 *
 * Maps: sleeps (or sleeps_by_tid) has what is known of each task that is off; stacks and
 * more_stacks the distinct stacks, the second those whose place in the first is taken; sums;
 * watched, watched_cpus and watched_cgroups whom it is about; output the events of the recorder.
 * What a full map costs is counted in .bss: nothing is lost silently.
 *
 * Cost: a switch of a task that is watched takes two walks of its stack and the look-ups of two stacks,
 * one sleep and one sum; one that is not, a look-up. Memory: some 45 MB of maps.
 */
#include <stdbool.h>
#include <stddef.h>

#include "bpfperf.h"

/* include/uapi/linux/bpf.h. */
enum {
	BPF_MAP_TYPE_CGROUP_ARRAY = 8,
	BPF_F_FAST_STACK_CMP = 1 << 9,
};

#define EEXIST 17

/* include/linux/sched.h: a kernel thread; the states that a task sleeps in, and the last of all. */
#define PF_KTHREAD 0x00200000
#define TASK_UNINTERRUPTIBLE 0x02
#define TASK_DEAD 0x80
#define TASK_REPORT 0xff
/* include/linux/sched/prio.h. */
#define MAX_RT_PRIO 100
/* include/uapi/linux/sched.h. */
#define CLONE_THREAD 0x10000
/* include/linux/preempt.h. */
#define SOFTIRQ_OFFSET 0x100
#define HARDIRQ_MASK 0xf0000
#define NMI_MASK 0xf00000

/* As many as perf_event_max_stack has by default; the loader lowers it where that is lower. */
#define MAX_FRAMES 127
/* Marks the number of a stack that is in more_stacks. */
#define MORE_STACKS (1 << 24)
/* The most cgroups that are watched at once. */
#define MAX_CGROUPS 16

/* What woke the task: a task, or an interrupt, whatever task it came upon; or it is not known which. */
enum {
	WOKEN_BY_ANY = 0,
	WOKEN_BY_TASK = 1,
	WOKEN_BY_HARDIRQ = 2,
	WOKEN_BY_SOFTIRQ = 3,
	WOKEN_BY_NMI = 4,
	NOT_WOKEN = 5,
};

/* Whom it is about. */
enum {
	WATCH_ALL = 0,
	WATCH_PROCESSES = 1,
	WATCH_THREADS = 2,
	WATCH_USER = 3,
};

const volatile __u32 watch = WATCH_ALL;
/* Of WATCH_USER. */
const volatile __u32 watched_uid = 0;
const volatile __u32 has_cpus = 0;
const volatile __u32 n_cgroups = 0;
/* Whether the kernel hands over the state of the task that leaves (since 5.18). */
const volatile __u32 has_prev_state = 0;
const volatile __u32 takes_kernel_stack = 1;
const volatile __u32 takes_user_stack = 1;
const volatile __u32 takes_cgroup = 0;
const volatile __u64 threshold_ns = 500000000;
/* Where the count of preemptions of a CPU lies, from its queue of tasks on; 0 for not there. */
const volatile __s64 preempt_count_at = 0;

/* Since when it is on, by bpf_ktime_get_ns(); 0 while it is off. */
__u64 on_since = 0;
/* Since when it was on last, on or off; 0 before it is turned on at all. */
__u64 last_on = 0;
/* Sleeps that no map had room for, and how long they were. */
__u64 n_unsummed = 0;
__u64 unsummed_ns = 0;
/* Sums that were begun. */
__u64 n_sums = 0;
/* Sleeps that were not noted, since there was no storage for the task. */
__u64 n_unnoted = 0;
/* Sleeps of which it was not seen that they ended. */
__u64 n_unseen = 0;
/* Stacks that no map had room for; stacks that could not be walked have none, and are not meant. */
__u64 n_stackless = 0;
/* Processes that are not followed, since there are too many. */
__u64 n_unfollowed = 0;

/* What is known of a task that is off the CPU. */
struct sleep {
	__u64 since;
	/* When it was woken, or 0. */
	__u64 woken;
	__u64 cgroup;
	__s32 kernel_stack;
	__s32 user_stack;
	__u32 state;
	__u32 woken_by;
	__u32 waker_tgid;
	__u32 waker_tid;
	char waker_comm[16];
};

/* By what short sleeps are summed. */
struct off_cpu_key {
	__u32 tgid;
	__u32 tid;
	__s32 kernel_stack;
	__s32 user_stack;
	__u32 state;
	__u32 woken_by;
	__u32 waker_tgid;
	__u32 waker_tid;
	__u64 cgroup;
};

/* What they come to. */
struct off_cpu_sum {
	__u64 off_ns;
	/* Of that, from the wake-up to the CPU. */
	__u64 runnable_ns;
	__u64 n;
	/* Where it came back last. */
	__u32 cpu;
	__u32 zero;
	char waker_comm[16];
};

/* A long one; one of no task says what time it is. */
struct off_cpu_message {
	struct off_cpu_key key;
	struct off_cpu_sum sum;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct sleep);
} sleeps SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, struct sleep);
	__uint(max_entries, 32768);
} sleeps_by_tid SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, MAX_FRAMES * sizeof(__u64));
	__uint(max_entries, 16384);
} stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_STACK_TRACE);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, MAX_FRAMES * sizeof(__u64));
	__uint(max_entries, 16384);
} more_stacks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, struct off_cpu_key);
	__type(value, struct off_cpu_sum);
	__uint(max_entries, 65536);
} sums SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u8);
	__uint(max_entries, 32768);
} watched SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__type(key, __u32);
	__type(value, __u8);
	__uint(max_entries, 8192);
} watched_cpus SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_CGROUP_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
	__uint(max_entries, MAX_CGROUPS);
} watched_cgroups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
	__uint(max_entries, 0);
} output SEC(".maps");

/* How programs of one kind get at what they need: both are constants wherever they are inlined. */
enum kind { BY_BTF, RAW };

#define FIELD(kind, task, field) \
	((kind) == BY_BTF ? (task)->field : BPF_CORE_READ(task, field))

/* Before 5.14 the state had another name. */
struct task_struct___old {
	long state;
} __attribute__((preserve_access_index));

/* arch/arm64/include/asm/thread_info.h. */
struct thread_info___arm64 {
	struct {
		__u32 count;
	} preempt;
} __attribute__((preserve_access_index));

struct task_struct___arm64 {
	struct thread_info___arm64 thread_info;
} __attribute__((preserve_access_index));

/* kernel/sched/sched.h. */
struct rq {
	int cpu;
} __attribute__((preserve_access_index));

struct cfs_rq {
	struct rq *rq;
} __attribute__((preserve_access_index));

struct task_struct___fair {
	struct {
		struct cfs_rq *cfs_rq;
	} se;
} __attribute__((preserve_access_index));

/*
 * Upon what the current CPU runs.
 *
 * The count that tells it is a variable of each CPU on x86, which a program may name only where
 * kallsyms lists variables. So it is found by its distance from another one: the queue of tasks, to which the
 * current task leads.
 */
static __always_inline __u32 context(enum kind kind)
{
	struct task_struct___fair *task;
	struct task_struct___arm64 *arm64;
	struct rq *rq;
	__u32 count = 0;

	task = kind == BY_BTF ? (void *)bpf_get_current_task_btf() : (void *)bpf_get_current_task();
	arm64 = (void *)task;
	if (preempt_count_at) {
		if (!bpf_core_field_exists(task->se.cfs_rq))
			return WOKEN_BY_ANY;
		rq = kind == BY_BTF ? task->se.cfs_rq->rq : BPF_CORE_READ(task, se.cfs_rq, rq);
		if ((__u32)FIELD(kind, rq, cpu) != bpf_get_smp_processor_id())
			return WOKEN_BY_ANY;
		if (bpf_probe_read_kernel(&count, sizeof(count), (void *)rq + preempt_count_at))
			return WOKEN_BY_ANY;
	} else if (bpf_core_field_exists(arm64->thread_info.preempt.count)) {
		count = BPF_CORE_READ(arm64, thread_info.preempt.count);
	} else {
		return WOKEN_BY_ANY;
	}
	if (count & NMI_MASK)
		return WOKEN_BY_NMI;
	if (count & HARDIRQ_MASK)
		return WOKEN_BY_HARDIRQ;
	if (count & SOFTIRQ_OFFSET)
		return WOKEN_BY_SOFTIRQ;
	return WOKEN_BY_TASK;
}

/* What is known of a task, if there is something. */
static __always_inline struct sleep *find(enum kind kind, struct task_struct *task)
{
	__u32 tid;

	if (kind == BY_BTF)
		return bpf_task_storage_get(&sleeps, task, NULL, 0);
	tid = FIELD(kind, task, pid);
	return bpf_map_lookup_elem(&sleeps_by_tid, &tid);
}

static __always_inline struct sleep *find_or_make(enum kind kind, struct task_struct *task)
{
	static const struct sleep none;
	struct sleep *sleep = find(kind, task);
	__u32 tid;

	if (sleep)
		return sleep;
	if (kind == BY_BTF)
		return bpf_task_storage_get(&sleeps, task, NULL, BPF_LOCAL_STORAGE_GET_F_CREATE);
	tid = FIELD(kind, task, pid);
	bpf_map_update_elem(&sleeps_by_tid, &tid, &none, BPF_NOEXIST);
	return bpf_map_lookup_elem(&sleeps_by_tid, &tid);
}

/* The number of the current task's stack, or an errno. */
static __always_inline __s32 stack(void *ctx, __u64 flags)
{
	__s32 id = bpf_get_stackid(ctx, &stacks, flags);

	if (id != -EEXIST)
		return id;
	id = bpf_get_stackid(ctx, &more_stacks, flags);
	if (0 <= id)
		return id | MORE_STACKS;
	if (id == -EEXIST)
		__sync_fetch_and_add(&n_stackless, 1);
	return id;
}

/* Whether the current task, which leaves, is watched. */
static __always_inline bool is_watched(enum kind kind, struct task_struct *task)
{
	__u32 id;

	if (watch == WATCH_PROCESSES || watch == WATCH_THREADS) {
		id = watch == WATCH_PROCESSES ? FIELD(kind, task, tgid) : FIELD(kind, task, pid);
		if (!bpf_map_lookup_elem(&watched, &id))
			return false;
	} else if (FIELD(kind, task, flags) & PF_KTHREAD) {
		/* They sleep for want of work, unless somebody names them. */
		return false;
	}
	if (watch == WATCH_USER && (__u32)bpf_get_current_uid_gid() != watched_uid)
		return false;
	if (has_cpus) {
		id = bpf_get_smp_processor_id();
		if (!bpf_map_lookup_elem(&watched_cpus, &id))
			return false;
	}
	if (n_cgroups) {
		for (id = 0; id < MAX_CGROUPS && id < n_cgroups; id++)
			if (bpf_current_task_under_cgroup(&watched_cgroups, id) == 1)
				return true;
		return false;
	}
	return true;
}

/* The state in which a task leaves, as /proc tells it: 0 for one that could go on. */
static __always_inline __u32 state_of(bool is_preempted, __u64 state)
{
	/* Preempted on the way to sleep: it comes back by itself. */
	if (is_preempted || !state)
		return 0;
	/* Waits for a lock of a real-time kernel, or is frozen: include/linux/sched.h. */
	return state & TASK_REPORT ? state & TASK_REPORT : TASK_UNINTERRUPTIBLE;
}

/* The account of a sleep that lasts until now, as far as it was on meanwhile. */
static __always_inline void settle(struct off_cpu_message *message, struct sleep *sleep, __u32 tgid,
				   __u32 tid, __u64 now)
{
	__u64 since = sleep->since < last_on ? last_on : sleep->since;
	__u64 woken = sleep->woken < since ? since : sleep->woken;

	message->key.tgid = tgid;
	message->key.tid = tid;
	message->key.kernel_stack = sleep->kernel_stack;
	message->key.user_stack = sleep->user_stack;
	message->key.state = sleep->state;
	message->key.woken_by = sleep->woken_by;
	message->key.waker_tgid = sleep->waker_tgid;
	message->key.waker_tid = sleep->waker_tid;
	message->key.cgroup = sleep->cgroup;
	message->sum.off_ns = now - since;
	if (!sleep->state)
		message->sum.runnable_ns = message->sum.off_ns;
	else if (sleep->woken)
		message->sum.runnable_ns = now - woken;
	message->sum.n = 1;
	message->sum.cpu = bpf_get_smp_processor_id();
	__builtin_memcpy(message->sum.waker_comm, sleep->waker_comm, sizeof(sleep->waker_comm));
}

/* Sends a long one; sums a short one, and one that finds no room there. */
static __always_inline void tell(void *ctx, struct off_cpu_message *message)
{
	struct off_cpu_sum *sum;

	if (threshold_ns <= message->sum.off_ns &&
	    !bpf_perf_event_output(ctx, &output, BPF_F_CURRENT_CPU, message, sizeof(*message)))
		return;
	sum = bpf_map_lookup_elem(&sums, &message->key);
	if (sum) {
		/* One task is on one CPU: nobody else adds. */
		sum->off_ns += message->sum.off_ns;
		sum->runnable_ns += message->sum.runnable_ns;
		sum->n++;
		sum->cpu = message->sum.cpu;
	} else if (!bpf_map_update_elem(&sums, &message->key, &message->sum, BPF_NOEXIST)) {
		__sync_fetch_and_add(&n_sums, 1);
	} else {
		__sync_fetch_and_add(&n_unsummed, 1);
		__sync_fetch_and_add(&unsummed_ns, message->sum.off_ns);
	}
}

/*
 * When the current task came back to the CPU, by how long it ran since, which the class of ordinary tasks
 * notes at each switch and each tick; 0 where its class does not.
 */
static __always_inline __u64 came_back(enum kind kind, struct task_struct *task, __u64 now)
{
	__u64 ran;

	if (FIELD(kind, task, prio) < MAX_RT_PRIO)
		return 0;
	ran = FIELD(kind, task, se.sum_exec_runtime) - FIELD(kind, task, se.prev_sum_exec_runtime);
	return ran < now ? now - ran : 0;
}

/*
 * Settles a sleep of the current task, which runs though nobody saw it come back: a kernel can hide the
 * switches of some tasks from all who trace, with them that to the next, and wake-ups in interrupts
 * that came upon them.
 */
static __always_inline void end_unseen(enum kind kind, void *ctx, struct task_struct *task,
				       struct sleep *sleep, __u64 now)
{
	struct off_cpu_message message = {};
	__u64 end;

	if (!sleep->since)
		return;
	__sync_fetch_and_add(&n_unseen, 1);
	end = came_back(kind, task, now);
	if (end < sleep->woken)
		end = sleep->woken;
	if (sleep->since < end && last_on < end) {
		settle(&message, sleep, FIELD(kind, task, tgid), FIELD(kind, task, pid), end);
		tell(ctx, &message);
	}
	sleep->since = 0;
}

static __always_inline void leave(enum kind kind, void *ctx, struct task_struct *task, __u32 state,
				  __u64 now)
{
	struct sleep *sleep;

	if (!FIELD(kind, task, pid) || state & TASK_DEAD || !is_watched(kind, task))
		return;
	sleep = find_or_make(kind, task);
	if (!sleep) {
		__sync_fetch_and_add(&n_unnoted, 1);
		return;
	}
	end_unseen(kind, ctx, task, sleep, now);
	sleep->kernel_stack = sleep->user_stack = -1;
	if (takes_kernel_stack)
		sleep->kernel_stack = stack(ctx, BPF_F_FAST_STACK_CMP);
	if (takes_user_stack)
		sleep->user_stack = stack(ctx, BPF_F_FAST_STACK_CMP | BPF_F_USER_STACK);
	if (takes_cgroup)
		sleep->cgroup = bpf_get_current_cgroup_id();
	sleep->state = state;
	sleep->woken = 0;
	sleep->woken_by = 0;
	sleep->waker_tgid = sleep->waker_tid = 0;
	__builtin_memset(sleep->waker_comm, 0, sizeof(sleep->waker_comm));
	sleep->since = now;
}

static __always_inline void take_over(enum kind kind, void *ctx, struct task_struct *task, __u64 now)
{
	struct off_cpu_message message = {};
	struct sleep *sleep = find(kind, task);

	if (!sleep || !sleep->since)
		return;
	settle(&message, sleep, FIELD(kind, task, tgid), FIELD(kind, task, pid), now);
	sleep->since = 0;
	tell(ctx, &message);
}

static __always_inline int on_switch(enum kind kind, void *ctx, bool is_preempted,
				     struct task_struct *prev, struct task_struct *next, __u64 state)
{
	struct sleep *sleep;
	__u64 now;

	if (!on_since) {
		/* Who has left while it was on may have left for longer than it is off. */
		sleep = last_on ? find(kind, next) : NULL;
		if (sleep)
			sleep->since = 0;
		return 0;
	}
	now = bpf_ktime_get_ns();
	leave(kind, ctx, prev, state_of(is_preempted, state), now);
	take_over(kind, ctx, next, now);
	return 0;
}

static __always_inline int on_waking(enum kind kind, struct task_struct *task)
{
	struct sleep *sleep;
	__u64 waker;

	if (!on_since)
		return 0;
	sleep = find(kind, task);
	/* Whoever could go on is not woken, but may be about to sleep since, if nobody saw it come back. */
	if (!sleep || !sleep->since || !sleep->state)
		return 0;
	sleep->woken = bpf_ktime_get_ns();
	sleep->woken_by = context(kind);
	if (WOKEN_BY_TASK < sleep->woken_by)
		return 0;
	waker = bpf_get_current_pid_tgid();
	sleep->waker_tgid = waker >> 32;
	sleep->waker_tid = (__u32)waker;
	bpf_get_current_comm(sleep->waker_comm, sizeof(sleep->waker_comm));
	return 0;
}

static __always_inline int on_newtask(enum kind kind, struct task_struct *task, __u64 flags)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	__u8 yes = 1;

	if (flags & CLONE_THREAD || !bpf_map_lookup_elem(&watched, &tgid))
		return 0;
	tgid = FIELD(kind, task, tgid);
	if (bpf_map_update_elem(&watched, &tgid, &yes, BPF_ANY))
		__sync_fetch_and_add(&n_unfollowed, 1);
	return 0;
}

static __always_inline int on_exit(enum kind kind, void *ctx, struct task_struct *task)
{
	struct sleep *sleep = on_since ? find(kind, task) : NULL;
	__u32 id;

	if (sleep)
		end_unseen(kind, ctx, task, sleep, bpf_ktime_get_ns());
	if (kind == RAW) {
		id = FIELD(kind, task, pid);
		bpf_map_delete_elem(&sleeps_by_tid, &id);
	}
	/* Its number may be another's soon. */
	if (watch == WATCH_THREADS) {
		id = FIELD(kind, task, pid);
		bpf_map_delete_elem(&watched, &id);
	}
	if (watch == WATCH_PROCESSES && !BPF_CORE_READ(task, signal, live.counter)) {
		id = FIELD(kind, task, tgid);
		bpf_map_delete_elem(&watched, &id);
	}
	return 0;
}

static __always_inline __u64 prev_state(enum kind kind, struct task_struct *prev)
{
	struct task_struct___old *old = (void *)prev;

	if (bpf_core_field_exists(prev->__state))
		return FIELD(kind, prev, __state);
	return FIELD(kind, old, state);
}

SEC("tp_btf/sched_switch")
int off_cpu_switch(__u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1];
	__u64 state = has_prev_state ? (__u32)ctx[3] : prev_state(BY_BTF, prev);

	return on_switch(BY_BTF, ctx, ctx[0], prev, (void *)ctx[2], state);
}

SEC("tp_btf/sched_waking")
int off_cpu_waking(__u64 *ctx)
{
	return on_waking(BY_BTF, (void *)ctx[0]);
}

SEC("tp_btf/task_newtask")
int off_cpu_newtask(__u64 *ctx)
{
	return on_newtask(BY_BTF, (void *)ctx[0], ctx[1]);
}

SEC("tp_btf/sched_process_exit")
int off_cpu_exit(__u64 *ctx)
{
	return on_exit(BY_BTF, ctx, (void *)ctx[0]);
}

/* include/linux/bpf.h. */
struct bpf_iter_meta {
	struct seq_file *seq;
} __attribute__((preserve_access_index));

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} __attribute__((preserve_access_index));

/* Writes a message of each task that is off the CPU, as of the moment. */
SEC("iter/task")
int off_cpu_asleep(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct off_cpu_message message = {};
	struct sleep *sleep;
	__u64 now = bpf_ktime_get_ns();

	if (!task)
		return 0;
	sleep = find(BY_BTF, task);
	if (!sleep || !sleep->since || now < sleep->since || now < last_on)
		return 0;
	settle(&message, sleep, task->tgid, task->pid, now);
	if (sleep->state && !sleep->woken)
		message.key.woken_by = NOT_WOKEN;
	/* What follows is told by whoever asks next. */
	sleep->since = now;
	bpf_seq_write(ctx->meta->seq, &message, sizeof(message));
	return 0;
}

/* Sends a message of no task. Run by the loader (BPF_PROG_TEST_RUN), and attached nowhere. */
SEC("raw_tp")
int off_cpu_mark(struct bpf_raw_tracepoint_args *ctx)
{
	struct off_cpu_message message = {};

	return bpf_perf_event_output(ctx, &output, BPF_F_CURRENT_CPU, &message, sizeof(message));
}

SEC("raw_tp/sched_switch")
int off_cpu_switch_raw(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *prev = (void *)ctx->args[1];
	__u64 state = has_prev_state ? (__u32)ctx->args[3] : prev_state(RAW, prev);

	return on_switch(RAW, ctx, ctx->args[0], prev, (void *)ctx->args[2], state);
}

SEC("raw_tp/sched_waking")
int off_cpu_waking_raw(struct bpf_raw_tracepoint_args *ctx)
{
	return on_waking(RAW, (void *)ctx->args[0]);
}

SEC("raw_tp/task_newtask")
int off_cpu_newtask_raw(struct bpf_raw_tracepoint_args *ctx)
{
	return on_newtask(RAW, (void *)ctx->args[0], ctx->args[1]);
}

SEC("raw_tp/sched_process_exit")
int off_cpu_exit_raw(struct bpf_raw_tracepoint_args *ctx)
{
	return on_exit(RAW, ctx, (void *)ctx->args[0]);
}

const char LICENSE[] SEC("license") = "Dual BSD/GPL";
