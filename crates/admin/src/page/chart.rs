//! Pictures as SVG, each with what it shows in words. Colours are classes of the style sheet, in a light and a dark set.

use super::format;
use super::html::Html;
use crate::report::{Bound, Latency};

/// How wide a picture is, in its own units; it is shown as wide as there is room.
const WIDTH: u64 = 600;

/// A part of a bar.
pub(crate) struct Part {
    /// The class of its colour.
    pub(crate) class: &'static str,
    pub(crate) label: &'static str,
    pub(crate) value: u64,
}

/// Draws parts of a whole next to each other, and says what each is.
pub(crate) fn bar(html: &mut Html, what: &'static str, parts: &[Part], shown: fn(u64) -> String) {
    let whole = parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.value));
    let words: Vec<String> = parts
        .iter()
        .map(|part| {
            let share = format::percent(part.value, whole);
            format!("{} {} ({share})", part.label, shown(part.value))
        })
        .collect();
    html.raw("<figure class=\"bar\"><svg viewBox=\"0 0 600 18\" preserveAspectRatio=\"none\" role=\"img\"");
    html.attribute("aria-label", format_args!("{what}: {}", words.join(", "))).raw(">");
    html.raw("<rect class=\"none\" width=\"600\" height=\"18\"/>");
    let mut at = 0;
    for part in parts {
        let width = scale(part.value, whole, WIDTH);
        html.raw("<rect height=\"18\"").attribute("class", part.class).attribute("x", at);
        html.attribute("width", width).raw("/>");
        at += width;
    }
    html.raw("</svg><figcaption>");
    for (part, words) in parts.iter().zip(words) {
        html.raw("<span class=\"key\"><svg width=\"12\" height=\"12\" aria-hidden=\"true\"><rect");
        html.attribute("class", part.class).raw(" width=\"12\" height=\"12\"/></svg> ");
        html.text(words).raw("</span> ");
    }
    html.raw("</figcaption></figure>");
}

/// Draws how often something took how long.
pub(crate) fn histogram(html: &mut Html, what: &str, latency: &Latency) {
    const HEIGHT: u64 = 90;
    const BARS_MAX: usize = 40;
    if latency.count == 0 {
        html.raw("<p>There were none yet.</p>");
        return;
    }
    let counts: Vec<(Bound, u64)> = latency.buckets().collect();
    let first = counts.iter().position(|it| it.1 > 0).unwrap_or(0);
    let last = counts.iter().rposition(|it| it.1 > 0).unwrap_or(0);
    let shown = counts.get(first..=last.min(first + BARS_MAX - 1)).unwrap_or_default();
    let most = shown.iter().map(|it| it.1).max().unwrap_or(0);
    let quantiles = [0.5, 0.99].map(|share| format::bound(latency.quantile(share)));
    let words = format!(
        "{what}: {} times, half of them {}, 99 % of them {}",
        format::count(latency.count),
        quantiles[0],
        quantiles[1]
    );
    html.raw("<figure><svg class=\"chart\" viewBox=\"0 0 600 120\" role=\"img\"");
    html.attribute("aria-label", &words).raw(">");
    let step = WIDTH / (shown.len() as u64).max(6);
    for (at, (bound, count)) in shown.iter().enumerate() {
        let height = scale(*count, most, HEIGHT).max(u64::from(*count > 0));
        let x = at as u64 * step;
        html.raw("<rect class=\"c1\"").attribute("x", x + 2).attribute("y", 4 + HEIGHT - height);
        html.attribute("width", step - 4).attribute("height", height).raw("><title>");
        html.text(format_args!("{count} {}", format::bound(Some(*bound)))).raw("</title></rect>");
        html.raw("<text class=\"label\" y=\"112\" text-anchor=\"middle\"")
            .attribute("x", x + step / 2);
        html.raw(">").text(short(*bound)).raw("</text>");
    }
    html.raw("</svg><figcaption>").text(words).raw("</figcaption></figure>");
}

/// A bound as a label of an axis.
fn short(bound: Bound) -> String {
    let us = match bound {
        Bound::UpTo(us) => us,
        Bound::Above(us) => return format!(">{}", short(Bound::UpTo(us))),
    };
    match us {
        0..1000 => format!("{us}µ"),
        1000..1_000_000 => format!("{}m", us / 1000),
        _ => format!("{}s", us / 1_000_000),
    }
}

/// Draws a curve of what was seen at moments, in milliseconds, that rise.
pub(crate) fn curve(html: &mut Html, what: &'static str, points: &[(u64, u64)]) {
    const HEIGHT: u64 = 60;
    let most = points.iter().map(|it| it.1).max().unwrap_or(0);
    let last = points.last().map_or(0, |it| it.1);
    let begin = points.first().map_or(0, |it| it.0);
    let span_ms = points.last().map_or(0, |it| it.0.saturating_sub(begin));
    let words = format!(
        "{what}: {} now, at most {} in the {} that the page was looked at",
        format::count(last),
        format::count(most),
        format::seconds(span_ms / 1000)
    );
    html.raw("<figure><svg class=\"chart\" viewBox=\"0 0 600 70\" preserveAspectRatio=\"none\" role=\"img\"");
    html.attribute("aria-label", &words);
    html.raw("><line class=\"axis\" x1=\"0\" y1=\"65\" x2=\"600\" y2=\"65\"/><polyline class=\"line\" points=\"");
    for (at, value) in points {
        let x = scale(at.saturating_sub(begin), span_ms, WIDTH);
        let y = 65 - scale(*value, most, HEIGHT);
        html.text(format_args!("{x},{y} "));
    }
    html.raw("\"/></svg><figcaption>").text(words).raw("</figcaption></figure>");
}

