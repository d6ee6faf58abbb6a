//! Where the server listens, as the engine sees it: CONFIG SET port and bind.

/// The addresses that clients connect to.
pub trait Network {
    /// Listens on `port` of the addresses in `bind` from now on, and nowhere else. When that is not
    /// possible nothing changes.
    ///
    /// # Errors
    /// Why it is not possible, for the operator.
    fn listen(&mut self, bind: &[&str], port: u16, backlog: i32) -> Result<(), String>;

    /// Makes room for `clients` next to a log on `devices`; returns how many there may be.
    fn allow_clients(&mut self, wanted: usize, device_count: usize) -> usize;
}

/// A network without sockets: every address will do.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNetwork;

impl Network for NoNetwork {
    fn listen(&mut self, _bind: &[&str], _port: u16, _backlog: i32) -> Result<(), String> {
        Ok(())
    }

    fn allow_clients(&mut self, wanted: usize, _device_count: usize) -> usize {
        wanted
    }
}
