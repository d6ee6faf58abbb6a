//! Puts the server together and runs it until it is told to end.
//!
//! ```text
//!   configuration ─► directory ─► log: lock, look ─► sockets ─► event loop: -LOADING
//!                                       │                            ▲
//!                                       └─► recovery thread ─────────┘ keyspace and log
//! ```
//!
//! The server listens before the data is there, so that clients and supervisors learn how far it
//! is. Whatever is wrong with the data directory is found before anything in it is changed. Once
//! the event loop runs, a log is opened by the recovery thread too: the loop reads nothing of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use env::{Clock, Disk, Entropy, Lock};
use keyspace::{Keyspace, NoJournal};
use mio::Waker;

use crate::admin_desk::{self, AdminDesk};
use crate::archive_threads::{ArchiveThreads, OpenArchive};
use crate::config::{Config, ConfigError, FsyncPolicy, IndexPolicy, Options};
use crate::crash;
use crate::descriptors::{Descriptors, FETCHED_FILES_MIN};
use crate::engine::{Deps, Engine, HostRequest, OpenLogError, OpenedLog, check_acl_file};
use crate::error::ServeError;
use crate::host::Host;
use crate::import::at_start::{self, Appends};
use crate::import::{self, Place};
use crate::index_thread::IndexPlan;
use crate::load::{Shape, log_options};
use crate::loader::{Loader, Report};
use crate::log_start::{FETCHERS, Loaded, LogStart, survey_and_start};
use crate::logger::Logger;
use crate::migrate::MigrateThreads;
use crate::network::Listening;
use crate::owned_log::start_without_index;
use crate::process::Signals;
use crate::reactor::{LoopHooks, Reactor};
use crate::save::{KnownDump, SaveThreads, is_dump_of, remove_temporaries};
use crate::tail::TailThread;
use crate::tls::{Acceptor, TlsSettings};
use crate::to_import::ToImport;
use crate::verify_thread::VerifyThread;
use crate::{listen, process};

/// The outside world, real or not.
pub struct World {
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Files of the log.
    pub disk: Arc<dyn Disk>,
    /// Makes sources of random bytes.
    pub entropy: fn() -> Box<dyn Entropy>,
    /// Memory and processor time.
    pub host: Box<dyn Host>,
    /// Makes the targets of archives.
    pub open_archive: OpenArchive,
    /// The commit that the program was built from.
    pub commit: &'static str,
    /// Called once when clients are served, and nothing can keep the server from starting any more.
    pub on_ready: fn(),
}

/// Runs a server until it is told to end.
///
/// # Errors
/// Why it could not start or had to stop.
pub fn serve(config: Config, world: World) -> Result<(), ServeError> {
    let logger = open_logger(&config, &world)?;
    crash::report_to(&logger, world.commit);
    let ended = run(config, world, &logger);
    match &ended {
        Ok(()) => logger.warning("Indelible is now ready to exit, bye bye..."),
        Err(why) => {
            logger.warning(&format!("Fatal error: {why}"));
            if why.is_damaged_log() {
                logger.warning(
                    "`indelible log verify` says what is damaged, `indelible backup verify` which states do not need it: those can be \
                     restored into another directory. `indelible log repair` goes on without what is lost",
                );
            }
        }
    }
    ended
}

/// Notes in the log file why a configuration cannot be used, if what came before says where it is.
pub fn log_wrong_configuration(config: &Config, why: &ConfigError, clock: Arc<dyn Clock>) {
    let path = config.value("logfile");
    if !path.is_empty()
        && let Ok(logger) = Logger::to_file(path.as_ref(), clock)
    {
        logger.set_format(config.value("log-format"), config.value("log-timestamp-format"));
        let lines: Vec<String> = why.for_log().lines().map(str::to_owned).collect();
        logger.warning(&format!("Fatal error: {}", lines.join(" ").trim()));
    }
}

