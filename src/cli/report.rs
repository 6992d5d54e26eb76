//! `bpfperf report`: what was typed, what is meant by it, and the way from one to the other.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::host::cpus;
use crate::profile::Accumulate;
use crate::profile::Callchains;
use crate::profile::Column;
use crate::profile::Facts;
use crate::profile::Filter;
use crate::profile::GraphRequest;
use crate::profile::GraphSettings;
use crate::profile::Grouping;
use crate::profile::Labels;
use crate::profile::ListOf;
use crate::profile::MAX_STACK;
use crate::profile::Order;
use crate::profile::Paths;
use crate::profile::Percentage;
use crate::profile::Plan;
use crate::profile::PrivilegeKey;
use crate::profile::Request;
use crate::profile::Sort;
use crate::profile::SourceKey;
use crate::profile::Spelled;
use crate::profile::hierarchies;
use crate::profile::histograms;
use crate::render;
use crate::render::report;
use crate::render::report::Comments;
use crate::render::report::Style;
use crate::render::script::Source;
use crate::render::script::TraceNotes;
use crate::replay::Asked;
use crate::replay::CodeFiles;
use crate::replay::Detail;
use crate::replay::Index;
use crate::replay::Inlined;
use crate::replay::Lines;
use crate::replay::Nameless;
use crate::replay::Names;
use crate::replay::Notes;
use crate::replay::Programs;
use crate::replay::Wanted;
use crate::replay::resolve;
use crate::replay::resolved::Keep;

use super::bill;
use super::bill::Reading;
use super::bill::warn_of_droppers;
use super::graph_settings;
use super::header;
use super::inlining;
use super::input;
use super::lacking;
use super::log;
use super::message;
use super::message::Failure;
use super::names;
use super::naming;
use super::record_counts;
use super::report_dump;
use super::report_fields;
use super::report_habits;
use super::report_samples;
use super::report_tasks;
use super::report_tasks::Tasks;
use super::report_threads::Pretty;
use super::report_threads::ThreadCounts;
use super::script::stdout;
use super::sources::DumpsOnDisk;
use super::sources::ThisMachine;
use super::symbol_options::SymbolOptions;

