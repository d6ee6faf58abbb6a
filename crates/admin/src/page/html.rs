//! HTML that cannot be broken out of: markup is what stands in this program, all else is escaped.

use std::fmt::{self, Display, Write};

use crate::info::Info;

/// A document in the making.
#[derive(Default)]
pub(crate) struct Html {
    text: String,
}

/// Writes text in which markup means nothing.
struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            match letter {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                // Nothing that a browser makes no text of.
                letter if letter.is_control() => self.0.push('\u{fffd}'),
                letter => self.0.push(letter),
            }
        }
        Ok(())
    }
}

impl Html {
    /// Adds markup.
    pub(crate) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.text.push_str(markup);
        self
    }

    /// Adds text.
    pub(crate) fn text(&mut self, text: impl Display) -> &mut Self {
        let _infallible = write!(Escaped(&mut self.text), "{text}");
        self
    }

    /// Adds an attribute, in a tag.
    pub(crate) fn attribute(&mut self, name: &'static str, value: impl Display) -> &mut Self {
        self.raw(" ").raw(name).raw("=\"").text(value).raw("\"")
    }

    /// Adds text that another program or person has chosen: its direction stays within it.
    pub(crate) fn foreign(&mut self, text: impl Display) -> &mut Self {
        self.raw("<bdi>").text(text).raw("</bdi>")
    }

    /// Adds a figure of INFO, with its value for programs.
    pub(crate) fn figure(
        &mut self,
        info: &Info,
        field: &'static str,
        shown: impl Display,
    ) -> &mut Self {
        self.raw("<data").attribute("value", info.text(field)).attribute("data-field", field);
        self.raw(">").text(shown).raw("</data>")
    }

    /// Begins a section with a heading.
    pub(crate) fn section(&mut self, id: &'static str, title: &'static str) -> &mut Self {
        self.raw("<section")
            .attribute("id", id)
            .attribute("aria-labelledby", format_args!("{id}-h"));
        self.raw("><h2").attribute("id", format_args!("{id}-h")).raw(">").raw(title).raw("</h2>")
    }

    /// Begins a table that can be scrolled by keys where it is wider than the window.
    pub(crate) fn table(&mut self, caption: &'static str, columns: &[&'static str]) -> &mut Self {
        self.raw("<div class=\"wide\" tabindex=\"0\" role=\"region\"")
            .attribute("aria-label", caption);
        self.raw("><table><caption>").raw(caption).raw("</caption><thead><tr>");
        for column in columns {
            self.raw("<th scope=\"col\">").raw(column).raw("</th>");
        }
        self.raw("</tr></thead><tbody>")
    }

    /// Ends it.
    pub(crate) fn end_table(&mut self) -> &mut Self {
        self.raw("</tbody></table></div>")
    }

    /// Adds a cell with a number.
    pub(crate) fn number(&mut self, number: impl Display) -> &mut Self {
        self.raw("<td class=\"n\">").text(number).raw("</td>")
    }

    /// Adds a cell with text that is not ours.
    pub(crate) fn cell(&mut self, text: impl Display) -> &mut Self {
        self.raw("<td>").foreign(text).raw("</td>")
    }

    /// The document.
    pub(crate) fn finish(self) -> String {
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_ours_is_no_markup() {
        let mut html = Html::default();
        html.raw("<b").attribute("title", "\"x'>").raw(">").text("<script>&\u{1b}[").raw("</b>");
        let expected = "<b title=\"&quot;x&#39;&gt;\">&lt;script&gt;&amp;\u{fffd}[</b>";
        assert_eq!(html.finish(), expected);
    }
}
