//! Debug information from servers that have it by build id, where `DEBUGINFOD_URLS` names some.
//!
//! *In*: a build id. *Out*: a file in the cache that the client of elfutils uses, too. A server, the network
//! and what they send are untrusted: what comes is bounded in time and length, and counts only if it
//! has the build id.
//!
//! Source: `debuginfod_find_debuginfo(3)`, "ENVIRONMENT VARIABLES" and "CACHE".

mod clean;

use std::env;
use std::fmt;
use std::fs;
use std::io;
use std::io::Read;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::mpsc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;
use std::time::Instant;
use std::time::SystemTime;

use tempfile::NamedTempFile;
use ureq::Agent;
use ureq::tls::PemItem;
use ureq::tls::RootCerts;
use ureq::tls::TlsConfig;

use crate::symbols::Artifact;
use crate::symbols::Identity;
use crate::sys::map::FileMap;
use crate::units::BuildId;

use clean::clean;

/// How long a server may take to send [`PROGRESS`], unless `DEBUGINFOD_TIMEOUT` says otherwise.
const TIMEOUT: Duration = Duration::from_secs(90);
/// How much must come within that time, in bytes.
const PROGRESS: u64 = 100_000;
/// How long all of a run may wait for servers, unless `DEBUGINFOD_MAXTIME` says otherwise.
const MAX_TIME: Duration = Duration::from_secs(300);
/// The longest file that is taken, in bytes, unless `DEBUGINFOD_MAXSIZE` says otherwise.
const MAX_SIZE: u64 = 4 << 30;
/// More than that is as good as no limit, in seconds.
const MAX_SECONDS: u64 = 86_400;
/// How long a file that no server had is not asked for again.
const MISS: Duration = Duration::from_secs(600);
/// How long a server is waited for before that is told.
const PATIENCE: Duration = Duration::from_secs(2);

/// Who is told, once, that a server is waited for, and how long that may take at the most.
pub type OnWait = fn(url: &str, at_most: Duration);

/// Where the certificates are that this machine trusts.
const ROOTS: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A client of debuginfod servers.
pub struct Debuginfod {
    limits: Limits,
    cache: PathBuf,
    on_wait: OnWait,
    state: Mutex<State>,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    timeout: Duration,
    max_time: Duration,
    max_size: u64,
}

/// What a run has learnt so far.
struct State {
    agent: Agent,
    servers: Vec<Server>,
    /// How long servers have been waited for.
    waited: Duration,
    /// Of which files it is known that no server has them.
    missing: Vec<(BuildId, Artifact)>,
    troubles: Vec<String>,
    /// Whether it was told that servers are waited for.
    has_told: bool,
    /// Whether the cache was looked through for what is old.
    is_clean: bool,
}

struct Server {
    url: String,
    /// Whether it is asked: one that did not answer in time is not asked again.
    is_asked: bool,
}

impl fmt::Debug for Debuginfod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Debuginfod").field("cache", &self.cache).finish_non_exhaustive()
    }
}

/// Why a server did not send a file.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("it has no such file")]
    Missing,
    #[error("it answers with status {0}")]
    Status(u16),
    #[error("it sends less than {PROGRESS} bytes in {} s", .0.as_secs())]
    Slow(Duration),
    #[error("what it sends is longer than {0} bytes")]
    TooLong(u64),
    #[error("what it sends is no file with that build id")]
    OtherBuild,
    #[error("all {} s that there are for servers are used up", .0.as_secs())]
    NoTime(Duration),
    #[error("{0}")]
    Http(ureq::Error),
    #[error("{0}")]
    Cache(io::Error),
}

