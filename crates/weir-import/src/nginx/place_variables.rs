//! The variables whose values belong to the server or the location of a request, such as
//! `$server_name`, `$proxy_host` and `$document_root`: each place writes a log of its own with
//! them, and texts at a place have them as they are there.

use super::pass_url::PassUrl;
use super::precedence::Match;
use super::route_parts::RoutePlace;
use super::scope::InheritanceScope;
use super::state::{ConvertedFormat, Converter};
use super::values::{KnownVariables, PlaceFiles, template};

/// The most logs whose lines have such values: each has a thread that writes.
pub(crate) const MOST_BY_PLACE: usize = 64;

/// The folder of files of nginx as it is packaged, where no `root` holds.
const USUAL_ROOT: &str = "/usr/share/nginx/html";

/// The first of the characters that stand for variables in a format, which has none of them
/// otherwise: they have no meaning of their own.
const FIRST_MARK: u32 = 0xf_0000;
const LAST_MARK: u32 = 0xf_fffd;

/// A variable that is known where a log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlaceVariable<'t> {
    ServerName,
    ProxyHost,
    ProxyPort,
    DocumentRoot,
    RequestFilename,
    /// One that `set` gives a value.
    Set(&'t str),
}

/// Those that nginx has, by their marks.
const BUILT_IN: [(&str, PlaceVariable<'_>); 5] = [
    ("server_name", PlaceVariable::ServerName),
    ("proxy_host", PlaceVariable::ProxyHost),
    ("proxy_port", PlaceVariable::ProxyPort),
    ("document_root", PlaceVariable::DocumentRoot),
    ("request_filename", PlaceVariable::RequestFilename),
];

/// Returns true if a text has a character that stands for a variable.
pub(crate) fn has_mark(text: &str) -> bool {
    text.chars().any(is_mark)
}

fn is_mark(character: char) -> bool {
    (FIRST_MARK..=LAST_MARK).contains(&u32::from(character))
}

impl<'s, 't> Converter<'s, 't> {
    /// Returns the character that stands for a variable in a format, if it is such a variable.
    pub(crate) fn place_mark(&self, name: &str) -> Option<char> {
        let built_in = BUILT_IN.iter().position(|(known, _)| *known == name);
        let of_set = || self.statements.set_variables().binary_search(&name).ok();
        let index = built_in.or_else(|| of_set().map(|index| BUILT_IN.len() + index))?;
        let mark = FIRST_MARK.checked_add(u32::try_from(index).ok()?)?;
        char::from_u32(mark).filter(|mark| is_mark(*mark))
    }

    fn place_variable(&self, mark: char) -> Option<PlaceVariable<'t>> {
        let index = u32::from(mark).checked_sub(FIRST_MARK)? as usize;
        let of_set = || self.statements.set_variables().get(index.checked_sub(BUILT_IN.len())?);
        let built_in = BUILT_IN.get(index).map(|(_, variable)| *variable);
        built_in.or_else(|| of_set().map(|name| PlaceVariable::Set(name)))
    }

    /// Puts the values of a place into a format; returns true if it has any.
    pub(crate) fn place_values(
        &mut self,
        format: &mut ConvertedFormat,
        scope: &InheritanceScope<'_, 't>,
    ) -> Result<bool, String> {
        if !has_mark(&format.text) {
            return Ok(false);
        }
        let mut text = String::with_capacity(format.text.len());
        for character in format.text.chars() {
            let variable = Some(character).filter(|one| is_mark(*one));
            match variable.and_then(|mark| self.place_variable(mark)) {
                None => text.push(character),
                Some(variable) => match self.place_value(variable, scope)? {
                    Some(value) => text.push_str(&value),
                    None if format.escape == "default" => text.push('-'),
                    None => {}
                },
            }
        }
        if !text.contains('$') {
            return Err("its format is the same for all requests: add a variable".to_owned());
        }
        format.text = text;
        Ok(true)
    }

    /// Returns the value at a place, as a native text; `None` if it has none.
    fn place_value(
        &mut self,
        variable: PlaceVariable<'_>,
        scope: &InheritanceScope<'_, 't>,
    ) -> Result<Option<String>, String> {
        match variable {
            PlaceVariable::ServerName => {
                let name = scope.server().map(|server| self.host_names(server));
                Ok(Some(name.map_or(String::new(), |name| name.first.replace('$', "$$"))))
            }
            PlaceVariable::ProxyHost => Ok(self.passed(scope)?.map(|(host, _)| host)),
            PlaceVariable::ProxyPort => Ok(self.passed(scope)?.map(|(_, port)| port)),
            PlaceVariable::DocumentRoot => self.folder_of_files(scope).map(|(root, _)| Some(root)),
            PlaceVariable::RequestFilename => self.request_file(scope).map(Some),
            PlaceVariable::Set(name) => {
                // Requests that no location takes have not come to `set`.
                let is_inside = scope
                    .innermost()
                    .is_some_and(|block| matches!(self.statements.name(block), "location" | "if"));
                let value = self.set.get(name).filter(|_| is_inside);
                value.map_or(Ok(Some(String::new())), |value| value.text.clone().map(Some))
            }
        }
    }

    /// Returns `$proxy_host` and `$proxy_port` of a block with `proxy_pass`.
    fn passed(&self, scope: &InheritanceScope<'_, 't>) -> Result<Option<(String, String)>, String> {
        let Some(&pass) = scope.own("proxy_pass").first() else { return Ok(None) };
        let constant = self.with_constants(self.statements.word(pass, 0));
        let url = PassUrl::of(constant.as_deref().unwrap_or(self.statements.word(pass, 0)))?;
        if url.by_variable {
            let host = template(url.host, &self.known(), false)?;
            return Ok(Some((host, url.usual_port().to_owned())));
        }
        let (host, port) = url.host_and_port();
        Ok(Some((host.replace('$', "$$"), port.to_owned())))
    }

    /// Returns the variables that are known in a block, with its names of files if the file uses
    /// them.
    pub(crate) fn known_in<'p>(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        place: RoutePlace<'p>,
    ) -> KnownVariables<'p>
    where
        's: 'p,
    {
        let has_groups = self.has_groups(scope);
        let known = KnownVariables { has_groups, ..self.known_at(place) };
        if !self.statements.names_files() {
            return known;
        }
        let files = if scope.nearest(["alias", "root"]).is_some() {
            PlaceFiles {
                root: self.folder_of_files(scope).map(|(root, _)| root),
                request: self.request_file(scope),
            }
        } else {
            let reason =
                "no `root` holds here, where nginx takes a folder of its own: write `root`";
            PlaceFiles { root: Err(reason.to_owned()), request: Err(reason.to_owned()) }
        };
        KnownVariables { files: Some(files), ..known }
    }

    /// Returns true if `$1` is a group of the regex of the innermost block, a location in which no
    /// other regex comes after it.
    fn has_groups(&mut self, scope: &InheritanceScope<'_, 't>) -> bool {
        let others = ["if", "rewrite"].iter().any(|name| !scope.own(name).is_empty());
        let is_location = scope.innermost().filter(|id| scope.location() == Some(*id));
        !others
            && is_location
                .and_then(|id| self.kind(id))
                .is_some_and(|(kind, _)| kind == Match::Regex)
    }

    /// Returns `$request_filename` of a block.
    fn request_file(&mut self, scope: &InheritanceScope<'_, 't>) -> Result<String, String> {
        match self.folder_of_files(scope)? {
            (root, true) if self.is_exact(scope) => Ok(root),
            (_, true) => Err("`$request_filename` has no conversion where `alias` stands for a part of the path: write `root`, or leave it out".to_owned()),
            (root, false) => Ok(format!("{root}${{decoded_uri}}")),
        }
    }

    /// Returns true if the innermost block is a location for one path.
    fn is_exact(&mut self, scope: &InheritanceScope<'_, 't>) -> bool {
        let kind = scope.innermost().and_then(|block| self.kind(block));
        kind.is_some_and(|(kind, _)| kind == Match::Exact)
    }

    /// Returns `$document_root` of a block, and whether an `alias` gives it.
    fn folder_of_files(&self, scope: &InheritanceScope<'_, 't>) -> Result<(String, bool), String> {
        let Some(id) = scope.nearest(["alias", "root"]) else {
            return Ok((USUAL_ROOT.to_owned(), false));
        };
        let is_alias = self.statements.name(id) == "alias";
        let text = self.statements.word(id, 0);
        if !text.starts_with(['/', '$']) {
            return Err("`$document_root` of a relative path depends on how nginx was built: write the whole path".to_owned());
        }
        let text = if is_alias { text } else { text.strip_suffix('/').unwrap_or(text) };
        Ok((template(text, &self.known(), false)?, is_alias))
    }
}
