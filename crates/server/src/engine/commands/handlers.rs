//! What executes a command: a handler of `command`, or one of the server.
//!
//! Both lists are by name and become arrays by ordinal when the compiler runs. Then each served
//! command has exactly one handler and nothing else has any: anything else does not compile.

use command::handlers::{HANDLERS, Handler};
use command::table::{Command, ORDINAL_COUNT, SPECS, by_ordinal};

use super::super::call::ServerHandler;
use super::{
    acl, backup, client_pause, clients, cluster, command_itself, config, connection, databases,
    debug, durability, help, info, latency, logtail, memory, migrate, modules, monitor, publish,
    saving, slowlog, state, transactions,
};

/// What executes a command.
#[derive(Clone, Copy)]
pub(in crate::engine) enum Executor {
    /// A handler that sees the keyspace and nothing of the server.
    Data(Handler),
    /// The server itself: clients, configuration, transactions, pub/sub, the log.
    Server(ServerHandler),
}

/// What executes a command; a container alone is not called.
pub(in crate::engine) fn executor(command: Command) -> Option<Executor> {
    EXECUTORS[command.ordinal()]
}

static EXECUTORS: [Option<Executor>; ORDINAL_COUNT] = executors();

const fn executors() -> [Option<Executor>; ORDINAL_COUNT] {
    let of_server = by_ordinal(LIST);
    let mut executors = [None; ORDINAL_COUNT];
    let mut ordinal = 0;
    while ordinal < ORDINAL_COUNT {
        let spec = SPECS[ordinal];
        executors[ordinal] = match (HANDLERS[ordinal], of_server[ordinal]) {
            (Some(handler), None) => Some(Executor::Data(handler)),
            (None, Some(handler)) => Some(Executor::Server(handler)),
            // What does not compile names the command: in the first case it has two handlers, in the
            // second none.
            (Some(_), Some(_)) => panic!("{}", spec.name),
            (None, None) if spec.served && spec.is_callable() => panic!("{}", spec.name),
            (None, None) => None,
        };
        ordinal += 1;
    }
    executors
}

