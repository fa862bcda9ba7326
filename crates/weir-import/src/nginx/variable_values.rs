//! The variables of `set` and of groups, whose values are known while a block is converted: a text,
//! or one that a condition decides, which becomes a map.

use std::rc::Rc;

use weir_config::source::SourceSpan;
use weir_config::syntax::lexer::Word;

use super::conditions::{IfCondition, MapEntry, without_variables};
use super::rewriting::PhasePlace;
use super::route_parts::RoutePlace;
use super::state::Converter;
use super::statements::StatementId;
use super::text_parts;
use super::values::{KnownVariables, SetCase, SetValue, template_with, text_template};
use super::varying_servers::all_joined;
use crate::native::NativeLine;
use crate::pcre;
use crate::text_room::MOST_TEXT_BYTES;

/// The most values that a variable may have by conditions.
const MOST_CASES: usize = 16;

impl<'s, 't> Converter<'s, 't> {
    /// Converts `set`, which may stand in an `if` with this condition.
    pub(crate) fn set_variable(
        &mut self,
        id: StatementId,
        condition: Option<&IfCondition>,
        PhasePlace { kind, place, scope, .. }: PhasePlace<'_, '_, 't>,
    ) -> Result<(), String> {
        let [name, value] = self.statements.words(id) else {
            return Err("write `set $NAME VALUE`".to_owned());
        };
        let name = name.text.strip_prefix('$').filter(|name| !name.is_empty());
        let name = name.ok_or("a variable begins with `$`")?;
        if name == "limit_rate" {
            return Err("a rate is that of a block: write `limit_rate`, with a condition in a `location` of its own".to_owned());
        }
        if KnownVariables::is_built_in(name) {
            return Err(format!("a change of `${name}` has no conversion"));
        }
        let known = &self.known_in(scope, place);
        let condition = condition.filter(|condition| !condition.certainty.is_always());
        let entry = condition.and_then(|condition| condition.entry.as_ref());
        let of_entry = entry.is_some_and(|entry| entry.groups > 0);
        let text = match entry {
            Some(_) if of_entry => template_with(&value.text, known, &[]),
            _ => text_template(&value.text, known, kind.has_groups()),
        };
        // One that depends on a file has no text, but may have cases.
        let joined = self.joined_cases(&value.text, self.statements.span(id));
        if joined.is_none() {
            text.as_ref().map_err(Clone::clone)?;
        }
        let shown = text.as_deref().unwrap_or_default();
        let has_groups = (1..10).any(|group| shown.contains(&format!("${{{group}}}")));
        let constant = text.as_ref().ok().and_then(|text| without_variables(text));
        let possible = match &constant {
            Some(value) => Some(vec![value.clone()]),
            None => self.possible_values(&value.text),
        };
        let mut new = SetValue {
            possible,
            cases: match constant {
                Some(value) => Some(vec![SetCase { condition: Vec::new(), value }]),
                None => joined,
            },
            text,
            has_groups,
        };
        if let Some(condition) = condition {
            let old = self.set.get(name).cloned().unwrap_or_else(SetValue::nothing);
            new = self.conditional_value(id, name, condition, old, new)?;
        }
        self.text_room.take(new.size())?;
        let words = condition.map_or(&[][..], |condition| condition.certainty.words());
        let of_path = words.iter().any(|word| word.is("path") || self.looks_at_path(&word.text));
        self.note_set(id, &value.text, of_path);
        Rc::make_mut(&mut self.set).insert(name.to_owned(), new);
        Ok(())
    }

    /// Returns the cases of a text with variables that have cases, as scripts collect flags in one
    /// variable; `None` if it has other variables, or too many cases.
    fn joined_cases(&self, text: &str, span: SourceSpan) -> Option<Vec<SetCase>> {
        let (first, parts) = text_parts::split(text);
        let mut all = vec![SetCase { condition: Vec::new(), value: first.to_owned() }];
        for part in parts {
            let own = self.set.get(part.name)?.cases.as_ref()?;
            if all.len() * own.len() > MOST_CASES {
                return None;
            }
            let mut size = 0;
            let mut next = Vec::with_capacity(all.len() * own.len());
            for before in &all {
                for own in own {
                    // The last one that holds counts, for each of the variables.
                    let condition = both_conditions(&before.condition, &own.condition, span);
                    size += condition.iter().map(|word| word.text.len()).sum::<usize>();
                    let texts = [&before.value, &own.value, part.rest];
                    let value = text_parts::joined(texts, MOST_TEXT_BYTES)?;
                    size += value.len();
                    if size > MOST_TEXT_BYTES {
                        return None;
                    }
                    next.push(SetCase { condition, value });
                }
            }
            all = next;
        }
        Some(all)
    }