fn run(mut config: Config, world: World, logger: &Logger) -> Result<(), ServeError> {
    config.check_start()?;
    let is_kept = config.keep_what_redis_keeps();
    if is_kept {
        logger.warning(&format!(
            "WARNING: appendonly is no, but there are save points, under which Redis keeps the \
             data: the redo log is on (appendfsync {}). For a cache that keeps nothing: save \"\"",
            config.value("appendfsync")
        ));
    }
    let without_effect = config.without_effect();
    if !without_effect.is_empty() {
        logger.warning(&format!(
            "WARNING: these directives are accepted and have no effect here: {}",
            without_effect.join(", ")
        ));
    }
    let directory = process::enter_directory(config.value("dir"))
        .map_err(|source| ServeError::Directory { path: config.value("dir").to_owned(), source })?;
    config.set_directory(&directory);
    // Before anything is imported, or listened to.
    check_acl_file(&config)?;
    let tls = TlsSettings::of(&config);
    let acceptor = tls.as_ref().map(Acceptor::load).transpose()?;
    if tls.is_some()
        && config.value("tls-auth-clients") == "no"
        && config.value("tls-auth-clients-user") != "off"
    {
        logger.warning(
            "WARNING: tls-auth-clients-user is CN and tls-auth-clients is no: clients are not asked for certificates",
        );
    }
    if tls.is_none() && !config.value("tls-cert-file").is_empty() {
        logger.warning(
            "WARNING: tls-cert-file is set and tls-port is not: connections are not encrypted",
        );
    }
    let files = Descriptors::fetched_files(config.options().fetched_files());
    if files > FETCHED_FILES_MIN {
        Descriptors::keep_for_fetchers(FETCHERS, files);
    }
    // The executor's thread is one of them.
    let front_count = config.number::<usize>("io-threads") - 1;
    Descriptors::keep_for_fronts(front_count);
    if config.value("admin-port") != "0" {
        Descriptors::keep_for_admin(admin::CONNECTIONS_MAX);
    }
    allow_clients(&mut config, logger);
    let options = config.options();
    announce(&config, &options, world.commit, logger);
    warn_of_policy(&options, &*world.disk, logger);

    let newer = at_start::newer_than_log(&*world.disk, &directory, &config);
    let appends = Appends::of(&config, is_kept);
    // Before sockets are made: those that are there may be another server's that imports the same.
    let import = ToImport::find(&*world.disk, &directory, &config, appends, logger)?;
    let tcp = listen::tcp(&Listening::of(&config))?;
    let socket_path = PathBuf::from(config.value("unixsocket"));
    let permissions =
        u32::from_str_radix(config.value("unixsocketperm"), 8).expect("the table has checked it");
    let has_socket = !socket_path.as_os_str().is_empty();
    let is_ours = matches!(import, Some(ToImport { lock: Some(_), .. }));
    if has_socket && !is_ours && redo::is_in_use(&*world.disk, &directory).unwrap_or(false) {
        // Its socket may be the running server's, which must not be taken away.
        return Err(ServeError::InUse { path: directory });
    }
    let unix = if has_socket { Some(listen::unix(&socket_path, permissions)?) } else { None };
    let mut reactor =
        Reactor::new(tcp, acceptor, unix, logger.clone()).map_err(ServeError::EventLoop)?;
    let waker = reactor.waker();
    reactor.start_fronts(front_count).map_err(ServeError::EventLoop)?;

    let World { clock, disk, entropy, host, open_archive, commit, on_ready } = world;
    let log_place =
        LogPlace { disk: Arc::clone(&disk), clock: Arc::clone(&clock), entropy, waker, directory };
    if !options.log.enabled {
        log_place.warn_of_a_log(logger);
    }
    // Without a log what is there is loaded into memory.
    let (import, dump) = match import {
        Some(ToImport { path, lock: Some(lock) }) => (Some((path, lock)), None),
        Some(ToImport { path, lock: None }) => (None, Some(path)),
        None => (None, None),
    };
    // Without an import whatever is wrong with the log is found before clients are listened to.
    let recovery = match import {
        None if options.log.enabled => Some(log_place.opening(&options)()?),
        _ => None,
    };
    let importing = import.map(|(path, lock)| log_place.importing(path, lock, &config, logger));
    let known = KnownDump::default();
    let loading = dump.map(|path| log_place.loading(path, &config, &known, logger));
    let waker = &log_place.waker;
    let volatile = loading.map(|load| Loader::spawn_without_log(waker, load)).transpose()?;
    // A start that takes long is what a person wants to see.
    let admin = admin_desk::open(&config, &log_place.directory, wake_by(waker), logger)?;
    let pid_file = process::PidFile::write(config.value("pidfile"), logger);
    let host_of_log = host.another();
    let deps = Deps { clock, disk, entropy: entropy(), host, logger: logger.clone(), commit };
    let mut engine = Engine::new(config, deps);
    engine.tell_of_users();
    engine.load_acl_file(None)?;
    engine.set_network(reactor.network());
    engine.know_dump(known);
    let saver_host = engine.another_host();
    engine.save_by(Box::new(SaveThreads::new(saver_host, wake_by(&log_place.waker))));
    engine.migrate_by(Box::new(MigrateThreads::new(wake_by(&log_place.waker))));
    let tail_host = engine.another_host();
    let archive_host = engine.another_host();
    let archive_disk = Arc::clone(&log_place.disk);
    engine.archive_by(Box::new(ArchiveThreads::new(archive_host, archive_disk, open_archive)));
    let verify_host = engine.another_host();
    let (verified_disk, verify_clock) = (Arc::clone(&log_place.disk), Arc::clone(&log_place.clock));
    let verified = log_place.directory.clone();
    let verifier = VerifyThread::new(verify_host, verified_disk, verify_clock, verified);
    engine.verify_by(Box::new(verifier));
    engine.tail_by(Box::new(TailThread::new(tail_host, wake_by(&log_place.waker))));
    if let Err(why) = remove_temporaries(&*log_place.disk, &log_place.directory) {
        logger.warning(&format!("What an unfinished dump has left stays: {why}"));
    }
    let signals = process::watch_signals(waker).map_err(ServeError::Signals)?;
    let index = log_place.index(&options, logger);
    let loader = options.log.enabled.then(|| {
        let clock = Arc::clone(&log_place.clock);
        let (reopen, waker_of_log) = (log_place.opening(&options), wake_by(waker));
        let opening = log_place.opening(&options);
        let read = move |recovery, progress: &mut dyn FnMut(redo::Progress)| {
            let start = LogStart {
                shape: Shape::new(&options, clock.now_ms()),
                fetched_files: Descriptors::fetched_files(options.fetched_files()),
                delay: Duration::from_millis(options.debug.restore_delay_ms),
                host: host_of_log,
                index: &index,
                reopen: &reopen,
                waker: waker_of_log,
            };
            start.run(recovery, progress)
        };
        let open = move |progress: &mut dyn FnMut(redo::Progress)| match (recovery, importing) {
            (Some(recovery), _) => Ok(recovery),
            (None, importing) => {
                importing.map_or(Ok(()), |import| import(progress))?;
                Ok(opening()?)
            }
        };
        Loader::spawn(open, waker, read)
    });
    let loader = loader.transpose()?;
    loader.iter().for_each(|loader| loader.report(&mut engine));
    volatile.iter().for_each(|loader| loader.report(&mut engine));
    if loader.is_some() || volatile.is_some() {
        process::notify_supervisor("STATUS=Loading the data");
    } else {
        logger.notice("Ready to accept connections");
        process::notify_supervisor("READY=1");
        on_ready();
    }
    let logger_of_loop = logger.clone();
    let mut hooks = Outside {
        log_place,
        loader,
        volatile,
        surveyor: None,
        signals,
        logger: logger_of_loop,
        on_ready,
        newer,
        desk: admin.as_ref().map(|(_, desk)| Arc::clone(desk)),
    };
    let result = reactor.run(&mut engine, &mut hooks);
    process::notify_supervisor("STOPPING=1");
    let ended = result.and_then(|shutdown| match engine.close() {
        Ok(()) => Ok(()),
        Err(why) if shutdown.force => {
            logger.warning(&format!("The log could not be closed well, ending by force: {why}"));
            Ok(())
        }
        Err(why) => Err(why.into()),
    });
    reactor.write_last(&mut engine);
    if has_socket {
        // It may have been removed already.
        let _ignored = std::fs::remove_file(&socket_path);
    }
    drop((pid_file, admin));
    ended
}

