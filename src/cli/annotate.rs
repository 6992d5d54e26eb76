//! `bpfperf annotate`: the code of functions with what fell on each instruction.

mod choose;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::host::cpus;
use crate::profile::Annotated;
use crate::profile::Filter;
use crate::profile::FunctionSamples;
use crate::profile::Place;
use crate::profile::Weight;
use crate::profile::functions;
use crate::render::annotate;
use crate::render::annotate::Context;
use crate::render::annotate::Missing;
use crate::render::annotate::Share;
use crate::render::annotate::Style;
use crate::replay::Asked;
use crate::replay::CodeFiles;
use crate::replay::Codes;
use crate::replay::Index;
use crate::replay::Nameless;
use crate::replay::Names;
use crate::replay::NoCode;
use crate::replay::Programs;
use crate::replay::Wanted;
use crate::replay::resolve;
use crate::replay::resolved::Dso;
use crate::replay::resolved::Keep;
use crate::replay::resolved::Resolved;
use crate::symbols::Code;
use crate::symbols::Syntax;
use crate::units::FileOffset;

use super::input;
use super::lacking;
use super::log;
use super::message;
use super::message::Failure;
use super::naming;
use super::script::stdout;
use super::source_files::SourceFiles;
use super::sources::DumpsOnDisk;
use super::sources::ThisMachine;
use super::symbol_options::SymbolOptions;

use choose::Chosen;

/// What was typed after `bpfperf annotate`.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag on the command line")]
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Args {
    /// The function to show: its symbol, a BPF function's own name, or `bpf:ID` for all functions of
    /// a BPF program; all functions with samples if none is named.
    #[arg(value_name = "SYMBOL", conflicts_with = "symbol")]
    name: Option<String>,

    /// The function to show, likewise.
    #[arg(short, long, value_name = "SYMBOL")]
    symbol: Option<String>,

    /// Read this recording; `-` for standard input.
    #[arg(short, long, value_name = "FILE", default_value = input::DEFAULT)]
    input: PathBuf,

    /// Print to standard output (the default).
    #[arg(long)]
    stdio: bool,

    /// Print JSON, as `docs/json.md` describes it.
    #[arg(long)]
    json: bool,

    /// Show functions of these modules only.
    #[arg(short, long, visible_alias = "dso", value_name = "NAMES", value_delimiter = ',')]
    dsos: Vec<String>,

    /// Count samples on these CPUs only, for example `0-3,8`.
    #[arg(short = 'C', long, value_name = "CPUS")]
    cpu: Option<String>,

    /// Name the line of each instruction with samples, and list the heaviest lines.
    #[arg(short = 'l', long)]
    print_line: bool,

    /// Show lines of source between the instructions (the default).
    #[arg(short = 'S', long, overrides_with = "no_source")]
    source: bool,

    /// Show instructions alone.
    #[arg(long, overrides_with = "source")]
    no_source: bool,

    /// Show the bytes of each instruction.
    #[arg(long)]
    asm_raw: bool,

    /// Show the paths of source files in full.
    #[arg(short = 'P', long)]
    full_paths: bool,

    /// How instructions are written.
    #[arg(short = 'M', long, value_name = "STYLE", default_value = "att")]
    disassembler_style: DisassemblerStyle,

    /// What shares are shares of: the function or everything, by period or by samples.
    #[arg(long, value_name = "WHICH", default_value = "local-period")]
    percent_type: PercentType,

    #[command(flatten)]
    naming: naming::Args,

    #[command(flatten)]
    symbols_from: SymbolOptions,

    /// Taken for the habit of it: who owns the file does not matter.
    #[arg(short, long)]
    force: bool,

    /// Tell on stderr how the recording is read; twice for more.
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,

    /// Print no warnings.
    #[arg(short, long)]
    quiet: bool,
}

/// How instructions are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum DisassemblerStyle {
    /// As by the GNU assembler.
    Att,
    /// As in Intel's manuals.
    Intel,
}

/// What shares are shares of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum PercentType {
    /// The period of the function.
    LocalPeriod,
    /// The samples of the function.
    LocalHits,
    /// The period of all samples.
    GlobalPeriod,
    /// All samples.
    GlobalHits,
}

/// The most reasons for missing code that are told one by one.
const MAX_TOLD: usize = 5;

