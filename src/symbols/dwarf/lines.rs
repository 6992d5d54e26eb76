//! The table of lines of one unit.

use std::ops::Range;
use std::sync::OnceLock;

use gimli::ColumnType;
use gimli::DebugLineOffset;
use gimli::LineProgramHeader;
use gimli::Reader as _;
use gimli::Section as _;
use gimli::UnitRef;

use super::Effort;
use super::NativeLine;
use super::Slice;
use super::ranges::Ranges;

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

impl<'a> Lines<'a> {
    /// Runs the line program of `unit` that is at `offset`, as far as it can be read.
    pub(super) fn read(
        unit: UnitRef<'_, Slice<'a>>,
        offset: DebugLineOffset,
        effort: &Effort,
    ) -> Option<Self> {
        let mut rest = *unit.dwarf.debug_line.reader();
        rest.skip(offset.0).ok()?;
        let (len, _) = rest.read_initial_length().ok()?;
        if !effort.spend(len.min(rest.len())) {
            return None;
        }
        let address_size = unit.header.address_size();
        let program = unit.dwarf.debug_line.program(offset, address_size, unit.comp_dir, None);
        let mut running = program.ok()?.rows();
        let (mut sequences, mut rows) = (Vec::new(), Vec::new());
        let mut first = 0;
        while let Ok(Some((_, row))) = running.next_row() {
            let addr = row.address();
            if row.end_sequence() {
                if let Some(Row { addr: begin, .. }) = rows.get(first) {
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
    ) -> Option<NativeLine<'l>> {
        let id = self.by_addr.covering(addr).next()?;
        let rows = self.rows.get(self.sequences.get(id as usize)?.rows.clone())?;
        let behind = rows.partition_point(|it| it.addr <= addr);
        let &Row { file, line, column, .. } = rows.get(behind.checked_sub(1)?)?;
        Some(NativeLine { file: self.path(unit, file)?, line, column })
    }

    /// The path of the file with this number.
    pub(super) fn path(&self, unit: UnitRef<'_, Slice<'a>>, file: u64) -> Option<&str> {
        let path = self.paths.get(usize::try_from(file).ok()?)?;
        path.get_or_init(|| self.make_path(unit, file)).as_deref()
    }

    fn make_path(&self, unit: UnitRef<'_, Slice<'a>>, file: u64) -> Option<String> {
        let file = self.header.file(file)?;
        let text = |it: Slice<'a>| String::from_utf8_lossy(it.slice()).into_owned();
        let mut path = unit.comp_dir.map_or_else(String::new, text);
        // Folder 0 is the one that the unit was compiled in.
        let folder = file.directory(&self.header).filter(|_| file.directory_index() != 0);
        let parts = folder.into_iter().chain([file.path_name()]);
        for part in parts {
            let part = text(unit.attr_string(part).ok()?);
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