/// What was typed after `bpfperf report`.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag on the command line")]
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// Read this recording; `-` for standard input.
    #[arg(short, long, value_name = "FILE", default_value = input::DEFAULT)]
    input: PathBuf,

    /// Print to standard output (the default).
    #[arg(long)]
    stdio: bool,

    /// Tell rows apart by these columns: comm, dso, symbol, pid, tid, cpu, srcline, srcfile; of BPF programs `bpf_prog`,
    /// `bpf_id`, `bpf_tag`, `bpf_type`, `bpf_line`, `bpf_owner`, and `bpf_meta:KEY` for what metadata
    /// says under KEY; a leading `+` adds to the default.
    #[arg(short, long, value_name = "KEYS")]
    sort: Option<String>,

    /// Show these columns: overhead, children, sample, period, and those of --sort; a leading `+`
    /// adds to the default.
    #[arg(short = 'F', long, value_name = "KEYS")]
    fields: Option<String>,

    /// Give callers the weight of what they called (the default).
    #[arg(long, overrides_with = "no_children")]
    children: bool,

    /// Let a row weigh what was sampled in it alone.
    #[arg(long, overrides_with = "children")]
    no_children: bool,

    /// Call graphs: `none`, or a comma-separated list of `graph`, `fractal`, `flat` or `folded`, the
    /// smallest share shown in percent, the most branches shown, `caller` or `callee`, what makes two
    /// frames one, `function`, `address` or `srcline`, and `percent`, `period` or `count`.
    #[arg(
        short = 'g',
        long,
        value_name = "SETTINGS",
        num_args = 0..=1,
        require_equals = false,
        default_missing_value = "",
    )]
    call_graph: Option<String>,

    /// Begin call graphs with the outermost caller.
    #[arg(short = 'G', long)]
    inverted: bool,

    /// Show samples of these commands only.
    #[arg(short, long, visible_alias = "comm", value_name = "NAMES", value_delimiter = ',')]
    comms: Vec<String>,

    /// Show samples in these modules only.
    #[arg(short, long, visible_alias = "dso", value_name = "NAMES", value_delimiter = ',')]
    dsos: Vec<String>,

    /// Show samples in these symbols only.
    #[arg(short = 'S', long, value_name = "NAMES", value_delimiter = ',')]
    symbols: Vec<String>,

    /// Show rows only whose symbol has this in its name.
    #[arg(long, value_name = "PART")]
    symbol_filter: Option<String>,

    /// Leave out samples, and callers, without a symbol.
    #[arg(short = 'U', long)]
    hide_unresolved: bool,

    /// Print how many records of each kind there are, and how many samples of each event.
    #[arg(long)]
    stats: bool,

    /// Print every record as it stands in the recording, in bytes and in words, and what `--stats` prints.
    #[arg(short = 'D', long)]
    dump_raw_trace: bool,

    /// Print the tasks of the recording, each below the one that made it.
    #[arg(long)]
    tasks: bool,

    /// Print the tasks, and what each had mapped at last.
    #[arg(long)]
    mmaps: bool,

    /// Show samples of these processes only.
    #[arg(long, value_name = "PIDS", value_delimiter = ',')]
    pid: Vec<i32>,

    /// Show samples of these threads only.
    #[arg(long, value_name = "TIDS", value_delimiter = ',')]
    tid: Vec<i32>,

    /// Count samples on these CPUs only, for example `0-3,8`.
    #[arg(short = 'C', long, value_name = "CPUS")]
    cpu: Option<String>,

    /// Show rows below rows, by one column of `--sort` more on each level.
    #[arg(long, conflicts_with_all = ["fields", "children"])]
    hierarchy: bool,

    /// Show the number of samples.
    #[arg(short = 'n', long)]
    show_nr_samples: bool,

    /// Show the sum of the periods.
    #[arg(long)]
    show_total_period: bool,

    /// Show which shares the kernel and user code have.
    #[arg(long)]
    show_cpu_utilization: bool,

    #[command(flatten)]
    bill: bill::Args,

    #[command(flatten)]
    naming: naming::Args,

    /// Show `[bpf:NAME]` as the module of all functions of a BPF program.
    #[arg(long)]
    bpf_dso: bool,

    /// Leave out what weighs less than this, in percent.
    #[arg(long, value_name = "PERCENT")]
    percent_limit: Option<f32>,

    /// What shares are shares of: all samples, or those that the filters show.
    #[arg(long, value_name = "WHICH", default_value = "absolute")]
    percentage: Whole,

    /// Look at this many frames of a call chain at most.
    #[arg(long, value_name = "FRAMES", default_value_t = MAX_STACK)]
    max_stack: usize,

    /// Separate columns by this, without padding; a `.` stands for it inside names.
    #[arg(short = 't', long, value_name = "SEPARATOR", value_parser = parse_separator)]
    field_separator: Option<String>,

    /// Print what each thread counted in all, below the report, of recordings made with `record -s`.
    #[arg(short = 'T', long)]
    threads: bool,

    /// How that is printed.
    #[arg(long, value_name = "STYLE", default_value = "normal")]
    pretty: Pretty,

    /// How wide columns are, in their order, such as `8,16`; 0 for as wide as needed.
    #[arg(short = 'w', long, value_name = "WIDTHS", value_delimiter = ',')]
    column_widths: Vec<usize>,

    /// Show what tracepoints noted field by field, as it is.
    #[arg(long)]
    raw_trace: bool,

    #[command(flatten)]
    header: header::Args,

    /// Show all events in one table, unless some were recorded as a group, which have one anyway.
    #[arg(long, overrides_with = "no_group")]
    group: bool,

    /// Show each event in a table of its own.
    #[arg(long, overrides_with = "group")]
    no_group: bool,

    /// Sort the rows of a group by its event with this number, from 0.
    #[arg(long, value_name = "INDEX")]
    group_sort_idx: Option<usize>,

    #[command(flatten)]
    inlining: inlining::Args,

    #[command(flatten)]
    symbols_from: SymbolOptions,

    #[command(flatten)]
    samples: report_samples::Args,

    #[command(flatten)]
    habits: report_habits::Args,

    /// Taken for the habit of it: who owns the file does not matter.
    #[arg(short, long)]
    force: bool,

    /// Tell on stderr how the recording is read; twice for more.
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,

    /// Print rows alone, and no warnings.
    #[arg(short, long)]
    quiet: bool,
}

