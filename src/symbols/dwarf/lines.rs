//! The table of lines of one unit.

use std::ops::Range;
use std::sync::OnceLock;

use gimli::ColumnType;
use gimli::DebugLineOffset;
use gimli::DwForm;
use gimli::FileEntry;
use gimli::Format;
use gimli::LineProgramHeader;
use gimli::Reader as _;
use gimli::Section as _;
use gimli::UnitRef;

use super::Effort;
use super::NativeLine;
use super::Purse;
use super::RANGE;
use super::Slice;
use super::ranges::Ranges;
use super::root::text;

/// The lines of a unit, by address.
#[derive(Debug)]
pub(super) struct Lines<'a> {
    header: LineProgramHeader<Slice<'a>>,
    sequences: Vec<Sequence>,
    by_addr: Ranges,
    rows: Vec<Row>,
    /// The paths of the files by number, each made when it is asked for.
    paths: Vec<OnceLock<Option<String>>>,
}

/// Code without gaps.
#[derive(Debug)]
struct Sequence {
    begin: u64,
    end: u64,
    rows: Range<usize>,
}

/// From an address to that of the next row, or to the end.
#[derive(Debug)]
struct Row {
    addr: u64,
    file: u64,
    line: u32,
    column: u32,
}

/// What one more file of a table takes in memory, in bytes.
const FILE: usize = size_of::<FileEntry<Slice<'_>>>() + size_of::<OnceLock<Option<String>>>();

impl<'a> Lines<'a> {
    /// Runs the line program of `unit` that is at `offset`, as far as it can be read.
    pub(super) fn read(
        unit: UnitRef<'_, Slice<'a>>,
        offset: DebugLineOffset,
        effort: &Effort,
    ) -> Option<Self> {
        let mut rest = *unit.dwarf.debug_line.reader();
        rest.skip(offset.0).ok()?;
        let mut purse = Purse::new(effort);
        let (n_bytes, n_files) = measure(rest)?;
        let of_header = n_bytes.saturating_add(n_files.saturating_mul(FILE));
        if !purse.spend(of_header) {
            return None;
        }
        let address_size = unit.header.address_size();
        let program = unit.dwarf.debug_line.program(offset, address_size, unit.comp_dir, None);
        let mut running = program.ok()?.rows();
        let (mut sequences, mut rows) = (Vec::new(), Vec::new());
        let mut first = 0;
        while let Ok(Some((_, row))) = running.next_row() {
            if !purse.spend(size_of::<Row>()) {
                return None;
            }
            let addr = row.address();
            if row.end_sequence() {
                if let Some(Row { addr: begin, .. }) = rows.get(first) {
                    if !purse.spend(size_of::<Sequence>() + RANGE) {
                        return None;
                    }
                    sequences.push(Sequence { begin: *begin, end: addr, rows: first..rows.len() });
                }
                first = rows.len();
                continue;
            }
            let row = Row {
                addr,
                file: row.file_index(),
                line: row.line().map_or(0, |it| u32::try_from(it.get()).unwrap_or(0)),
                column: match row.column() {
                    ColumnType::LeftEdge => 0,
                    ColumnType::Column(it) => u32::try_from(it.get()).unwrap_or(0),
                },
            };
            match rows.get_mut(first..).and_then(<[Row]>::last_mut) {
                // Of two rows at one address, the later one has the code.
                Some(last) if last.addr == addr => *last = row,
                _ => rows.push(row),
            }
        }
        // The program itself may have named more.
        let n_more = running.header().file_names().len().saturating_sub(n_files);
        if !purse.spend(n_more.saturating_mul(FILE)) {
            return None;
        }
        let by_addr = sequences.iter().zip(0..).map(|(it, id)| (it.begin, it.end, id));
        let by_addr = Ranges::new(by_addr);
        let header = running.header().clone();
        let paths = (0..=header.file_names().len()).map(|_| OnceLock::new()).collect();
        Some(Self { header, sequences, by_addr, rows, paths })
    }

    /// Where there is code with lines.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.sequences.iter().map(|it| (it.begin, it.end))
    }

    /// The line of the code at `addr`.
    pub(super) fn at<'l>(
        &'l self,
        unit: UnitRef<'_, Slice<'a>>,
        addr: u64,
        effort: &Effort,
    ) -> Option<NativeLine<'l>> {
        let id = self.by_addr.covering(addr).next()?;
        let rows = self.rows.get(self.sequences.get(id as usize)?.rows.clone())?;
        let behind = rows.partition_point(|it| it.addr <= addr);
        let &Row { file, line, column, .. } = rows.get(behind.checked_sub(1)?)?;
        Some(NativeLine { file: self.path(unit, file, effort)?, line, column })
    }

    /// The path of the file with this number.
    pub(super) fn path(
        &self,
        unit: UnitRef<'_, Slice<'a>>,
        file: u64,
        effort: &Effort,
    ) -> Option<&str> {
        let path = self.paths.get(usize::try_from(file).ok()?)?;
        path.get_or_init(|| self.make_path(unit, file, effort)).as_deref()
    }

    fn make_path(
        &self,
        unit: UnitRef<'_, Slice<'a>>,
        file: u64,
        effort: &Effort,
    ) -> Option<String> {
        let file = self.header.file(file)?;
        let lossy = |it: Slice<'a>| String::from_utf8_lossy(it.slice()).into_owned();
        let mut path = unit.comp_dir.map_or_else(String::new, lossy);
        // Folder 0 is the one that the unit was compiled in.
        let folder = file.directory(&self.header).filter(|_| file.directory_index() != 0);
        let parts = folder.into_iter().chain([file.path_name()]);
        for part in parts {
            let part = lossy(text(unit, part, effort)?);
            if part.starts_with('/') {
                path = part;
                continue;
            }
            if !path.is_empty() && !path.ends_with('/') {
                path.push('/');
            }
            path.push_str(&part);
        }
        Some(path)
    }
}

