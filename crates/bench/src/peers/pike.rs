//! Pike: the compressing cache whose published page `cache` repeats. Its sources are no longer in
//! the registries: it is measured if it is installed.

use super::{CacheRequest, Peer, Program, Role, Setup, Site};

pub(super) const PEER: Peer = Peer {
    name: "pike",
    program: Program::Installed {
        names: &["pike"],
        version: "version",
        how: "no registry has it: https://github.com/vicanso/pike",
    },
    start_seconds: 1.0,
    setup,
};

fn setup(site: &Site) -> Option<Setup> {
    let Role::Cached { backend, asked, .. } = &site.role else { return None };
    if *asked == CacheRequest::Many {
        return None;
    }
    let text = format!(
        "\
# https://github.com/vicanso/pike: the sections of its pike.yml
caches:
- {{ name: pages, size: 51200, hitForPass: 5m }}
upstreams:
- {{ name: backend, policy: first, servers: [{{ addr: \"http://{backend}\" }}] }}
locations:
- {{ name: all, upstream: backend }}
servers:
- {{ addr: \"{}\", locations: [all], cache: pages, compress: bestCompression }}
",
        site.address
    );
    let setup = Setup::new(&["--config=pike.yml"]).file("pike.yml", text);
    // Only Go's runtime reads it: https://pkg.go.dev/runtime#hdr-Environment_Variables
    Some(setup.environment("GOMAXPROCS", site.workers))
}
