//! A frame as text: its address, what it is called, and where it is in the source.

use std::cell::RefCell;
use std::io::Write as _;
use std::num::NonZeroU32;
use std::ops::Range;

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
use crate::replay::Unknown;
use crate::replay::resolved::Dso;
use crate::replay::resolved::Level;
use crate::replay::timeline::Owner;
use crate::symbols::Machine;
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
    /// The fields by which frames are shown, each in a chain or alone.
    styles: Vec<(Fields, bool)>,
    /// What is known of an address of a module: by itself, the module's number, and [`kind`].
    in_modules: FxHashMap<(Addr, u32, u32), Known>,
    /// The same of all others, by the number of the style.
    elsewhere: FxHashMap<(Frame, u32), Known>,
    texts: Vec<u8>,
    /// Where an address stands in a text, from its beginning.
    ips: Vec<u32>,
    words: RefCell<Words<'a>>,
}

/// Names of functions and of modules as they are shown.
#[derive(Default)]
struct Words<'a> {
    bytes: Vec<u8>,
    /// Where each word is among them.
    ranges: Vec<Range<usize>>,
    /// Of functions, by where their names lie, and whether they are shown demangled.
    functions: FxHashMap<(usize, usize, bool), u32>,
    /// By the mangled names themselves, since one can take long to demangle.
    demangled: FxHashMap<&'a str, u32>,
    /// Of modules, by where they lie; 0 for none.
    modules: FxHashMap<usize, u32>,
}

/// Texts that are longer than this, in bytes, are made again for each sample: many addresses may have
/// the same long name.
const MAX_KEPT: usize = 4 << 10;

/// The width of an address, which no address is wider than.
const IP_WIDTH: usize = 16;

/// What stands between a frame and its line.
const IN_CHAIN: &str = "\n  ";

/// A line of source.
#[derive(Debug)]
pub(super) struct InSource {
    pub(super) file: String,
    pub(super) line: u32,
    /// What stands in it, where the recording has that.
    pub(super) text: Option<String>,
}

/// What is known of a frame.
#[derive(Clone, Copy)]
enum Known {
    /// It is one line, of two words.
    Words { function: u32, offset: Option<NonZeroU32>, module: u32, has_name: bool },
    /// Where its text begins among all of them and how long it is, and the same of the places where its
    /// address stands.
    Text { start: u32, len: u32, first_ip: u32, n_ips: u16, has_name: bool },
}

impl<'a> Places<'a> {
    pub(super) fn new(code: CodeNames<'a>) -> Self {
        Self {
            code,
            styles: Vec::new(),
            in_modules: FxHashMap::default(),
            elsewhere: FxHashMap::default(),
            texts: Vec::new(),
            ips: Vec::new(),
            words: RefCell::default(),
        }
    }

    /// Appends a frame of a call chain, with what was inlined there, each on lines of its own; whose
    /// its address is, if it has no name.
    pub(super) fn in_chain(
        &mut self,
        frame: &Frame,
        fields: Fields,
        out: &mut Vec<u8>,
    ) -> Option<Unknown> {
        self.text(frame, (fields, true), out)
    }

    /// Appends the frame of a sample without a call chain; whose its address is, if it has no name.
    pub(super) fn alone(
        &mut self,
        frame: &Frame,
        fields: Fields,
        out: &mut Vec<u8>,
    ) -> Option<Unknown> {
        self.text(frame, (fields, false), out)
    }