const LIST: &[(&str, ServerHandler)] = &[
    ("migrate", migrate::migrate),
    ("wait", durability::wait),
    ("waitaof", durability::waitaof),
    ("psubscribe", publish::psubscribe),
    ("publish", publish::publish),
    ("punsubscribe", publish::punsubscribe),
    ("spublish", publish::spublish),
    ("ssubscribe", publish::ssubscribe),
    ("subscribe", publish::subscribe),
    ("sunsubscribe", publish::sunsubscribe),
    ("unsubscribe", publish::unsubscribe),
    ("pubsub|channels", publish::channels),
    ("pubsub|help", help::help),
    ("pubsub|numpat", publish::numpat),
    ("pubsub|numsub", publish::numsub),
    ("pubsub|shardchannels", publish::shardchannels),
    ("pubsub|shardnumsub", publish::shardnumsub),
    ("discard", transactions::discard),
    ("exec", transactions::exec),
    ("multi", transactions::multi),
    ("unwatch", transactions::unwatch),
    ("watch", transactions::watch),
    ("auth", connection::auth),
    ("echo", connection::echo),
    ("hello", connection::hello),
    ("ping", connection::ping),
    ("quit", connection::quit),
    ("reset", connection::reset),
    ("select", connection::select),
    ("client|caching", clients::caching),
    ("client|durability", durability::client_durability),
    ("client|getname", clients::getname),
    ("client|getredir", clients::getredir),
    ("client|help", help::help),
    ("client|id", clients::id),
    ("client|info", clients::info),
    ("client|kill", clients::kill),
    ("client|list", clients::list),
    ("client|no-evict", clients::no_evict),
    ("client|no-touch", clients::no_touch),
    ("client|pause", client_pause::pause),
    ("client|reply", clients::reply),
    ("client|setinfo", clients::setinfo),
    ("client|setname", clients::setname),
    ("client|tracking", clients::tracking),
    ("client|trackinginfo", clients::trackinginfo),
    ("client|unblock", clients::unblock),
    ("client|unpause", client_pause::unpause),
    ("asking", cluster::disabled),
    ("readonly", cluster::disabled),
    ("readwrite", cluster::disabled),
    ("cluster|addslots", cluster::disabled),
    ("cluster|addslotsrange", cluster::disabled),
    ("cluster|bumpepoch", cluster::disabled),
    ("cluster|count-failure-reports", cluster::disabled),
    ("cluster|countkeysinslot", cluster::disabled),
    ("cluster|delslots", cluster::disabled),
    ("cluster|delslotsrange", cluster::disabled),
    ("cluster|failover", cluster::disabled),
    ("cluster|flushslots", cluster::disabled),
    ("cluster|forget", cluster::disabled),
    ("cluster|getkeysinslot", cluster::disabled),
    ("cluster|help", cluster::disabled),
    ("cluster|info", cluster::disabled),
    ("cluster|keyslot", cluster::disabled),
    ("cluster|links", cluster::disabled),
    ("cluster|meet", cluster::disabled),
    ("cluster|myid", cluster::disabled),
    ("cluster|nodes", cluster::disabled),
    ("cluster|replicas", cluster::disabled),
    ("cluster|replicate", cluster::disabled),
    ("cluster|reset", cluster::disabled),
    ("cluster|saveconfig", cluster::disabled),
    ("cluster|set-config-epoch", cluster::disabled),
    ("cluster|setslot", cluster::disabled),
    ("cluster|shards", cluster::disabled),
    ("cluster|slaves", cluster::disabled),
    ("cluster|slots", cluster::disabled),
    ("backup|abort", backup::abort),
    ("backup|cleanup", backup::cleanup),
    ("backup|create", backup::create),
    ("backup|delete", backup::delete),
    ("backup|help", help::help),
    ("backup|list", backup::list),
    ("backup|seal", backup::seal),
    ("backup|start", backup::start),
    ("backup|status", backup::status),
    ("backup|timeline", backup::timeline),
    ("bgrewriteaof", durability::bgrewriteaof),
    ("bgsave", saving::bgsave),
    ("checkpoint", durability::checkpoint),
    ("command", command_itself),
    ("debug", debug::debug),
    ("flushall", databases::flushall),
    ("flushdb", databases::flushdb),
    ("info", info::info),
    ("lastsave", saving::lastsave),
    ("lolwut", state::lolwut),
    ("logtail", logtail::logtail),
    ("monitor", monitor::monitor),
    ("replicaof", state::replicaof),
    ("role", state::role),
    ("save", saving::save),
    ("replconf", saving::replconf),
    ("shutdown", state::shutdown),
    ("sync", saving::sync),
    ("slaveof", state::replicaof),
    ("swapdb", databases::swapdb),
    ("time", state::time),
    ("acl|cat", acl::acl),
    ("acl|deluser", acl::acl),
    ("acl|dryrun", acl::acl),
    ("acl|genpass", acl::acl),
    ("acl|getuser", acl::acl),
    ("acl|help", acl::acl),
    ("acl|list", acl::acl),
    ("acl|load", acl::acl),
    ("acl|log", acl::acl),
    ("acl|save", acl::acl),
    ("acl|setuser", acl::acl),
    ("acl|users", acl::acl),
    ("acl|whoami", acl::acl),
    ("command|count", command_itself),
    ("command|docs", command_itself),
    ("command|getkeys", command_itself),
    ("command|getkeysandflags", command_itself),
    ("command|help", command_itself),
    ("command|info", command_itself),
    ("command|list", command_itself),
    ("config|get", config::get),
    ("config|help", help::help),
    ("config|resetstat", config::resetstat),
    ("config|rewrite", config::rewrite),
    ("config|set", config::set),
    ("latency|doctor", latency::doctor),
    ("latency|graph", latency::graph),
    ("latency|help", help::help),
    ("latency|histogram", latency::histogram),
    ("latency|history", latency::history),
    ("latency|latest", latency::latest),
    ("latency|reset", latency::reset),
    ("memory|doctor", memory::doctor),
    ("memory|help", help::help),
    ("memory|malloc-stats", memory::malloc_stats),
    ("memory|purge", memory::purge),
    ("memory|stats", memory::stats),
    ("memory|usage", memory::usage),
    ("module|help", help::help),
    ("module|list", modules::list),
    ("module|load", modules::refused),
    ("module|loadex", modules::refused),
    ("module|unload", modules::refused),
    ("slowlog|get", slowlog::get),
    ("slowlog|help", help::help),
    ("slowlog|len", slowlog::len),
    ("slowlog|reset", slowlog::reset),
];
