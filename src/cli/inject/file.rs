//! A recording as a file: its events before its records, its features behind them.

use std::fs::File;
use std::io;
use std::io::BufWriter;
use std::io::Seek;
use std::io::SeekFrom;
use std::io::Write;
use std::path::Path;

use crate::perfdata::Cursor;
use crate::perfdata::FeatureBits;
use crate::perfdata::FileHeader;
use crate::perfdata::Layout;
use crate::perfdata::Section;
use crate::perfdata::encode_features;
use crate::perfdata::feature::EventDesc;
use crate::perfdata::feature::EventDescs;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FeatureId;
use crate::perfdata::feature::FileBuildId;
use crate::perfdata::feature::Text;
use crate::perfdata::read_up_to;
use crate::units::FileOffset;
use crate::units::Pid;

use super::Convert;
use super::Form;
use super::Rewrites;
use super::Source;
use super::chains;
use super::cpu_mode;
use super::message::Failure;

/// Feature sections by ascending number, each with its bytes.
type Sections = Vec<(u8, Vec<u8>)>;

/// Where the size of the records stands in the header of a file.
const DATA_SIZE_AT: usize = 48;
/// Where the bits of the features stand there.
const FEATURES_AT: usize = 72;

impl Source<'_> {
    /// Writes a file to `path`.
    pub(super) fn to_file(&self, path: &Path, rewrites: &mut Rewrites<'_>) -> Result<(), Failure> {
        let cannot = |error: io::Error| {
            Failure::because(format!("cannot write `{}`", path.display()), &error)
        };
        let same = |it: &Path| it.canonicalize().ok();
        if same(path).is_some_and(|it| Some(it) == same(self.path)) {
            return Err(Failure::new(format!("cannot write `{}`", path.display()))
                .cause("it is the recording that is read"));
        }
        let (mut head, sections) = match self.recording.header {
            FileHeader::File { data, .. } => self.kept_head(data)?,
            FileHeader::Pipe { .. } => self.made_head()?,
        };
        let mut out = BufWriter::new(File::create(path).map_err(cannot)?);
        out.write_all(&head).map_err(cannot)?;
        let size = self.records(rewrites, &mut out, Form::File, &cannot)?;
        let start = head.len() as u64;
        let (features, table) = self.features(&sections, start.saturating_add(size));
        out.write_all(&table).map_err(cannot)?;
        self.patch(&mut head, size, features);
        out.seek(SeekFrom::Start(0)).map_err(cannot)?;
        out.write_all(&head).map_err(cannot)?;
        out.flush().map_err(cannot)
    }

    /// All that stands before the records of a file, as it is, and the sections behind them.
    fn kept_head(&self, data: Section) -> Result<(Vec<u8>, Sections), Failure> {
        let raw = self.file.raw();
        let head = read_up_to(raw, FileOffset(0), data.offset);
        let mut head = head.map_err(|error| self.cannot_read(error))?;
        let FileHeader::File { attrs, attr_size, features, .. } = self.recording.header else {
            return Ok((head, Vec::new()));
        };
        if head.len() as u64 != data.offset
            || attrs.end() > data.offset
            || head.len() < FileHeader::LEN
        {
            return Err(Failure::new(format!("cannot write `{}` anew", self.path.display()))
                .cause("its events stand behind its records"));
        }
        if self.chains == Convert::Yes {
            let entry_len = usize::try_from(attr_size).unwrap_or(usize::MAX).max(1);
            let all = usize::try_from(attrs.offset).ok().zip(usize::try_from(attrs.end()).ok());
            let entries = all.and_then(|(start, end)| head.get_mut(start..end)).unwrap_or_default();
            for (entry, event) in entries.chunks_exact_mut(entry_len).zip(&self.recording.events) {
                let mut attr = Vec::new();
                chains::without_stacks(&event.attr).encode(event.attr.size, &mut attr);
                let len = attr.len().min(entry.len());
                entry[..len].copy_from_slice(&attr[..len]);
            }
        }
        let mut sections = Vec::new();
        if self.recording.is_unfinished {
            return Ok((head, sections));
        }
        let endian = self.recording.header.endian();
        let mut at = data.end();
        for id in features.iter() {
            let table = read_up_to(raw, FileOffset(at), Section::LEN as u64);
            let table = table.map_err(|error| self.cannot_read(error))?;
            at = at.saturating_add(Section::LEN as u64);
            let mut cursor = Cursor::new(&table, FileOffset(at), endian);
            let Ok(Section { offset, size }) = Section::decode(&mut cursor, "feature section")
            else {
                break;
            };
            let bytes = read_up_to(raw, FileOffset(offset), size);
            sections.push((id, bytes.map_err(|error| self.cannot_read(error))?));
        }
        if self.chains == Convert::Yes
            && let Some(Feature::Events(described)) = self.recording.feature(FeatureId::EVENT_DESC)
            && let Some((_, bytes)) = sections.iter_mut().find(|it| it.0 == FeatureId::EVENT_DESC.0)
        {
            bytes.clear();
            self.described(described).encode(bytes);
        }
        let is_merged = self.recording.data.len() > 1;
        sections.retain(|(id, _)| {
            let id = FeatureId(*id);
            !(id == FeatureId::COMPRESSED && self.file.is_inflated()
                || id == FeatureId::DIR_FORMAT && is_merged)
        });
        if !self.known.is_empty() {
            if !self.is_native() {
                return Err(self.foreign());
            }
            let listed = match self.recording.feature(FeatureId::BUILD_ID) {
                Some(Feature::BuildIds(entries)) => entries.clone(),
                _ => Vec::new(),
            };
            let id = FeatureId::BUILD_ID.0;
            sections.retain(|it| it.0 != id);
            let place = sections.partition_point(|it| it.0 < id);
            sections.insert(place, (id, self.build_ids(listed)));
        }
        Ok((head, sections))
    }

    /// A section of the build ids `listed` and those to add.
    fn build_ids(&self, mut listed: Vec<FileBuildId>) -> Vec<u8> {
        for (path, id) in self.known {
            if let Some(it) = listed.iter_mut().find(|it| it.name.as_bytes() == path.as_slice()) {
                it.build_id = self.told.and_then(|told| told.of(path)).or(it.build_id);
                continue;
            }
            let name = Text::from(String::from_utf8_lossy(path).as_ref());
            listed.push(FileBuildId {
                cpu_mode: cpu_mode(path),
                pid: Pid(-1),
                build_id: *id,
                name,
            });
        }
        let mut bytes = Vec::new();
        Feature::BuildIds(listed).encode(&mut bytes);
        bytes
    }

    /// The head of a file and its sections, from what the records of a stream say.
    fn made_head(&self) -> Result<(Vec<u8>, Sections), Failure> {
        if !self.is_native() {
            return Err(self.foreign());
        }
        let events = &self.recording.events;
        let layout =
            Layout::new(events.iter().map(|it| (self.attr(&it.attr), it.ids.clone())).collect());
        let head = layout.encode(0, FeatureBits::default());
        let mut sections: Sections = Vec::new();
        let mut listed = Vec::new();
        for feature in self.recording.features.iter().filter_map(|it| it.content.as_ref().ok()) {
            let id = feature.id();
            match feature {
                Feature::Compressed(_) => continue,
                Feature::BuildIds(entries) => {
                    listed.extend_from_slice(entries);
                    continue;
                }
                _ => {}
            }
            let mut bytes = Vec::new();
            match feature {
                Feature::Events(it) => self.described(it).encode(&mut bytes),
                it => it.encode(&mut bytes),
            }
            match sections.iter_mut().find(|it| it.0 == id.0) {
                None => sections.push((id.0, bytes)),
                // Of program infos and BTFs there are several, each with a number of entries first.
                Some((_, all))
                    if matches!(feature, Feature::BpfProgInfo(_) | Feature::BpfBtf(_)) =>
                {
                    join_counted(all, &bytes);
                }
                Some(_) => {}
            }
        }
        if !sections.iter().any(|it| it.0 == FeatureId::EVENT_DESC.0) {
            let described = events.iter().map(|it| EventDesc {
                attr: self.attr(&it.attr),
                name: Text::from(it.name.as_str()),
                ids: it.ids.clone(),
            });
            let events = described.collect();
            let mut bytes = Vec::new();
            Feature::Events(EventDescs { attr_size: layout.attr_size(), events })
                .encode(&mut bytes);
            sections.push((FeatureId::EVENT_DESC.0, bytes));
        }
        if !self.known.is_empty() || !listed.is_empty() {
            sections.push((FeatureId::BUILD_ID.0, self.build_ids(listed)));
        }
        sections.sort_unstable_by_key(|it| it.0);
        Ok((head, sections))
    }

    /// The table and the sections behind records that end at `at`.
    fn features(&self, sections: &[(u8, Vec<u8>)], at: u64) -> (FeatureBits, Vec<u8>) {
        let (bits, mut bytes) = encode_features(sections, FileOffset(at));
        if !self.is_native() {
            let table_len = sections.len() * Section::LEN;
            let words = bytes.get_mut(..table_len).unwrap_or_default();
            words.chunks_exact_mut(8).for_each(<[u8]>::reverse);
        }
        (bits, bytes)
    }

    /// Writes how many bytes of records there are, and which features, into `head`.
    fn patch(&self, head: &mut [u8], size: u64, features: FeatureBits) {
        let is_native = self.is_native();
        let mut put = |at: usize, value: u64| {
            let Some(place) = head.get_mut(at..at + 8) else { return };
            place.copy_from_slice(&value.to_ne_bytes());
            if !is_native {
                place.reverse();
            }
        };
        put(DATA_SIZE_AT, size);
        for (idx, word) in features.0.iter().enumerate() {
            put(FEATURES_AT + 8 * idx, *word);
        }
    }
}

/// Adds the entries of `more` to those of `all`, each with their number in front.
fn join_counted(all: &mut Vec<u8>, more: &[u8]) {
    let (Some(count), Some((added, entries))) =
        (all.first_chunk::<4>(), more.split_first_chunk::<4>())
    else {
        return;
    };
    let sum = u32::from_ne_bytes(*count).saturating_add(u32::from_ne_bytes(*added));
    if let Some(place) = all.first_chunk_mut::<4>() {
        *place = sum.to_ne_bytes();
    }
    all.extend_from_slice(entries);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_two_sections_are_counted_together() {
        let section = |n: u32, rest: &[u8]| [&n.to_ne_bytes(), rest].concat();
        let mut all = section(2, b"ab");
        join_counted(&mut all, &section(1, b"c"));
        assert_eq!(all, section(3, b"abc"));
        join_counted(&mut all, b"xx");
        assert_eq!(all, section(3, b"abc"));
    }
}
