//! Where the recording goes: a file that is readable at every moment, or a pipe.
//!
//! A file is written beside its final place and moved there by [`Output::commit`], so that a
//! recording that never began leaves no file and takes none away.

use std::fs;
use std::fs::File;
use std::fs::OpenOptions;
use std::io;
use std::io::IoSlice;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::Instant;

use crate::perfdata::FeatureBits;
use crate::perfdata::Layout;
use crate::perfdata::RecordHeader;
use crate::perfdata::encode_features;
use crate::units::FileOffset;

use super::batch;
use super::batch::Batch;
use super::config;
use super::directory;
use super::squeeze::Squeezer;

/// What is kept free for the features where the disk is full, in bytes.
pub(super) const RESERVE: usize = 16 << 10;
/// The largest feature that is still written there, in bytes.
const SMALL: usize = 4 << 10;

/// How many files of killed recorders are passed over for the name of a new one.
pub(super) const MOST_LEFT: u32 = 1000;

/// An open output.
#[derive(Debug)]
pub(super) struct Output {
    place: Place,
    /// Everything written so far, in bytes, and how much of it the header knows of.
    len: u64,
    noted_len: u64,
    /// Where the records begin and what stands before them; nothing for a pipe.
    layout: Option<Layout>,
    failed: Option<io::Error>,
    committing: Option<JoinHandle<io::Result<()>>>,
    /// Whether it could not be put in its place.
    is_astray: bool,
    /// What makes rounds smaller, where that is asked for.
    squeezer: Option<Squeezer>,
    /// Rounds that are not yet written, or compressed.
    batch: Batch,
}

#[derive(Debug)]
enum Place {
    /// Written as `temporary` until it is committed to `path`.
    File { file: File, path: PathBuf, temporary: Option<PathBuf> },
    /// A stream that cannot be gone back in.
    Stream(File),
}

impl Output {
    /// Opens what `output` names; nothing that exists is changed yet.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being written.
    pub(super) fn create(output: &config::Output) -> io::Result<Self> {
        let place = match output {
            config::Output::Stdout => Place::Stream(stdout()?),
            config::Output::File(path) => create_file(path)?,
        };
        Ok(Self::new(place))
    }

    /// Opens the file that follows this one, in the same place once that is free.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being written.
    pub(super) fn create_next(&self) -> io::Result<Self> {
        let path = self.path().ok_or(io::ErrorKind::InvalidInput)?;
        Ok(Self::new(create_beside(path.to_owned())?))
    }

    /// A stream that somebody reads.
    pub(super) fn of_stream(file: File) -> Self {
        Self::new(Place::Stream(file))
    }

    /// The file with the header of a directory that is being written.
    pub(super) fn of_directory(file: File, path: PathBuf) -> Self {
        Self::new(Place::File { file, path, temporary: None })
    }

    fn new(place: Place) -> Self {
        Self {
            place,
            len: 0,
            noted_len: 0,
            layout: None,
            failed: None,
            committing: None,
            is_astray: false,
            squeezer: None,
            batch: Batch::default(),
        }
    }

    /// From now on compresses rounds.
    pub(super) fn squeeze(&mut self, squeezer: Squeezer) {
        self.squeezer = Some(squeezer);
    }

