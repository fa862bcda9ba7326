//! `client_max_body_size`: every route gets the bound of its location, and the listener the most
//! frequent one, so that most routes need no line.

use std::collections::BTreeMap;

use weir_config::source::SourceSpan;
use weir_config::syntax::tree::{Directive, End};

use super::route_parts::BODY_BOUND;
use super::scope::InheritanceScope;
use super::state::Converter;
use super::values;
use crate::native::NativeLine;

/// nginx's own default, in bytes.
pub(crate) const USUAL: u64 = 1 << 20;

impl<'t> Converter<'_, 't> {
    /// Returns the bound of a block as a line of its routes.
    pub(crate) fn body_bound(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        span: SourceSpan,
    ) -> Directive {
        let line = NativeLine::new(BODY_BOUND, span);
        match self.bytes(scope, "client_max_body_size", USUAL) {
            0 => line.option("body", "off").end(),
            most => line.option("body", &values::size(most)).end(),
        }
    }
}

/// Returns the line of a route whose answer comes before nginx looks at the size.
pub(crate) fn unbounded(span: SourceSpan) -> Directive {
    NativeLine::new(BODY_BOUND, span).option("body", "off").end()
}

/// Returns the most frequent bound of these routes and of those in host blocks, and takes it out of
/// them.
pub(crate) fn common_bound(routes: &mut [Directive], hosts: &mut [Directive]) -> String {
    let mut counts = BTreeMap::new();
    for_each_route(routes, hosts, &mut |route| {
        if let Some(bound) = bound_of(route) {
            *counts.entry(bound.to_owned()).or_insert(0_usize) += 1;
        }
    });
    let common = counts.into_iter().max_by_key(|(_, count)| *count);
    let common = common.map_or_else(|| values::size(USUAL), |(bound, _)| bound);
    for_each_route(routes, hosts, &mut |route| {
        if bound_of(route) == Some(&common)
            && let Some(block) = &mut route.block
        {
            block.directives.retain(|line| line.name.text != BODY_BOUND);
            if block.directives.is_empty() {
                route.block = None;
                route.end = End::Semicolon;
            }
        }
    });
    common
}

fn for_each_route(
    routes: &mut [Directive],
    hosts: &mut [Directive],
    each: &mut impl FnMut(&mut Directive),
) {
    let inside = hosts.iter_mut().filter_map(|host| host.block.as_mut());
    let inside = inside.flat_map(|block| &mut block.directives);
    routes.iter_mut().chain(inside).for_each(each);
}

fn bound_of(route: &Directive) -> Option<&str> {
    let block = route.block.as_ref()?;
    let line = block.directives.iter().find(|line| line.name.text == BODY_BOUND)?;
    line.words.first()?.text.strip_prefix("body=")
}