/// Says what is starting: the log must show what is promised, and where it is kept.
fn announce(config: &Config, options: &Options, commit: &str, logger: &Logger) {
    logger.notice(&format!(
        "Indelible {} (commit {commit}) is starting (Redis 7.2 protocol and commands), pid {}",
        crate::VERSION,
        std::process::id()
    ));
    if config.is_default {
        logger.notice("No configuration file given: using the defaults");
    }
    let bind = config.value("bind");
    let port = match config.value("port") {
        "0" => "none".to_owned(),
        port => format!("{port} of {bind}"),
    };
    let tls = match config.value("tls-port") {
        "0" => String::new(),
        port => format!(", TLS port {port} of {bind}"),
    };
    let socket = match config.value("unixsocket") {
        "" => String::new(),
        path => format!(", unix socket {path}"),
    };
    let memory = match options.maxmemory_bytes {
        0 => "unlimited".to_owned(),
        bytes => format!("{bytes} bytes, {}", config.value("maxmemory-policy")),
    };
    logger.notice(&format!("Port {port}{tls}{socket}; memory limit: {memory}"));
    let directory = config.value("dir");
    if options.log.enabled {
        let devices = match config.value("log-devices") {
            "" => "below it",
            devices => devices,
        };
        let promise = match options.fsync {
            FsyncPolicy::Always => "a write is durable when it is answered",
            FsyncPolicy::EverySecond => "a power failure can lose the last second",
            FsyncPolicy::No => "a power failure can lose what the kernel has not written yet",
        };
        logger.notice(&format!(
            "Data directory {directory}, log devices: {devices}; appendfsync {}: {promise}",
            options.fsync.name()
        ));
    } else {
        logger.warning(&format!(
            "Data directory {directory}; VOLATILE: the redo log is off (appendonly no), nothing \
             survives the end of the process"
        ));
    }
}