impl Debuginfod {
    /// A client of the servers that the environment names, which has `on_wait` called by a thread of its
    /// own where one is slow; `None` if it names none.
    pub fn from_env(on_wait: OnWait) -> Option<Self> {
        let urls = env::var("DEBUGINFOD_URLS").ok()?;
        let number = |name| env::var(name).ok()?.trim().parse::<u64>().ok().filter(|it| *it != 0);
        let seconds = |name| number(name).map(|it| Duration::from_secs(it.min(MAX_SECONDS)));
        let limits = Limits {
            timeout: seconds("DEBUGINFOD_TIMEOUT").unwrap_or(TIMEOUT),
            max_time: seconds("DEBUGINFOD_MAXTIME").unwrap_or(MAX_TIME),
            max_size: number("DEBUGINFOD_MAXSIZE").unwrap_or(MAX_SIZE),
        };
        Self::new(&urls, cache()?, limits, on_wait)
    }

    /// A client of the servers in `urls`, a list with spaces between them.
    fn new(urls: &str, cache: PathBuf, limits: Limits, on_wait: OnWait) -> Option<Self> {
        // Other words are settings of the client of elfutils.
        let is_url = |it: &&str| it.starts_with("http://") || it.starts_with("https://");
        let urls: Vec<&str> = urls.split_whitespace().filter(is_url).collect();
        if urls.is_empty() {
            return None;
        }
        let is_secure = urls.iter().any(|it| it.starts_with("https://"));
        let server = |url: &&str| Server { url: (*url).to_owned(), is_asked: true };
        let state = State {
            agent: agent(limits, if is_secure { roots() } else { Vec::new() }),
            servers: urls.iter().map(server).collect(),
            waited: Duration::ZERO,
            missing: Vec::new(),
            troubles: Vec::new(),
            has_told: false,
            is_clean: false,
        };
        Some(Self { limits, cache, on_wait, state: Mutex::new(state) })
    }