    /// Takes over records of a round, which are compressed if that was asked for.
    pub(super) fn push_records(&mut self, records: &[IoSlice<'_>]) {
        if self.failed.is_none() {
            self.batch.push(records);
            if self.batch.is_too_full() {
                self.write_batch();
            }
        }
    }

    /// Writes the rounds that have come, or keeps them until there is more to write at once. Who reads
    /// a stream is not made to wait.
    pub(super) fn end_round(&mut self) {
        let is_due = || self.batch.due().is_some_and(|due| due <= Instant::now());
        if self.batch.is_full() || self.is_pipe() && self.squeezer.is_none() || is_due() {
            self.write_batch();
        }
    }

    /// Writes the rounds that have waited long enough, and says when those that came later will have;
    /// to be called before the recorder sleeps.
    pub(super) fn settle(&mut self) -> Option<Instant> {
        let due = self.batch.due();
        let is_early = due.is_some_and(|due| Instant::now() < due);
        if !is_early {
            self.write_batch();
        }
        let mut later = None;
        if let Some(squeezer) = self.squeezer.as_mut() {
            let mut ready = Vec::new();
            let taken = squeezer.take_ready(&mut ready);
            if squeezer.is_busy() {
                later = Some(Instant::now() + batch::LONGEST_WAIT);
            }
            self.put_squeezed(&ready, taken);
        }
        self.note_len();
        due.filter(|_| is_early).into_iter().chain(later).min()
    }

    /// Writes, or has compressed, what waits.
    fn write_batch(&mut self) {
        let batch = self.batch.take();
        if batch.is_empty() {
            return;
        }
        if let Some(squeezer) = self.squeezer.as_mut() {
            let mut ready = Vec::new();
            let pushed = squeezer.push(batch, &mut ready);
            self.put_squeezed(&ready, pushed);
        } else {
            self.put(&[IoSlice::new(&batch)]);
            self.batch.reuse(batch);
        }
        self.note_len();
    }

    /// Appends what is still being compressed, and from then on compresses no more. Returns how many
    /// plain bytes became one; `None` where nothing was to be compressed.
    pub(super) fn end_squeezing(&mut self) -> Option<u32> {
        self.write_batch();
        let squeezer = self.squeezer.take()?;
        let mut ready = Vec::new();
        let ended = squeezer.end(&mut ready);
        let ratio = ended.as_ref().copied().unwrap_or_default();
        self.put_squeezed(&ready, ended.map(drop));
        Some(ratio)
    }

    fn put_squeezed(&mut self, ready: &[u8], done: io::Result<()>) {
        if !ready.is_empty() {
            self.put(&[IoSlice::new(ready)]);
        }
        if let Err(error) = done {
            self.failed.get_or_insert(error);
        }
    }

    /// Whether it is a file that was not there before, as a device was.
    pub(super) fn is_own_file(&self) -> bool {
        matches!(self.place, Place::File { temporary: Some(_), .. })
    }

    /// The file that it is put to, if it is a file.
    pub(super) fn path(&self) -> Option<&Path> {
        match &self.place {
            Place::File { path, .. } => Some(path),
            Place::Stream(_) => None,
        }
    }

    /// Whether the output is a pipe and so takes the form without sections.
    pub(super) fn is_pipe(&self) -> bool {
        matches!(self.place, Place::Stream(_))
    }

    /// Puts the file in its place, keeping what was there beside it as `.old`.
    ///
    /// On a thread of its own: on a busy disk it takes longer than a ring lasts. What keeps the
    /// file from being moved is [`Output::finish`]'s to tell.
    pub(super) fn commit(&mut self) {
        self.note_len();
        let Place::File { path, temporary, .. } = &mut self.place else { return };
        let Some(temporary) = temporary.take() else { return };
        let path = path.clone();
        self.committing = Some(std::thread::spawn(move || {
            put_in_place(&temporary, &path).map_err(|error| {
                let stays = temporary.display();
                io::Error::new(error.kind(), format!("{error}; the recording stays at `{stays}`"))
            })
        }));
    }

    /// Writes all that stands before the records of a file.
    pub(super) fn begin_file(&mut self, layout: Layout) {
        let header = layout.encode(0, FeatureBits::default());
        self.append(&[IoSlice::new(&header)]);
        if self.failed.is_none() {
            self.layout = Some(layout);
        }
    }

    /// Appends whole records, after the rounds that came before.
    ///
    /// Once this has failed it does nothing: what was written before stays readable, and
    /// [`Output::failed`] says why.
    pub(super) fn append(&mut self, records: &[IoSlice<'_>]) {
        self.write_batch();
        self.put(records);
    }

    fn put(&mut self, records: &[IoSlice<'_>]) {
        if self.failed.is_some() {
            return;
        }
        match self.write_all(records) {
            Ok(()) => {}
            Err((written, error)) => {
                let kept = whole_records(records, written.saturating_sub(RESERVE));
                self.len += kept;
                self.failed = Some(error);
                if let Place::File { file, .. } = &self.place {
                    // Makes room for the features; where that fails there is just less of it.
                    let _truncated = file.set_len(self.len);
                }
            }
        }
    }

    /// Why the output could not be written to the end.
    pub(super) fn failed(&self) -> Option<&io::Error> {
        self.failed.as_ref()
    }

    /// Writes no more, because of `error`.
    pub(super) fn fail(&mut self, error: io::Error) {
        self.failed.get_or_insert(error);
    }

    /// The same, which is then forgotten.
    pub(super) fn take_failure(&mut self) -> Option<io::Error> {
        self.failed.take()
    }

    /// How many bytes there are: those written, and those that wait to be written as they are.
    pub(super) fn len(&self) -> u64 {
        let waiting = if self.squeezer.is_none() { self.batch.len() } else { 0 };
        self.len + waiting as u64
    }

    /// Waits until the file is in its place, and says whether it is; what kept it from there has failed.
    pub(super) fn is_in_place(&mut self) -> bool {
        if let Some(Ok(Err(error))) = self.committing.take().map(JoinHandle::join) {
            self.is_astray = true;
            self.failed.get_or_insert(error);
        }
        let is_committed = !matches!(self.place, Place::File { temporary: Some(_), .. });
        is_committed && !self.is_astray
    }

    /// Writes the features behind the records and the header that knows of them.
    ///
    /// # Errors
    ///
    /// The first failure of this or of an earlier write.
    pub(super) fn finish(mut self, mut features: Vec<(u8, Vec<u8>)>) -> io::Result<u64> {
        self.write_batch();
        if let (Place::File { file, .. }, Some(layout)) = (&self.place, &self.layout) {
            if self.failed.is_some() {
                features.retain(|(_, bytes)| bytes.len() <= SMALL);
            }
            let data_len = self.len - layout.data_offset().0;
            let bits_written = loop {
                let (bits, bytes) = encode_features(&features, FileOffset(self.len));
                let Err(error) = file.write_all_at(&bytes, self.len) else {
                    self.len += bytes.len() as u64;
                    break bits;
                };
                self.failed.get_or_insert(error);
                let _truncated = file.set_len(self.len);
                // What there is room for stays; with the largest gone the rest may fit.
                let largest = features.iter().map(|(_, bytes)| bytes.len()).max();
                let Some(largest) = largest else { break FeatureBits::default() };
                features.retain(|(_, bytes)| bytes.len() < largest);
            };
            let header = layout.encode(data_len, bits_written);
            if let Err(error) = file.write_all_at(&header, 0) {
                self.failed.get_or_insert(error);
            }
        }
        self.is_in_place();
        self.failed.take().map_or(Ok(self.len), Err)
    }

    /// Lets the header say how many records there are by now, so that a recorder that is killed
    /// leaves a file that can be read.
    fn note_len(&mut self) {
        let (Place::File { file, .. }, Some(layout)) = (&self.place, &self.layout) else { return };
        if self.noted_len == self.len {
            return;
        }
        self.noted_len = self.len;
        let data_len = self.len - layout.data_offset().0;
        let written = file.write_all_at(&data_len.to_ne_bytes(), DATA_SIZE_AT);
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }

    /// Writes `records` behind all else; else says how many bytes were, and why not all.
    fn write_all(&mut self, records: &[IoSlice<'_>]) -> Result<(), (usize, io::Error)> {
        let (Place::File { file, .. } | Place::Stream(file)) = &mut self.place;
        self.len += write_all(file, records)? as u64;
        Ok(())
    }
}

/// Writes `records` to `file` and says how many bytes that were; else how many were, and why not all.
pub(super) fn write_all(
    file: &mut File,
    records: &[IoSlice<'_>],
) -> Result<usize, (usize, io::Error)> {
    let mut slices: Vec<IoSlice<'_>> = records.to_vec();
    let mut left = &mut slices[..];
    IoSlice::advance_slices(&mut left, 0);
    let mut written = 0;
    while !left.is_empty() {
        // More than IOV_MAX at once is refused.
        let batch = left.len().min(1024);
        let result = file.write_vectored(left.get(..batch).unwrap_or_default());
        match result {
            Ok(0) => return Err((written, io::ErrorKind::WriteZero.into())),
            Ok(n) => {
                written += n;
                IoSlice::advance_slices(&mut left, n);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((written, error)),
        }
    }
    Ok(written)
}

/// Where `perf_file_header.data.size` stands.
const DATA_SIZE_AT: u64 = 48;

impl Drop for Output {
    fn drop(&mut self) {
        if let Place::File { temporary: Some(temporary), .. } = &self.place {
            // Nobody has been promised it.
            let _removed = fs::remove_file(temporary);
        }
    }
}

fn put_in_place(temporary: &Path, path: &Path) -> io::Result<()> {
    directory::set_aside(path)?;
    fs::rename(temporary, path)
}

fn create_file(path: &Path) -> io::Result<Place> {
    let mut path = path.to_owned();
    if let Ok(found) = fs::metadata(&path) {
        let kind = found.file_type();
        if kind.is_dir() {
            // One that is a recording is kept beside the new one, as a file is.
            directory::check(&path)?;
        } else if !kind.is_file() {
            let file = OpenOptions::new().write(true).open(&path)?;
            return Ok(Place::File { file, path, temporary: None });
        }
        // Of a link such as `/dev/stdout`, what it leads to is replaced, never the link.
        if fs::symlink_metadata(&path)?.is_symlink() {
            path = fs::canonicalize(&path)?;
        }
        if found.len() != 0 {
            directory::check_old(&path)?;
        }
    }
    create_beside(path)
}

/// A file under a hidden name, which is to be put to `path`.
fn create_beside(path: PathBuf) -> io::Result<Place> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}", std::process::id()));
    // A recorder that was killed has left its file, and in a container all have the same number.
    for n in 0..MOST_LEFT {
        let mut hidden = hidden.clone();
        hidden.push(format!(".{n}"));
        let temporary = path.with_file_name(hidden);
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            file => return Ok(Place::File { file: file?, path, temporary: Some(temporary) }),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Standard output without the buffer that `std` puts before it.
fn stdout() -> io::Result<File> {
    use std::os::fd::AsFd;

    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// How many of the first `limit` bytes of `records` are whole records.
pub(super) fn whole_records(records: &[IoSlice<'_>], limit: usize) -> u64 {
    let bytes = records.iter().flat_map(|it| it.iter().copied());
    let mut bytes = bytes.take(limit);
    let mut whole = 0;
    loop {
        // A record's size is the last field of its header.
        let Some(size) = bytes.nth(6).zip(bytes.next()) else { return whole };
        let size = u16::from_ne_bytes([size.0, size.1]);
        let Some(body) = size.checked_sub(RecordHeader::SIZE) else { return whole };
        if body != 0 && bytes.nth(usize::from(body) - 1).is_none() {
            return whole;
        }
        whole += u64::from(size);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use crate::perfdata::Attr;
    use crate::perfdata::FileHeader;
    use crate::perfdata::Section;

    use super::*;

    fn layout() -> Layout {
        Layout::new(vec![(Attr { kind: 1, ..Attr::default() }, vec![1])])
    }

    fn create(path: &Path) -> Output {
        Output::create(&config::Output::File(path.to_owned())).unwrap()
    }

    fn data(path: &Path) -> (Section, FeatureBits) {
        match FileHeader::decode(&fs::read(path).unwrap()).unwrap() {
            FileHeader::File { data, features, .. } => (data, features),
            FileHeader::Pipe { .. } => panic!("not a file"),
        }
    }

    #[test]
    fn what_a_link_leads_to_is_replaced_and_not_the_link() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let mut output = create(&link);
        output.commit();
        output.finish(Vec::new()).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"");
        assert_eq!(fs::read(dir.path().join("real.old")).unwrap(), b"old");
    }

    #[test]
    fn a_folder_where_the_old_recording_would_go_is_met_before_anything_is_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("perf.data");
        fs::write(&path, "before").unwrap();
        fs::create_dir(dir.path().join("perf.data.old")).unwrap();
        let error = Output::create(&config::Output::File(path)).unwrap_err();
        let why = "perf.data.old` is a directory that is no recording";
        assert!(error.to_string().ends_with(why), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_recording_that_is_a_folder_is_kept_as_one_that_is_a_file_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("perf.data");
        fs::create_dir(&path).unwrap();
        fs::write(path.join("data"), "old").unwrap();
        for _ in 0..2 {
            let mut output = create(&path);
            output.begin_file(layout());
            output.commit();
            output.finish(Vec::new()).unwrap();
            assert!(path.is_file());
            if let Ok(old) = fs::read(dir.path().join("perf.data.old/data")) {
                assert_eq!(old, b"old");
            }
        }
        assert!(dir.path().join("perf.data.old").is_file());
    }

    #[test]
    fn what_a_killed_recorder_of_the_same_number_left_is_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("perf.data");
        let (first, second) = (create(&path), create(&path));
        std::mem::forget(first);
        drop(second);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    /// A record without a body.
    const ROUND: [u8; 8] = [68, 0, 0, 0, 0, 0, 8, 0];

    #[test]
    fn a_recording_that_never_began_leaves_no_file_and_takes_none_away() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("perf.data");
        fs::write(&path, "before").unwrap();
        let mut output = create(&path);
        output.begin_file(layout());
        drop(output);
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_was_there_is_kept_as_old_and_the_new_file_is_ours_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("perf.data");
        fs::write(&path, "before").unwrap();
        let mut output = create(&path);
        output.commit();
        output.finish(Vec::new()).unwrap();
        let old = dir.path().join("perf.data.old");
        assert_eq!(fs::read_to_string(old).unwrap(), "before");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn the_header_counts_the_records_that_came() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("perf.data");
        let mut output = create(&path);
        output.begin_file(layout());
        let temporary = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
        for n in 1..=2 {
            output.append(&[IoSlice::new(&ROUND)]);
            output.settle();
            assert_eq!(data(&temporary).0.size, n * 8);
        }
        output.commit();
        output.finish(vec![(3, b"abcd".to_vec())]).unwrap();
        let (section, features) = data(&path);
        assert_eq!((section.size, features.contains(3)), (16, true));
        let len = fs::metadata(&path).unwrap().len();
        assert_eq!(len, section.end() + 16 + 4);
    }

    #[test]
    fn a_full_disk_is_an_error_and_not_the_end_of_what_was_written() {
        let output = Output::create(&config::Output::File("/dev/full".into()));
        let mut output = output.unwrap();
        output.begin_file(layout());
        assert!(output.failed().is_some());
        let error = output.finish(Vec::new()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn a_write_that_was_cut_keeps_its_whole_records() {
        let long = [9, 0, 0, 0, 0, 0, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        let slices = [IoSlice::new(&ROUND), IoSlice::new(&long[..3]), IoSlice::new(&long[3..])];
        let whole: Vec<_> = [0, 7, 8, 23, 24].map(|it| whole_records(&slices, it)).to_vec();
        assert_eq!(whole, [0, 0, 8, 8, 24]);
    }

    #[test]
    fn a_folder_is_no_output() {
        let error = Output::create(&config::Output::File("/tmp".into())).unwrap_err();
        assert_eq!(error.to_string(), "`/tmp` is a directory that is no recording");
    }
}
