//! A frame as text: its address, what it is called, and where it is in the source.

use std::cell::RefCell;
use std::io::Write as _;

use rustc_hash::FxHashMap;

use crate::profile::Paths;
use crate::render::escape::escape;
use crate::replay::CodeFiles;
use crate::replay::Frame;
use crate::replay::Lines;
use crate::replay::Name;
use crate::replay::Names;
use crate::replay::Programs;
use crate::replay::SymbolName;
use crate::replay::resolved::Level;
use crate::replay::timeline::Owner;
use crate::symbols::SourceFrame;
use crate::units::Addr;

use super::Fields;
use super::number::hex;
use super::number::put_hex;

/// What code is called.
#[derive(Clone, Copy)]
pub(super) struct CodeNames<'a> {
    pub(super) names: &'a Names<'a>,
    /// The files that it lies in.
    pub(super) files: &'a CodeFiles<'a>,
    /// Lines and inlined functions, where any are shown.
    pub(super) lines: Option<&'a Lines<'a>>,
    /// The BPF programs, where lines of theirs are shown.
    pub(super) programs: Option<&'a Programs<'a>>,
    pub(super) paths: Paths,
}

/// The texts of frames, each made once for all processes that map it, wherever they do.
pub(super) struct Places<'a> {
    code: CodeNames<'a>,
    /// The text of a frame, by which fields show it, in a chain or alone.
    known: FxHashMap<(Place, Fields, bool), Known>,
    texts: Vec<u8>,
    /// Where an address stands in a text, from its beginning.
    ips: Vec<usize>,
    /// Names as they are shown, by the mangled ones: a short one can take long to demangle.
    shown: RefCell<FxHashMap<Box<str>, Box<[u8]>>>,
}

/// Texts that are longer than this, in bytes, are made again for each sample: many addresses may have
/// the same long name.
const MAX_KEPT: usize = 4 << 10;

/// The width of an address, which no address is wider than.
const IP_WIDTH: usize = 16;

/// What the text of a frame depends on, but for its address.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    InModule { module: u32, addr: Addr, level: Level, is_return_address: bool },
    Elsewhere(Frame),
}

/// What is known of a frame.
#[derive(Clone, Copy)]
struct Known {
    /// Where its text begins among all of them.
    start: usize,
    /// Where it ends.
    end: usize,
    /// Where the places of its address begin among those of all texts.
    first_ip: usize,
    /// Where they end.
    end_ip: usize,
    has_name: bool,
}

impl<'a> Places<'a> {
    pub(super) fn new(code: CodeNames<'a>) -> Self {
        Self {
            code,
            known: FxHashMap::default(),
            texts: Vec::new(),
            ips: Vec::new(),
            shown: RefCell::default(),
        }
    }

    /// Appends a frame of a call chain, with what was inlined there, each on lines of its own; whose
    /// its address is, if it has no name.
    pub(super) fn in_chain(
        &mut self,
        frame: &Frame,
        fields: Fields,
        out: &mut Vec<u8>,
    ) -> Option<Owner> {
        self.text(frame, fields, true, out)
    }

    /// Appends the frame of a sample without a call chain; whose its address is, if it has no name.
    pub(super) fn alone(
        &mut self,
        frame: &Frame,
        fields: Fields,
        out: &mut Vec<u8>,
    ) -> Option<Owner> {
        self.text(frame, fields, false, out)
    }

