//! The beginning of a connection: the server's greeting, and the client's login.

use super::packet::Fields;

/// The capabilities that client and server exchange (the names are the protocol's own).
pub(crate) mod capability {
    pub(crate) const CONNECT_WITH_DB: u64 = 1 << 3;
    pub(crate) const COMPRESS: u64 = 1 << 5;
    pub(crate) const PROTOCOL_41: u64 = 1 << 9;
    pub(crate) const SSL: u64 = 1 << 11;
    pub(crate) const SECURE_CONNECTION: u64 = 1 << 15;
    pub(crate) const PLUGIN_AUTH: u64 = 1 << 19;
    pub(crate) const CONNECT_ATTRS: u64 = 1 << 20;
    pub(crate) const PLUGIN_AUTH_LENENC_DATA: u64 = 1 << 21;
    pub(crate) const DEPRECATE_EOF: u64 = 1 << 24;
    pub(crate) const OPTIONAL_METADATA: u64 = 1 << 25;
    pub(crate) const ZSTD: u64 = 1 << 26;
    pub(crate) const QUERY_ATTRIBUTES: u64 = 1 << 27;
    /// MySQL's own clients set this; if it is not set, the upper half contains MariaDB's
    /// capabilities.
    pub(crate) const LONG_PASSWORD: u64 = 1;
    pub(crate) const MARIADB_PROGRESS: u64 = 1 << 32;
    pub(crate) const MARIADB_CACHE_METADATA: u64 = 1 << 36;
}

/// The server's first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Greeting {
    pub(crate) capabilities: u64,
    /// The server's id of the connection.
    pub(crate) thread: u32,
    /// The twenty bytes with which the password is scrambled.
    pub(crate) scramble: Vec<u8>,
    /// The server's authentication method.
    pub(crate) plugin: Vec<u8>,
}

impl Greeting {
    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        let mut fields = Fields(payload);
        if fields.u8()? != 10 {
            return None;
        }
        fields.zero_ended()?;
        let thread = fields.u32()?;
        let mut scramble = fields.bytes(8)?.to_vec();
        fields.u8()?;
        let low = fields.u16()?;
        let (mut high, mut extended, mut plugin) = (0, 0, Vec::new());
        if !fields.0.is_empty() {
            fields.bytes(3)?;
            high = fields.u16()?;
            let scramble_len = fields.u8()?;
            fields.bytes(6)?;
            extended = fields.u32()?;
            let rest = usize::from(scramble_len).saturating_sub(8).max(13);
            let more = fields.bytes(rest.min(fields.0.len()))?;
            scramble.extend_from_slice(more.strip_suffix(&[0]).unwrap_or(more));
            plugin = fields.zero_ended().unwrap_or(fields.0).to_vec();
        }
        let mut capabilities = u64::from(low) | u64::from(high) << 16;
        if capabilities & capability::LONG_PASSWORD == 0 {
            capabilities |= u64::from(extended) << 32;
        }
        Some(Self { capabilities, thread, scramble, plugin })
    }
}

/// The client's first message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) capabilities: u64,
    pub(crate) max_packet: u32,
    pub(crate) collation: u8,
    pub(crate) user: Vec<u8>,
    pub(crate) auth: Vec<u8>,
    pub(crate) database: Vec<u8>,
    pub(crate) plugin: Vec<u8>,
}

impl Login {
    /// Parses a login; one that requests TLS ends before its user.
    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        let mut fields = Fields(payload);
        let mut capabilities = u64::from(fields.u32()?);
        if capabilities & capability::PROTOCOL_41 == 0 {
            return None;
        }
        let max_packet = fields.u32()?;
        let collation = fields.u8()?;
        fields.bytes(19)?;
        let extended = fields.u32()?;
        if capabilities & capability::LONG_PASSWORD == 0 {
            capabilities |= u64::from(extended) << 32;
        }
        let mut login = Self {
            capabilities,
            max_packet,
            collation,
            user: Vec::new(),
            auth: Vec::new(),
            database: Vec::new(),
            plugin: Vec::new(),
        };
        if fields.0.is_empty() {
            return Some(login);
        }
        login.user = fields.zero_ended()?.to_vec();
        let has = |bit: u64| capabilities & bit != 0;
        let auth_len = match () {
            () if has(capability::PLUGIN_AUTH_LENENC_DATA) => fields.length_encoded()?,
            () if has(capability::SECURE_CONNECTION) => u64::from(fields.u8()?),
            () => fields.0.iter().position(|&byte| byte == 0)? as u64,
        };
        login.auth = fields.bytes(usize::try_from(auth_len).ok()?)?.to_vec();
        if has(capability::CONNECT_WITH_DB) {
            login.database = fields.zero_ended().unwrap_or(fields.0).to_vec();
        }
        if has(capability::PLUGIN_AUTH) {
            login.plugin = fields.zero_ended().unwrap_or_default().to_vec();
        }
        Some(login)
    }

    /// Encodes the payload, without connection attributes.
    pub(crate) fn write(&self) -> Vec<u8> {
        let mut capabilities = self.capabilities & !capability::CONNECT_ATTRS;
        capabilities |= capability::SECURE_CONNECTION | capability::PLUGIN_AUTH;
        capabilities &= !(capability::PLUGIN_AUTH_LENENC_DATA | capability::CONNECT_WITH_DB);
        if !self.database.is_empty() {
            capabilities |= capability::CONNECT_WITH_DB;
        }
        let bytes = capabilities.to_le_bytes();
        let auth_len = u8::try_from(self.auth.len()).unwrap_or(u8::MAX);
        let mut out = [&bytes[..4], &self.max_packet.to_le_bytes(), &[self.collation]].concat();
        out.extend_from_slice(&[0; 19]);
        out.extend_from_slice(&bytes[4..]);
        out.extend_from_slice(&self.user);
        out.extend_from_slice(&[0, auth_len]);
        out.extend_from_slice(&self.auth[..usize::from(auth_len)]);
        if !self.database.is_empty() {
            out.extend_from_slice(&self.database);
            out.push(0);
        }
        out.extend_from_slice(&self.plugin);
        out.push(0);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_written_as_it_is_read() {
        let login = Login {
            capabilities: capability::PROTOCOL_41
                | capability::SECURE_CONNECTION
                | capability::PLUGIN_AUTH
                | capability::CONNECT_WITH_DB
                | capability::MARIADB_CACHE_METADATA,
            max_packet: 1 << 24,
            collation: 45,
            user: b"someone".to_vec(),
            auth: vec![7; 20],
            database: b"shop".to_vec(),
            plugin: b"mysql_native_password".to_vec(),
        };
        assert_eq!(Login::parse(&login.write()), Some(login));
    }

    #[test]
    fn a_greeting_of_mariadb_is_read() {
        let mut payload = b"\x0a5.5.5-10.11.6-MariaDB\0\x05\0\0\0abcdefgh\0".to_vec();
        payload.extend_from_slice(b"\xfe\xf7\x2d\x02\0\xff\x81\x15\0\0\0\0\0\0\x1d\0\0\0");
        payload.extend_from_slice(b"ijklmnopqrst\0mysql_native_password\0");
        let greeting = Greeting::parse(&payload).unwrap();
        assert_eq!(greeting.scramble, b"abcdefghijklmnopqrst");
        assert_eq!(greeting.plugin, b"mysql_native_password");
        assert_eq!(greeting.capabilities, 0x1d_81ff_f7fe);
    }
}