/// Runs `bpfperf annotate`.
pub(super) fn run(args: &Args) -> Result<ExitCode, Failure> {
    log::init(args.verbose);
    let filter = args.filter()?;
    let (file, recording) = input::open(&args.input)?;
    let mut out = stdout()?;
    let cannot = |error| input::cannot_read(&args.input, &error);
    let dumps = DumpsOnDisk::new(&args.symbols_from);
    let index = Index::with_dumps(&recording, &file, &Wanted::default(), &dumps).map_err(cannot)?;
    input::check(&args.input, &index)?;
    let machine = ThisMachine::new(&file, &index, &args.symbols_from)
        .with_kernel(args.naming.kernel(&index)?);
    let names = Names::new(&index, &machine).demangled(args.naming.demangling());
    let keep = Keep { thread: false, cpu: !filter.cpus.is_empty(), stack: false, address: true };
    let files = CodeFiles::new(&names);
    let resolved =
        resolve(&recording, &index, &file, &files, None, keep, Asked::default()).map_err(cannot)?;
    let programs = Programs::new(&recording, &index);
    let found = functions(&resolved, &index.timeline, &programs, &filter)
        .map_err(|error| Failure::because("cannot choose samples by CPU", &error))?;
    let totals = totals(&resolved, &filter);
    let wanted = args.symbol.as_ref().or(args.name.as_ref());
    let chosen = choose::choose(found, &resolved, &programs, wanted.map(String::as_str))?;
    let show = Show {
        codes: Codes::new(&recording, &files, &programs),
        resolved: &resolved,
        context: Context {
            events: &resolved.events,
            totals,
            programs: &programs,
            names: &names,
            source: &SourceFiles::default(),
        },
        style: args.style(),
    };
    let missing = show.missing(&chosen);
    if let (Some(_), Some(it)) = (wanted, missing.first())
        && missing.len() == chosen.len()
    {
        let what = format!("cannot annotate `{}`", it.name);
        return Err(with_advice(Failure::because(what, &it.because), &it.because));
    }
    let written = if args.json {
        let functions = chosen.iter().filter_map(|it| show.function(it).ok());
        annotate::json(&mut out, functions, &missing, &show.context, &show.style)
    } else {
        show.text(&mut out, &chosen)
    };
    written
        .and_then(|()| out.flush())
        .map_err(|error| Failure::because("cannot write the code", &error))?;
    if !args.quiet {
        input::tell(&index.anomalies, resolved.n_bad_chains);
        machine.tell_troubles();
        lacking::tell(&names, &Nameless::of(&resolved), machine.symfs());
        input::tell_ends(&resolved.ends);
        input::tell_missing_lines(&show.codes.missing_lines());
        input::tell_changed(files.changed());
        if resolved.groups.is_empty() {
            message::warn(&format!("`{}` holds no samples", args.input.display()));
        }
        tell_missing(&missing, &show.context.totals);
        if wanted.is_none() && args.dsos.is_empty() {
            tell_nameless(&chosen, &show.context.totals);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What would bring the code.
fn with_advice(failure: Failure, because: &NoCode) -> Failure {
    match because {
        NoCode::NotRecorded { .. } => failure.hint(
            "record as root, with `kernel.kptr_restrict` below 2, to have the code of BPF programs",
        ),
        _ => failure,
    }
}

/// What fell on all samples that count.
fn totals(resolved: &Resolved, filter: &Filter) -> Vec<Weight> {
    let mut totals = vec![Weight::default(); resolved.events.len()];
    for group in &resolved.groups {
        let counts = filter.cpus.is_empty()
            || group.cpu.is_some_and(|cpu| filter.cpus.binary_search(&cpu).is_ok());
        if let Some(total) = totals.get_mut(group.event.0 as usize).filter(|_| counts) {
            *total += Weight { period: group.period, n_samples: group.n_samples };
        }
    }
    totals
}

/// Everything that functions are shown with.
struct Show<'a> {
    codes: Codes<'a>,
    resolved: &'a Resolved,
    context: Context<'a>,
    style: Style,
}

impl Show<'_> {
    /// The functions without code.
    fn missing<'c>(&'c self, chosen: &'c [Chosen]) -> Vec<Missing<'c>> {
        let missing = chosen.iter().filter_map(|it| {
            let because = self.code(&it.samples).err()?;
            let (name, dso) = (it.name.as_str(), self.dso(&it.samples));
            Some(Missing { name, dso, totals: it.samples.totals.clone(), because })
        });
        missing.collect()
    }

    /// Writes all functions as text, one event after the other, the heaviest first.
    fn text(&self, out: &mut dyn Write, chosen: &[Chosen]) -> io::Result<()> {
        for event in 0..self.context.events.len() {
            let weight = |it: &Chosen| it.samples.totals.get(event).copied().unwrap_or_default();
            let mut order: Vec<&Chosen> = chosen.iter().collect();
            order.sort_by_key(|it| Reverse(weight(it).period));
            // What was asked for by name is shown without samples, too, once.
            let has_samples = |it: &&&Chosen| weight(it).n_samples != 0;
            let has_none = |it: &Chosen| it.samples.totals.iter().all(|it| it.n_samples == 0);
            for it in order.iter().filter(|it| has_samples(it) || event == 0 && has_none(it)) {
                if let Ok(function) = self.function(it) {
                    annotate::text(out, &function, event, &self.context, &self.style)?;
                }
            }
        }
        Ok(())
    }

    fn function<'c>(&'c self, chosen: &'c Chosen) -> Result<annotate::Function<'c>, NoCode> {
        let code = self.code(&chosen.samples)?;
        let samples = match chosen.samples.place {
            // Samples in a file are by their place in it.
            Place::Mapped { mapping, .. } => {
                chosen.samples.at(|addr| self.codes.vaddr(mapping, FileOffset(addr.0)))
            }
            Place::Bpf(_) | Place::Image(_) => chosen.samples.clone(),
        };
        let annotated = Annotated { samples, code };
        Ok(annotate::Function { name: &chosen.name, dso: self.dso(&chosen.samples), annotated })
    }

    fn code(&self, samples: &FunctionSamples) -> Result<Code<'_>, NoCode> {
        match samples.place {
            Place::Bpf(id) => self.codes.of_bpf(id),
            Place::Image(_) => Err(NoCode::Image),
            Place::Mapped { mapping, symbol } => {
                self.codes.of_mapped(mapping, &self.resolved.symbols[symbol.0 as usize])
            }
        }
    }

    fn dso(&self, samples: &FunctionSamples) -> Option<&Dso> {
        self.resolved.dsos.get(samples.dso?.0 as usize)
    }
}

