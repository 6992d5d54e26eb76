// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Programs on the entry and the return of a kernel function, which need CONFIG_KPROBES.
 *
 * Hook:   kprobe and kretprobe on do_nanosleep.
 * Maps:   none.
 * Cost:   nothing but the probes'.
 */
#include "bpfperf.h"

const volatile __u32 only_pid = 0;

SEC("kprobe/do_nanosleep")
int on_sleep(void *ctx)
{
	return !only_pid || bpf_get_current_pid_tgid() >> 32 == only_pid;
}

SEC("kretprobe/do_nanosleep")
int on_slept(void *ctx)
{
	return !only_pid || bpf_get_current_pid_tgid() >> 32 == only_pid;
}

const char LICENSE[] SEC("license") = "Dual BSD/GPL";
