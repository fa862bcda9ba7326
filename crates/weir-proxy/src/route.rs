//! standin
use std::io; use std::net::IpAddr; use std::path::Path; use std::sync::Arc;
use smallvec::SmallVec;
use weir_config::model;
use weir_stats::{Headers, Template};
use weir_wire::RequestHead;
pub struct RequestView<'a> { pub head: &'a RequestHead, pub bytes: &'a [u8], pub client: Option<IpAddr> }
impl Headers for RequestView<'_> { fn value(&self, name: &str) -> Option<&[u8]> { self.head.header(self.bytes, name) } }
pub struct Router { routes: Vec<CompiledRoute> }
pub struct CompiledRoute { pub name: Arc<str>, pub action: CompiledAction, pub access: Vec<model::AccessRule> }
pub enum CompiledAction { Pool(usize), Respond(CompiledRespond), Redirect(CompiledRedirect), Files(usize) }
pub struct CompiledRespond { pub status: u16, pub body: Option<Template>, pub content_type: String }
pub struct CompiledRedirect { pub status: u16, pub to: Template }
impl Router {
    pub fn compile(listener: &model::Listener, _read: &dyn Fn(&Path) -> io::Result<Vec<u8>>) -> Result<Self, String> {
        Ok(Self { routes: listener.default.iter().map(|r| CompiledRoute { name: r.name.as_str().into(), access: vec![], action: match &r.action { model::Action::Pool(p) => CompiledAction::Pool(*p), model::Action::Respond(r) => CompiledAction::Respond(CompiledRespond{status: r.status, body: r.body.clone(), content_type: r.content_type.clone()}), model::Action::Redirect(r) => CompiledAction::Redirect(CompiledRedirect{status:r.status,to:r.to.clone()}), model::Action::Files(_) => CompiledAction::Files(0) } }).collect() })
    }
    pub fn route<'a>(&'a self, _view: &RequestView<'_>) -> Option<&'a CompiledRoute> { self.routes.first() }
    pub fn files(&self) -> Vec<model::Files> { vec![] }
}
impl CompiledRoute { pub fn captures<'a>(&self, _view: &RequestView<'a>) -> SmallVec<[&'a [u8]; 9]> { SmallVec::new() } }
