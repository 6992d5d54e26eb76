//! A recording that is a directory: where it goes, and who drains its rings.

use crate::perfdata::compression::Compressor;
use crate::sys::signals::Signals;
use crate::units::Cpu;

use super::Error;
use super::begin::output_error;
use super::config;
use super::config::Config;
use super::crews::Threads;
use super::describe;
use super::directory::Directory;
use super::drain::Drainers;
use super::drain::Part;
use super::fifo;
use super::output::Output;
use super::rings::CpuRing;
use super::session::Session;

/// Opens what is written to: a file, a pipe, or the file with the header in a directory.
///
/// A fifo is waited for until somebody reads it, or a signal comes.
pub(super) fn open_output(
    config: &Config,
    signals: &Signals,
) -> Result<(Option<Directory>, Output), Error> {
    let failed = |source| output_error(config, source);
    match (&config.threads, &config.output) {
        (Some(_), config::Output::File(path)) => {
            let directory = Directory::create(path).map_err(failed)?;
            let header = directory.header().map_err(failed)?;
            Ok((Some(directory), Output::of_directory(header, path.clone())))
        }
        (_, output) => {
            if let config::Output::File(path) = output
                && let Some(file) = fifo::open(path, signals).map_err(failed)?
            {
                return Ok((None, Output::of_stream(file)));
            }
            Ok((None, Output::create(output).map_err(failed)?))
        }
    }
}

impl Session<'_> {
    /// Hands the rings over to the threads that drain them from here on.
    pub(super) fn spread(&mut self, directory: &Directory, threads: &Threads) -> Result<(), Error> {
        let mut recorded: Vec<Cpu> = self.rings.iter().filter_map(CpuRing::cpu).collect();
        recorded.dedup();
        let crews = threads.crews(&recorded, &self.request.online);
        let crews = crews.map_err(|cpus| Error::NoCpuOfThread { cpus })?;
        let mut posts = Vec::with_capacity(self.rings.len());
        for (idx, ring) in std::mem::take(&mut self.rings).into_iter().enumerate() {
            let file = directory.part(idx).map_err(|it| output_error(self.config, it))?;
            let compressor = match self.config.compression {
                Some(level) => {
                    let kind = describe::compressed_kind(self.config.compat);
                    let compressor = Compressor::new(level, kind);
                    Some(compressor.map_err(|source| Error::Compression { level, source })?)
                }
                None => None,
            };
            posts.push((ring, Part::new(file, compressor)));
        }
        let (places, limit) = (self.places(), self.config.max_bytes);
        let priority = self.config.realtime;
        let drainers = Drainers::start(posts, crews, &self.opened, places, limit, priority);
        self.drainers = Some(drainers.map_err(|source| Error::Threads { source })?);
        Ok(())
    }
}
