//! The rules of a route for the responses of endpoints, compiled: some are discarded for another
//! route's, some get another status. It touches no response.

use std::sync::Arc;

use weir_config::model::{Listener, ResponseRules};
use weir_stats::{Entry, Template};

use crate::routing::route::InternalTarget;

/// The rules of a route that has some.
#[derive(Clone, Debug)]
pub(crate) struct CompiledResponseRules {
    intercepts: Arc<[CompiledIntercept]>,
    statuses: Box<[CompiledStatus]>,
}

/// A rule for responses that are discarded.
#[derive(Clone, Debug)]
pub(crate) struct CompiledIntercept {
    when: ResponseCondition,
    /// The names of the headers that the next response gets.
    pub(crate) keep: Box<[String]>,
    pub(crate) is_recursive: bool,
    pub(crate) to: InternalTarget,
}

/// Another status for a response.
#[derive(Clone, Debug)]
struct CompiledStatus {
    when: ResponseCondition,
    status: u16,
    /// Set if Weir's own responses get it too.
    always: bool,
}

/// The text that decides about a response; without one the rule always holds.
#[derive(Clone, Debug)]
struct ResponseCondition(Option<Template>);

impl ResponseCondition {
    fn holds(&self, entry: &Entry<'_>, text: &mut Vec<u8>) -> bool {
        self.0.as_ref().is_none_or(|template| template.holds(entry, text))
    }
}

impl CompiledResponseRules {
    /// Compiles the rules of a route; `None` if there are none.
    ///
    /// # Errors
    /// A sentence about an invalid path.
    pub(crate) fn compile(
        rules: &ResponseRules,
        listener: &Listener,
    ) -> Result<Option<Box<Self>>, String> {
        if rules.is_empty() {
            return Ok(None);
        }
        let condition = |when: &Option<Template>| ResponseCondition(when.clone());
        let intercepts = rules.intercept.iter().map(|one| {
            Ok(CompiledIntercept {
                when: condition(&one.when),
                keep: one.keep.clone().into(),
                is_recursive: one.recursive,
                to: InternalTarget::compile(&one.to, listener)?,
            })
        });
        let intercepts = intercepts.collect::<Result<_, String>>()?;
        let statuses = rules.status.iter().map(|one| CompiledStatus {
            when: condition(&one.when),
            status: one.status,
            always: one.always,
        });
        Ok(Some(Box::new(Self { intercepts, statuses: statuses.collect() })))
    }

    /// Returns true if some responses are discarded.
    pub(crate) fn intercepts_any(&self) -> bool {
        !self.intercepts.is_empty()
    }

    /// Returns true if some are discarded even after an error or a rule has led to the route.
    pub(crate) fn intercepts_again(&self) -> bool {
        self.intercepts.iter().any(|one| one.is_recursive)
    }

    /// The rule by which the response of an entry is discarded; `was_led` is set if an error or a
    /// rule has led to the route.
    pub(crate) fn intercepts(
        &self,
        entry: &Entry<'_>,
        was_led: bool,
    ) -> Option<&CompiledIntercept> {
        let mut text = Vec::new();
        let mut rules = self.intercepts.iter().filter(|one| !was_led || one.is_recursive);
        rules.find(|one| one.when.holds(entry, &mut text))
    }

    /// The status that the response of an endpoint gets.
    pub(crate) fn status(&self, entry: &Entry<'_>) -> Option<u16> {
        self.last_status(entry, |_| true)
    }

    /// Returns true if one of Weir's own responses may get another status.
    pub(crate) fn has_own_status(&self) -> bool {
        self.statuses.iter().any(|one| one.always)
    }

    /// The status that one of Weir's own responses gets.
    pub(crate) fn own_status(&self, entry: &Entry<'_>) -> Option<u16> {
        self.last_status(entry, |one| one.always)
    }

    fn last_status(
        &self,
        entry: &Entry<'_>,
        applies: impl Fn(&CompiledStatus) -> bool,
    ) -> Option<u16> {
        let mut text = Vec::new();
        let mut lines = self.statuses.iter().rev().filter(|one| applies(one));
        lines.find(|one| one.when.holds(entry, &mut text)).map(|one| one.status)
    }
}