/// How many bytes the table of lines has that `rest` begins with, and how many files and folders its
/// header says that it names: one byte can stand for one.
fn measure(mut rest: Slice<'_>) -> Option<(usize, usize)> {
    let (len, format) = rest.read_initial_length().ok()?;
    let n_bytes = len.min(rest.len());
    rest.truncate(n_bytes).ok()?;
    let version = rest.read_u16().ok()?;
    if 5 <= version {
        // How long an address is, and a segment's number.
        rest.skip(2).ok()?;
    }
    let header_len = rest.read_length(format).ok()?;
    rest.truncate(header_len.min(rest.len())).ok()?;
    // The shortest instruction, what one holds since version 4, whether a row is a statement, and the
    // two numbers of special opcodes.
    rest.skip(if 4 <= version { 5 } else { 4 }).ok()?;
    let n_opcodes = rest.read_u8().ok()?;
    rest.skip(usize::from(n_opcodes.saturating_sub(1))).ok()?;
    let mut n_files: usize = 0;
    if version < 5 {
        while !rest.read_null_terminated_slice().ok()?.is_empty() {
            n_files += 1;
        }
        while !rest.read_null_terminated_slice().ok()?.is_empty() {
            for _ in 0..3 {
                rest.skip_leb128().ok()?;
            }
            n_files += 1;
        }
        return Some((n_bytes, n_files));
    }
    let folder = entry_format(&mut rest)?;
    let n_folders = rest.read_uleb128().ok()?;
    for _ in 0..n_folders {
        for form in &folder {
            skip_form(&mut rest, *form, format)?;
        }
        n_files += 1;
    }
    entry_format(&mut rest)?;
    let n_claimed = usize::try_from(rest.read_uleb128().ok()?).unwrap_or(usize::MAX);
    Some((n_bytes, n_files + n_claimed.min(rest.len())))
}

/// The forms of what stands for one folder, or one file; gimli refuses those without a path, so that
/// each takes a byte at the least.
fn entry_format(rest: &mut Slice<'_>) -> Option<Vec<DwForm>> {
    let n_parts = rest.read_u8().ok()?;
    let mut has_path = false;
    let mut forms = Vec::new();
    for _ in 0..n_parts {
        has_path |= rest.read_uleb128().ok()? == u64::from(gimli::DW_LNCT_path.0);
        forms.push(DwForm(rest.read_uleb128_u16().ok()?));
    }
    has_path.then_some(forms)
}

/// Passes over a value of one of the forms that stand in headers of tables of lines.
fn skip_form(rest: &mut Slice<'_>, form: DwForm, format: Format) -> Option<()> {
    let n_bytes = match form {
        gimli::DW_FORM_block1 => usize::from(rest.read_u8().ok()?),
        gimli::DW_FORM_block2 => usize::from(rest.read_u16().ok()?),
        gimli::DW_FORM_block4 => usize::try_from(rest.read_u32().ok()?).ok()?,
        gimli::DW_FORM_block => usize::try_from(rest.read_uleb128().ok()?).ok()?,
        gimli::DW_FORM_data1 | gimli::DW_FORM_flag | gimli::DW_FORM_strx1 => 1,
        gimli::DW_FORM_data2 | gimli::DW_FORM_strx2 => 2,
        gimli::DW_FORM_strx3 => 3,
        gimli::DW_FORM_data4 | gimli::DW_FORM_strx4 => 4,
        gimli::DW_FORM_data8 => 8,
        gimli::DW_FORM_data16 => 16,
        gimli::DW_FORM_sec_offset
        | gimli::DW_FORM_strp
        | gimli::DW_FORM_strp_sup
        | gimli::DW_FORM_GNU_strp_alt
        | gimli::DW_FORM_line_strp => usize::from(format.word_size()),
        gimli::DW_FORM_udata
        | gimli::DW_FORM_sdata
        | gimli::DW_FORM_strx
        | gimli::DW_FORM_GNU_str_index => {
            rest.skip_leb128().ok()?;
            0
        }
        gimli::DW_FORM_string => {
            rest.read_null_terminated_slice().ok()?;
            0
        }
        _ => return None,
    };
    rest.skip(n_bytes).ok()
}
