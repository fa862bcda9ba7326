//! Follows one request through a configuration: `weir explain`. The configuration is compiled as
//! for a start, without the files that decide nothing about a request: certificates and pages.
//! Directories and secrets that are not on this machine are left out too.

use weir_config::Config;
use weir_config::model::{Action, Respond, Secret};
use weir_proxy::compile::{Surroundings, compile};
use weir_proxy::trace::{RequestTrace, TracedRequest, trace};
use weir_stats::log_channel;

/// Returns the way of a request.
///
/// # Errors
/// A sentence: the configuration cannot be compiled, or the request is not complete.
pub fn explain(config: &Config, request: &TracedRequest<'_>) -> Result<RequestTrace, String> {
    let config = without_unneeded_files(config);
    let (sinks, _receiver) = log_channel(config.logs.len(), 1);
    let root = config.chroot.as_deref();
    let surroundings = Surroundings { read: &|path| std::fs::read(path), sinks, root };
    let compiled = compile(&config, surroundings, None)?;
    trace(&compiled.snapshot, &config, request)
}

fn without_unneeded_files(config: &Config) -> Config {
    let mut config = config.clone();
    for listener in &mut config.listeners {
        listener.tls = None;
        listener.error_pages.clear();
        let of_sites = listener.sites.iter_mut().flat_map(|site| &mut site.routes);
        for route in of_sites.chain(&mut listener.default) {
            if matches!(&route.action, Action::Files(files) if !files.root.is_dir()) {
                route.action = no_directory();
            }
        }
    }
    for pool in &mut config.pools {
        pool.tls = None;
        if let Some(queue) = &mut pool.queue {
            queue.page = None;
        }
        if let Some(sticky) = &mut pool.sticky
            && matches!(&sticky.secret, Some(Secret::File(path)) if !path.is_file())
        {
            sticky.secret = None;
        }
    }
    config
}

/// Returns what stands for a directory that is not there.
fn no_directory() -> Action {
    let content_type = String::new();
    Action::Respond(Respond { status: 404, body: None, content_type, denied: false, delay: None })
}
