//! Formats of the kernel with raw data of real samples, and the lines that perf prints of them.

use super::*;

/// The line of an event of which `format` is the `format` file less what all events have.
#[track_caller]
fn check(format: &str, raw: &[u8], want: &str) {
    let text = format!(
        "name: it\nID: 7\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
         \n{format}"
    );
    let format = EventFormat::parse(&text, 8).unwrap();
    let program = Program::new(&format, 8);
    let strings = FxHashMap::from_iter([(0x40, b"a constant".to_vec())]);
    let function = |addr| (addr == 0x1010).then_some((Cow::Borrowed("do_it"), 0x10));
    let context = Context { strings: &strings, function };
    let mut out = Vec::new();
    program.print(Raw::new(raw, Endian::Little), &context, &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), want);
}

/// Raw data: the common fields, then `parts`.
fn raw(parts: &[&[u8]]) -> Vec<u8> {
    [&[7, 0, 0, 0, 1, 0, 0, 0], parts.concat().as_slice()].concat()
}

const SCHED_SWITCH: &str = r#"	field:char prev_comm[16];	offset:8;	size:16;	signed:0;
	field:pid_t prev_pid;	offset:24;	size:4;	signed:1;
	field:int prev_prio;	offset:28;	size:4;	signed:1;
	field:long prev_state;	offset:32;	size:8;	signed:1;
	field:char next_comm[16];	offset:40;	size:16;	signed:0;
	field:pid_t next_pid;	offset:56;	size:4;	signed:1;
	field:int next_prio;	offset:60;	size:4;	signed:1;