/// Says what of a policy that drops values will not happen.
fn warn_of_policy(options: &Options, disk: &dyn Disk, logger: &Logger) {
    if options.eviction.is_cold() && disk.read_together().is_none() {
        logger.warning(
            "WARNING: maxmemory-policy lets values leave memory, and this system does not permit io_uring: \
             they are read one by one, which is slower; see docs/larger-than-memory.md",
        );
    }
    if options.eviction.is_cold() && options.log.index == IndexPolicy::No {
        logger.warning(
            "WARNING: maxmemory-policy lets values leave memory, and log-index is no: strings above \
             4 KiB and large collections stay in memory",
        );
    }
}

/// Lowers maxclients to what the system allows.
fn allow_clients(config: &mut Config, logger: &Logger) {
    let wanted = config.number("maxclients");
    let allowed =
        Descriptors::with_devices(config.words("log-devices").count()).allow_clients(wanted);
    if allowed < wanted {
        logger.warning(&format!(
            "The system allows too few open files, so maxclients is {allowed} and not {wanted}; \
             raise the limit with ulimit -n, or lower maxclients"
        ));
        config.set_max_clients(allowed);
    }
}

fn open_logger(config: &Config, world: &World) -> Result<Logger, ServeError> {
    let clock = Arc::clone(&world.clock);
    let logger = match config.value("logfile") {
        "" => Logger::to_stdout(clock),
        path => Logger::to_file(path.as_ref(), clock).map_err(ServeError::LogFile)?,
    };
    logger.set_level(config.value("loglevel"));
    logger.set_format(config.value("log-format"), config.value("log-timestamp-format"));
    logger.set_crash_reports(config.value("crash-log-enabled") == "yes");
    Ok(logger)
}

fn wake_by(waker: &Arc<Waker>) -> redo::Waker {
    let waker = Arc::clone(waker);
    Arc::new(move || {
        // A loop that cannot be woken looks again at its next tick.
        let _ignored = waker.wake();
    })
}

/// Where the log is, and what opening it takes.
struct LogPlace {
    disk: Arc<dyn Disk>,
    clock: Arc<dyn Clock>,
    entropy: fn() -> Box<dyn Entropy>,
    waker: Arc<Waker>,
    directory: PathBuf,
}

impl LogPlace {
    /// What locks the log and looks at it, for whatever thread may wait for the disk.
    fn opening(
        &self,
        options: &Options,
    ) -> impl Fn() -> Result<redo::Recovery, OpenLogError> + Send + use<> {
        let (disk, clock) = (Arc::clone(&self.disk), Arc::clone(&self.clock));
        let (entropy, waker) = (self.entropy, wake_by(&self.waker));
        let options = log_options(options, self.directory.clone());
        move || {
            let (disk, clock) = (Arc::clone(&disk), Arc::clone(&clock));
            let (entropy, waker) = (entropy(), Arc::clone(&waker));
            let env = redo::Env { disk, clock, entropy, waker };
            Ok(redo::Recovery::open(env, options.clone())?)
        }
    }