    /// The file of `build_id`, from the cache, or from the first server that has it.
    ///
    /// Files are fetched one after the other, so that all of them share the time that there is.
    pub fn find(&self, build_id: BuildId, artifact: Artifact) -> Option<PathBuf> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = self.cache.join(build_id.to_string());
        let path = folder.join(name(artifact));
        match fs::metadata(&path) {
            Ok(it) if it.len() != 0 => return Some(path),
            // Another client was here, and left word that there is none.
            Ok(it) if it.modified().is_ok_and(|it| it.elapsed().is_ok_and(|it| it < MISS)) => {
                return None;
            }
            _ => {}
        }
        if state.missing.contains(&(build_id, artifact)) {
            return None;
        }
        let State { agent, servers, waited, missing, troubles, has_told, is_clean } = &mut *state;
        if !std::mem::replace(is_clean, true) {
            let cleaned = clean(&self.cache, SystemTime::now());
            cleaned.unwrap_or_else(|error| tracing::debug!(%error, "the cache is not cleaned"));
        }
        let mut is_sure = true;
        for server in servers.iter_mut().filter(|it| it.is_asked) {
            let url = server.url.trim_end_matches('/');
            let url = format!("{url}/buildid/{build_id}/{}", name(artifact));
            let started = Instant::now();
            let left = self.limits.max_time.saturating_sub(*waited);
            let at_most = self.limits.timeout.min(left);
            let fetch = || self.fetch(agent, &url, build_id, &folder, &path, left);
            let fetched = telling(PATIENCE, self.on_wait, &server.url, at_most, has_told, fetch);
            *waited = waited.saturating_add(started.elapsed());
            match fetched {
                Ok(()) => return Some(path),
                Err(Error::Missing) => {}
                // No other server would help.
                Err(error @ Error::Cache(_)) => {
                    let trouble =
                        format!("nothing is fetched into `{}`: {error}", self.cache.display());
                    troubles.push(trouble);
                    for server in servers.iter_mut() {
                        server.is_asked = false;
                    }
                    return None;
                }
                Err(error) => {
                    is_sure = false;
                    tracing::debug!(url, %error, "no debug information");
                    let sent_something =
                        matches!(error, Error::Status(_) | Error::OtherBuild | Error::TooLong(_));
                    server.is_asked = sent_something;
                    let trouble = format!("`{}` is of no help: {error}", server.url);
                    if !troubles.contains(&trouble) && troubles.len() < MAX_TROUBLES {
                        troubles.push(trouble);
                    }
                }
            }
        }
        missing.push((build_id, artifact));
        // As the client of elfutils leaves word: nobody asks for it again for a while.
        if is_sure && servers.iter().all(|it| it.is_asked) {
            let left = leave_word(&folder, &path);
            left.unwrap_or_else(|error| tracing::debug!(%error, "cannot leave word in the cache"));
        }
        None
    }

    /// What went wrong with servers since this was asked last, each of it once.
    pub fn take_troubles(&self) -> Vec<String> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut state.troubles)
    }

    /// Fetches `url` to `path` in `folder`, within the time that is `left`.
    fn fetch(
        &self,
        agent: &Agent,
        url: &str,
        build_id: BuildId,
        folder: &Path,
        path: &Path,
        left: Duration,
    ) -> Result<(), Error> {
        let Limits { timeout, max_time, max_size } = self.limits;
        if left.is_zero() {
            return Err(Error::NoTime(max_time));
        }
        let end = Instant::now() + left;
        let call = agent.get(url).config().timeout_global(Some(left)).build().call();
        let response = call.map_err(|error| match error {
            ureq::Error::StatusCode(404) => Error::Missing,
            ureq::Error::StatusCode(status) => Error::Status(status),
            ureq::Error::Timeout(_) => Error::Slow(timeout.min(left)),
            error => Error::Http(error),
        })?;
        let mut body = response.into_body().into_reader();
        fs::create_dir_all(folder).map_err(Error::Cache)?;
        let mut file = NamedTempFile::new_in(folder).map_err(Error::Cache)?;
        let mut buffer = vec![0; 1 << 16];
        let (mut len, mut behind) = (0_u64, 0_u64);
        let mut since = Instant::now();
        loop {
            let n = match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) if end <= Instant::now() => return Err(Error::NoTime(max_time)),
                Err(error) => return Err(Error::Http(ureq::Error::from(error))),
            };
            len = len.saturating_add(u64::try_from(n).unwrap_or(u64::MAX));
            if max_size < len {
                return Err(Error::TooLong(max_size));
            }
            if end <= Instant::now() {
                return Err(Error::NoTime(max_time));
            }
            if PROGRESS <= len - behind {
                (behind, since) = (len, Instant::now());
            } else if timeout < since.elapsed() {
                return Err(Error::Slow(timeout));
            }
            file.write_all(buffer.get(..n).unwrap_or_default()).map_err(Error::Cache)?;
        }
        file.flush().map_err(Error::Cache)?;
        let map = FileMap::opened(file.as_file(), file.path()).map_err(Error::Cache)?;
        let found = Identity::of(&map).ok().and_then(|it| it.build_id);
        if found != Some(build_id) {
            return Err(Error::OtherBuild);
        }
        drop(map);
        file.persist(path).map_err(|error| Error::Cache(error.error))?;
        Ok(())
    }
}

/// Leaves an empty file at `path` in `folder`, or makes the one that is there a new one. Whatever came
/// there meanwhile stays as it is, and a link leads nowhere.
fn leave_word(folder: &Path, path: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut options = fs::File::options();
    let word = options.create(true).append(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    if word.metadata()?.len() == 0 {
        word.set_modified(SystemTime::now())?;
    }
    Ok(())
}

/// What `work` makes; `on_wait` is called, if it was not yet, where that takes longer than `patience`.
fn telling<T>(
    patience: Duration,
    on_wait: OnWait,
    url: &str,
    at_most: Duration,
    has_told: &mut bool,
    work: impl FnOnce() -> T,
) -> T {
    if *has_told {
        return work();
    }
    let (done, is_done) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let watch = scope.spawn(move || {
            let is_slow = is_done.recv_timeout(patience) == Err(RecvTimeoutError::Timeout);
            if is_slow {
                on_wait(url, at_most);
            }
            is_slow
        });
        let made = work();
        drop(done);
        *has_told = watch.join().unwrap_or(false);
        made
    })
}