/// What stands at a moment of a time line.
pub(crate) struct Mark {
    pub(crate) class: &'static str,
    /// The shape: colours alone tell nothing.
    pub(crate) shape: Shape,
    pub(crate) unix_s: i64,
    pub(crate) title: String,
}

/// See [`Mark`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Diamond,
    Circle,
    Triangle,
    Square,
}

/// Draws a time line up to `end_s` with the time that can be gone back to, from `from_s` on, as a band. It begins with
/// what is oldest; what lies behind its end, because the clock was set back, stands at the end.
pub(crate) fn time_line(html: &mut Html, end_s: i64, from_s: i64, marks: &[Mark]) {
    let begin_s = marks.iter().fold(from_s.min(end_s), |begin, mark| begin.min(mark.unix_s));
    let span = end_s.abs_diff(begin_s).max(1);
    let x_of =
        |unix_s: i64| 10 + scale(unix_s.clamp(begin_s, end_s).abs_diff(begin_s), span, WIDTH - 20);
    let from = x_of(from_s);
    let words = format!(
        "A time line from {} to now: {} marks, each in the table below; the log can be read as of every moment since {}",
        format::moment(begin_s),
        marks.len(),
        format::moment(from_s)
    );
    html.raw("<figure><svg class=\"chart\" viewBox=\"0 0 600 64\" role=\"img\"");
    html.attribute("aria-label", &words)
        .raw("><line class=\"axis\" x1=\"10\" y1=\"30\" x2=\"590\" y2=\"30\"/>");
    html.raw("<rect class=\"c2\" y=\"26\" height=\"8\"").attribute("x", from);
    html.attribute("width", 590_u64.saturating_sub(from).max(2)).raw("/>");
    for mark in marks {
        let x = x_of(mark.unix_s);
        html.raw("<path").attribute("class", mark.class).attribute("d", mark.shape.path(x));
        html.raw("><title>").text(&mark.title).raw("</title></path>");
    }
    html.raw("<text class=\"label\" x=\"10\" y=\"60\">").text(format::moment(begin_s));
    html.raw("</text><text class=\"label\" x=\"590\" y=\"60\" text-anchor=\"end\">now</text></svg><figcaption>");
    for (shape, class, what) in [
        (Shape::Diamond, "c1", "backup"),
        (Shape::Square, "c4", "dump"),
        (Shape::Circle, "c3", "before a database was emptied"),
        (Shape::Triangle, "bad", "dangerous command"),
    ] {
        html.raw("<span class=\"key\"><svg width=\"16\" height=\"16\" viewBox=\"-8 22 16 16\" aria-hidden=\"true\"><path");
        html.attribute("class", class).attribute("d", shape.path(0)).raw("/></svg> ");
        html.raw(what).raw("</span> ");
    }
    html.raw("<span class=\"key\"><svg width=\"16\" height=\"8\" aria-hidden=\"true\">");
    html.raw("<rect class=\"c2\" width=\"16\" height=\"8\"/></svg> the log can be read as of any moment</span>");
    html.raw("</figcaption></figure>");
}

impl Shape {
    fn path(self, x: u64) -> String {
        match self {
            Self::Diamond => format!("M{x} 22 m0 0 l8 8 l-8 8 l-8 -8 z"),
            Self::Circle => format!("M{x} 23 a7 7 0 1 0 0.01 0 z"),
            Self::Triangle => format!("M{x} 22 l8 15 l-16 0 z"),
            Self::Square => format!("M{x} 24 m-6 0 l12 0 l0 12 l-12 0 z"),
        }
    }
}

/// A part of a whole as so much of a length.
fn scale(part: u64, whole: u64, length: u64) -> u64 {
    let scaled = u128::from(part) * u128::from(length) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(length).min(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_says_in_words_what_it_shows() {
        let mut html = Html::default();
        let parts = [
            Part { class: "c1", label: "live", value: 3 },
            Part { class: "c2", label: "garbage", value: 1 },
        ];
        bar(&mut html, "Records", &parts, format::count);
        let text = html.finish();
        assert!(
            text.contains("aria-label=\"Records: live 3 (75.0 %), garbage 1 (25.0 %)\""),
            "{text}"
        );
        assert!(text.contains("width=\"450\""), "{text}");
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        let mut html = Html::default();
        bar(&mut html, "x", &[], format::count);
        histogram(&mut html, "x", &Latency::default());
        curve(&mut html, "x", &[]);
        time_line(&mut html, 5, 5, &[]);
        assert!(!html.finish().contains("NaN"));
    }

    #[test]
    fn what_the_clock_has_not_reached_stands_at_the_end() {
        let mark =
            |unix_s| Mark { class: "c1", shape: Shape::Circle, unix_s, title: String::new() };
        for (end_s, from_s, marks) in [(5, 9, vec![mark(9)]), (i64::MIN, i64::MAX, vec![mark(0)])] {
            let mut html = Html::default();
            time_line(&mut html, end_s, from_s, &marks);
            assert!(html.finish().contains(&Shape::Circle.path(10)), "it has no length");
        }
        let mut html = Html::default();
        time_line(&mut html, 5, 9, &[mark(0), mark(9)]);
        assert!(html.finish().contains(&Shape::Circle.path(590)));
    }

    #[test]
    fn what_took_longer_than_the_last_bound_is_drawn() {
        let mut html = Html::default();
        let latency = Latency { count: 3, up_to_us: vec![(1, 0), (1000, 1)], ..Latency::default() };
        histogram(&mut html, "x", &latency);
        let text = html.finish();
        assert!(text.contains("99 % of them &gt; 1.0 ms"), "{text}");
        assert!(
            text.contains("<title>2 &gt; 1.0 ms</title>") && text.contains("&gt;1m<"),
            "{text}"
        );
    }
}
