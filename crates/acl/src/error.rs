//! Why rules are refused. The texts are Redis' own.

use crate::password::PASSWORD_BYTES_MAX;

/// Why a rule cannot be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// `+` or `-` with a command or a category that does not exist.
    #[error("Unknown command or category name in ACL")]
    Unknown,
    /// No rule begins so, or a pattern has a space in it.
    #[error("Syntax error")]
    Syntax,
    /// All keys are allowed already.
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. \
         Try 'resetkeys' to start with an empty list of patterns"
    )]
    KeyAfterAll,
    /// All channels are allowed already.
    #[error(
        "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any \
         effect. Try 'resetchannels' to start with an empty list of channels"
    )]
    ChannelAfterAll,
    /// `<` or `!` with a password that the user does not have.
    #[error("The password you are trying to remove from the user does not exist")]
    NoSuchPassword,
    /// `#` or `!` with something that is no SHA-256 in hexadecimal digits.
    #[error(
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"
    )]
    BadHash,
    /// `+config|get|x`.
    #[error("Allowing first-arg of a subcommand is not supported")]
    FirstArgOfSubcommand,
    /// A password that no client could send before it is known.
    #[error("The password must not be longer than {PASSWORD_BYTES_MAX} bytes")]
    PasswordTooLong,
}

/// Why ACL SETUSER has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetUserError {
    /// The name has a space or a NUL byte.
    #[error("Usernames can't contain spaces or null characters")]
    BadName,
    /// A parenthesis is not closed; with the word that has it.
    #[error("Unmatched parenthesis in acl selector starting at '{0}'.")]
    Unmatched(String),
    /// A rule is wrong; with the rule and why.
    #[error("Error in ACL SETUSER modifier '{0}': {1}")]
    Modifier(String, RuleError),
}

/// Why a line `user …` of the configuration is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeclarationError {
    /// The name has a space or a NUL byte.
    #[error("Spaces not allowed in ACL usernames")]
    BadName,
    /// The user has a line already; with its name.
    #[error(
        "Error in user declaration '{0}': Duplicate user found. A user can only be defined once in config files"
    )]
    Duplicate(String),
    /// A parenthesis is not closed; with the word that has it.
    #[error("Error in user declaration '{0}': Unmatched parenthesis in a selector")]
    Unmatched(String),
    /// A rule is wrong; with the rule, the user and why.
    #[error("Error loading ACL rule '{0}' for the user named '{1}': {2}")]
    Rule(String, String, RuleError),
}

/// All that is wrong with an aclfile, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
)]
pub struct FileErrors(pub(crate) String);