    fn text(&mut self, frame: &Frame, style: (Fields, bool), out: &mut Vec<u8>) -> Option<Unknown> {
        let number = self.styles.iter().position(|it| *it == style).unwrap_or_else(|| {
            self.styles.push(style);
            self.styles.len() - 1
        });
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let known = match self.code.names.place(frame) {
            Some((module, addr)) => {
                let key = (addr, module, kind(frame, number));
                let found = self.in_modules.get(&key).copied();
                found.or_else(|| {
                    let known = self.keep(frame, style)?;
                    self.in_modules.insert(key, known);
                    Some(known)
                })
            }
            None => {
                // Of an address of nobody there is nothing to say but itself.
                let is_nowhere = frame.owner.is_none() && frame.level == Level::User;
                let ip = if is_nowhere { Addr(0) } else { frame.ip };
                let key = (Frame { ip, ..*frame }, number);
                let found = self.elsewhere.get(&key).copied();
                found.or_else(|| {
                    let known = self.keep(frame, style)?;
                    self.elsewhere.insert(key, known);
                    Some(known)
                })
            }
        };
        let has_name = match known {
            Some(known) => self.append(known, frame.ip, style, out),
            None => {
                let (name, found) = self.look_up(frame);
                self.make(frame, &name, &found, style, out, &mut Vec::new())
            }
        };
        (!has_name).then(|| Unknown::of(frame))
    }

    /// Appends what is `known` of a frame at `ip`; whether it has a name.
    fn append(
        &self,
        known: Known,
        ip: Addr,
        (_, is_in_chain): (Fields, bool),
        out: &mut Vec<u8>,
    ) -> bool {
        match known {
            Known::Words { function, offset, module, has_name } => {
                let words = self.words.borrow();
                if is_in_chain {
                    out.push(b'\t');
                }
                hex(ip.0, IP_WIDTH, out);
                out.push(b' ');
                out.extend_from_slice(words.get(function));
                if let Some(behind) = offset {
                    out.extend_from_slice(b"+0x");
                    hex(u64::from(behind.get() - 1), 0, out);
                }
                out.extend_from_slice(words.get(module));
                if is_in_chain {
                    out.push(b'\n');
                }
                has_name
            }
            Known::Text { start, len, first_ip, n_ips, has_name } => {
                let at = out.len();
                let (start, first_ip) = (start as usize, first_ip as usize);
                out.extend_from_slice(&self.texts[start..start + len as usize]);
                for place in &self.ips[first_ip..first_ip + usize::from(n_ips)] {
                    let place = at + *place as usize;
                    put_hex(ip.0, &mut out[place..place + IP_WIDTH]);
                }
                has_name
            }
        }
    }

    /// What there is to keep of a frame; `None` where that would take too much memory.
    fn keep(&mut self, frame: &Frame, style: (Fields, bool)) -> Option<Known> {
        let (name, found) = self.look_up(frame);
        if let Some(words) = self.in_words(&name, &found, style) {
            return Some(words);
        }
        let (start, first_ip) = (self.texts.len(), self.ips.len());
        let mut texts = std::mem::take(&mut self.texts);
        let mut ips = std::mem::take(&mut self.ips);
        let has_name = self.make(frame, &name, &found, style, &mut texts, &mut ips);
        let len = texts.len() - start;
        let known = || {
            Some(Known::Text {
                start: u32::try_from(start).ok()?,
                len: u32::try_from(len).ok().filter(|_| len <= MAX_KEPT)?,
                first_ip: u32::try_from(first_ip).ok()?,
                n_ips: u16::try_from(ips.len() - first_ip).ok()?,
                has_name,
            })
        };
        let known = known();
        if known.is_none() {
            texts.truncate(start);
            ips.truncate(first_ip);
        }
        (self.texts, self.ips) = (texts, ips);
        known
    }

    /// What a frame is called, and the functions that it stands for, if those are shown.
    fn look_up(&self, frame: &Frame) -> (Name<'a>, Vec<SourceFrame<'a>>) {
        let name = self.code.names.name(frame);
        let found = self.code.lines.map(|it| it.of(frame, name.symbol.as_ref()));
        (name, found.unwrap_or_default())
    }