print fmt: "prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d next_prio=%d", REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) - 1)) ? __print_flags(REC->prev_state & ((((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) - 1), "|", { 0x00000001, "S" }, { 0x00000002, "D" }, { 0x00000004, "T" }, { 0x00000008, "t" }, { 0x00000010, "X" }, { 0x00000020, "Z" }, { 0x00000040, "P" }, { 0x00000080, "I" }) : "R", REC->prev_state & (((0x00000000 | 0x00000001 | 0x00000002 | 0x00000004 | 0x00000008 | 0x00000010 | 0x00000020 | 0x00000040) + 1) << 1) ? "+" : "", REC->next_comm, REC->next_pid, REC->next_prio
"#;

fn sched_switch(comm: &[u8; 16], state: u64) -> Vec<u8> {
    let pids = [8655_i32.to_le_bytes(), 120_i32.to_le_bytes()].concat();
    let next = [b"swapper/0\0\0\0\0\0\0\0".as_slice(), &[0; 4], &120_i32.to_le_bytes()].concat();
    raw(&[comm, &pids, &state.to_le_bytes(), &next])
}

#[test]
fn a_switch_is_told_with_the_state_of_the_task() {
    let line = |state| {
        format!(
            "prev_comm=work prev_pid=8655 prev_prio=120 prev_state={state} ==> \
             next_comm=swapper/0 next_pid=0 next_prio=120"
        )
    };
    let comm = b"work\0rest\0\0\0\0\0\0\0";
    check(SCHED_SWITCH, &sched_switch(comm, 1), &line("S"));
    check(SCHED_SWITCH, &sched_switch(comm, 0), &line("R"));
    check(SCHED_SWITCH, &sched_switch(comm, 0x100), &line("R+"));
    check(SCHED_SWITCH, &sched_switch(comm, 0x82), &line("D|I"));
}

#[test]
fn a_name_in_raw_data_stays_off_the_terminal() {
    check(
        SCHED_SWITCH,
        &sched_switch(b"a\nb\x1b[2J\xff\0\0\0\0\0\0\0\0", 0),
        "prev_comm=a\\nb\\x1b[2J\\xff prev_pid=8655 prev_prio=120 prev_state=R ==> \
         next_comm=swapper/0 next_pid=0 next_prio=120",
    );
}

#[test]
fn raw_data_that_ends_too_soon_reads_as_zeros() {
    check(
        SCHED_SWITCH,
        &sched_switch(b"work\0\0\0\0\0\0\0\0\0\0\0\0", 1)[..26],
        "prev_comm=work prev_pid=0 prev_prio=0 prev_state=R ==> next_comm= next_pid=0 next_prio=0",
    );
}

#[test]
fn a_system_call_is_told_with_its_arguments() {
    let format = r#"	field:int __syscall_nr;	offset:8;	size:4;	signed:1;
	field:unsigned int fd;	offset:16;	size:8;	signed:0;
	field:const char * buf;	offset:24;	size:8;	signed:0;
	field:size_t count;	offset:32;	size:8;	signed:0;

print fmt: "fd: 0x%08lx, buf: 0x%08lx, count: 0x%08lx", ((unsigned long)(REC->fd)), ((unsigned long)(REC->buf)), ((unsigned long)(REC->count))
"#;
    let words = [1, 1, 0x55c7_d841_c2a0, 0x15];
    let words: Vec<u8> = words.iter().flat_map(|it: &u64| it.to_le_bytes()).collect();
    let want = "fd: 0x00000001, buf: 0x55c7d841c2a0, count: 0x00000015";
    check(format, &raw(&[&words]), want);
}

#[test]
fn a_number_is_told_by_its_name_or_as_it_is() {
    let format = r#"	field:unsigned int vec;	offset:8;	size:4;	signed:0;

print fmt: "vec=%u [action=%s]", REC->vec, __print_symbolic(REC->vec, { 0, "HI" }, { 1, "TIMER" }, { NET_RX_SOFTIRQ, "NET_RX" }, { 9, "RCU" })
"#;
    check(format, &raw(&[&9_u32.to_le_bytes()]), "vec=9 [action=RCU]");
    check(format, &raw(&[&3_u32.to_le_bytes()]), "vec=3 [action=NET_RX]");
    check(format, &raw(&[&4_u32.to_le_bytes()]), "vec=4 [action=0x4]");
}

#[test]
fn a_string_lies_where_its_field_says() {
    let format = r#"	field:__data_loc char[] filename;	offset:8;	size:4;	signed:0;
	field:pid_t pid;	offset:12;	size:4;	signed:1;

print fmt: "filename=%s pid=%d", __get_str(filename), REC->pid
"#;
    let sample = |word: u32| raw(&[&word.to_le_bytes(), &42_i32.to_le_bytes(), b"./work\0\0"]);
    check(format, &sample(7 << 16 | 16), "filename=./work pid=42");
    check(format, &sample(0xffff << 16 | 16), "filename= pid=42");
    check(format, &sample(7 << 16 | 0xffff), "filename= pid=42");
    check(format, &sample(u32::MAX), "filename= pid=42");
}

#[test]
fn a_string_can_lie_behind_its_field() {
    let format = r#"	field:__rel_loc char[] name;	offset:8;	size:4;	signed:0;
	field:int x;	offset:12;	size:4;	signed:1;

print fmt: "%s", __get_rel_str(name)
"#;
    check(format, &raw(&[&(4_u32 << 16 | 4).to_le_bytes(), &[0; 4], b"abc\0"]), "abc");
}

#[test]
fn addresses_are_shown_as_what_they_point_to() {
    let format = r#"	field:void * function;	offset:8;	size:8;	signed:0;
	field:const char * why;	offset:16;	size:8;	signed:0;
	field:__u8 daddr[4];	offset:24;	size:4;	signed:0;

print fmt: "%ps %pS %p %s %pI4", REC->function, REC->function, REC->why, REC->why, REC->daddr
"#;
    let sample = |function: u64, why: u64| {
        raw(&[&function.to_le_bytes(), &why.to_le_bytes(), &[10, 0, 0, 1]])
    };
    check(format, &sample(0x1010, 0x40), "do_it do_it+0x10 0x40 a constant 10.0.0.1");
    check(format, &sample(0x2000, 0), "0x2000 0x2000 (nil) 0 10.0.0.1");
}

#[test]
fn arrays_and_masks_are_shown_element_by_element() {
    let format = r#"	field:__data_loc u32[] v;	offset:8;	size:4;	signed:0;
	field:__data_loc cpumask_t[] mask;	offset:12;	size:4;	signed:0;

print fmt: "%s %d %s %20s|%-8.3s|", __print_array(__get_dynamic_array(v), __get_dynamic_array_len(v) / 4, 4), ((u32 *)__get_dynamic_array(v))[1], __print_hex(__get_dynamic_array(v), 3), __get_bitmask(mask), __get_cpumask(mask)
"#;
    let words = [0x8_0010, 0x8_0018, 0x1f, 2, 0x8d, 0x80];
    let words: Vec<u8> = words.iter().flat_map(|it: &u32| it.to_le_bytes()).collect();
    check(format, &raw(&[&words]), "{0x1f,0x2} 2 1f 00 00    00000080,0000008d|0,2     |");
}

#[test]
fn what_is_not_understood_is_shown_field_by_field() {
    let format = r#"	field:char comm[4];	offset:8;	size:4;	signed:0;
	field:u8 key[2];	offset:12;	size:2;	signed:0;
	field:short level;	offset:14;	size:2;	signed:1;
	field:unsigned long addr;	offset:16;	size:8;	signed:0;

print fmt: "%s", secret_of_the_module(REC->addr)
"#;
    let sample = raw(&[b"ab\0\0", &[1, 0xfe], &(-3_i16).to_le_bytes(), &0x10_u64.to_le_bytes()]);
    let want = "[FAILED TO PARSE] comm=ab key=ARRAY[01, fe] level=-3 addr=0x10";
    check(format, &sample, want);
}

#[test]
fn no_conversion_takes_memory_as_a_file_pleases() {
    let format = r#"	field:int n;	offset:8;	size:4;	signed:1;

print fmt: "%999999999d", REC->n
"#;
    check(format, &raw(&[&5_i32.to_le_bytes()]), "[FAILED TO PARSE] n=5");
}

#[test]
fn nothing_nests_without_end() {
    let deep = "(".repeat(100_000);
    let format =
        format!("\tfield:int n;\toffset:8;\tsize:4;\tsigned:1;\n\nprint fmt: \"%d\", {deep}");
    check(&format, &raw(&[&5_i32.to_le_bytes()]), "[FAILED TO PARSE] n=5");
    let chain = "1 + ".repeat(100_000);
    let format =
        format!("\tfield:int n;\toffset:8;\tsize:4;\tsigned:1;\n\nprint fmt: \"%d\", {chain}1");
    check(&format, &raw(&[&5_i32.to_le_bytes()]), "[FAILED TO PARSE] n=5");
}

/// A number that looks random and is the same in each run.
struct Noise(u64);

impl Noise {
    fn below(&mut self, end: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % end
    }
}

#[test]
fn no_format_and_no_data_stop_the_printing() {
    let text = format!(
        "name: it\nID: 7\nformat:\n\
         \tfield:__data_loc char[] a;\toffset:8;\tsize:4;\tsigned:0;\n\
         \tfield:__data_loc cpumask_t[] m;\toffset:56;\tsize:4;\tsigned:0;\n\n{SCHED_SWITCH}, \
         __get_str(a), __get_bitmask(m), __get_cpumask(m), \
         __print_array(__get_dynamic_array(a), REC->prev_pid, REC->next_pid), \
         __print_hex(REC->prev_comm, REC->prev_state), REC->prev_comm[REC->prev_pid]"
    );
    let text = text.replace("next_prio=%d\"", "next_prio=%d %s %s %s %s %*.s %pISpc %pU\"");
    let mut noise = Noise(1);
    for _ in 0..1000 {
        let mut text = text.clone().into_bytes();
        for _ in 0..noise.below(4) {
            let at = noise.below(text.len());
            text[at] = b"%*0(),?:[]{}\"'-\n9"[noise.below(17)];
        }
        let Some(format) = EventFormat::parse(&String::from_utf8_lossy(&text), 8) else { continue };
        let program = Program::new(&format, 8);
        let raw: Vec<u8> =
            (0..noise.below(80)).map(|_| noise.below(256).to_le_bytes()[0]).collect();
        let strings = FxHashMap::default();
        let context = Context { strings: &strings, function: |_| None };
        let mut out = Vec::new();
        program.print(Raw::new(&raw, Endian::Little), &context, &mut out);
        assert!(out.len() < 100_000, "{} bytes", out.len());
    }
}
