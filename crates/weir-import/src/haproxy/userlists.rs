//! `userlist` with passwords in plain text: `http_auth` becomes a test of the salted digest of what
//! the client says. Passwords as the digests of crypt(3) are refused: each takes milliseconds.

use std::collections::HashSet;

use weir_config::source::SourceSpan;
use weir_stats::convert_text;

use super::conditions::{AclTest, Criterion};
use super::convert::HaproxyConverter;
use super::lexer::LineWord;
use super::sections::{LineId, SectionId};

/// The reason for a password that is not written in plain text.
const HASHED: &str = "Weir verifies passwords in plain text only: write `insecure-password`, or leave them to a server behind it";

/// A user of a list.
struct ListedUser<'a> {
    name: &'a str,
    password: &'a str,
    groups: HashSet<&'a str>,
}

impl<'s> HaproxyConverter<'s> {
    /// Returns the test of `http_auth(LIST)` or `http_auth_group(LIST) GROUP…`.
    pub(super) fn credentials_test(
        &mut self,
        criterion: &Criterion,
        span: SourceSpan,
    ) -> Result<AclTest, String> {
        let fetch = &criterion.expression.fetch;
        let [list] = fetch.arguments.as_slice() else {
            return Err(format!("write `{}(LIST)` with the name of a `userlist`", fetch.name));
        };
        if !criterion.expression.converters.is_empty() {
            return Err(format!("a converter of `{}` has no conversion", fetch.name));
        }
        let Some(&id) = self.userlists.get(list.as_str()) else {
            return Err(format!("there is no `userlist {list}`"));
        };
        let by_group = fetch.name == "http_auth_group";
        if by_group && criterion.patterns.is_empty() {
            return Err("it has no pattern".to_owned());
        }
        let users = self.users(id)?;
        if !self.room_for(users.len()) {
            return Err(super::convert::TOO_LARGE.to_owned());
        }
        let wanted = |user: &&ListedUser<'_>| {
            !by_group || criterion.patterns.iter().any(|group| user.groups.contains(group.as_str()))
        };
        let salt = salt(list, &users);
        let of_user = |user: &ListedUser<'_>| digest(user, &salt);
        let digests: Vec<String> = users.iter().filter(wanted).filter_map(of_user).collect();
        if digests.is_empty() {
            return Ok(AclTest::Always(false));
        }
        let steps = [
            vec!["regsub".to_owned(), "^(?i:basic) +".to_owned(), "Basic ".to_owned()],
            vec!["hmac".to_owned(), "sha256".to_owned(), salt],
            vec!["hex".to_owned()],
            vec!["matches".to_owned(), format!("~^(?:{})$", digests.join("|"))],
        ];
        let described = format!("is user of {list}");
        let text = self.converted("${http_authorization}", &steps, &described, span);
        let test = AclTest::native("variable", text);
        if by_group { Ok(test) } else { criterion.boolean(test) }
    }

    /// Returns the users of a list, the first one of each name, with the groups that they are in.
    fn users(&mut self, id: SectionId) -> Result<Vec<ListedUser<'s>>, String> {
        let sections = self.sections;
        let lines: Vec<LineId> = sections.get(id).lines.clone();
        if let Some(line) = lines.iter().find(|line| self.outcomes.is_refused(**line)) {
            let number = sections.number(*line);
            return Err(format!("the line {number} of its `userlist` is refused"));
        }
        let mut seen = HashSet::new();
        let mut users = Vec::new();
        for &line in lines.iter().filter(|line| sections.keyword(**line) == "user") {
            let words = sections.words(line);
            let value = |name: &str| {
                let at = words.iter().position(|word| word.text == name)?;
                words.get(at + 1).map(|word| word.text.as_str())
            };
            let name = sections.word(line, 0);
            if seen.insert(name) {
                let groups = value("groups").into_iter().flat_map(|names| names.split(','));
                let password = value("insecure-password").unwrap_or_default();
                users.push(ListedUser { name, password, groups: groups.collect() });
            }
        }
        for &line in lines.iter().filter(|line| sections.keyword(**line) == "group") {
            let (group, names) = (sections.word(line, 0), sections.word(line, 2));
            let names: HashSet<&str> = names.split(',').collect();
            for user in users.iter_mut().filter(|user| names.contains(user.name)) {
                user.groups.insert(group);
            }
        }
        Ok(users)
    }

    /// Notes the outcomes of the lines of all lists.
    pub(super) fn userlists(&mut self) {
        let ids: Vec<SectionId> = self.userlists.values().copied().collect();
        for id in ids {
            for line in self.sections.get(id).lines.clone() {
                let words = self.sections.words(line);
                match fault(self.sections.keyword(line), words) {
                    None => self.outcomes.honour(line),
                    Some(reason) => self.outcomes.refuse(line, reason),
                }
            }
        }
    }
}

/// Returns the reason for a line of a list that has no conversion, if there is one.
fn fault(keyword: &str, words: &[LineWord]) -> Option<String> {
    let text = |at: usize| words.get(at).map_or("", |word| word.text.as_str());
    let options: Vec<&str> =
        words.iter().skip(1).step_by(2).map(|word| word.text.as_str()).collect();
    match keyword {
        "user" if options.contains(&"password") => Some(HASHED.to_owned()),
        "user" if text(0).is_empty() || !options.contains(&"insecure-password") => {
            Some("write `user NAME insecure-password PASSWORD`".to_owned())
        }
        "user" => {
            let other =
                options.iter().find(|word| !matches!(**word, "insecure-password" | "groups"));
            other.map(|word| format!("`{word}` is not known"))
        }
        "group"
            if text(0).is_empty()
                || words.len() > 1 && (words.len() != 3 || text(1) != "users") =>
        {
            Some("write `group NAME users NAME,…`".to_owned())
        }
        "group" => None,
        _ => Some("a `userlist` has lines `user` and `group` only".to_owned()),
    }
}

/// Returns the key of the digests of a list, in base64. It is no secret, and no other list has it,
/// so that no table of digests fits several.
fn salt(list: &str, users: &[ListedUser<'_>]) -> String {
    let names: Vec<&str> = users.iter().map(|user| user.name).collect();
    let text = format!("weir userlist {list} {}", names.join(" "));
    convert_text(&text, &[&["sha2", "256"], &["base64"]]).unwrap_or_default()
}

/// Returns the digest of what a client with a user's password says; none if no client can say it.
fn digest(user: &ListedUser<'_>, salt: &str) -> Option<String> {
    if user.name.contains(':') {
        return None;
    }
    let encoded = convert_text(&format!("{}:{}", user.name, user.password), &[&["base64"]])?;
    convert_text(&format!("Basic {encoded}"), &[&["hmac", "sha256", salt], &["hex"]])
}