    fn text(
        &mut self,
        frame: &Frame,
        fields: Fields,
        is_in_chain: bool,
        out: &mut Vec<u8>,
    ) -> Option<Owner> {
        if frame.owner.is_none() && frame.level == Level::User {
            // There are many such addresses, each met a few times, and nothing to say of them.
            let mut ips = std::mem::take(&mut self.ips);
            let n_kept = ips.len();
            self.make(frame, fields, is_in_chain, out, &mut ips);
            ips.truncate(n_kept);
            self.ips = ips;
            return None;
        }
        let place = match self.code.names.place(frame) {
            Some((module, addr)) => {
                let Frame { level, is_return_address, .. } = *frame;
                Place::InModule { module, addr, level, is_return_address }
            }
            None => Place::Elsewhere(*frame),
        };
        let key = (place, fields, is_in_chain);
        let known = match self.known.get(&key) {
            Some(known) => *known,
            None => {
                let (start, first_ip) = (self.texts.len(), self.ips.len());
                let mut texts = std::mem::take(&mut self.texts);
                let mut ips = std::mem::take(&mut self.ips);
                let has_name = self.make(frame, fields, is_in_chain, &mut texts, &mut ips);
                (self.texts, self.ips) = (texts, ips);
                if MAX_KEPT < self.texts.len() - start {
                    out.extend(self.texts.drain(start..));
                    self.ips.truncate(first_ip);
                    return frame.owner.filter(|_| !has_name);
                }
                let (end, end_ip) = (self.texts.len(), self.ips.len());
                let known = Known { start, end, first_ip, end_ip, has_name };
                self.known.insert(key, known);
                known
            }
        };
        let at = out.len();
        out.extend_from_slice(&self.texts[known.start..known.end]);
        for ip in &self.ips[known.first_ip..known.end_ip] {
            put_hex(frame.ip.0, &mut out[at + ip..at + ip + IP_WIDTH]);
        }
        frame.owner.filter(|_| !known.has_name)
    }

    /// Appends the text of a frame to `out`, and where in it its address stands to `ips`; whether it has
    /// a name.
    fn make(
        &self,
        frame: &Frame,
        fields: Fields,
        is_in_chain: bool,
        out: &mut Vec<u8>,
        ips: &mut Vec<usize>,
    ) -> bool {
        let start = out.len();
        let mut ip = |out: &mut Vec<u8>| {
            ips.push(out.len() - start);
            hex(frame.ip.0, IP_WIDTH, out);
        };
        let name = self.code.names.name(frame);
        let found = self.code.lines.map(|it| it.of(frame, name.symbol.as_ref()));
        let found = found.unwrap_or_default();
        if !is_in_chain {
            ip(out);
            self.own(frame, &name, found.first(), fields, out);
            return name.symbol.is_some();
        }
        if let [callees @ .., _] = found.as_slice() {
            for callee in callees {
                out.push(b'\t');
                ip(out);
                self.inlined(&name, callee, fields, out);
                out.push(b'\n');
            }
        }
        out.push(b'\t');
        ip(out);
        self.own(frame, &name, found.last(), fields, out);
        out.push(b'\n');
        name.symbol.is_some()
    }

    fn name(&self, symbol: &SymbolName<'_>, out: &mut Vec<u8>) {
        if !symbol.is_mangled() {
            out.extend_from_slice(escape(symbol.raw.as_bytes()).as_bytes());
            return;
        }
        let mut shown = self.shown.borrow_mut();
        if !shown.contains_key(symbol.raw) {
            let text = escape(symbol.shown().as_bytes()).as_bytes().into();
            shown.insert(symbol.raw.into(), text);
        }
        out.extend_from_slice(&shown[symbol.raw]);
    }

