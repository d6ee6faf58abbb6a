//! Reads the dependencies of a `Cargo.toml`.
//!
//! A reader of the few forms that a manifest uses for dependencies, not of TOML: a section header such as
//! `[dev-dependencies]`, `[target.'cfg(unix)'.dependencies]` or `[dependencies.name]`, and in it
//! `name = …` or `name.workspace = …`, with `package = "…"` where a dependency was renamed.

/// What the names of our packages begin with.
pub(super) const PREFIX: &str = "indelible-";

/// The package of the crate in a folder. `xtask` is a tool of the repository and keeps its usual name.
pub(super) fn package_of(folder: &str) -> String {
    if folder == "xtask" { folder.to_owned() } else { format!("{PREFIX}{folder}") }
}

/// The crate of a package: the name of its folder.
pub(super) fn crate_of(package: &str) -> &str {
    package.strip_prefix(PREFIX).unwrap_or(package)
}

/// What a dependency is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// The crate's own code, or its build script.
    Code,
    /// Its tests only.
    Tests,
}

/// The package name in a manifest.
pub(super) fn package_name(manifest: &str) -> Option<String> {
    let mut section = "";
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = section_header(line) {
            section = header;
        } else if section == "package"
            && let Some(value) = value_of(line, "name")
        {
            return Some(value);
        }
    }
    None
}

/// Every dependency of a manifest by its crate.
pub(super) fn dependencies(manifest: &str) -> Vec<(String, Use)> {
    let mut found = Vec::new();
    let mut open: Option<Use> = None;
    for line in manifest.lines().map(str::trim) {
        if let Some(header) = section_header(line) {
            open = None;
            let (table, name) = dependency_table(header);
            match (table, name) {
                (Some(use_), Some(name)) => found.push((crate_of(name).to_owned(), use_)),
                (Some(use_), None) => open = Some(use_),
                (None, _) => {}
            }
        } else if let Some(use_) = open
            && let Some((key, rest)) = line.split_once('=')
            && !line.starts_with('#')
        {
            let name = key.trim().split('.').next().unwrap_or_default().trim_matches('"');
            let package = renamed(rest).unwrap_or_else(|| name.to_owned());
            found.push((crate_of(&package).to_owned(), use_));
        }
    }
    found
}

fn section_header(line: &str) -> Option<&str> {
    let line = line.split('#').next().unwrap_or_default().trim();
    line.strip_prefix('[')?.strip_suffix(']')
}

/// Splits a section header into the kind of dependencies it lists and the one crate it is about, if any.
fn dependency_table(header: &str) -> (Option<Use>, Option<&str>) {
    const TABLES: [(&str, Use); 3] = [
        ("dev-dependencies", Use::Tests),
        ("build-dependencies", Use::Code),
        ("dependencies", Use::Code),
    ];
    for (table, use_) in TABLES {
        let own = header == table || header.ends_with(&format!(".{table}"));
        if own && !header.starts_with("workspace.") {
            return (Some(use_), None);
        }
        if let Some(name) = header.strip_prefix(&format!("{table}.")) {
            return (Some(use_), Some(name));
        }
    }
    (None, None)
}

fn renamed(value: &str) -> Option<String> {
    let start = value.find("package")?;
    value_of(&value[start..], "package")
}

/// The quoted value of `key = "value"` at the start of a line.
fn value_of(line: &str, key: &str) -> Option<String> {
    let rest = line.strip_prefix(key)?.trim_start().strip_prefix('=')?.trim_start();
    let rest = rest.strip_prefix('"')?;
    Some(rest[..rest.find('"')?].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_found_in_every_form() {
        let manifest = "[package]\nname = \"x\" # not [dependencies]\n\n[dependencies]\nbase.workspace = true\n\
            log = { package = \"indelible-redo\", path = \"../redo\" }\n# env = \"1\"\n\n[dependencies.resp]\npath = \"../resp\"\n\n\
            [target.'cfg(unix)'.dependencies]\nenv-os = \"1\"\n\n[dev-dependencies]\nenv-sim.workspace = true\n\n[lints]\nworkspace = true\n";
        let found = dependencies(manifest);
        let expected = [
            ("base", Use::Code),
            ("redo", Use::Code),
            ("resp", Use::Code),
            ("env-os", Use::Code),
            ("env-sim", Use::Tests),
        ];
        let expected: Vec<_> =
            expected.iter().map(|(name, use_)| ((*name).to_owned(), *use_)).collect();
        assert_eq!(found, expected);
        assert_eq!(package_name(manifest).as_deref(), Some("x"));
    }
}