    /// A frame in two words, where that is all that is shown of it.
    fn in_words(
        &self,
        name: &Name<'a>,
        found: &[SourceFrame<'a>],
        (fields, is_in_chain): (Fields, bool),
    ) -> Option<Known> {
        let (both, more) = (Fields::SYM | Fields::DSO, Fields::DSOFF | Fields::SRCLINE);
        if !fields.contains(both) || fields.intersects(more) || is_in_chain && 1 < found.len() {
            return None;
        }
        let mut words = self.words.borrow_mut();
        let shown = name.symbol.filter(|_| fields.contains(Fields::SYMOFF));
        let offset = match shown {
            Some(it) => Some(NonZeroU32::new(u32::try_from(it.offset).ok()?.checked_add(1)?)?),
            None => None,
        };
        let function = match &name.symbol {
            Some(symbol) => words.function(symbol),
            None => words.unknown(),
        };
        let module = words.module(name.dso);
        Some(Known::Words { function, offset, module, has_name: name.symbol.is_some() })
    }

    /// Appends the text of a frame to `out`, and where in it its address stands to `ips`; whether it has
    /// a name.
    fn make(
        &self,
        frame: &Frame,
        name: &Name<'a>,
        found: &[SourceFrame<'a>],
        (fields, is_in_chain): (Fields, bool),
        out: &mut Vec<u8>,
        ips: &mut Vec<u32>,
    ) -> bool {
        let start = out.len();
        let mut ip = |out: &mut Vec<u8>| {
            ips.push(u32::try_from(out.len() - start).unwrap_or(u32::MAX));
            hex(frame.ip.0, IP_WIDTH, out);
        };
        if !is_in_chain {
            ip(out);
            self.own(frame, name, found.first(), fields, out);
            return name.symbol.is_some();
        }
        if let [callees @ .., _] = found {
            for callee in callees {
                out.push(b'\t');
                ip(out);
                self.inlined(name, callee, fields, out);
                out.push(b'\n');
            }
        }
        out.push(b'\t');
        ip(out);
        self.own(frame, name, found.last(), fields, out);
        out.push(b'\n');
        name.symbol.is_some()
    }

    fn name(&self, symbol: &SymbolName<'a>, out: &mut Vec<u8>) {
        let mut words = self.words.borrow_mut();
        let function = words.function(symbol);
        out.extend_from_slice(words.get(function));
    }

    /// The bytes of the instruction at `frame`, where they are at hand.
    pub(super) fn instruction(&self, frame: &Frame) -> &'a [u8] {
        self.code.files.instruction(frame).unwrap_or_default()
    }

    /// The `len` bytes of code from `frame` on, or as many as are at hand.
    pub(super) fn code(&self, frame: &Frame, len: u64) -> Option<(Machine, &'a [u8])> {
        self.code.files.code(frame, len)
    }

    /// Appends the line that `frame` comes from behind `prefix`, if that is known.
    pub(super) fn line_of(&self, frame: &Frame, prefix: &str, out: &mut Vec<u8>) {
        let (name, found) = self.look_up(frame);
        self.own_line(frame, &name, found.first(), prefix, out);
    }

    /// The file and the line that `frame` comes from, and what stands there if the recording has it.
    pub(super) fn source(&self, frame: &Frame) -> Option<InSource> {
        let (_, found) = self.look_up(frame);
        match found.first().and_then(|it| it.line) {
            Some(line) => {
                Some(InSource { file: line.file.to_owned(), line: line.line, text: None })
            }
            None => self.bpf_line(frame),
        }
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
        name: &Name<'a>,
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
            self.own_line(frame, name, found, IN_CHAIN, out);
        }
    }