/// Tells which functions have no code, by reason, those with the most samples first.
fn tell_missing(missing: &[Missing<'_>], totals: &[Weight]) {
    // How many functions, how many samples, and the name of the first, by reason.
    let mut reasons: BTreeMap<String, (usize, u64, &str)> = BTreeMap::new();
    for it in missing {
        let n_samples: u64 = it.totals.iter().map(|it| it.n_samples).sum();
        let reason = reasons.entry(it.because.to_string()).or_insert((0, 0, it.name));
        reason.0 += 1;
        reason.1 += n_samples;
    }
    let mut reasons: Vec<_> = reasons.into_iter().collect();
    reasons.sort_by_key(|(_, (_, n_samples, _))| Reverse(*n_samples));
    let all: u64 = totals.iter().map(|it| it.n_samples).sum();
    for (because, (count, n_samples, name)) in reasons.iter().take(MAX_TOLD) {
        let what = match count {
            1 => format!("`{name}` is not shown"),
            n => format!("`{name}` and {} more functions are not shown", n - 1),
        };
        let share = if all == 0 { 0.0 } else { *n_samples as f64 * 100.0 / all as f64 };
        message::warn(&format!("{what}, {share:.1} % of all samples: {because}"));
    }
    if let Some(rest) = reasons.get(MAX_TOLD..).filter(|it| !it.is_empty()) {
        let count: usize = rest.iter().map(|(_, (count, ..))| count).sum();
        message::warn(&format!("{count} more functions are not shown for {} reasons", rest.len()));
    }
}

/// Tells how many samples lie in no function with a name.
fn tell_nameless(chosen: &[Chosen], totals: &[Weight]) {
    let n_samples = |it: &[Weight]| it.iter().map(|it| it.n_samples).sum::<u64>();
    let all = n_samples(totals);
    let named: u64 = chosen.iter().map(|it| n_samples(&it.samples.totals)).sum();
    let nameless = all.saturating_sub(named);
    if nameless != 0 {
        let share = nameless as f64 * 100.0 / all as f64;
        message::warn(&format!(
            "{nameless} samples are not shown, {share:.1} % of all: no name is known where they lie"
        ));
    }
}

impl Args {
    fn filter(&self) -> Result<Filter, Failure> {
        let cpus = cpus::parse_list(self.cpu.as_deref().unwrap_or_default())
            .map_err(|error| Failure::because("cannot choose samples by CPU", &error))?;
        let cpus = cpus.into_iter().map(|it| it.0).collect();
        Ok(Filter { dsos: self.dsos.clone(), cpus, ..Filter::default() })
    }

    fn style(&self) -> Style {
        Style {
            syntax: match self.disassembler_style {
                DisassemblerStyle::Att => Syntax::Att,
                DisassemblerStyle::Intel => Syntax::Intel,
            },
            share: match self.percent_type {
                PercentType::LocalPeriod => Share::LocalPeriod,
                PercentType::LocalHits => Share::LocalHits,
                PercentType::GlobalPeriod => Share::GlobalPeriod,
                PercentType::GlobalHits => Share::GlobalHits,
            },
            has_source: !self.no_source,
            has_lines: self.print_line,
            has_bytes: self.asm_raw,
            has_full_paths: self.full_paths,
        }
    }
}
