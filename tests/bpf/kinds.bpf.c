// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * One program of each kind that needs neither kprobes nor BPF trampolines, each of which keeps the
 * samples of one process.
 *
 * Hook:   perf_event; uprobe, by default on getppid(3); tracepoint syscalls:sys_enter_getppid;
 *         raw_tp/sys_enter, of getppid(2) alone (Linux 4.17).
 * Maps:   none but the globals: what each program kept and dropped.
 * Cost:   one look at the process and one count each.
 */
#include "bpfperf.h"

/* What `uprobe/` names: PATH:FUNCTION. */
#ifndef UPROBE_AT
#define UPROBE_AT "libc.so.6:getppid"
#endif

/* The process whose samples are kept; 0 is every process. */
const volatile __u32 only_pid = 0;
/* The system call that on_raw looks at: getppid(2), by its number on x86_64. */
const volatile __u64 syscall_nr = 110;

__u64 clock_kept;
__u64 clock_dropped;
__u64 function_kept;
__u64 function_dropped;
__u64 call_kept;
__u64 call_dropped;
__u64 raw_kept;
__u64 raw_dropped;

static __always_inline int verdict(__u64 *kept, __u64 *dropped)
{
	__u32 pid = bpf_get_current_pid_tgid() >> 32;

	if (only_pid && pid != only_pid) {
		__sync_fetch_and_add(dropped, 1);
		return 0;
	}
	__sync_fetch_and_add(kept, 1);
	return 1;
}

SEC("perf_event")
int on_clock(void *ctx)
{
	return verdict(&clock_kept, &clock_dropped);
}

SEC("uprobe/" UPROBE_AT)
int on_function(void *ctx)
{
	return verdict(&function_kept, &function_dropped);
}

SEC("tracepoint/syscalls/sys_enter_getppid")
int on_call(void *ctx)
{
	return verdict(&call_kept, &call_dropped);
}

SEC("raw_tp/sys_enter")
int on_raw(struct bpf_raw_tracepoint_args *ctx)
{
	if (ctx->args[1] != syscall_nr)
		return 0;
	return verdict(&raw_kept, &raw_dropped);
}

const char LICENSE[] SEC("license") = "Dual BSD/GPL";
