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

typedef signed char __s8;
typedef unsigned char __u8;
typedef signed short __s16;
typedef unsigned short __u16;
typedef signed int __s32;
typedef unsigned int __u32;
typedef signed long long __s64;
typedef unsigned long long __u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

/* include/uapi/linux/bpf.h: the kinds of maps. */
enum bpf_map_type {
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_LRU_PERCPU_HASH = 10,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
};

/* include/uapi/linux/bpf.h: what to do with a map's entry, whose perf event to write to, which stack
 * to take, and whether to make a task's entry. */
enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
	BPF_F_NO_PREALLOC = 1,
	BPF_LOCAL_STORAGE_GET_F_CREATE = 1,
	BPF_F_USER_STACK = 1 << 8,
};
#define BPF_F_CURRENT_CPU 0xffffffffULL

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
struct sched_entity {
	__u64 sum_exec_runtime;
	__u64 prev_sum_exec_runtime;
};

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	int prio;
	struct sched_entity se;
	__s32 pid;
	__s32 tgid;
	__u64 start_time;
	struct signal_struct *signal;
	char comm[16];
};

#pragma clang attribute pop

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>

#ifdef BPFPERF_VERSION
/* Which bpfperf a program is of, as `bpftool prog show` and recordings tell; build.rs gives it. */
const char bpf_metadata_bpfperf_version[] SEC(".rodata") = BPFPERF_VERSION;
#endif

#endif /* BPFPERF_H */
