//! A recording proxy in the place of the sidecar, so that no capture privilege is needed.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use tap::log::Carried;
use tap::protocol::Side;
use tap::{
    Class, ConnectionNumber, Conversation, Entry, Listener, Outcome, Position, Protocol, Time,
};

/// Listens on its own port, passes everything on, and records it.
pub(super) struct Proxy {
    pub(super) address: SocketAddr,
    recording: Arc<Mutex<Recording>>,
}

struct Recording {
    protocol: Protocol,
    entries: Vec<Entry>,
    position: u64,
    connections: u64,
    conversations: HashMap<u64, Heard>,
    problems: Vec<String>,
}

/// A conversation, and the positions of its requests; read-only ones have none.
type Heard = (Box<dyn Conversation + Send>, Vec<Option<Position>>);

/// Records the reports of one conversation.
struct Scribe<'a> {
    entries: &'a mut Vec<Entry>,
    position: &'a mut u64,
    positions: &'a mut Vec<Option<Position>>,
    problems: &'a mut Vec<String>,
    connection: ConnectionNumber,
}

impl Listener for Scribe<'_> {
    fn request(&mut self, class: Class, payload: &[u8], offset: u64, at: Time) {
        if class == Class::ReadOnly {
            self.positions.push(None);
            return;
        }
        *self.position += 1;
        let position = Position(*self.position);
        self.positions.push(Some(position));
        self.entries.push(Entry::Request {
            position,
            connection: self.connection,
            at,
            class,
            sequence: u32::try_from(offset % (1 << 32)).unwrap(),
            payload: payload.to_vec(),
        });
    }

    fn response(&mut self, number: u64, outcome: Outcome, at: Time) {
        if let Some(position) = self.positions[usize::try_from(number).unwrap()] {
            self.entries.push(Entry::Completed { position, at, outcome });
        }
    }

    fn unintelligible(&mut self, side: Side, why: &str, _: Time) {
        self.problems.push(format!("{side:?}: {why}"));
    }

    fn encrypted(&mut self, _: Time) {
        self.problems.push("encrypted".into());
    }
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Time(u64::try_from(since.as_nanos()).unwrap())
}

impl Recording {
    fn hear(&mut self, connection: u64, side: Side, bytes: &[u8]) {
        let (conversation, positions) = self.conversations.get_mut(&connection).unwrap();
        let mut scribe = Scribe {
            entries: &mut self.entries,
            position: &mut self.position,
            positions,
            problems: &mut self.problems,
            connection: ConnectionNumber(connection),
        };
        conversation.bytes(side, bytes, now(), &mut scribe);
    }
}

impl Proxy {
    pub(super) fn start(to: SocketAddr, protocol: Protocol) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let recording = Arc::new(Mutex::new(Recording {
            protocol,
            entries: Vec::new(),
            position: 0,
            connections: 0,
            conversations: HashMap::new(),
            problems: Vec::new(),
        }));
        let shared = recording.clone();
        // Ends with the process of the test.
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                let Ok(server) = TcpStream::connect(to) else { continue };
                pass_on(&shared, client, server);
            }
        });
        Self { address, recording }
    }

    /// Returns the recording so far, and the connections that a new segment of a log would carry
    /// over.
    pub(super) fn carried(&self) -> (Vec<Entry>, Vec<Carried>) {
        let recording = self.recording.lock().unwrap();
        let is_open = |wanted: ConnectionNumber| {
            !recording.entries.iter().any(
                |entry| matches!(entry, Entry::Closed { connection, .. } if *connection == wanted),
            )
        };
        let carried = recording.entries.iter().filter_map(|entry| match entry {
            Entry::Opened { connection, at, client, server } if is_open(*connection) => {
                let (conversation, _) = &recording.conversations[&connection.0];
                Some(Carried {
                    connection: *connection,
                    opened: *at,
                    client: *client,
                    server: *server,
                    requests: conversation.connection_requests(),
                })
            }
            _ => None,
        });
        (recording.entries.clone(), carried.collect())
    }

    /// Returns the recording so far.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let recording = self.recording.lock().unwrap();
        assert_eq!(recording.problems, Vec::<String>::new());
        recording.entries.clone()
    }
}

fn pass_on(shared: &Arc<Mutex<Recording>>, client: TcpStream, server: TcpStream) {
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let mut recording = shared.lock().unwrap();
    recording.connections += 1;
    let number = recording.connections;
    let conversation = recording.protocol.conversation();
    recording.conversations.insert(number, (conversation, Vec::new()));
    recording.entries.push(Entry::Opened {
        connection: ConnectionNumber(number),
        at: now(),
        client: client.peer_addr().unwrap(),
        server: server.peer_addr().unwrap(),
    });
    for (side, mut from, mut to) in [
        (Side::Client, client.try_clone().unwrap(), server.try_clone().unwrap()),
        (Side::Server, server, client),
    ] {
        let shared = shared.clone();
        std::thread::spawn(move || {
            let mut bytes = vec![0; 64 << 10];
            while let Ok(len @ 1..) = from.read(&mut bytes) {
                shared.lock().unwrap().hear(number, side, &bytes[..len]);
                if to.write_all(&bytes[..len]).is_err() {
                    break;
                }
            }
            if side == Side::Client {
                let closed = Entry::Closed { connection: ConnectionNumber(number), at: now() };
                shared.lock().unwrap().entries.push(closed);
            }
            let _is_closed = to.shutdown(Shutdown::Both);
        });
    }
}