    /// A function that was inlined, behind its address: ` symbol+0x1f (inlined)`.
    fn inlined(&self, name: &Name<'a>, found: &SourceFrame<'a>, fields: Fields, out: &mut Vec<u8>) {
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
                Some(line) => self.line(line.file, line.line, IN_CHAIN, out),
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
        name: &Name<'a>,
        found: Option<&SourceFrame<'_>>,
        prefix: &str,
        out: &mut Vec<u8>,
    ) {
        if let Some(line) = found.and_then(|it| it.line) {
            self.line(line.file, line.line, prefix, out);
        } else if let Some(InSource { file, line, .. }) = self.bpf_line(frame) {
            self.line(&file, line, prefix, out);
        } else if let Some(dso) = name.dso {
            out.extend_from_slice(prefix.as_bytes());
            out.extend_from_slice(escape(dso.short_name.as_bytes()).as_bytes());
            out.push(b'[');
            hex(self.code.names.linked(frame, name).0, 0, out);
            out.push(b']');
        }
    }

    /// The line of a BPF program, by what it was loaded with.
    fn bpf_line(&self, frame: &Frame) -> Option<InSource> {
        let Some(Owner::Ksymbol(ksymbol)) = frame.owner else { return None };
        let programs = self.code.programs?;
        let program = programs.of_ksymbol(ksymbol)?.program;
        let back = u64::from(frame.is_return_address);
        let line = programs.line(program, Addr(frame.ip.0.wrapping_sub(back)))?;
        let text = String::from_utf8_lossy(line.text).into_owned();
        let file = String::from_utf8_lossy(line.file).into_owned();
        Some(InSource { file, line: line.line, text: Some(text).filter(|it| !it.is_empty()) })
    }

    fn line(&self, file: &str, line: u32, prefix: &str, out: &mut Vec<u8>) {
        let file = escape(self.code.paths.shown(file).as_bytes());
        // Writing to memory cannot fail.
        let _written = write!(out, "{prefix}{file}:{line}");
    }
}

impl<'a> Words<'a> {
    fn get(&self, word: u32) -> &[u8] {
        let range = self.ranges.get(word as usize).cloned();
        range.and_then(|it| self.bytes.get(it)).unwrap_or_default()
    }

    fn add(&mut self, parts: &[&[u8]]) -> u32 {
        let start = self.bytes.len();
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.ranges.push(start..self.bytes.len());
        u32::try_from(self.ranges.len() - 1).unwrap_or(u32::MAX)
    }

    fn function(&mut self, symbol: &SymbolName<'a>) -> u32 {
        let place = (symbol.raw.as_ptr().addr(), symbol.raw.len(), symbol.is_mangled());
        if let Some(known) = self.functions.get(&place) {
            return *known;
        }
        let known = self.demangled.get(symbol.raw).copied().filter(|_| symbol.is_mangled());
        let word =
            known.unwrap_or_else(|| self.add(&[escape(symbol.shown().as_bytes()).as_bytes()]));
        if symbol.is_mangled() {
            self.demangled.insert(symbol.raw, word);
        }
        self.functions.insert(place, word);
        word
    }

    /// What stands for a function that is not known.
    fn unknown(&mut self) -> u32 {
        let place = (0, 0, false);
        if let Some(known) = self.functions.get(&place) {
            return *known;
        }
        let word = self.add(&[b"[unknown]"]);
        self.functions.insert(place, word);
        word
    }

    /// A module: ` (module)`.
    fn module(&mut self, dso: Option<&'a Dso>) -> u32 {
        let place = dso.map_or(0, |it| std::ptr::from_ref(it).addr());
        if let Some(known) = self.modules.get(&place) {
            return *known;
        }
        let shown = dso.map_or("[unknown]".into(), |it| escape(it.long_name.as_bytes()));
        let word = self.add(&[b" (", shown.as_bytes(), b")"]);
        self.modules.insert(place, word);
        word
    }
}

/// How an address of a module was met: its privilege, whether it is one to return to, and the style.
fn kind(frame: &Frame, style: u32) -> u32 {
    let level = match frame.level {
        Level::Kernel => 0,
        Level::User => 1,
        Level::GuestKernel => 2,
        Level::GuestUser => 3,
        Level::Hypervisor => 4,
    };
    style << 4 | level << 1 | u32::from(frame.is_return_address)
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
