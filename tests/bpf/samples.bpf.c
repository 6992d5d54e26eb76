// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Sends a sample of each call of one system call, by each way that there is.
 *
 * Hook:   raw_tp/sys_enter (Linux 4.17).
 * Maps:   __bpf_stdout__  struct call, by its name alone
 *         declared        struct call, declared as the type of its values
 *         messages        struct call; a ring buffer (Linux 5.8)
 *         by_parity       whether the first argument is odd -> calls; an array
 *         by_cpu          calls; an array per CPU
 *         by_argument     first argument -> calls; a hash
 * Cost:   all of them, for each such call.
 */
#include "bpfperf.h"

/* The system call: getppid(2), by its number on x86_64. */
const volatile __u64 syscall_nr = 110;

enum parity { EVEN, ODD };

struct call {
	__u64 nth;
	__u32 pid;
	enum parity parity;
	char comm[16];
	struct {
		__s32 first;
		__u8 rest[3];
	} args;
};

#ifdef UNTYPED
/* No struct is called as an event is, and no map is declared with a type. */
#define event untyped
#define TYPE_OF_VALUE __uint(value_size, 4)
#define TYPE_OF_MESSAGE
#else
#define TYPE_OF_VALUE __type(value, struct call)
#define TYPE_OF_MESSAGE __type(value, struct call);
#endif

struct event {
	__u64 nth;
	__u32 pid;
	enum parity parity;
	char comm[16];
	struct {
		__s32 first;
		__u8 rest[3];
	} args;
};

/* Nothing reads this: it has the type written to the object's BTF. */
const struct event *event_type __attribute__((unused));

__u64 n_calls;
struct {
	__s32 lowest;
	char last_comm[16];
} seen = { .lowest = -7 };

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} __bpf_stdout__ SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__type(key, __u32);
	TYPE_OF_VALUE;
} declared SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 * 1024);
	TYPE_OF_MESSAGE
} messages SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2);
	__type(key, __u32);
	__type(value, __u64);
} by_parity SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} by_cpu SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, __u64);
} by_argument SEC(".maps");

static __always_inline void count(void *map, __u32 key)
{
	__u64 one = 1;
	__u64 *n = bpf_map_lookup_elem(map, &key);

	if (n)
		__sync_fetch_and_add(n, 1);
	else
		bpf_map_update_elem(map, &key, &one, BPF_NOEXIST);
}

SEC("raw_tp/sys_enter")
int calls(struct bpf_raw_tracepoint_args *ctx)
{
	struct call call = {};
	__u64 first;

	if (ctx->args[1] != syscall_nr)
		return 0;
	/* The registers of the call: the first argument is in rdi, 14 words from the start. */
	if (bpf_probe_read_kernel(&first, sizeof(first), (void *)ctx->args[0] + 14 * 8))
		return 0;
	call.nth = __sync_fetch_and_add(&n_calls, 1);
	call.pid = bpf_get_current_pid_tgid() >> 32;
	call.parity = first & 1 ? ODD : EVEN;
	bpf_get_current_comm(call.comm, sizeof(call.comm));
	__builtin_memcpy(seen.last_comm, call.comm, sizeof(call.comm));
	call.args.first = first;
	call.args.rest[0] = 1;
	call.args.rest[2] = 255;
	bpf_perf_event_output(ctx, &__bpf_stdout__, BPF_F_CURRENT_CPU, &call, sizeof(call));
	bpf_perf_event_output(ctx, &declared, BPF_F_CURRENT_CPU, &call, sizeof(call));
	bpf_ringbuf_output(&messages, &call, sizeof(call), 0);
	count(&by_parity, first & 1);
	count(&by_cpu, 0);
	count(&by_argument, first);
	return 0;
}

const char LICENSE[] SEC("license") = "Dual BSD/GPL";