    /// The bytes of the instruction at `frame`, where they are at hand.
    pub(super) fn instruction(&self, frame: &Frame) -> &'a [u8] {
        self.code.files.instruction(frame).unwrap_or_default()
    }

    /// Appends what an address is called: `symbol+0x1f`, or `[unknown]`.
    pub(super) fn symbol(&self, frame: &Frame, fields: Fields, out: &mut Vec<u8>) {
        let name = self.code.names.name(frame);
        match &name.symbol {
            Some(symbol) => {
                self.name(symbol, out);
                offset(&name, fields, out);
            }
            None => out.extend_from_slice(b"[unknown]"),
        }
    }

    /// Appends the module that an address is in: ` (module)`.
    pub(super) fn module(&self, frame: &Frame, fields: Fields, out: &mut Vec<u8>) {
        dso(frame, &self.code.names.name(frame), fields, out);
    }

    /// The function that has the code, behind its address: ` symbol+0x1f (module)`.
    fn own(
        &self,
        frame: &Frame,
        name: &Name<'_>,
        found: Option<&SourceFrame<'_>>,
        fields: Fields,
        out: &mut Vec<u8>,
    ) {
        if fields.contains(Fields::SYM) {
            out.push(b' ');
            match &name.symbol {
                Some(symbol) => {
                    self.name(symbol, out);
                    offset(name, fields, out);
                }
                None => out.extend_from_slice(b"[unknown]"),
            }
        }
        if fields.contains(Fields::DSO) {
            dso(frame, name, fields, out);
        }
        if fields.contains(Fields::SRCLINE) {
            self.own_line(frame, name, found, out);
        }
    }

    /// A function that was inlined, behind its address: ` symbol+0x1f (inlined)`.
    fn inlined(&self, name: &Name<'_>, found: &SourceFrame<'_>, fields: Fields, out: &mut Vec<u8>) {
        if fields.contains(Fields::SYM) {
            out.push(b' ');
            let raw = found.function.unwrap_or("??");
            match name.symbol {
                Some(symbol) => self.name(&symbol.inlined(raw), out),
                None => out.extend_from_slice(escape(raw.as_bytes()).as_bytes()),
            }
            offset(name, fields, out);
        }
        if fields.contains(Fields::SRCLINE) {
            match found.line {
                Some(line) => self.line(line.file, line.line, out),
                None => out.extend_from_slice(b"\n  ??:0"),
            }
        }
        out.extend_from_slice(b" (inlined)");
    }

    /// The line of the function that has the code; else the module and the address in it, as perf
    /// shows them.
    fn own_line(
        &self,
        frame: &Frame,
        name: &Name<'_>,
        found: Option<&SourceFrame<'_>>,
        out: &mut Vec<u8>,
    ) {
        if let Some(line) = found.and_then(|it| it.line) {
            self.line(line.file, line.line, out);
        } else if let Some((file, line)) = self.bpf_line(frame) {
            self.line(&file, line, out);
        } else if let Some(dso) = name.dso {
            out.extend_from_slice(b"\n  ");
            out.extend_from_slice(escape(dso.short_name.as_bytes()).as_bytes());
            out.push(b'[');
            hex(name.addr.0, 0, out);
            out.push(b']');
        }
    }

    /// The line of a BPF program, by what it was loaded with.
    fn bpf_line(&self, frame: &Frame) -> Option<(String, u32)> {
        let Some(Owner::Ksymbol(ksymbol)) = frame.owner else { return None };
        let programs = self.code.programs?;
        let program = programs.of_ksymbol(ksymbol)?.program;
        let back = u64::from(frame.is_return_address);
        let line = programs.line(program, Addr(frame.ip.0.wrapping_sub(back)))?;
        Some((String::from_utf8_lossy(line.file).into_owned(), line.line))
    }

    fn line(&self, file: &str, line: u32, out: &mut Vec<u8>) {
        let file = escape(self.code.paths.shown(file).as_bytes());
        // Writing to memory cannot fail.
        let _written = write!(out, "\n  {file}:{line}");
    }
}

fn offset(name: &Name<'_>, fields: Fields, out: &mut Vec<u8>) {
    if let Some(symbol) = name.symbol.filter(|_| fields.contains(Fields::SYMOFF)) {
        out.extend_from_slice(b"+0x");
        hex(symbol.offset, 0, out);
    }
}

/// Appends a module: ` (module)`.
fn dso(frame: &Frame, name: &Name<'_>, fields: Fields, out: &mut Vec<u8>) {
    let shown = name.dso.map_or("[unknown]".into(), |it| escape(it.long_name.as_bytes()));
    out.extend_from_slice(b" (");
    out.extend_from_slice(shown.as_bytes());
    // How far into what is no file is not told.
    let is_file = name.dso.is_some()
        && frame.level == Level::User
        && matches!(frame.owner, Some(Owner::Mapping(_)));
    if fields.contains(Fields::DSOFF) && is_file {
        out.extend_from_slice(b"+0x");
        hex(name.addr.0, 0, out);
    }
    out.push(b')');
}