    /// Returns the values that a text may have, in which the variables of `set` have theirs; `None`
    /// if they are not known.
    fn possible_values(&self, text: &str) -> Option<Vec<String>> {
        let (first, parts) = text_parts::split(text);
        let mut all = vec![first.to_owned()];
        for part in parts {
            let values = match self.set.get(part.name) {
                Some(set) => set.possible.clone()?,
                None => vec![format!("${{{}}}", part.name)],
            };
            if all.len() * values.len() > MOST_CASES {
                return None;
            }
            all = all_joined(&all, &values, part.rest, MOST_TEXT_BYTES)?;
        }
        Some(all)
    }

    /// Puts values without variables in the place of their variables; `None` if there is none, or
    /// if the text becomes too long.
    pub(crate) fn with_constants(&self, text: &str) -> Option<String> {
        let (first, parts) = text_parts::split(text);
        let mut out = first.to_owned();
        let mut found = false;
        for part in parts {
            let text = self.set.get(part.name).and_then(|set| set.text.as_ref().ok());
            if let Some(value) = text.and_then(|text| without_variables(text)) {
                found = true;
                out.push_str(&value);
                out.push_str(part.rest);
            } else {
                out.push('$');
                out.push_str(part.written);
            }
            if out.len() > MOST_TEXT_BYTES {
                return None;
            }
        }
        found.then_some(out)
    }

    fn note_set(&mut self, id: StatementId, value: &str, of_path: bool) {
        let varies = ["$uri", "$document_uri", "$args", "$is_args", "$query_string", "$arg_"];
        if of_path {
            self.outcomes.differs(id, "its condition is looked at where it is used");
        } else if varies.iter().any(|name| value.contains(name)) {
            self.outcomes.differs(id, "it has the value of the place where it is used");
        } else {
            self.outcomes.honour(id);
        }
    }

    /// Returns the value of a variable that gets a new one under a condition.
    fn conditional_value(
        &mut self,
        id: StatementId,
        name: &str,
        condition: &IfCondition,
        old: SetValue,
        new: SetValue,
    ) -> Result<SetValue, String> {
        let words = condition.certainty.words();
        let cases = match (old.cases, new.cases) {
            (Some(mut cases), Some(new)) if cases.len() < MOST_CASES => {
                let span = self.statements.span(id);
                let conditional = |case: SetCase| {
                    let condition = both_conditions(words, &case.condition, span);
                    SetCase { condition, ..case }
                };
                cases.extend(new.into_iter().map(conditional));
                Some(cases)
            }
            _ => None,
        };
        let text = match &condition.entry {
            _ if cases.is_some() && !self.statements.is_used_in_text(name) => {
                Err(format!("`${name}` has no text here"))
            }
            None => Err(format!("`${name}` depends on a file, which only `if` can ask for")),
            Some(entry) if old.has_groups || new.has_groups && entry.groups == 0 => {
                Err(format!("`${name}` depends on a group of a regex and on another condition"))
            }
            Some(entry) => match (old.text, new.text) {
                (Ok(old), Ok(new)) => {
                    self.text_room.take(old.len() + new.len())?;
                    Ok(self.map_of(id, name, entry, &old, &new))
                }
                (Err(reason), _) | (_, Err(reason)) => Err(reason),
            },
        };
        if let (None, Err(reason)) = (&cases, &text) {
            return Err(reason.clone());
        }
        let possible = match (old.possible, new.possible) {
            (Some(mut values), Some(new)) if values.len() < MOST_CASES => {
                values.extend(new);
                Some(values)
            }
            _ => None,
        };
        Ok(SetValue { text, cases, possible, has_groups: false })
    }