    /// What a start has to know of the log's index.
    fn index(&self, options: &Options, logger: &Logger) -> IndexPlan {
        IndexPlan {
            disk: Arc::clone(&self.disk),
            directory: self.directory.clone(),
            policy: options.log.index,
            is_instant: options.log.is_instant,
            is_distrusted: false,
            cut_bytes: options.log.index_cut_bytes,
            memory_bytes: Some(options.maxmemory_bytes).filter(|bytes| *bytes > 0),
            logger: logger.clone(),
        }
    }

    /// What imports the data at `path`, for whatever thread may wait for the disk.
    fn importing(
        &self,
        path: PathBuf,
        lock: Box<dyn Lock>,
        config: &Config,
        logger: &Logger,
    ) -> impl FnOnce(&mut dyn FnMut(redo::Progress)) -> Result<(), ServeError> + Send + use<> {
        let (place, config, logger) = (self.place(), config.clone(), logger.clone());
        move |progress| {
            let mut tell = |so_far| progress(import::Progress::as_of_log(so_far));
            Ok(at_start::import(&place, lock, &path, &config, &logger, &mut tell)?)
        }
    }

    /// What loads the data at `path` into memory, for whatever thread may wait for the disk.
    fn loading(
        &self,
        path: PathBuf,
        config: &Config,
        known: &KnownDump,
        logger: &Logger,
    ) -> impl FnOnce(&mut dyn FnMut(redo::Progress)) -> Result<Keyspace<NoJournal>, ServeError>
    + Send
    + use<> {
        let (place, config, logger) = (self.place(), config.clone(), logger.clone());
        let known = known.clone();
        move |progress| {
            let mut tell = |so_far| progress(import::Progress::as_of_log(so_far));
            Ok(at_start::load_into_memory(&place, &path, &config, &logger, &known, &mut tell)?)
        }
    }

    fn place(&self) -> Place {
        Place {
            disk: Arc::clone(&self.disk),
            clock: Arc::clone(&self.clock),
            entropy: self.entropy,
            directory: self.directory.clone(),
            start: start_without_index,
        }
    }

    /// A start without the log that is there may be a mistake.
    fn warn_of_a_log(&self, logger: &Logger) {
        if redo::is_there(&*self.disk, &self.directory) {
            logger.warning(&format!(
                "WARNING: {} holds a redo log, and appendonly is no: its data is not loaded, and \
                 CONFIG SET appendonly yes would replace it",
                self.directory.display()
            ));
        }
    }
}

/// What comes from other threads, and what the engine sends for.
struct Outside {
    log_place: LogPlace,
    loader: Option<Loader<Loaded, ServeError>>,
    /// Loads a dump where there is no log.
    volatile: Option<Loader<Keyspace<NoJournal>, ServeError>>,
    surveyor: Option<Loader<OpenedLog>>,
    signals: Arc<Signals>,
    logger: Logger,
    on_ready: fn(),
    /// Files of Redis that are newer than the log, until they are told of.
    newer: Vec<PathBuf>,
    desk: Option<Arc<AdminDesk>>,
}

impl LoopHooks for Outside {
    fn look(&mut self, engine: &mut Engine) -> Result<(), ServeError> {
        if let Some(answer) = self.desk.as_ref().and_then(|desk| desk.take()) {
            answer(engine.report());
        }
        if let Some(signal) = self.signals.take() {
            self.logger.warning(&format!("Received {signal}, scheduling shutdown..."));
            engine.request_shutdown(signal.directive());
        }
        while let Some(loader) = &self.loader {
            match loader.take()? {
                None => {
                    loader.report(engine);
                    break;
                }
                Some(Report::LookedAt(result)) => result?,
                Some(Report::Read(loaded)) => {
                    let loaded = loaded?;
                    self.loader = None;
                    self.loaded(engine, loaded);
                }
            }
        }
        while let Some(loader) = &self.volatile {
            match loader.take()? {
                None => {
                    loader.report(engine);
                    break;
                }
                Some(Report::LookedAt(result)) => result?,
                Some(Report::Read(keyspace)) => {
                    self.volatile = None;
                    engine.loaded(keyspace?, None);
                    self.tell_ready();
                }
            }
        }
        while let Some(surveyor) = &self.surveyor
            && let Some(report) = surveyor.take()?
        {
            match report {
                Report::LookedAt(result) => {
                    if result.is_err() {
                        self.surveyor = None;
                    }
                    engine.log_looked_at(result);
                }
                Report::Read(opened) => {
                    self.surveyor = None;
                    engine.log_opened(opened);
                }
            }
        }
        Ok(())
    }

