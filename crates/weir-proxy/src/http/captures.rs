//! The groups that a path regex captured, for texts with `$1`…`$9`.

use smallvec::SmallVec;
use weir_config::pattern::{PATH_GROUPS, RegexGroups};

use crate::http::path::percent::{PathBuffer, PathForm, encode, encode_but_escapes, stays};

/// The groups that a path regex captured, `$1` first, percent-encoded as in a URL, so that no group
/// can break out of a `Location`, a header line or a page.
#[derive(Clone, Debug, Default)]
pub struct Captures {
    text: PathBuffer,
    /// The end of each group in `text`; a group begins at the end of the one before.
    ends: SmallVec<[usize; 12]>,
}

impl Captures {
    pub(crate) fn of(groups: &RegexGroups<'_>, form: PathForm) -> Self {
        Self::written_by(|number, out| {
            let group = groups.group(number).unwrap_or_default();
            match form {
                PathForm::Normal | PathForm::Resolved | PathForm::Unmerged => encode(group, out),
                // The escapes were not decoded.
                PathForm::Received => encode_but_escapes(group, stays, out),
            }
        })
    }

    /// Collects the groups that `write` appends, given their numbers.
    pub(crate) fn written_by(mut write: impl FnMut(usize, &mut PathBuffer)) -> Self {
        let mut captures = Self::default();
        for number in 1..PATH_GROUPS {
            write(number, &mut captures.text);
            captures.ends.push(captures.text.len());
        }
        captures
    }

    /// The groups, for [`weir_stats::Entry::captures`]; groups that did not take part in the match
    /// are empty.
    pub fn groups(&self) -> SmallVec<[&[u8]; 12]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, &end)| self.text.get(start..end).unwrap_or_default())
            .collect()
    }
}
