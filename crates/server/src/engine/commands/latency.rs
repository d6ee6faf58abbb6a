//! LATENCY: how long commands and events took.

use command::error::Done;
use command::table;

use super::super::histogram::Histogram;
use super::super::latency::Series;
use super::super::{ClientKey, Engine};

/// LATENCY LATEST.
pub(super) fn latest(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let reply = engine.sessions[key].connection.output.writer();
    let events = engine.observed.latency.events();
    reply.array(events.len());
    for (event, series) in events {
        let Some(sample) = series.samples.back() else { continue };
        reply.array(4);
        reply.bulk_str(event);
        reply.int(sample.unix_s);
        reply.int(sample.latency_ms.cast_signed());
        reply.int(series.max_ms.cast_signed());
    }
    Ok(())
}

/// LATENCY HISTORY.
pub(super) fn history(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let reply = engine.sessions[key].connection.output.writer();
    let Some((_, series)) = engine.observed.latency.event(args[2]) else {
        reply.array(0);
        return Ok(());
    };
    reply.array(series.samples.len());
    for sample in &series.samples {
        reply.array(2);
        reply.int(sample.unix_s);
        reply.int(sample.latency_ms.cast_signed());
    }
    Ok(())
}

/// LATENCY RESET.
pub(super) fn reset(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let count = engine.observed.latency.reset(&args[2..]);
    engine.reply(key).count(count);
    Ok(())
}

/// LATENCY GRAPH.
pub(super) fn graph(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let (event, series) = engine.observed.latency.event(args[2]).ok_or_else(|| {
        super::error(format!("ERR No samples available for event '{}'", super::text(args[2])))
    })?;
    let graph = draw(event, series);
    engine.reply(key).verbatim("txt", &graph);
    Ok(())
}

/// How high the bars of a graph may be, in lines.
const GRAPH_LINES: u64 = 8;

/// One column a sample, the newest on the right.
fn draw(event: &str, series: &Series) -> String {
    let worst = series.samples.iter().map(|sample| sample.latency_ms).max().unwrap_or(0).max(1);
    let least = series.samples.iter().map(|sample| sample.latency_ms).min().unwrap_or(0);
    let mut graph = format!(
        "{event} - high {worst} ms, low {least} ms (all time high {} ms)\n{}\n",
        series.max_ms,
        "-".repeat(80)
    );
    for line in (1..=GRAPH_LINES).rev() {
        let bars = series.samples.iter().map(|sample| {
            let height = (sample.latency_ms * GRAPH_LINES).div_ceil(worst);
            if height >= line { '#' } else { ' ' }
        });
        graph.extend(bars);
        graph.push('\n');
    }
    graph
}

/// LATENCY DOCTOR.
pub(super) fn doctor(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let report = if engine.options.latency_threshold_ms == 0 {
        "Latency monitoring is off. Turn it on with CONFIG SET latency-monitor-threshold <milliseconds>: \
         what takes at least that long is then noted here.\n"
            .to_owned()
    } else if engine.observed.latency.events().len() == 0 {
        "Nothing has taken as long as latency-monitor-threshold yet.\n".to_owned()
    } else {
        let mut report = String::from("These took longer than latency-monitor-threshold:\n\n");
        for (event, series) in engine.observed.latency.events() {
            let latest = series.samples.back().map_or(0, |sample| sample.latency_ms);
            let count = series.samples.len();
            report.push_str(&format!(
                "{event}: {count} times, the last one {latest} ms, the worst {} ms\n",
                series.max_ms
            ));
        }
        report.push_str("\nSLOWLOG GET shows the slow commands themselves.\n");
        report
    };
    engine.reply(key).verbatim("txt", &report);
    Ok(())
}

/// LATENCY HISTOGRAM.
pub(super) fn histogram(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let mut wanted: Vec<table::Command> = Vec::new();
    if args.len() == 2 {
        wanted.extend(
            table::all().flat_map(|command| std::iter::once(command).chain(command.subcommands())),
        );
    }
    for name in &args[2..] {
        if let Some(command) = engine.config.commands().lookup(name) {
            wanted.push(command);
            wanted.extend(command.subcommands());
        }
    }
    let reply = engine.sessions[key].connection.output.writer();
    let mark = reply.mark();
    let mut count = 0;
    for command in wanted {
        let Some(latency) = &engine.observed.counters.by_command[command.ordinal()].latency else {
            continue;
        };
        reply.bulk_str(command.name);
        write_histogram(latency, reply);
        count += 1;
    }
    reply.finish_map(mark, count);
    Ok(())
}

fn write_histogram(histogram: &Histogram, reply: &mut resp::Writer) {
    reply.map(2);
    reply.bulk_str("calls");
    reply.int(histogram.count().cast_signed());
    reply.bulk_str("histogram_usec");
    let powers = histogram.cumulative_powers();
    reply.map(powers.len());
    for (upper_us, count) in powers {
        reply.int(upper_us.cast_signed());
        reply.int(count.cast_signed());
    }
}