/// The most troubles that are told of a run.
const MAX_TROUBLES: usize = 3;

/// What a server calls it, and the cache.
fn name(artifact: Artifact) -> &'static str {
    match artifact {
        Artifact::Executable => "executable",
        Artifact::DebugInfo => "debuginfo",
    }
}

/// Where the client of elfutils keeps what it fetched.
fn cache() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    set("DEBUGINFOD_CACHE_PATH").or_else(|| {
        let home = env::home_dir();
        let old = home.as_ref().map(|it| it.join(".debuginfod_client_cache"));
        old.filter(|it| it.is_dir()).or_else(|| {
            let caches = set("XDG_CACHE_HOME").or_else(|| Some(home?.join(".cache")))?;
            Some(caches.join("debuginfod_client"))
        })
    })
}

/// The certificates of those who vouch for servers, as this machine has them.
fn roots() -> Vec<ureq::tls::Certificate<'static>> {
    let only = env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let pem = match only {
        Some(path) => fs::read(path).ok(),
        None => ROOTS.iter().find_map(|it| fs::read(it).ok()),
    };
    let items = pem.as_deref().map(ureq::tls::parse_pem).into_iter().flatten();
    let certificates = items.filter_map(|it| match it {
        Ok(PemItem::Certificate(it)) => Some(it),
        _ => None,
    });
    certificates.collect()
}