    /// Adds a map and returns the text of its variable.
    fn map_of(
        &mut self,
        id: StatementId,
        name: &str,
        entry: &MapEntry,
        old: &str,
        new: &str,
    ) -> String {
        self.set_maps += 1;
        let variable = self.free_variable(format!("set_{name}_{}", self.set_maps));
        let span = self.statements.span(id);
        let (matched, other) = if entry.negated { (old, new) } else { (new, old) };
        let lines = vec![
            NativeLine::entry(&entry.key, span).value(matched).end(),
            NativeLine::new("default", span).value(other).end(),
        ];
        let map = NativeLine::new("map", span).value(&entry.source).value(&format!("${variable}"));
        self.logs.directives.push(map.block(lines));
        if [&entry.source, old, new].into_iter().any(|text| self.looks_at_path(text)) {
            self.path_maps.insert(variable.clone());
        }
        format!("${{{variable}}}")
    }

    /// Gives the groups of a condition's regex that a directive uses a value; returns true if the
    /// regex has groups.
    pub(crate) fn set_groups(&mut self, id: StatementId, condition: &IfCondition) -> bool {
        let Some(entry) = condition.entry.as_ref().filter(|entry| entry.groups > 0) else {
            return false;
        };
        let names = pcre::group_names(&entry.key);
        for group in 1..=entry.groups.min(9) {
            let named = names.get(group - 1).filter(|name| !name.is_empty());
            for name in std::iter::once(&group.to_string()).chain(named) {
                let texts = [format!("${name}"), format!("${{{name}}}")];
                let uses = |word: &Word| texts.iter().any(|text| word.text.contains(text));
                if self.statements.words(id).iter().any(uses) {
                    let text = self.map_of(id, "group", entry, "", &format!("${{{group}}}"));
                    let value =
                        SetValue { text: Ok(text), cases: None, possible: None, has_groups: false };
                    Rc::make_mut(&mut self.set).insert(name.clone(), value);
                }
            }
        }
        true
    }

    /// Gives the named groups of a location's regex their values.
    pub(crate) fn set_named_groups(&mut self, pattern: &str) {
        self.forget_numbered_groups();
        for (index, name) in pcre::group_names(pattern).into_iter().enumerate().take(9) {
            if !name.is_empty() {
                let text = Ok(format!("${{{}}}", index + 1));
                let value = SetValue { text, cases: None, possible: None, has_groups: true };
                Rc::make_mut(&mut self.set).insert(name, value);
            }
        }
    }

    /// Takes the values of `$1` to `$9` away: those of another regex come after them.
    pub(crate) fn forget_numbered_groups(&mut self) {
        if self.set.keys().any(|name| is_number(name)) {
            Rc::make_mut(&mut self.set).retain(|name, _| !is_number(name));
        }
    }

    /// Returns the variables that are known in a server, without those of groups.
    pub(crate) fn known_without_groups<'p>(&self, place: RoutePlace<'p>) -> KnownVariables<'p>
    where
        's: 'p,
    {
        let mut known = self.known_at(place);
        let is_group = |name: &str, value: &SetValue| value.has_groups || is_number(name);
        if known.set.iter().any(|(name, value)| is_group(name, value)) {
            Rc::make_mut(&mut known.set).retain(|name, value| !is_group(name, value));
        }
        known
    }
}

/// Returns the condition that both hold; one without words always does.
fn both_conditions(one: &[Word], other: &[Word], span: SourceSpan) -> Vec<Word> {
    match (one, other) {
        ([], only) | (only, []) => only.to_vec(),
        _ => {
            let line = NativeLine::new("", span).keyword("(").words(one.iter().cloned());
            let line = line.keyword(")").keyword("and").keyword("(").words(other.iter().cloned());
            line.keyword(")").into_words()
        }
    }
}

fn is_number(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_digit())
}

impl SetValue {
    /// A variable that has no value yet.
    fn nothing() -> Self {
        let cases = vec![SetCase { condition: Vec::new(), value: String::new() }];
        let possible = Some(vec![String::new()]);
        Self { text: Ok(String::new()), cases: Some(cases), possible, has_groups: false }
    }
}
