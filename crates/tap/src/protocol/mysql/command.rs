//! Commands of the client: the first byte of a payload, and the contents that matter to recovery.

use super::answer::Expected;
use super::packet;

/// A command, distinguished as far as it matters here (the protocol's names without `COM_`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Quit,
    InitDb,
    Query,
    FieldList,
    CreateDb,
    DropDb,
    Statistics,
    ProcessInfo,
    /// Ping, refresh, kill, debug, shutdown: nothing that recovery restores.
    Reads,
    ChangeUser,
    Prepare,
    Execute,
    BulkExecute,
    LongData,
    Close,
    ResetStatement,
    SetOption,
    Fetch,
    ResetConnection,
    /// A command of a replica: its connection has no requests from here on.
    Replica,
    Other,
}

impl Code {
    pub(crate) fn of(byte: u8) -> Self {
        match byte {
            0x01 => Self::Quit,
            0x02 => Self::InitDb,
            0x03 => Self::Query,
            0x04 => Self::FieldList,
            0x05 => Self::CreateDb,
            0x06 => Self::DropDb,
            0x07 | 0x08 | 0x0c | 0x0d | 0x0e => Self::Reads,
            0x09 => Self::Statistics,
            0x0a => Self::ProcessInfo,
            0x11 => Self::ChangeUser,
            0x12 | 0x13 | 0x15 | 0x1e => Self::Replica,
            0x16 => Self::Prepare,
            0x17 => Self::Execute,
            0x18 => Self::LongData,
            0x19 => Self::Close,
            0x1a => Self::ResetStatement,
            0x1b => Self::SetOption,
            0x1c => Self::Fetch,
            0x1f => Self::ResetConnection,
            0xfa => Self::BulkExecute,
            _ => Self::Other,
        }
    }

    pub(crate) fn expected(self) -> Expected {
        match self {
            Self::Quit | Self::LongData | Self::Close | Self::Replica => Expected::Nothing,
            Self::Query | Self::Execute | Self::BulkExecute | Self::ProcessInfo => {
                Expected::Results
            }
            Self::FieldList | Self::Fetch => Expected::UntilEnd,
            Self::ChangeUser => Expected::Login,
            Self::Prepare => Expected::Prepared,
            _ => Expected::One,
        }
    }

    /// Whether a statement id follows the first byte of the payload.
    pub(crate) fn names_statement(self) -> bool {
        matches!(
            self,
            Self::Execute
                | Self::BulkExecute
                | Self::LongData
                | Self::Close
                | Self::ResetStatement
                | Self::Fetch
        )
    }
}

/// The place of the statement id in a payload.
pub(crate) const STATEMENT_ID_AT: std::ops::Range<usize> = 1..5;

/// The statement id in a payload.
pub(crate) fn statement_id(payload: &[u8]) -> Option<u32> {
    payload.get(STATEMENT_ID_AT)?.try_into().ok().map(u32::from_le_bytes)
}

/// An execution of a prepared statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Execute<'a> {
    /// The offset of the flag that says whether types follow.
    pub(crate) flag_at: usize,
    /// Two bytes per parameter, if present.
    pub(crate) types: Option<&'a [u8]>,
}

impl<'a> Execute<'a> {
    /// Command, id, flags and a count of iterations that is always one.
    const FIXED_BYTES: usize = 10;

    /// Parses `payload`, for a statement with this many `parameters`. `None` if it has none, or if
    /// the payload is too short.
    pub(crate) fn parse(payload: &'a [u8], parameters: u16) -> Option<Self> {
        let parameters = usize::from(parameters);
        let flag_at = Self::FIXED_BYTES + parameters.div_ceil(8);
        let flag = *payload.get(flag_at).filter(|_| parameters > 0)?;
        let types = payload.get(flag_at + 1..flag_at + 1 + 2 * parameters);
        Some(Self { flag_at, types: types.filter(|_| flag == 1) })
    }

    /// Builds a request with the `types` and no values: all are null.
    pub(crate) fn naming(id: u32, parameters: u16, types: &[u8]) -> Vec<u8> {
        let mut payload = [&[0x17], &id.to_le_bytes()[..], &[0, 1, 0, 0, 0]].concat();
        let nulls = usize::from(parameters).div_ceil(8);
        payload.resize(payload.len() + nulls, 0xff);
        if parameters > 0 {
            payload.push(u8::from(!types.is_empty()));
            payload.extend_from_slice(types);
        }
        let mut request = Vec::new();
        packet::write(&mut request, 0, &payload);
        request
    }
}
