//! What samples are to hold, and which other records are to come.

use crate::events::registers;
use crate::events::registers::UnknownName;
use crate::perfdata::AttrFlags;
use crate::perfdata::ReadFormat;
use crate::perfdata::SampleType;
use crate::record::Contents;

use super::message::Failure;

/// What was typed.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag on the command line")]
#[derive(Debug, Default, clap::Args)]
pub(super) struct SampleOptions {
    /// Record data addresses and where the data came from, and what data is mapped.
    #[arg(short = 'd', long)]
    data: bool,
    /// Record physical data addresses.
    #[arg(long)]
    phys_data: bool,
    /// Record the page size of data addresses.
    #[arg(long)]
    data_page_size: bool,
    /// Record the page size of code addresses.
    #[arg(long)]
    code_page_size: bool,
    /// Record where the data came from.
    #[arg(long)]
    sample_mem_info: bool,
    /// Record the weight that the hardware gives.
    #[arg(short = 'W', long)]
    weight: bool,
    /// Record the period of each sample, also where it is always the same.
    #[arg(short = 'P', long)]
    period: bool,
    /// Record what the hardware says of transactions.
    #[arg(long)]
    transaction: bool,
    /// Record what each event notes in raw form, also of events that are no tracepoints.
    #[arg(short = 'R', long)]
    raw_samples: bool,
    /// Sample user space alone, whatever the events say.
    #[arg(long, conflicts_with = "all_kernel")]
    all_user: bool,
    /// Sample the kernel alone, whatever the events say.
    #[arg(long)]
    all_kernel: bool,
    /// Record what `perf report --latency` needs: when tasks come to a CPU and leave it.
    #[arg(long)]
    pub(super) latency: bool,
    /// Record each task's own count at its end.
    #[arg(short = 's', long)]
    stat: bool,
    /// Record the branches before each sample.
    #[arg(short = 'b', long)]
    branch_any: bool,
    /// Record branches of these kinds, such as `any_call,u`.
    #[arg(short = 'j', long, value_name = "KINDS", conflicts_with = "branch_any")]
    branch_filter: Option<String>,
    /// Record these registers at the interrupt, or all.
    #[arg(
        short = 'I',
        long,
        value_name = "REGISTERS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    intr_regs: Option<String>,
    /// Record these registers of user space, or all.
    #[arg(
        long,
        value_name = "REGISTERS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = ""
    )]
    user_regs: Option<String>,
    /// Record the CPU of each sample.
    #[arg(long)]
    sample_cpu: bool,
    /// Put the event's id where it is the same for all events.
    #[arg(long)]
    sample_identifier: bool,
    /// Record what data is mapped.
    #[arg(long)]
    data_mmap: bool,
    /// Record the namespaces of tasks.
    #[arg(long)]
    namespaces: bool,
    /// Record when tasks come to a CPU and leave it.
    #[arg(long)]
    switch_events: bool,
    /// Record the cgroup of each sample, and the paths of all cgroups.
    #[arg(long)]
    all_cgroups: bool,
    /// Read how long events were enabled and counted with their values.
    #[arg(long)]
    running_time: bool,
}

impl SampleOptions {
    /// What is meant by them.
    pub(super) fn contents(&self) -> Result<Contents, Failure> {
        let mut contents = Contents::default();
        let fields = [
            (self.data, SampleType::ADDR | SampleType::DATA_SRC),
            (self.phys_data, SampleType::PHYS_ADDR),
            (self.data_page_size, SampleType::DATA_PAGE_SIZE),
            (self.code_page_size, SampleType::CODE_PAGE_SIZE),
            (self.sample_mem_info, SampleType::DATA_SRC),
            (self.weight, SampleType::WEIGHT_STRUCT),
            (self.transaction, SampleType::TRANSACTION),
            (self.raw_samples, SampleType::RAW | SampleType::CPU),
            (self.period, SampleType::PERIOD),
            (self.sample_cpu, SampleType::CPU),
            (self.sample_identifier, SampleType::IDENTIFIER),
            (self.all_cgroups, SampleType::CGROUP),
        ];
        for (_, field) in fields.into_iter().filter(|it| it.0) {
            contents.fields |= field;
        }
        let records = [
            (self.data || self.data_mmap, AttrFlags::MMAP_DATA),
            (self.namespaces, AttrFlags::NAMESPACES),
            (self.switch_events || self.latency, AttrFlags::CONTEXT_SWITCH),
            (self.all_cgroups, AttrFlags::CGROUP),
        ];
        for (_, record) in records.into_iter().filter(|it| it.0) {
            contents.of_tasks |= record;
        }
        if self.running_time || self.stat {
            contents.reads |= ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
        }
        contents.counts_tasks = self.stat;
        contents.no_samples.set(AttrFlags::EXCLUDE_KERNEL, self.all_user);
        contents.no_samples.set(AttrFlags::EXCLUDE_USER, self.all_kernel);
        let branches = match &self.branch_filter {
            Some(kinds) => Some(registers::branches(kinds).map_err(|it| unknown(&it))?),
            None => self.branch_any.then_some(registers::ANY_BRANCH),
        };
        if let Some(branches) = branches {
            contents.fields |= SampleType::BRANCH_STACK;
            contents.branches = branches;
        }
        if let Some(list) = &self.intr_regs {
            contents.fields |= SampleType::REGS_INTR;
            contents.registers = mask(list)?;
        }
        if let Some(list) = &self.user_regs {
            contents.fields |= SampleType::REGS_USER;
            contents.user_registers = mask(list)?;
        }
        Ok(contents)
    }
}