/// What shares are shares of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Whole {
    /// All samples.
    Absolute,
    /// The samples that the filters show.
    Relative,
}

/// Runs `bpfperf report`.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    log::init(args.verbose);
    args.habits.check()?;
    let (mut request, spelled) = args.request()?;
    args.bill.check(args.field_separator.as_deref())?;
    let (file, recording) = input::open(&args.input)?;
    let mut out = stdout()?;
    let cannot_write = |error| Failure::because("cannot write the report", &error);
    if args.header.write(&file, &recording, &mut out).map_err(cannot_write)? == header::Then::Stop {
        return Ok(ExitCode::SUCCESS);
    }
    let cannot = |error| input::cannot_read(&args.input, &error);
    let fields = report_fields::settle(&mut request, spelled, &recording, args.raw_trace)?;
    if let Some(shown) = args.shown_tasks() {
        let index = Index::new(&recording, &file, &shown.wanted()).map_err(cannot)?;
        input::check(&args.input, &index)?;
        let tasks = Tasks::new(&recording, &index, &file).map_err(|error| cannot(error.into()))?;
        tasks.write(shown, &mut out).and_then(|()| out.flush()).map_err(cannot_write)?;
        if tasks.n_left_out != 0 && !args.quiet {
            let n = tasks.n_left_out;
            message::warn(&format!("the mappings of {n} tasks are left out: too many for memory"));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let dumps = DumpsOnDisk::new(&args.symbols_from);
    let wanted = if args.dump_raw_trace { Wanted::All } else { Wanted::default() };
    let index = Index::with_dumps(&recording, &file, &wanted, &dumps).map_err(cannot)?;
    input::check(&args.input, &index)?;
    let machine = ThisMachine::new(&file, &index, &args.symbols_from)
        .with_kernel(args.naming.kernel(&index)?);
    let mut names = Names::new(&index, &machine).demangled(args.naming.demangling());
    if args.dump_raw_trace {
        report::write_preface(&mut out, &args.style()).map_err(cannot_write)?;
        let source =
            Source { recording: &recording, index: &index, input: &file, names: &names, text: &() };
        report_dump::write(&source, &file, &mut out)
            .map_err(|error| Failure::because("cannot dump the recording", &error))?;
    } else if args.bill.is_asked() {
        let (recording, index, input, names) = (&recording, &index, &file, &names);
        let reading = Reading { recording, index, input, names };
        let cannot_read = |error: &_| input::cannot_read(&args.input, error);
        let style = args.bill_style();
        let n_bad = args.bill.write(&reading, &request, &style, &cannot_read, &mut out)?;
        out.flush().map_err(cannot_write)?;
        if !args.quiet {
            input::tell(&index.anomalies, n_bad);
            warn_of_droppers(index);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let samples = args.samples.settle(&mut request, &recording, &index)?;
    let programs =
        (request.needs_programs() || args.bpf_dso).then(|| Programs::new(&recording, &index));
    if let Some(programs) = programs.as_ref().filter(|_| args.bpf_dso) {
        names.group_functions(programs);
    }
    let has_chains = recording.events.iter().any(|it| it.sample.has_callchain());
    let keep = Keep { stack: request.keep().stack && has_chains, ..request.keep() };
    let code_files = CodeFiles::new(&names);
    let inlined = args.inlining.inlined();
    let needs_lines = keep.stack && inlined == Inlined::Shown || request.needs_lines();
    let lines = needs_lines.then(|| Lines::new(&code_files, inlined));
    // Which end of a long chain is kept depends on the report, so it is cut there.
    let is_noted = |it: &Detail| matches!(it, Detail::Noted | Detail::Fields);
    let notes = samples.details.iter().any(is_noted).then(|| {
        let notes = TraceNotes::new(&recording, fields);
        if args.raw_trace { notes.field_by_field(&recording) } else { notes }
    });
    let asked = Asked {
        details: &samples.details,
        counted: samples.counted,
        times: &samples.times,
        notes: notes.as_ref().map(|it| it as &dyn Notes),
    };
    let resolved = resolve(&recording, &index, &file, &code_files, lines.as_ref(), keep, asked);
    let mut resolved = resolved.map_err(cannot)?;
    if args.stats || args.dump_raw_trace {
        let counts = record_counts::count(&recording, &file);
        let counts = counts.map_err(|error| cannot(error.into()))?;
        return record_counts::write(&counts, &resolved, &mut out)
            .and_then(|()| out.flush())
            .map(|()| ExitCode::SUCCESS)
            .map_err(cannot_write);
    }
    args.samples.ignore_callees(&mut resolved);
    if args.hide_unresolved {
        resolved.hide_unresolved();
    }
    if let Some(lines) = &lines {
        lines.keep();
    }
    let mut plan = Plan::new(&request, Callchains::of(&resolved)).map_err(|error| {
        Failure::because("cannot show call graphs", &error)
            .hint("record with `-g` for call chains, or report without")
    })?;
    let paths = if args.inlining.has_paths() { Paths::Full } else { Paths::Names };
    let (keys, of_programs) = (&plan.meta_keys, programs.as_ref());
    plan.labels = Labels::new(&plan.columns, keys, paths, &resolved, of_programs);
    let line = [Column::Source(SourceKey::Line)];
    let line = if plan.columns.iter().any(|it| it.is_of_source()) { &line[..] } else { &[] };
    let line = Labels::new(line, keys, paths, &resolved, of_programs);
    plan.facts = Facts::new(&plan.order, &resolved, &samples.surroundings(&index, &line));
    let cannot_choose = |error| Failure::because("cannot choose samples by CPU", &error);
    let style = args.style();
    let written = if args.hierarchy {
        let hierarchies = hierarchies(&resolved, &plan).map_err(cannot_choose)?;
        report::write_hierarchies(&mut out, &resolved, &plan, &hierarchies, &style)
    } else {
        let histograms = histograms(&resolved, &plan).map_err(cannot_choose)?;
        report::write(&mut out, &resolved, &plan, &histograms, &style)
    };
    written.map_err(cannot_write)?;
    if args.threads {
        let threads =
            ThreadCounts::read(&recording, &file).map_err(|error| cannot(error.into()))?;
        threads.write(&recording, args.pretty, &mut out).map_err(cannot_write)?;
    }
    out.flush().map_err(cannot_write)?;
    if !args.quiet {
        input::tell(&index.anomalies, resolved.n_bad_chains);
        machine.tell_troubles();
        lacking::tell(&names, &Nameless::of(&resolved), machine.symfs());
        input::tell_ends(&resolved.ends);
        input::tell_missing_lines(&lines.as_ref().map(Lines::missing).unwrap_or_default());
        input::tell_changed(code_files.changed());
        warn_of_droppers(&index);
        if resolved.groups.is_empty() {
            message::warn(&format!("`{}` holds no samples", args.input.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// What of tasks is shown in the place of a report.
    fn shown_tasks(&self) -> Option<report_tasks::Shown> {
        match (self.tasks, self.mmaps) {
            (_, true) => Some(report_tasks::Shown::Maps),
            (true, false) => Some(report_tasks::Shown::Tasks),
            (false, false) => None,
        }
    }

    /// What is asked of the profile.
    ///
    /// With it comes what its columns may call fields of tracepoints.
    fn request(&self) -> Result<(Request, Vec<String>), Failure> {
        let mut spelled = Spelled::default();
        let mut columns = |list: &str, of: ListOf| {
            Column::parse_list(list, of, &mut spelled).map_err(|error| {
                let known: Vec<&str> = Column::names().collect();
                Failure::because("cannot show these columns", &error)
                    .hint(format!("columns are {}", known.join(", ")))
            })
        };
        let sort = match self.sort.as_deref().map(|it| (it, it.strip_prefix('+'))) {
            None => None,
            Some((_, Some(keys))) => Some(Sort::DefaultAnd(columns(keys, ListOf::Keys)?)),
            Some((keys, None)) => Some(Sort::By(columns(keys, ListOf::Keys)?)),
        };
        let sort = sort.map(|it| it.with_instructions(self.sort.as_deref().unwrap_or_default()));
        let flags = [
            (self.show_cpu_utilization, Column::Privilege(PrivilegeKey::Kernel)),
            (self.show_cpu_utilization, Column::Privilege(PrivilegeKey::User)),
            (self.show_nr_samples, Column::Samples),
            (self.show_total_period, Column::Period),
        ];
        let mut extra: Vec<_> =
            flags.into_iter().filter_map(|(asked, it)| asked.then_some(it)).collect();
        let fields = match self.fields.as_deref().map(|it| (it, it.strip_prefix('+'))) {
            None => None,
            Some((_, Some(more))) => {
                extra.extend(columns(more, ListOf::Fields)?);
                None
            }
            Some((fields, None)) => Some(columns(fields, ListOf::Fields)?),
        };
        let cpus = cpus::parse_list(self.cpu.as_deref().unwrap_or_default())
            .map_err(|error| Failure::because("cannot choose samples by CPU", &error))?;
        let Spelled { meta_keys, fields: spelled_fields, joined } = spelled;
        let request = Request {
            sort,
            fields,
            extra,
            meta_keys,
            noted_fields: Vec::new(),
            joined,
            accumulate: if self.no_children || self.hierarchy {
                Accumulate::Nothing
            } else {
                Accumulate::Callers
            },
            graph: self
                .graph()
                .map_err(|error| Failure::because("cannot show call graphs", &error))?,
            filter: Filter {
                comms: names::read(&self.comms)?,
                dsos: names::read(&self.dsos)?,
                symbols: names::read(&self.symbols)?,
                symbol_part: self.symbol_filter.clone(),
                pids: self.pid.clone(),
                tids: self.tid.clone(),
                cpus: cpus.into_iter().map(|it| it.0).collect(),
                shown_cpus: Vec::new(),
            },
            percentage: match self.percentage {
                Whole::Absolute => Percentage::Absolute,
                Whole::Relative => Percentage::Relative,
            },
            percent_limit: self.percent_limit.unwrap_or(0.0),
            max_stack: self.max_stack,
            grouping: match (self.group, self.no_group) {
                (_, true) => Grouping::Never,
                (true, false) => Grouping::Always,
                (false, false) => Grouping::AsRecorded,
            },
            group_sort_idx: self.group_sort_idx,
            hides_others: false,
        };
        Ok((request, spelled_fields))
    }

    /// How the report looks.
    fn style(&self) -> Style {
        Style {
            comments: match (self.quiet, self.header.is_asked()) {
                (true, _) => Comments::No,
                (false, true) => Comments::AfterHeader,
                (false, false) => Comments::All,
            },
            separator: self.field_separator.clone(),
            time_slices: self.samples.time_slices(),
            socket: self.samples.socket(),
            widths: self.column_widths.clone(),
        }
    }

    /// How a table of BPF programs looks.
    fn bill_style(&self) -> render::bill::Style {
        render::bill::Style {
            has_comments: !self.quiet,
            separator: self.field_separator.clone(),
            percent_limit: self.percent_limit.unwrap_or(0.0),
            has_details: false,
        }
    }

    fn graph(&self) -> Result<GraphRequest, graph_settings::Error> {
        let Some(text) = &self.call_graph else {
            let settings = self.limited(GraphSettings::default());
            let asked = if self.inverted { GraphRequest::Always } else { GraphRequest::IfRecorded };
            return Ok(asked(settings));
        };
        Ok(match graph_settings::parse(text)? {
            Some(settings) => GraphRequest::Always(self.limited(settings)),
            None => GraphRequest::No,
        })
    }

    /// The settings with what other options say of them.
    fn limited(&self, mut settings: GraphSettings) -> GraphSettings {
        if self.inlining.has_paths() {
            settings.paths = Paths::Full;
        }
        if let Some(limit) = self.percent_limit {
            settings.min_percent = f64::from(limit);
        }
        if self.inverted {
            settings.order = Some(Order::Caller);
        }
        settings
    }
}

fn parse_separator(text: &str) -> Result<String, String> {
    match text {
        "" | "." => Err("a separator is not empty and not `.`".to_owned()),
        text => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::profile::FrameKey;
    use crate::profile::GraphValue;
    use crate::profile::Shape;

    use super::*;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn request(args: &[&str]) -> Result<Request, String> {
        let cli = Cli::try_parse_from([&["report"], args].concat()).map_err(|it| it.to_string())?;
        cli.args.request().map(|it| it.0).map_err(|it| it.to_string())
    }

    #[track_caller]
    fn check_graph(args: &[&str], want: GraphRequest) {
        assert_eq!(request(args).unwrap().graph, want);
    }

    #[test]
    fn settings_of_call_graphs_stand_in_any_order_and_may_be_short() {
        let default = GraphSettings::default();
        check_graph(&[], GraphRequest::IfRecorded(default));
        check_graph(&["-g"], GraphRequest::Always(default));
        check_graph(&["-g", "n"], GraphRequest::No);
        check_graph(&["--call-graph", "none"], GraphRequest::No);
        let callee = GraphSettings { order: Some(Order::Callee), min_percent: 2.5, ..default };
        check_graph(&["-g", "callee,2.5"], GraphRequest::Always(callee));
        check_graph(&["-g", "graph,2.5,callee,func"], GraphRequest::Always(callee));
        let value = GraphValue::Count;
        let counted = GraphSettings { min_percent: 1.0, limit: 7, value, ..default };
        check_graph(&["-g", "1,7,count"], GraphRequest::Always(counted));
        let folded = GraphSettings { shape: Shape::Folded, key: FrameKey::Line, ..default };
        check_graph(&["-g", "folded,src"], GraphRequest::Always(folded));
    }

    #[test]
    fn a_limit_of_rows_is_one_of_branches_too() {
        let settings = GraphSettings { min_percent: 3.0, ..GraphSettings::default() };
        check_graph(&["--percent-limit", "3"], GraphRequest::IfRecorded(settings));
    }

    #[test]
    fn an_inverted_graph_begins_with_the_caller() {
        let settings = GraphSettings { order: Some(Order::Caller), ..GraphSettings::default() };
        check_graph(&["-G"], GraphRequest::Always(settings));
    }

    #[test]
    fn what_is_not_made_yet_is_refused_in_words() {
        let because = |args: &[&str]| request(args).unwrap_err();
        assert_eq!(
            because(&["-g", "nonsense"]),
            "error: cannot show call graphs\n  because: `nonsense` is no setting of call graphs"
        );
        assert!(because(&["-s", "data_page_size"]).contains("needs what hardware notes"));
        assert!(because(&["-C", "x"]).contains("`x`"));
        assert!(because(&["-t", "."]).contains("separator"));
    }

    #[test]
    fn columns_replace_the_default_or_come_after_it() {
        let request = |args| request(args).unwrap();
        let replaced = request(&["-F", "comm,period", "-s", "dso"]);
        assert_eq!(replaced.fields, Some(vec![Column::Comm, Column::Period]));
        assert_eq!(replaced.sort, Some(Sort::By(vec![Column::Dso])));
        let added = request(&["-n", "-F", "+period", "-s", "+cpu"]);
        assert_eq!((added.fields, added.extra), (None, vec![Column::Samples, Column::Period]));
        assert_eq!(added.sort, Some(Sort::DefaultAnd(vec![Column::Cpu])));
    }

    #[test]
    fn lists_are_split_at_commas() {
        let request =
            request(&["--comm", "a,b", "-d", "x", "--tid", "1,2", "-C", "3,0-1"]).unwrap();
        let filter = Filter {
            comms: vec!["a".into(), "b".into()],
            dsos: vec!["x".into()],
            tids: vec![1, 2],
            cpus: vec![0, 1, 3],
            ..Filter::default()
        };
        assert_eq!(request.filter, filter);
    }

    #[test]
    fn the_last_of_two_opposite_flags_holds() {
        let accumulate = |args: &[&str]| request(args).unwrap().accumulate;
        assert_eq!(accumulate(&["--no-children", "--children"]), Accumulate::Callers);
        assert_eq!(accumulate(&["--children", "--no-children"]), Accumulate::Nothing);
    }
}
