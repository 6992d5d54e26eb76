/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The types that our BPF programs need of the kernel, and no others.
 *
 * A structure lists only the fields that are read. `preserve_access_index` has clang write down each
 * access, and the loader puts in the running kernel's offsets (CO-RE), so that no kernel's BTF is
 * needed to build and one build serves all kernels.
 */
#ifndef BPFPERF_H
#define BPFPERF_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed int __s32;
typedef signed long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

/* include/uapi/linux/bpf.h, since Linux 4.17. */
struct bpf_raw_tracepoint_args {
	__u64 args[0];
};

/* include/uapi/linux/bpf.h, since Linux 5.7. */
struct bpf_pidns_info {
	__u32 pid;
	__u32 tgid;
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* include/linux/types.h. */
typedef struct {
	int counter;
} atomic_t;

/* include/linux/sched/signal.h; live counts the threads that have not ended. */
struct signal_struct {
	atomic_t live;
};

/* include/linux/sched.h; start_time is in nanoseconds since boot. */
struct task_struct {
	unsigned int __state;
	unsigned int flags;
	__s32 pid;
	__s32 tgid;
	__u64 start_time;
	struct signal_struct *signal;
	char comm[16];
};

#pragma clang attribute pop

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

/* Which bpfperf a program is of, as `bpftool prog show` and recordings tell; build.rs gives it. */
const char bpf_metadata_bpfperf_version[] SEC(".rodata") = BPFPERF_VERSION;

#endif /* BPFPERF_H */