fn agent(limits: Limits, roots: Vec<ureq::tls::Certificate<'static>>) -> Agent {
    let tls = TlsConfig::builder()
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .root_certs(RootCerts::Specific(Arc::new(roots)))
        .build();
    let timeout = Some(limits.timeout);
    let config = Agent::config_builder()
        .tls_config(tls)
        .timeout_resolve(timeout)
        .timeout_connect(timeout)
        .timeout_recv_response(timeout)
        .timeout_per_read(timeout)
        .user_agent(concat!("bpfperf/", env!("CARGO_PKG_VERSION")))
        .build();
    Agent::new_with_config(config)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::net::TcpStream;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering;

    use super::*;

    const LIMITS: Limits = Limits {
        timeout: Duration::from_secs(60),
        max_time: Duration::from_secs(100),
        max_size: 1 << 20,
    };

    #[test]
    fn a_cache_that_cannot_be_written_to_is_no_servers_fault() {
        let (url, n_asked) = server(right);
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        let client = Debuginfod::new(&url, file.join("cache"), LIMITS, |_, _| {}).unwrap();
        for artifact in [Artifact::DebugInfo, Artifact::Executable] {
            assert_eq!(client.find(id(), artifact), None);
        }
        let troubles = client.take_troubles();
        let [trouble] = &troubles[..] else { panic!("{troubles:?}") };
        assert!(trouble.starts_with("nothing is fetched into `"), "{trouble}");
        assert_eq!(n_asked.load(Ordering::SeqCst), 1);
    }

    /// A server that answers each request by `answer`, which is given the path; its address, and how
    /// often it was asked.
    fn server(answer: fn(&mut TcpStream, &str)) -> (String, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let n_asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&n_asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { break };
                let mut request = Vec::new();
                let mut byte = [0];
                while !request.ends_with(b"\r\n\r\n")
                    && stream.read(&mut byte).is_ok_and(|n| n != 0)
                {
                    request.push(byte[0]);
                }
                count.fetch_add(1, Ordering::SeqCst);
                let request = String::from_utf8_lossy(&request).into_owned();
                let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
                thread::spawn(move || answer(&mut stream, &path));
            }
        });
        (url, n_asked)
    }

    /// A file with the build id of twenty times 7.
    fn elf() -> Vec<u8> {
        let note = [[4_u32, 20, 3].map(u32::to_le_bytes).concat(), b"GNU\0".to_vec(), vec![7; 20]];
        let header = [
            b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0".to_vec(),
            [0_u64, 64, 0].map(u64::to_le_bytes).concat(),
            vec![0; 4],
            [64_u16, 56, 1, 64, 0, 0].map(u16::to_le_bytes).concat(),
        ];
        let segment = [
            [4_u32, 4].map(u32::to_le_bytes).concat(),
            [120_u64, 0, 0, 36, 36, 4].map(u64::to_le_bytes).concat(),
        ];
        [header.concat(), segment.concat(), note.concat()].concat()
    }

    fn id() -> BuildId {
        BuildId::new(&[7; 20]).unwrap()
    }

    fn send(stream: &mut TcpStream, status: &str, body: &[u8]) {
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).ok();
    }

    fn right(stream: &mut TcpStream, path: &str) {
        if path == format!("/buildid/{}/debuginfo", id()) {
            send(stream, "200 OK", &elf());
        } else {
            send(stream, "404 Not Found", b"");
        }
    }

    fn client(urls: &str, cache: &Path) -> Debuginfod {
        Debuginfod::new(urls, cache.to_owned(), LIMITS, |_, _| {}).unwrap()
    }

    #[test]
    fn a_file_is_fetched_once_and_kept_where_other_clients_look() {
        let dir = tempfile::tempdir().unwrap();
        let (url, n_asked) = server(right);
        let want = dir.path().join(id().to_string()).join("debuginfo");
        for _ in 0..2 {
            let client = client(&format!("ima:ignore {url}/"), dir.path());
            assert_eq!(client.find(id(), Artifact::DebugInfo), Some(want.clone()));
            assert_eq!(fs::read(&want).unwrap(), elf());
            assert_eq!(client.take_troubles(), [""; 0]);
        }
        assert_eq!(n_asked.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn what_no_server_has_is_not_asked_for_again_for_a_while() {
        let dir = tempfile::tempdir().unwrap();
        let (url, n_asked) = server(right);
        for _ in 0..2 {
            let client = client(&url, dir.path());
            for _ in 0..3 {
                assert_eq!(client.find(id(), Artifact::Executable), None);
            }
            assert_eq!(n_asked.load(Ordering::SeqCst), 1);
            assert_eq!(client.take_troubles(), [""; 0]);
        }
        let word = dir.path().join(id().to_string()).join("executable");
        let written = fs::File::options().write(true).open(&word).unwrap();
        written.set_modified(SystemTime::now() - MISS).unwrap();
        assert_eq!(client(&url, dir.path()).find(id(), Artifact::Executable), None);
        assert_eq!(n_asked.load(Ordering::SeqCst), 2);
        let client = client(&url, dir.path());
        assert_eq!(client.find(id(), Artifact::DebugInfo).map(|it| it.is_file()), Some(true));
    }

    #[test]
    fn word_in_the_cache_changes_no_file_and_goes_through_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link, to] = ["file", "link", "to"].map(|it| dir.path().join(it));
        fs::write(&file, "came meanwhile").unwrap();
        std::os::unix::fs::symlink(&to, &link).unwrap();
        leave_word(dir.path(), &file).unwrap();
        leave_word(dir.path(), &link).unwrap_err();
        assert_eq!(fs::read(&file).unwrap(), b"came meanwhile");
        assert!(!to.exists());
    }

    #[test]
    fn who_waits_for_a_server_is_told_once() {
        static TOLD: Mutex<Vec<(String, Duration)>> = Mutex::new(Vec::new());
        let tell: OnWait = |url, at_most| TOLD.lock().unwrap().push((url.to_owned(), at_most));
        let at_most = Duration::from_secs(7);
        let wait_until_told = || {
            while TOLD.lock().unwrap().is_empty() {
                thread::yield_now();
            }
            5
        };
        let mut has_told = false;
        assert_eq!(telling(LIMITS.timeout, tell, "http://x", at_most, &mut has_told, || 3), 3);
        assert!(!has_told && TOLD.lock().unwrap().is_empty());
        for _ in 0..2 {
            let (none, has_told) = (Duration::ZERO, &mut has_told);
            assert_eq!(telling(none, tell, "http://slow", at_most, has_told, wait_until_told), 5);
        }
        assert_eq!(*TOLD.lock().unwrap(), [("http://slow".to_owned(), at_most)]);
    }

    #[test]
    fn the_next_server_is_asked_where_one_is_of_no_help() {
        let dir = tempfile::tempdir().unwrap();
        let (wrong, _) = server(|stream, _| {
            let mut other = elf();
            other[130] = !other[130];
            send(stream, "200 OK", &other);
        });
        let (broken, _) = server(|stream, _| send(stream, "500 Oh", b""));
        let (good, _) = server(right);
        let client = client(&format!("{wrong} {broken} {good}"), dir.path());
        assert!(client.find(id(), Artifact::DebugInfo).is_some());
        let troubles = client.take_troubles();
        assert_eq!(
            troubles,
            [
                format!("`{wrong}` is of no help: what it sends is no file with that build id"),
                format!("`{broken}` is of no help: it answers with status 500"),
            ]
        );
    }

    /// That a server costs a bounded time once, whatever it does, and leaves nothing in the cache.
    #[track_caller]
    fn check_hostile(answer: fn(&mut TcpStream, &str), want: &str) {
        let dir = tempfile::tempdir().unwrap();
        let (url, n_asked) = server(answer);
        let limits = Limits { timeout: Duration::from_millis(300), ..LIMITS };
        let client = Debuginfod::new(&url, dir.path().to_owned(), limits, |_, _| {}).unwrap();
        let started = Instant::now();
        assert_eq!(client.find(id(), Artifact::DebugInfo), None);
        assert!(started.elapsed() < LIMITS.timeout, "{:?}", started.elapsed());
        for byte in 0..20 {
            let other = BuildId::new(&[byte; 8]).unwrap();
            assert_eq!(client.find(other, Artifact::DebugInfo), None);
        }
        let troubles = client.take_troubles();
        assert!(troubles.len() == 1 && troubles[0].contains(want), "{troubles:?}");
        let left = fs::read_dir(dir.path()).unwrap().flatten();
        assert_eq!(left.filter_map(|it| fs::read_dir(it.path()).ok()).flatten().count(), 0);
        let n_asked = n_asked.load(Ordering::SeqCst);
        assert!(n_asked == 1 || want.contains("longer"), "{n_asked}");
    }

    #[test]
    fn a_server_that_does_not_answer_is_not_asked_again() {
        check_hostile(|_, _| thread::park_timeout(Duration::from_secs(30)), "it sends less than");
    }

    #[test]
    fn a_server_that_drips_is_not_waited_for() {
        let drip = |stream: &mut TcpStream, _: &str| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n").ok();
            while stream.write_all(b"x").is_ok() {
                thread::park_timeout(Duration::from_millis(20));
            }
        };
        check_hostile(drip, "it sends less than");
    }

    #[test]
    fn an_endless_file_ends_at_the_limit() {
        let endless = |stream: &mut TcpStream, _: &str| {
            stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n").ok();
            while stream.write_all(&[7; 1 << 14]).is_ok() {}
        };
        check_hostile(endless, "longer than 1048576 bytes");
    }

    #[test]
    fn a_server_that_is_not_there_is_told_once() {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let client = client(&format!("http://{gone}"), dir.path());
        for byte in 1..5 {
            let id = BuildId::new(&[byte; 8]).unwrap();
            assert_eq!(client.find(id, Artifact::DebugInfo), None);
        }
        assert_eq!(client.take_troubles().len(), 1);
    }

    #[test]
    fn without_servers_there_is_no_client() {
        for urls in ["", "  ", "ima:enforcing", "file:///srv"] {
            assert!(
                Debuginfod::new(urls, "/nonexistent".into(), LIMITS, |_, _| {}).is_none(),
                "{urls}"
            );
        }
        let client = Debuginfod::new("https://x.example", "/nonexistent".into(), LIMITS, |_, _| {});
        assert!(client.is_some());
    }
}