    fn turn(&mut self, engine: &Engine) {
        if !engine.is_ending() {
            // The next one is the first again.
            self.signals.forget();
        }
    }

    fn run_request(&mut self, engine: &mut Engine, request: HostRequest) -> Result<(), ServeError> {
        let options = engine.config().options();
        match request {
            HostRequest::Reload | HostRequest::ReloadAll => {
                let before = engine.unload()?;
                let opening = self.log_place.opening(&options);
                let clock = Arc::clone(&self.log_place.clock);
                let host = engine.another_host();
                let mut index = self.log_place.index(&options, &self.logger);
                index.is_distrusted = request == HostRequest::ReloadAll;
                let (reopen, waker) =
                    (self.log_place.opening(&options), wake_by(&self.log_place.waker));
                let read = move |recovery, progress: &mut dyn FnMut(redo::Progress)| {
                    // Data of many gigabytes takes a while to free, and must go first.
                    drop(before);
                    let shape = Shape::new(&options, clock.now_ms());
                    let start = LogStart {
                        shape,
                        fetched_files: Descriptors::fetched_files(options.fetched_files()),
                        delay: Duration::ZERO,
                        host,
                        index: &index,
                        reopen: &reopen,
                        waker,
                    };
                    start.run(recovery, progress)
                };
                let open = move |_: &mut dyn FnMut(redo::Progress)| Ok(opening()?);
                let loader = Loader::spawn(open, &self.log_place.waker, read)?;
                loader.report(engine);
                self.loader = Some(loader);
            }
            HostRequest::OpenLog => {
                self.log_place.directory = PathBuf::from(engine.config().value("dir"));
                let opening = self.log_place.opening(&options);
                let index = self.log_place.index(&options, &self.logger);
                let waker = wake_by(&self.log_place.waker);
                let fetched_files = Descriptors::fetched_files(options.fetched_files());
                let read = move |recovery, _: &mut dyn FnMut(redo::Progress)| {
                    survey_and_start(recovery, &index, waker, fetched_files)
                };
                match Loader::spawn(move |_| opening(), &self.log_place.waker, read) {
                    Ok(surveyor) => self.surveyor = Some(surveyor),
                    Err(why) => engine.log_looked_at(Err(why)),
                }
            }
        }
        Ok(())
    }
}

impl Outside {
    fn loaded(&mut self, engine: &mut Engine, loaded: Loaded) {
        let Loaded { keyspace, log, summary, fetching, restoration } = loaded;
        engine.loaded(keyspace, Some(log));
        engine.fetch_from(Box::new(fetching));
        let is_cold = restoration.is_some();
        if let Some(restoration) = restoration {
            engine.restore_from(Box::new(restoration));
        }
        let (records, blocks) = (summary.records, summary.blocks);
        let (bytes, segments) = (summary.bytes, summary.segments);
        let how = if is_cold { "opened by its index" } else { "loaded" };
        self.logger.notice(&format!(
            "DB {how} from the redo log: {records} records in {blocks} blocks, {bytes} bytes in {segments} segments"
        ));
        for path in std::mem::take(&mut self.newer) {
            let disk = &*self.log_place.disk;
            if !is_dump_of(disk, &path, summary.database, summary.last_lsn) {
                self.logger.warning(&format!(
                    "WARNING: {} is newer than the redo log, and is not loaded: the log is. If a Redis server \
                     has had this directory in between, import that into a new one (indelible import). The next dump \
                     leaves a dump that is not of this database in its place under a second name",
                    path.display()
                ));
            }
        }
        if summary.cut_bytes > 0 {
            self.logger.warning(&format!(
                "{} bytes ({} whole blocks) behind block {}, the last good one, are cut off: they \
                 are torn or follow a missing block, and nothing in the log says that they were \
                 durable",
                summary.cut_bytes, summary.cut_blocks, summary.last_lsn
            ));
        }
        self.tell_ready();
    }

    fn tell_ready(&self) {
        self.logger.notice("Ready to accept connections");
        process::notify_supervisor("STATUS=Ready to accept connections\nREADY=1");
        // It may be called again after a reload, and does nothing then.
        (self.on_ready)();
    }
}