/// The registers of a list, or all.
fn mask(list: &str) -> Result<u64, Failure> {
    match list {
        "" => Ok(registers::all_registers()),
        _ => registers::registers(list).map_err(|it| unknown(&it)),
    }
}

fn unknown(error: &UnknownName) -> Failure {
    let known = error.known.join(" ");
    Failure::new(error.to_string()).hint(format!("there are: {known}"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: SampleOptions,
        #[arg(trailing_var_arg = true)]
        command: Vec<String>,
    }

    #[track_caller]
    fn parsed(line: &str) -> Contents {
        let words = std::iter::once("record").chain(line.split_ascii_whitespace());
        Line::try_parse_from(words).unwrap().options.contents().unwrap()
    }

    #[track_caller]
    fn check_fields(line: &str, want: SampleType) {
        assert_eq!(parsed(line), Contents { fields: want, ..Contents::default() }, "{line}");
    }

    #[test]
    fn each_field_has_its_option() {
        check_fields("--phys-data", SampleType::PHYS_ADDR);
        check_fields("--data-page-size", SampleType::DATA_PAGE_SIZE);
        check_fields("--code-page-size", SampleType::CODE_PAGE_SIZE);
        check_fields("-W --sample-cpu", SampleType::WEIGHT_STRUCT | SampleType::CPU);
        check_fields("-R", SampleType::RAW | SampleType::CPU);
        check_fields("--transaction", SampleType::TRANSACTION);
        check_fields("-P --sample-identifier", SampleType::PERIOD | SampleType::IDENTIFIER);
        check_fields("ls -d", SampleType::empty());
    }

    #[test]
    fn data_addresses_come_with_the_data_that_is_mapped() {
        let contents = parsed("-d");
        assert_eq!(contents.fields, SampleType::ADDR | SampleType::DATA_SRC);
        assert_eq!(contents.of_tasks, AttrFlags::MMAP_DATA);
    }

    #[test]
    fn further_records_of_tasks_have_options() {
        let side = AttrFlags::NAMESPACES | AttrFlags::CONTEXT_SWITCH | AttrFlags::CGROUP;
        let contents = parsed("--namespaces --switch-events --all-cgroups");
        assert_eq!((contents.of_tasks, contents.fields), (side, SampleType::CGROUP));
    }

    #[test]
    fn counts_come_with_their_times() {
        let times = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
        assert_eq!(parsed("--running-time").reads, times);
        assert_eq!((parsed("-s").reads, parsed("-s").counts_tasks), (times, true));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn registers_are_all_or_those_of_a_list() {
        assert_eq!(parsed("-I ls").registers, 0xff_0fff);
        assert_eq!(parsed("-I=ax,ip ls").registers, 0x101);
        assert_eq!(parsed("--user-regs=ax ls").user_registers, 1);
        let options = SampleOptions { user_regs: Some("?".to_owned()), ..SampleOptions::default() };
        assert_eq!(
            options.contents().unwrap_err().to_string(),
            "error: no register is called `?`\nhint: there are: AX BX CX DX SI DI BP SP IP FLAGS \
             CS SS R8 R9 R10 R11 R12 R13 R14 R15"
        );
    }

    #[test]
    fn one_side_can_be_sampled_alone() {
        assert_eq!(parsed("--all-user").no_samples, AttrFlags::EXCLUDE_KERNEL);
        assert_eq!(parsed("--all-kernel").no_samples, AttrFlags::EXCLUDE_USER);
        assert_eq!(parsed("--latency").of_tasks, AttrFlags::CONTEXT_SWITCH);
    }

    #[test]
    fn branches_are_any_or_those_of_a_list() {
        assert_eq!(parsed("-b").branches, 1 << 3);
        let contents = parsed("-j any_call,u");
        assert_eq!((contents.branches, contents.fields), (1 | 1 << 4, SampleType::BRANCH_STACK));
    }
}
